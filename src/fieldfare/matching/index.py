"""The index that people hold: subscriptions in, events in, ids out.

An index is a few segments, each a part (see part.py) with the ids of its subscriptions. A new index is one segment.
An update adds a small segment and clears bits in the others; segments of similar size are merged, as in a
log-structured merge tree, so a subscription is rebuilt a logarithmic number of times, and matching visits few segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.boxes import BoxTable
from fieldfare.errors import DuplicateIdError, InvalidIdError, SubscriptionError, UnknownIdError
from fieldfare.language import compile_many
from fieldfare.matching.arrow import batch_of_table
from fieldfare.matching.batch import Batch
from fieldfare.matching.bounds import box_table
from fieldfare.matching.ids import ids_of
from fieldfare.matching.lists import copy_lists, copy_single, empty_values
from fieldfare.matching.masks import BoxMasks
from fieldfare.matching.part import Matches
from fieldfare.matching.rows import Event, batch_of_rows
from fieldfare.matching.segment import Segment, merged
from fieldfare.matching.snapshot import load_segments, save_segments
from fieldfare.model import SubscriptionId

_CHUNK_ROWS = 65_536
_SINGLE_EVENTS_MAX = 24  # as many events are matched faster one by one, where there are masks, than as a batch
_SINGLE_EXPECTED = 1_024  # matches of one event that are met without a second attempt
_MERGE_RATIO = 4  # a segment is merged into the one before it unless that one is so many times larger
_OFFSET_MAX = np.iinfo(np.int32).max

Subscriptions = Mapping[str, str] | Mapping[int, str] | Mapping[SubscriptionId, str]  # id -> condition


class Index:
    """An immutable set of subscriptions that finds, for any event, those whose condition it satisfies."""

    def __init__(self, subscriptions: Subscriptions | pa.Table | pa.RecordBatch | None = None) -> None:
        """Take conditions by id, or an Arrow table with the columns `subscription_id` and `condition`."""
        ids, conditions = _given({} if subscriptions is None else subscriptions)
        self._segments = _segments_of(ids, _compiled(conditions, ids))
        self._begin()

    def _begin(self) -> None:
        self._matches_per_event = 4.0
        self._ways: Ways | None = None  # for few events, when it is settled

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
        index._segments = segments
        index._begin()
        return index

    def __len__(self) -> int:
        return sum(segment.live_count for segment in self._segments)

    def __contains__(self, subscription_id: object) -> bool:
        return any(segment.position(subscription_id) is not None for segment in self._segments)

    def __repr__(self) -> str:
        return f"<fieldfare.Index of {len(self):,} subscriptions on {', '.join(self.attributes[:8]) or 'no attribute'}>"

    @property
    def ids(self) -> pa.Array:
        """The ids of the subscriptions, in the order they were given."""
        if not self._segments:
            return pa.array([], pa.int64())
        return pa.concat_arrays([segment.live_ids for segment in self._segments])

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that conditions ask about."""
        return tuple(sorted({name for segment in self._segments for name in segment.part.attributes}))

    @property
    def nbytes(self) -> int:
        """Bytes that the index takes in memory, ids included."""
        return sum(segment.nbytes for segment in self._segments)

    def match(self, event: Event) -> list[SubscriptionId]:
        """The ids of the subscriptions that the event satisfies, in the order they were given."""
        found: list[SubscriptionId] = []
        batch: Batch | None = None
        for segment in self._segments:
            if segment.has_masks(1) and segment.masks is not None:
                found += segment.masks.match(event)
                continue
            batch = batch or batch_of_rows([event], self.attributes)
            matches = segment.part.match(batch, segment.part.owners, np.int32, _SINGLE_EXPECTED)
            owners = np.sort(np.concatenate([matches.values, matches.extra_values]))
            found.extend(segment.ids.take(pa.array(owners)).to_pylist())
        return found

    def ways_to_match(self, events: int) -> Ways:
        """The fastest ways to match so many events."""
        if events > _SINGLE_EVENTS_MAX:
            return Ways((), self)
        if self._ways is not None:
            return self._ways
        has_masks = [segment.has_masks(events) for segment in self._segments]
        ways = self._find_ways(has_masks)
        if None not in has_masks:
            self._ways = ways
        return ways

    def _find_ways(self, has_masks: Sequence[bool | None]) -> Ways:
        masks = [segment.masks for segment, has in zip(self._segments, has_masks, strict=True) if has]
        rest = tuple(segment for segment, has in zip(self._segments, has_masks, strict=True) if not has)
        return Ways([some for some in masks if some is not None], self._of(rest) if rest else None)

    def prepare(self) -> None:
        """Make now what matching makes when it is first needed; an index made in a thread then delays no event."""
        self.match_rows([{}])
        self._ways = self._find_ways([segment.masks is not None for segment in self._segments])

    def match_rows(self, events: Sequence[Event]) -> pa.ListArray:
        """For each event, a dict, the ids of the subscriptions it satisfies; the order inside a list is not defined."""
        chunks = range(0, len(events), _CHUNK_ROWS)
        batches = (batch_of_rows(events[start : start + _CHUNK_ROWS], self.attributes) for start in chunks)
        return self._lists(batches)

    def match_numbers(self, events: Sequence[Event]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The same for integer ids, as plain arrays: event i has the ids from `offsets[i]` up to `offsets[i + 1]`."""
        chunks = [
            self._found(batch_of_rows(events[start : start + _CHUNK_ROWS], self.attributes))
            for start in range(0, max(1, len(events)), _CHUNK_ROWS)
        ]
        if len(chunks) == 1:
            return chunks[0]
        counts = np.concatenate([np.diff(offsets) for offsets, _ in chunks])
        return np.concatenate([[0], np.cumsum(counts)]), np.concatenate([ids for _, ids in chunks])

    def match_table(self, events: pa.Table | pa.RecordBatch) -> pa.ListArray:
        """For each row the ids of the subscriptions it satisfies; the order inside a list is not defined.

        Integer ids come as int64, string ids dictionary-encoded, so that no id is copied for a match.
        """
        chunks = range(0, events.num_rows, _CHUNK_ROWS)
        return self._lists(batch_of_table(events.slice(start, _CHUNK_ROWS), self.attributes) for start in chunks)

    def check_schema(self, schema: pa.Schema) -> None:
        """Raise an EventError if a column that conditions ask about has a type that cannot be matched."""
        self.match_table(pa.table([pa.nulls(1, field.type) for field in schema], names=schema.names))

    def _lists(self, batches: Iterable[Batch]) -> pa.ListArray:
        chunks = [self._list_chunk(batch) for batch in batches]
        if len(chunks) == 1:
            return chunks[0]
        _require_room(sum(len(chunk.values) for chunk in chunks))
        return pa.concat_arrays(chunks) if chunks else self._list_chunk(Batch(0, {}))

    def _list_chunk(self, batch: Batch) -> pa.ListArray:
        offsets, values = self._found(batch)
        _require_room(len(values))
        flat = pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])
        if self._has_string_ids:
            flat = pa.DictionaryArray.from_arrays(flat, self._dictionary, safe=False)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat)

    def _found(self, batch: Batch) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """The labels of the subscriptions that each event satisfies, in one array, and where each event's begin."""
        expected = int(batch.rows * self._matches_per_event * 1.1)
        value_type = np.int32 if self._has_string_ids else np.int64
        found = [segment.part.match(batch, segment.labels, value_type, expected) for segment in self._segments]
        if len(found) == 1 and not found[0].reordered and not len(found[0].extra_events):
            offsets, values = found[0].ends, found[0].values
        else:
            offsets, values = _put_together(found, self._label_starts, batch.rows, value_type)
        if batch.rows:
            self._matches_per_event = max(1.0, len(values) / batch.rows)
        return offsets, values

    @cached_property
    def _dictionary(self) -> pa.Array:
        """The ids of all segments, the removed ones too: what string labels count in."""
        return pa.concat_arrays([segment.ids for segment in self._segments])

    @cached_property
    def _label_starts(self) -> list[int]:
        """Where each segment's ids start in the dictionary; integer ids are labels themselves, and start at 0."""
        lengths = [len(segment.ids) * self._has_string_ids for segment in self._segments]
        return [0, *itertools.accumulate(lengths)][:-1]

    @cached_property
    def _has_string_ids(self) -> bool:
        return any(pa.types.is_large_string(segment.ids.type) for segment in self._segments)

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
        return self._of(_in_few(segments))

    def extended(self, other: Index) -> Index:
        """A new index with the subscriptions of another as well, which has none in common with this one."""
        return self._of(_in_few(self._segments + other._segments))

    def in_few_segments(self) -> Index:
        """The same index, with segments of similar size merged."""
        return self if self.has_few_segments else self._of(_in_few(self._segments))

    @property
    def has_few_segments(self) -> bool:
        """Whether no segments are left to merge."""
        return len(_groups(self._segments)) == len(self._segments)

    def without(self, removed: npt.NDArray[np.bool_]) -> Index:
        """A new index without the subscriptions that a mask over `ids` names. Cheap, and all at once."""
        if len(removed) != len(self):
            raise SubscriptionError(f"a mask over {len(self)} subscriptions is needed, not over {len(removed)}")
        segments, start = [], 0
        for segment in self._segments:
            gone = np.zeros(len(segment.ids), np.bool_)
            gone[segment.live] = removed[start : start + segment.live_count]
            segments.append(segment.without(gone) if gone.any() else segment)
            start += segment.live_count
        return self._of(tuple(segment for segment in segments if segment.live_count))

    def compacted(self) -> Index:
        """The same index in one segment, which matches fastest."""
        return self if len(self._segments) <= 1 else self._of((merged(self._segments),))


class Ways(NamedTuple):
    """How an index is asked for a few events: masks for one event after the other, the rest for all events at once."""

    masks: Sequence[BoxMasks]
    rest: Index | None


def _in_few(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """The same subscriptions in segments each much smaller than the one before, so that there are never many."""
    return tuple(group[0] if len(group) == 1 else merged(group) for group in _groups(segments))


def _groups(segments: tuple[Segment, ...]) -> list[list[Segment]]:
    """The segments that are not empty, in their order; those that should be one segment are in one group."""
    groups: list[list[Segment]] = []
    for segment in segments:
        if segment.live_count:
            groups.append([segment])
        while len(groups) > 1 and _live_count(groups[-1]) * _MERGE_RATIO > _live_count(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _live_count(segments: Iterable[Segment]) -> int:
    return sum(segment.live_count for segment in segments)


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


def _put_together(
    found: Sequence[Matches], starts: Sequence[int], rows: int, value_type: npt.DTypeLike
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The lists of several segments as one list for each event, in the order of the events."""
    counts = np.zeros(rows, np.int64)
    for matches in found:
        counts[matches.order] += np.diff(matches.ends)
        counts += np.bincount(matches.extra_events, minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    values = empty_values(int(offsets[-1]), value_type)
    places = offsets[:-1].copy()
    for matches, start in zip(found, starts, strict=True):
        copy_lists(matches.order, matches.ends, matches.values, start, places, values)
        copy_single(matches.extra_events, matches.extra_values, start, places, values)
    return offsets, values
