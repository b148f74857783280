"""A segment of an index: a part, and the ids of its subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.boxes import BoxTable
from fieldfare.matching.ids import IdLookup
from fieldfare.matching.masks import BoxMasks
from fieldfare.matching.part import Part
from fieldfare.matching.unpacking import boxes_of_part

_MASKED_BOXES_MAX = 1_024  # a larger segment has no masks: their memory grows with the square of the boxes
_BOXES_PER_SINGLE_EVENT = 16  # masks are made when so many events have come singly that it pays


@dataclass(frozen=True)
class Segment:
    """The subscriptions `ids`, of which those that are not `live` have been removed since."""

    part: Part
    ids: pa.Array  # int64 or large_string; subscription i of the part has id i
    live: npt.NDArray[np.bool_]
    lookup: IdLookup = field(repr=False)

    @staticmethod
    def build(ids: pa.Array, table: BoxTable) -> Segment:
        """A segment of new subscriptions."""
        return Segment(Part.build(table, len(ids)), ids, np.ones(len(ids), np.bool_), IdLookup(ids))

    @cached_property
    def live_count(self) -> int:
        """How many subscriptions are there."""
        return int(np.count_nonzero(self.live))

    @property
    def live_ids(self) -> pa.Array:
        """Their ids."""
        return self.ids.filter(pa.array(self.live))

    @cached_property
    def labels(self) -> npt.NDArray[Any]:
        """What lists of matches hold for the box at each place: an integer id, or the number of a string id."""
        if pa.types.is_integer(self.ids.type):
            return _narrowest(np.asarray(self.ids))[self.part.owners]
        return self.part.owners

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        labels = 0 if self.labels is self.part.owners else self.labels.nbytes
        return self.part.nbytes + int(self.ids.nbytes) + labels + self.live.nbytes

    @cached_property
    def masks(self) -> BoxMasks | None:
        """The fast way to match single events; None for a segment with too many boxes."""
        return BoxMasks.of(boxes_of_part(self.part), self.ids.to_pylist()) if self._is_small else None

    @cached_property
    def _is_small(self) -> bool:
        return self._box_count <= _MASKED_BOXES_MAX

    @cached_property
    def _box_count(self) -> int:
        return int(np.count_nonzero(self.part.alive()))

    def has_masks(self, events: int) -> bool | None:
        """Whether to match so many single events by the masks; None: not yet, because making them would cost more."""
        if self._is_small and "masks" not in self.__dict__:
            self.__dict__["_single_events"] = self.__dict__.get("_single_events", 0) + events
            if self.__dict__["_single_events"] * _BOXES_PER_SINGLE_EVENT < self._box_count:
                return None
        return self._is_small

    def position(self, subscription_id: object) -> int | None:
        """The number of a subscription in this segment, or None if it is not there."""
        is_integer = isinstance(subscription_id, int) and not isinstance(subscription_id, bool)
        if not (is_integer if pa.types.is_integer(self.ids.type) else isinstance(subscription_id, str)):
            return None
        position = self.lookup.position(subscription_id)  # type: ignore[arg-type]
        return position if position is not None and self.live[position] else None

    def without(self, removed: npt.NDArray[np.bool_]) -> Segment:
        """The same segment without some subscriptions."""
        segment = replace(self, part=self.part.without(removed), live=self.live & ~removed)
        segment.__dict__["labels"] = self.labels
        return segment


def _narrowest(ids: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Ids as 32-bit integers where they fit: the kernel reads them all over, and widens them as it writes."""
    small = np.iinfo(np.int32)
    fits = len(ids) > 0 and small.min <= int(ids.min()) and int(ids.max()) <= small.max
    return ids.astype(np.int32) if fits else ids


def merged(segments: Sequence[Segment]) -> Segment:
    """One segment with the live subscriptions of several that follow each other."""
    tables, owner_start = [], 0
    for segment in segments:
        numbers = np.cumsum(segment.live) - 1 + owner_start
        table = boxes_of_part(segment.part)
        tables.append(replace(table, owners=numbers[table.owners].astype(np.int32)))
        owner_start += segment.live_count
    ids = pa.concat_arrays([segment.live_ids for segment in segments])
    return Segment.build(ids, BoxTable.concatenated(tables))
