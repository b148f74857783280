"""The dispatchers: each event gets the part it visits and the matcher that serves it there (BlueDove, II-B and III-B).

Every task of the first stage is a dispatcher. It knows what matchers reported of the last batch, and what it has itself
sent since, and chooses by a policy. The choice is a function of its input, so a task that is run again chooses alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from fieldfare.bisection import Bisection
from fieldfare.errors import EventError
from fieldfare.forwarding import Dispatcher, Load, Policy, Visits, forward
from fieldfare.matching.arrow import batch_of_table
from fieldfare.matching.batch import Batch
from fieldfare.partitioning.layout import Candidates, Layout, joined
from fieldfare.partitioning.summary import Summary
from fieldfare.pipeline.packets import packed
from fieldfare.pipeline.system_columns import EVENT, MATCHER, PART, matchable
from fieldfare.store.parts import Version

_EVENT_BITS = 40  # an event's number is its task's number, then its own


Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class DispatchRule:
    """How dispatchers choose: by which policy, and what they know of the matchers."""

    policy: Policy
    load: Load
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What a dispatcher does."""

    version: Version
    forwarding: DispatchRule
    numbered: bool  # add a number to each event
    reader: Reader | None  # makes events of the rows that Spark has, unless those are events

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task's rows, as packets of events with the part that each visits."""
        layout, summary = self.version.layout, self.version.summary
        load, policy = self.forwarding.load, self.forwarding.policy
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        dispatcher = Dispatcher(seed=hash((self.forwarding.seed, task)))
        first = task << _EVENT_BITS
        for batch in rows if self.reader is None else self.reader(rows):
            candidates = _candidates(layout, summary, batch)
            visits = forward(layout, candidates, load, policy, dispatcher=dispatcher)
            load = _with(load, visits)
            sent = batch if len(visits.events) == batch.num_rows else batch.take(pa.array(visits.events))
            sent = sent.append_column(PART, pa.array(visits.parts))
            sent = sent.append_column(MATCHER, pa.array(visits.matchers))
            if self.numbered:
                sent = sent.append_column(EVENT, pa.array(first + visits.events.astype(np.int64)))
            first += batch.num_rows
            if sent.num_rows:
                yield packed(sent, visits.matchers)


def _candidates(layout: Layout, summary: Summary | None, events: pa.RecordBatch) -> Candidates:
    """Where events may go. One that cannot be read goes anywhere: the matcher sets it aside, with the reason."""
    found = []
    parts = Bisection(events.num_rows)
    for part in parts:
        piece = events.slice(part.start, part.stop - part.start)
        try:
            candidates = layout.candidates(batch_of_table(matchable(piece, layout.attributes), layout.attributes))
            if summary is not None:
                candidates = summary.narrowed(layout, candidates, matchable(piece, summary.attributes))
            found.append(candidates)
        except EventError:
            if not parts.halve(part):
                found.append(layout.candidates(Batch(1, {})))
    return found[0] if len(found) == 1 else joined(found)


def _with(load: Load, visits: Visits) -> Load:
    """The load after what was sent: nothing of it is done before the batch is dispatched."""
    return replace(load, queue=load.queue + np.bincount(visits.parts, minlength=len(load.queue)))
