"""The index that people hold: subscriptions in, events in, ids out.

An index is a few segments (see stack.py), each a part (see part.py) with the ids of its subscriptions. A new index is
one segment; an update adds a small one and clears bits in the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.boxes import BoxTable
from fieldfare.errors import DuplicateIdError, EventError, InvalidIdError, SubscriptionError, UnknownIdError
from fieldfare.language import compile_many
from fieldfare.matching.arrow import batch_of_table
from fieldfare.matching.batch import Batch
from fieldfare.matching.bounds import box_table
from fieldfare.matching.ids import ids_of
from fieldfare.matching.nesting import flat
from fieldfare.matching.rows import Event, batch_of_rows, with_now
from fieldfare.matching.segment import Segment, merged
from fieldfare.matching.snapshot import load_segments, save_segments
from fieldfare.matching.stack import CHUNK_EVENTS, SegmentStack
from fieldfare.model import NOW, SubscriptionId

_OFFSET_MAX = np.iinfo(np.int32).max

Subscriptions = Mapping[str, str] | Mapping[int, str] | Mapping[SubscriptionId, str]  # id -> condition


class Index:
    """An immutable set of subscriptions that finds, for any event, those whose condition it satisfies."""

    def __init__(self, subscriptions: Subscriptions | pa.Table | pa.RecordBatch | None = None) -> None:
        """Take conditions by id, or an Arrow table with the columns `subscription_id` and `condition`."""
        ids, conditions = _given({} if subscriptions is None else subscriptions)
        self._stack = SegmentStack(_segments_of(ids, _compiled(conditions, ids)))

    @classmethod
    def from_boxes(cls, subscription_ids: Iterable[SubscriptionId], bounds: Mapping[str, tuple[Any, Any]]) -> Index:
        """An index of boxes: for each attribute the bounds `low <= value < high`, one of each for every subscription.

        A null bound (NaN, or null in an Arrow array) is open; two open bounds leave the attribute unconstrained.
        """
        ids = ids_of(subscription_ids)
        return cls._of(_segments_of(ids, box_table(len(ids), bounds)))

    @classmethod
    def of_compiled(cls, subscription_ids: Iterable[SubscriptionId], boxes: BoxTable) -> Index:
        """An index of boxes as conditions compile to them; owner i of a box is the i-th subscription."""
        return cls._of(_segments_of(ids_of(subscription_ids), boxes))

    @classmethod
    def joined(cls, indexes: Iterable[Index]) -> Index:
        """One index of the subscriptions of several that have none in common. Nothing is copied."""
        return cls._of(tuple(segment for index in indexes for segment in index._segments))

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True) -> Index:
        """Map a saved index into memory; processes that map the same folder share one copy."""
        return cls._of(load_segments(Path(folder), verify=verify))

    def save(self, folder: str | Path) -> None:
        """Save to a folder, which must not exist or be empty. Complete or not at all."""
        save_segments(self._segments, Path(folder))

    @classmethod
    def _of(cls, segments: tuple[Segment, ...]) -> Index:
        index = cls.__new__(cls)
        index._stack = SegmentStack(segments)
        return index

    @property
    def _segments(self) -> tuple[Segment, ...]:
        return self._stack.segments

    def __len__(self) -> int:
        return len(self._stack)

    def __contains__(self, subscription_id: object) -> bool:
        return any(segment.position(subscription_id) is not None for segment in self._segments)

    def __repr__(self) -> str:
        return f"<fieldfare.Index of {len(self):,} subscriptions on {', '.join(self.attributes[:8]) or 'no attribute'}>"

    @property
    def ids(self) -> pa.Array:
        """The ids of the subscriptions, in the order they were given."""
        return self._stack.ids

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that conditions ask about."""
        return tuple(name for name in self._stack.attributes if name != NOW)

    @property
    def asks_now(self) -> bool:
        """Whether some condition asks for the time of now: then events are matched as of an instant."""
        return self._stack.asks_now

    @property
    def nbytes(self) -> int:
        """Bytes that the index takes in memory, ids included."""
        return sum(segment.nbytes for segment in self._segments)

    def match(self, event: Event, *, now: datetime | None = None) -> list[SubscriptionId]:
        """The ids of the subscriptions that the event satisfies, in the order they were given.

        A dict inside the event gives attributes with dotted names, and one of exactly `low` and `high` is a range.
        `now` is what `current_timestamp()` means; without it, the instant of the call.
        """
        try:
            return self._match(flat(event) if self._stack.has_dotted else event, now)
        except EventError:
            attributes = flat(event)
            if attributes is event:
                raise
            return self._match(attributes, now)

    def _match(self, attributes: Event, now: datetime | None) -> list[SubscriptionId]:
        if self._stack.asks_now:
            attributes = {**attributes, NOW: now or datetime.now(UTC)}
        return self._stack.match(attributes)

    def match_rows(self, events: Sequence[Event], *, now: datetime | None = None) -> pa.ListArray:
        """For each event, as `match` reads it, the ids it satisfies; the order inside a list is not defined."""
        chunks = range(0, len(events), CHUNK_EVENTS)
        now = now or datetime.now(UTC)
        return self._lists((self._batch(events[start : start + CHUNK_EVENTS]) for start in chunks), now)

    def _batch(self, events: Sequence[Event]) -> Batch:
        """The events in columns. Where no attribute has a dot, a dict inside shows by being no value."""
        if not self._stack.has_dotted:
            try:
                return batch_of_rows(events, self.attributes)
            except EventError:
                pass
        return batch_of_rows(list(map(flat, events)), self.attributes)

    def match_table(self, events: pa.Table | pa.RecordBatch, *, now: datetime | None = None) -> pa.ListArray:
        """For each row the ids of the subscriptions it satisfies; the order inside a list is not defined.

        Integer ids come as int64, string ids dictionary-encoded, so that no id is copied for a match.
        """
        chunks = range(0, events.num_rows, CHUNK_EVENTS)
        batches = (batch_of_table(events.slice(start, CHUNK_EVENTS), self.attributes) for start in chunks)
        return self._lists(batches, now or datetime.now(UTC))

    def check_schema(self, schema: pa.Schema) -> None:
        """Raise an EventError if a column that conditions ask about has a type that cannot be matched."""
        self.match_table(pa.table([pa.nulls(1, field.type) for field in schema], names=schema.names))

    def _lists(self, batches: Iterable[Batch], now: datetime) -> pa.ListArray:
        if self._stack.asks_now:
            batches = (with_now(batch, now) for batch in batches)
        chunks = [self._list_chunk(batch) for batch in batches]
        if len(chunks) == 1:
            return chunks[0]
        _require_room(sum(len(chunk.values) for chunk in chunks))
        return pa.concat_arrays(chunks) if chunks else self._list_chunk(Batch(0, {}))

    def _list_chunk(self, batch: Batch) -> pa.ListArray:
        offsets, values = self._stack.match_batch(batch)
        _require_room(len(values))
        flat = pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])
        if self._stack.has_string_ids:
            flat = pa.DictionaryArray.from_arrays(flat, self._stack.dictionary, safe=False)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat)

    def updated(
        self,
        add: Subscriptions | pa.Table | pa.RecordBatch | None = None,
        remove: Iterable[SubscriptionId] = (),
    ) -> Index:
        """A new index with some subscriptions removed and others added; an id that is both is replaced.

        Either all of it happens or, where an id or a condition is wrong, an error is raised and nothing does.
        """
        segments = _without(self._segments, list(remove))
        ids, conditions = _given({} if add is None else add)
        if len(ids):
            for subscription_id in ids.to_pylist():
                if any(segment.position(subscription_id) is not None for segment in segments):
                    raise DuplicateIdError(subscription_id)
            if segments and segments[0].ids.type != ids.type:
                raise InvalidIdError(f"the index has ids of type {segments[0].ids.type}, not {ids.type}")
            segments += (Segment.build(ids, _compiled(conditions, ids)),)
        return self._of(SegmentStack(segments).in_few_segments().segments)

    def extended(self, other: Index) -> Index:
        """A new index with the subscriptions of another as well, which has none in common with this one."""
        return self._of(SegmentStack(self._segments + other._segments).in_few_segments().segments)

    def without(self, removed: npt.NDArray[np.bool_]) -> Index:
        """A new index without the subscriptions that a mask over `ids` names. Cheap, and all at once."""
        if len(removed) != len(self):
            raise SubscriptionError(f"a mask over {len(self)} subscriptions is needed, not over {len(removed)}")
        return self._of(self._stack.without(removed).segments)

    def compacted(self) -> Index:
        """The same index in one segment, which matches fastest."""
        return self if len(self._segments) <= 1 else self._of((merged(self._segments),))


