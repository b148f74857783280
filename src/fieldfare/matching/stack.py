"""The segments of an index, oldest first, and how events are matched against all of them.

A change adds a small segment, or clears bits in others; segments of similar size are merged, as in a log-structured
merge tree, so a subscription is rebuilt a logarithmic number of times, and matching visits few segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.matching.batch import Batch
from fieldfare.matching.lists import copy_lists, copy_single, empty_values
from fieldfare.matching.masks import BoxMasks
from fieldfare.matching.part import Matches
from fieldfare.matching.passing import names_on
from fieldfare.matching.rows import Event, batch_of_rows
from fieldfare.matching.segment import Segment, merged
from fieldfare.model import NOW, SubscriptionId

CHUNK_EVENTS = 65_536
FEW_EVENTS = 24  # up to so many are matched faster one by one, where there are masks, than as a batch
_SINGLE_EXPECTED = 1_024  # matches of one event that are met without a second attempt
_MERGE_RATIO = 4  # a segment is merged into the one before it unless that one is so many times larger

Found = tuple[npt.NDArray[np.int64], npt.NDArray[Any]]  # event i has the values from offsets[i] up to offsets[i + 1]


class Ways(NamedTuple):
    """How a few events are matched fastest: by masks one event after the other, and by the rest all at once."""

    masks: Sequence[BoxMasks]
    rest: SegmentStack | None


class SegmentStack:
    """Some segments. They never change; what is learned by matching only makes it faster."""

    def __init__(self, segments: tuple[Segment, ...] = ()) -> None:
        self.segments = segments
        self._matches_per_event = 4.0
        self._ways: Ways | None = None  # for a few events, once it is settled

    def __len__(self) -> int:
        return sum(segment.live_count for segment in self.segments)

    @property
    def ids(self) -> pa.Array:
        """The ids of the subscriptions, in the order they were given."""
        if not self.segments:
            return pa.array([], pa.int64())
        return pa.concat_arrays([segment.live_ids for segment in self.segments])

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that conditions ask about."""
        parts = [segment.part for segment in self.segments]
        names = {name for part in parts for name in (*part.attributes, *part.residuals.attributes)}
        axes = [axis for part in parts for axis in part.derived]
        axes += [axis for part in parts if part.members is not None for axis in part.members.lists]
        return tuple(sorted(names.union(*map(names_on, axes))))

    @cached_property
    def asks_now(self) -> bool:
        """Whether conditions ask for the time of now, which events then have as an attribute."""
        return NOW in self.attributes

    @cached_property
    def has_dotted(self) -> bool:
        """Whether conditions ask about attributes that may be nested in an event."""
        return any("." in name for name in self.attributes)

    # Matching

    def match(self, event: Event) -> list[SubscriptionId]:
        """The ids of the subscriptions that the event satisfies, in the order they were given."""
        found: list[SubscriptionId] = []
        batch: Batch | None = None
        for segment in self.segments:
            if segment.has_masks(1) and segment.masks is not None:
                found += segment.masks.match(event)
                continue
            batch = batch or batch_of_rows([event], self.attributes)
            matches = segment.part.match(batch, segment.part.owners, np.int32, _SINGLE_EXPECTED)
            owners = np.sort(np.concatenate([some for one in matches for some in (one.values, one.extra_values)]))
            found.extend(segment.ids.take(pa.array(owners)).to_pylist())
        return found

    def match_rows(self, events: Sequence[Event]) -> Found:
        """For each event its labels: integer ids, or the places of string ids in `dictionary`."""
        starts = range(0, max(1, len(events)), CHUNK_EVENTS)
        found = [
            self.match_batch(batch_of_rows(events[start : start + CHUNK_EVENTS], self.attributes)) for start in starts
        ]
        if len(found) == 1:
            return found[0]
        counts = np.concatenate([np.diff(offsets) for offsets, _ in found])
        return np.concatenate([[0], np.cumsum(counts)]), np.concatenate([labels for _, labels in found])

    def match_batch(self, batch: Batch) -> Found:
        """The same for a batch."""
        expected = int(batch.rows * self._matches_per_event * 1.1)
        label_type = np.int32 if self.has_string_ids else np.int64
        by_segment = [segment.part.match(batch, segment.labels, label_type, expected) for segment in self.segments]
        found = [matches for several in by_segment for matches in several]
        starts = [
            start for start, several in zip(self._label_starts, by_segment, strict=True) for _ in range(len(several))
        ]
        if len(found) == 1 and not found[0].reordered and not len(found[0].extra_events):
            offsets, labels = found[0].ends, found[0].values
        else:
            offsets, labels = _put_together(found, starts, batch.rows, label_type)
        if batch.rows:
            self._matches_per_event = max(1.0, len(labels) / batch.rows)
        return offsets, labels

    def ways_to_match(self, events: int) -> Ways:
        """The fastest ways to match so many events."""
        if events > FEW_EVENTS:
            return Ways((), self)
        if self._ways is not None:
            return self._ways
        has_masks = [segment.has_masks(events) for segment in self.segments]
        ways = self._find_ways(has_masks)
        if None not in has_masks:
            self._ways = ways
        return ways

    def _find_ways(self, has_masks: Sequence[bool | None]) -> Ways:
        masks = [segment.masks for segment, has in zip(self.segments, has_masks, strict=True) if has]
        rest = tuple(segment for segment, has in zip(self.segments, has_masks, strict=True) if not has)
        return Ways([some for some in masks if some is not None], SegmentStack(rest) if rest else None)

    def prepared(self) -> SegmentStack:
        """The same, with what matching makes when it is first needed: if a thread does that, no event waits for it."""
        self.match_rows([{}])
        self._ways = self._find_ways([segment.masks is not None for segment in self.segments])
        return self

    # Ids

    @cached_property
    def has_string_ids(self) -> bool:
        """Whether ids are strings, and labels count in the dictionary."""
        return any(pa.types.is_large_string(segment.ids.type) for segment in self.segments)

    @cached_property
    def dictionary(self) -> pa.Array:
        """The ids of all segments, the removed ones too."""
        return pa.concat_arrays([segment.ids for segment in self.segments])

    @cached_property
    def _label_starts(self) -> list[int]:
        """Where each segment's ids start in the dictionary; integer ids are labels themselves, and start at 0."""
        lengths = [len(segment.ids) * self.has_string_ids for segment in self.segments]
        return [0, *itertools.accumulate(lengths)][:-1]

    # Changes

    @property
    def has_few_segments(self) -> bool:
        """Whether no segments are left to merge."""
        return len(_groups(self.segments)) == len(self.segments)

    def in_few_segments(self) -> SegmentStack:
        """The same subscriptions in segments each much smaller than the one before, so that there are never many."""
        if self.has_few_segments:
            return self
        return SegmentStack(
            tuple(group[0] if len(group) == 1 else merged(group) for group in _groups(self.segments)),
        )

    def without(self, removed: npt.NDArray[np.bool_]) -> SegmentStack:
        """The same without the subscriptions that a mask over `ids` names."""
        segments, start = [], 0
        for segment in self.segments:
            gone = np.zeros(len(segment.ids), np.bool_)
            gone[segment.live] = removed[start : start + segment.live_count]
            segments.append(segment.without(gone) if gone.any() else segment)
            start += segment.live_count
        return SegmentStack(tuple(segment for segment in segments if segment.live_count))


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


def _put_together(found: Sequence[Matches], starts: Sequence[int], rows: int, label_type: npt.DTypeLike) -> Found:
    """The lists of several segments as one list for each event, in the order of the events."""
    counts = np.zeros(rows, np.int64)
    for matches in found:
        counts[matches.order] += np.diff(matches.ends)
        counts += np.bincount(matches.extra_events, minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    values = empty_values(int(offsets[-1]), label_type)
    places = offsets[:-1].copy()
    for matches, start in zip(found, starts, strict=True):
        copy_lists(matches.order, matches.ends, matches.values, start, places, values)
        copy_single(matches.extra_events, matches.extra_values, start, places, values)
    return offsets, values
