"""Several visits of one event, united: where an event has to visit more than one part, its lists come together here.

Matchers return rows in place of writing them; a second shuffle brings the rows of an event together. A subscription
that was found at two visits stays once. A matcher's report travels along, as a row that is no event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fieldfare.pipeline.matcher import Matched, Producer, TaskTally
from fieldfare.pipeline.reports import TaskReport
from fieldfare.pipeline.system_columns import EVENT, MATCHER, PART, REPORT
from fieldfare.store.outputs import SUBSCRIPTION_IDS

_NO_EVENT = -1


@dataclass(frozen=True, slots=True)
class ReturnVisits:
    """Return what was found at each visit, with the number of the event, and then the report."""

    producer: Producer
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The visits of the task's events, and a row that is its report."""
        tally = TaskTally()
        id_type = self.schema.field(SUBSCRIPTION_IDS).type
        for events, ids in self.producer(batches, tally):
            rows = events.drop_columns([PART, MATCHER])
            columns = {name: rows.column(name) for name in rows.schema.names}
            columns |= {SUBSCRIPTION_IDS: ids.cast(id_type), REPORT: pa.nulls(rows.num_rows, pa.binary())}
            yield pa.record_batch([columns[name] for name in self.schema.names], self.schema)
        report = {EVENT: _NO_EVENT, REPORT: msgspec.msgpack.encode(tally.report()), SUBSCRIPTION_IDS: []}
        yield pa.RecordBatch.from_pylist([report], self.schema)


@dataclass(frozen=True, slots=True)
class UniteVisits:
    """Unite the visits of each event."""

    def __call__(self, rows: Iterator[pa.RecordBatch], tally: TaskTally) -> Iterator[Matched]:
        """The task's events, each once."""
        gathered = [batch for batch in rows if batch.num_rows]
        if not gathered:
            return
        visits = pa.concat_batches(gathered)
        is_event = pc.greater(visits.column(EVENT), _NO_EVENT)
        for message in visits.filter(pc.invert(is_event)).column(REPORT).to_pylist():
            tally.add(msgspec.msgpack.decode(message, type=TaskReport))
        visits = visits.filter(is_event)
        if visits.num_rows:
            tally.hops_max = int(np.unique(visits.column(EVENT).to_numpy(), return_counts=True)[1].max())
            yield united(visits)


def united(visits: pa.RecordBatch) -> Matched:
    """One row for each event, with all ids that any of its visits has, each once."""
    _, first, numbers = np.unique(visits.column(EVENT).to_numpy(), return_index=True, return_inverse=True)
    lists = visits.column(SUBSCRIPTION_IDS)
    events = numbers[pc.list_parent_indices(lists).to_numpy()]
    codes = pc.list_flatten(lists).dictionary_encode()
    pairs = np.unique(events * np.int64(len(codes.dictionary) + 1) + codes.indices.to_numpy())
    events, places = np.divmod(pairs, len(codes.dictionary) + 1)
    offsets = np.searchsorted(events, np.arange(len(first) + 1)).astype(np.int32)
    ids = codes.dictionary.take(pa.array(places))
    return visits.take(pa.array(first)).drop_columns([SUBSCRIPTION_IDS]), pa.ListArray.from_arrays(
        pa.array(offsets), ids
    )