def _require_room(matches: int) -> None:
    if matches > _OFFSET_MAX:
        raise SubscriptionError("more than 2**31 - 1 matches do not fit one array: match fewer events at a time")


def _segments_of(ids: pa.Array, table: BoxTable) -> tuple[Segment, ...]:
    return (Segment.build(ids, table),) if len(ids) else ()


def _given(subscriptions: Subscriptions | pa.Table | pa.RecordBatch) -> tuple[pa.Array, Sequence[str]]:
    """The ids, checked, and the conditions, not yet."""
    if isinstance(subscriptions, Mapping):
        return ids_of(subscriptions), list(subscriptions.values())
    if not isinstance(subscriptions, pa.Table | pa.RecordBatch):
        kind = type(subscriptions).__name__
        raise SubscriptionError(f"subscriptions are a dict of conditions by id, or an Arrow table, not a {kind}")
    for name in ("subscription_id", "condition"):
        if subscriptions.schema.names.count(name) != 1:
            raise SubscriptionError(
                f"the subscriptions need one column {name!r}; they have {subscriptions.schema.names}"
            )
    return ids_of(subscriptions.column("subscription_id")), subscriptions.column("condition").to_pylist()


def _compiled(conditions: Sequence[str], ids: pa.Array) -> BoxTable:
    """The boxes of conditions; the first that cannot be compiled is raised, with the id of its subscription."""
    result = compile_many(conditions)
    for number, error in result.errors:
        error.add_note(f"in subscription {ids[number].as_py()!r}")
        raise error
    return result.table


def _without(segments: tuple[Segment, ...], removed: Sequence[SubscriptionId]) -> tuple[Segment, ...]:
    gone = [np.zeros(len(segment.ids), np.bool_) for segment in segments]
    for subscription_id in dict.fromkeys(removed):
        for number, segment in enumerate(segments):
            position = segment.position(subscription_id)
            if position is not None:
                gone[number][position] = True
                break
        else:
            raise UnknownIdError(subscription_id)
    return tuple(
        segment.without(removed) if removed.any() else segment for segment, removed in zip(segments, gone, strict=True)
    )
