"""The columns that the pipeline adds to events on their way. They begin with an underscore and are not written out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fieldfare.errors import InputError
from fieldfare.matching.arrow import unmatchable

APPENDED_AT = "_appended_at"  # when the event arrived; latency counts from here
FAULT = "_fault"  # why it cannot be matched; null in a sound event
EVENT = "_event"  # a number for each event of a batch, where it has to be found again after several visits
PART = "_part"  # the part that the event visits
MATCHER = "_matcher"  # the matcher that serves it there
REPORT = "_report"  # in a row that is no event: what a task did

SYSTEM = (APPENDED_AT, FAULT, EVENT, PART, MATCHER, REPORT)


def refuse_system_columns(names: Sequence[str]) -> None:
    """Raise an InputError if events come with a column of these names, which would be dropped."""
    for name in SYSTEM:
        if name in names:
            raise InputError(f"events have a column {name!r}, which is the pipeline's own; rename it")


def without_system(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The event as it came."""
    return batch.drop_columns([name for name in SYSTEM if name in batch.schema.names])


def matchable(batch: pa.RecordBatch, attributes: Sequence[str]) -> pa.RecordBatch:
    """The events without columns whose type cannot be matched: a subscription on one must not stop the others."""
    return batch.drop_columns(unmatchable(batch.schema, attributes))


def sound_rows(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The sound events, and the others if there are any."""
    if FAULT not in batch.schema.names:
        return batch, None
    is_sound = pc.is_null(batch.column(FAULT))
    if pc.all(is_sound, min_count=0).as_py():
        return batch, None
    return batch.filter(is_sound), batch.filter(pc.invert(is_sound))


def arrivals(batch: pa.RecordBatch) -> dict[int, int]:
    """How many events arrived in which millisecond, where that is known."""
    if APPENDED_AT not in batch.schema.names or not batch.num_rows:
        return {}
    moments = pc.floor_temporal(batch.column(APPENDED_AT), unit="millisecond").cast(pa.timestamp("ms", "UTC"))
    counts = pc.value_counts(moments.drop_null().cast(pa.int64()))
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))
