"""The matchers: a task takes the events that were sent to a matcher, matches them part by part, and reports.

Events that turn out to be unfit for matching are set aside with the reason; the rest of their batch goes on.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from fieldfare.bisection import Bisection
from fieldfare.errors import EventError
from fieldfare.matching.index import Index
from fieldfare.pipeline.batch_output import TaskOptions
from fieldfare.pipeline.dispatch import Reader
from fieldfare.pipeline.reports import BadEvent, PartReport, TaskReport
from fieldfare.pipeline.system_columns import (
    FAULT,
    MATCHER,
    PART,
    arrivals,
    matchable,
    sound_rows,
    without_system,
)
from fieldfare.store.outputs import SUBSCRIPTION_IDS, WrittenFile
from fieldfare.store.parts import Version

_ROWS_TOGETHER = 8_192  # small batches are joined up to about this; larger ones would not fit the caches
_ROWS_TOGETHER_IN_PARTS = 32_768  # more, where each part gets only some of the events
_RAW_CHARACTERS_MAX = 2_000


@dataclass(slots=True)
class TaskTally:
    """What a task has done so far."""

    parts: list[PartReport] = field(default_factory=list)
    faults: list[BadEvent] = field(default_factory=list)
    arrivals: Counter[int] = field(default_factory=Counter)
    hops_max: int = 1  # visits of one event

    def report(self, events: int = 0, files: Sequence[WrittenFile] = ()) -> TaskReport:
        """The tally as the driver gets it, with what was written."""
        return TaskReport(events, list(files), _summed(self.parts), self.faults, dict(self.arrivals), self.hops_max)

    def add(self, report: TaskReport) -> None:
        """Take over what an earlier task did."""
        self.parts.extend(report.parts)
        self.faults.extend(report.faults)
        self.arrivals.update(report.arrivals)


Matched = tuple[pa.RecordBatch, pa.ListArray]


class Producer(Protocol):
    """Something that turns the rows of a task into events with their ids, and keeps a tally."""

    def __call__(self, rows: Iterator[pa.RecordBatch], tally: TaskTally) -> Iterator[Matched]:
        """Events of the task's rows, with their ids."""
        ...


@dataclass(frozen=True, slots=True)
class MatchEvents:
    """Match events against the parts they were sent to; without dispatch there is one part, which holds all."""

    version: Version
    reader: Reader | None = None  # makes events of the rows that Spark has, unless those are events
    now: datetime | None = None

    def __call__(self, rows: Iterator[pa.RecordBatch], tally: TaskTally) -> Iterator[Matched]:
        """Events of the task's rows, with their ids."""
        batches = rows if self.reader is None else self.reader(rows)
        for gathered in _gathered(batches):
            events, poison = sound_rows(gathered)
            if poison is not None:
                tally.faults.extend(_faults(poison))
            tally.arrivals.update(arrivals(events))
            for part, matcher, visitors in _by_part(events):
                started = time.thread_time()
                sound, ids = _matched(self.version.index(part), visitors, self.now, tally)
                seconds = time.thread_time() - started
                tally.parts.append(PartReport(part, matcher, sound.num_rows, len(ids.values), seconds))
                yield sound, ids


@dataclass(frozen=True, slots=True)
class ReturnRows:
    """Return the events, each with the ids of the subscriptions it satisfies."""

    producer: Producer
    id_type: pa.DataType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The events with one more column."""
        for events, ids in self.producer(batches, TaskTally()):
            yield without_system(events).append_column(SUBSCRIPTION_IDS, ids.cast(pa.list_(self.id_type)))


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """Write the events, each with the ids of the subscriptions it satisfies, and return a report."""

    producer: Producer
    stage: str
    options: TaskOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the report."""
        tally = TaskTally()
        count = 0
        with self.options.writer(self.stage) as writer:
            for events, ids in self.producer(batches, tally):
                writer.write(without_system(events), ids)
                count += events.num_rows
            file = writer.close()
        tally.faults.extend(writer.faults)
        _spare_collector()
        yield tally.report(count, [file] if file else []).as_batch()


@cache
def _spare_collector() -> None:
    """Keep what a worker has loaded out of its garbage collections: Spark makes a full one after every task.

    With the modules of the index that took 30 to 50 ms of a core, several times the work of a small task.
    """
    if TaskContext.get() is not None:
        gc.freeze()


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= (_ROWS_TOGETHER_IN_PARTS if PART in batch.schema.names else _ROWS_TOGETHER):
            yield _joined(waiting)
            waiting, rows = [], 0
    if rows:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _by_part(events: pa.RecordBatch) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The events of each part, with the matcher that serves it."""
    if PART not in events.schema.names:
        context = TaskContext.get()
        yield 0, context.partitionId() if context else 0, events
        return
    parts = events.column(PART).to_numpy()
    matchers = events.column(MATCHER).to_numpy()
    order = np.argsort(parts, kind="stable")
    found, starts = np.unique(parts[order], return_index=True)
    for part, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield part, int(matchers[rows[0]]), events.take(pa.array(rows))


def _matched(index: Index, events: pa.RecordBatch, now: datetime | None, tally: TaskTally) -> Matched:
    """The events that can be matched, with their ids; the others are tallied as faults."""
    sound, ids = [], []
    parts = Bisection(events.num_rows)
    for part in parts:
        piece = events.slice(part.start, part.stop - part.start)
        try:
            ids.append(index.match_table(matchable(piece, index.attributes), now=now))
            sound.append(piece)
        except EventError as error:
            if not parts.halve(part):
                raw = str(without_system(piece).to_pylist()[0])[:_RAW_CHARACTERS_MAX]
                tally.faults.append(BadEvent("", str(error), raw))
    if not sound:
        return events.slice(0, 0), index.match_table(events.slice(0, 0))
    return _joined(sound), ids[0] if len(ids) == 1 else pa.concat_arrays(ids)


def _faults(events: pa.RecordBatch) -> Iterator[BadEvent]:
    for fault in events.column(FAULT).to_pylist():
        yield BadEvent(fault["place"] or "", fault["reason"] or "", fault["raw"] or "")


def _summed(parts: Sequence[PartReport]) -> list[PartReport]:
    """One report for each part, the sum of all visits to it."""
    sums: dict[tuple[int, int], tuple[int, int, float]] = {}
    for part in parts:
        events, matches, seconds = sums.get((part.part, part.matcher), (0, 0, 0.0))
        sums[part.part, part.matcher] = (events + part.events, matches + part.matches, seconds + part.seconds)
    return [
        PartReport(part, matcher, events, matches, seconds)
        for (part, matcher), (events, matches, seconds) in sums.items()
    ]
