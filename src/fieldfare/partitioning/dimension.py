"""A searchable dimension: an attribute's axis cut into segments, each served by some matchers.

The axis is the one of model.py, from NULL to END, so a missing attribute lies in the first segment, any value of any
type lies in exactly one, and a box that does not constrain the attribute lies in all of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, BoxTable, Cuts
from fieldfare.errors import LayoutError
from fieldfare.matching.axis import Axis
from fieldfare.matching.batch import Batch
from fieldfare.matching.slots import grid_of, number_slots, padded_cuts
from fieldfare.model import Cut, Section, section_start
from fieldfare.partitioning.placement import Grouped

Segments = npt.NDArray[np.int32]
_START, _END = section_start(Section.NULL), section_start(Section.END)


class Spread(msgspec.Struct, frozen=True):
    """Another attribute, by whose segments the subscriptions of a dimension are spread over its hops."""

    attribute: str
    cuts: tuple[Cut, ...]


class Dimension(msgspec.Struct, frozen=True, dict=True):
    """The segments of one attribute, in their order. Without an attribute there is one segment that holds everything.

    With `hops` above 1 an event visits so many segments one after the other, and a subscription is stored in one of
    as many places, so that each place holds a part of what a segment attracts. Which place is decided by `spread`, so
    that what a place holds is alike and an event can skip it; else by the subscription's number.

    `gauge` is a second division of the axis, by which the width of a subscription is measured. It never changes, so
    that splits and merges elsewhere do not move a subscription into or out of the dimension's shared part.
    """

    attribute: str | None
    cuts: tuple[Cut, ...]  # ascending; between them lie the segments
    matchers: tuple[tuple[int, ...], ...]  # for each segment those that serve it; a matcher serves at most one
    hops: int = 1
    gauge: tuple[Cut, ...] = ()
    spread: Spread | None = None

    def __post_init__(self) -> None:
        served = [matcher for group in self.matchers for matcher in group]
        if len(self.matchers) != len(self.cuts) + 1 or not all(self.matchers):
            raise LayoutError(f"{len(self.cuts)} cuts make {len(self.cuts) + 1} segments; each needs a matcher")
        if len(set(served)) < len(served) or min(served) < 0:
            raise LayoutError(f"a matcher is a number from 0 that serves one segment of a dimension, not {served}")
        if not 1 <= self.hops <= len(self.matchers):
            raise LayoutError(f"an event can visit 1 to {len(self.matchers)} segments, not {self.hops}")
        for cuts in (self.cuts, self.gauge):
            if any(low >= high for low, high in pairwise((_START, *cuts, _END))):
                raise LayoutError("cuts must ascend, and lie inside the axis")
            if any(isinstance(value, float) and not math.isfinite(value) for _, value in cuts):
                raise LayoutError("a cut must not lie at infinity")
            if cuts and self.attribute is None:
                raise LayoutError("only the axis of an attribute can be cut")

    @property
    def size(self) -> int:
        """How many segments there are."""
        return len(self.matchers)

    def bounds(self, segment: int) -> tuple[Cut, Cut]:
        """Where a segment begins and ends."""
        cuts = (_START, *self.cuts, _END)
        return cuts[segment], cuts[segment + 1]

    def sources(self, segment: int) -> list[tuple[Cut, Cut]]:
        """The bounds of all segments whose boxes may be stored in a segment: with hops there are several."""
        return [self.bounds((segment - hop) % self.size) for hop in range(self.hops)]

    def shifts(self, table: BoxTable, grouped: Grouped) -> Segments:
        """For each group of boxes by how many segments it is stored further on, from 0 up to the hops."""
        by_number = (grouped.owners % self.hops).astype(np.int32)
        column = None if self.spread is None else table.axes.get(self.spread.attribute)
        if self.hops == 1 or self.spread is None or column is None:
            return by_number
        heads = grouped.order[grouped.starts[:-1]]
        first, last = (side[heads] for side in box_segments(self.spread.cuts, column, len(table)))
        is_open = last - first == len(self.spread.cuts)
        return np.where(is_open, by_number, np.minimum((first + last) // 2, self.hops - 1)).astype(np.int32)

    def segment_of(self, matcher: int) -> int:
        """The segment that a matcher serves."""
        for segment, group in enumerate(self.matchers):
            if matcher in group:
                return segment
        raise LayoutError(f"there is no matcher {matcher}")

    @cached_property
    def _axis(self) -> Axis:
        cuts = Cuts.of(self.cuts)
        return Axis.of(AxisColumn(np.empty(0, np.int32), cuts, cuts))

    @cached_property
    def _segment_of_slot(self) -> Segments:
        """The axis has slots of its own for NULL and NaN; not every slot is a segment."""
        slots = self._axis.slots_of_cuts(Cuts.of(self.cuts))
        return np.cumsum(np.bincount(slots, minlength=self._axis.last_slot + 1)).astype(np.int32)

    def event_segments(self, batch: Batch) -> tuple[Segments, Segments]:
        """For each event the first and the last segment that its value or range lies in."""
        first = np.zeros(batch.rows, np.int32)
        pieces = batch.columns.get(self.attribute, ()) if self.attribute is not None and self.cuts else ()
        ranged = any(piece.high is not None for piece in pieces)
        last = first.copy() if ranged else first
        for piece in pieces:
            rows = slice(None) if piece.rows is None else piece.rows
            first[rows] = self._segment_of_slot[self._axis.slots_of_values(piece.section, piece.low)]
            if ranged:
                high = piece.low if piece.high is None else piece.high
                last[rows] = self._segment_of_slot[self._axis.slots_of_values(piece.section, high)]
        return first, last


def box_segments(cuts: Sequence[Cut], column: AxisColumn | None, boxes: int) -> tuple[Segments, Segments]:
    """For each of so many boxes the first and the last of the segments between `cuts` that it shares points with."""
    first, last = np.zeros(boxes, np.int32), np.full(boxes, len(cuts), np.int32)
    if column is not None and len(cuts):
        first[column.boxes] = _cuts_before(cuts, column.low, "right")
        last[column.boxes] = _cuts_before(cuts, column.high, "left")
    return first, np.maximum(first, last)


def _cuts_before(cuts: Sequence[Cut], column: Cuts, side: Literal["left", "right"]) -> Segments:
    """For each cut of a column how many of `cuts` lie below it, those at the same place included if `side` is right."""
    numbers = [value for section, value in cuts if section is Section.NUMBER]
    if column.values.dtype == np.float64 and all(isinstance(value, float) for value in numbers):
        start = bisect_left(cuts, section_start(Section.NUMBER))
        values = column.values if side == "right" else np.nextafter(column.values, -np.inf)
        return number_slots(values, grid_of(padded_cuts(np.array(numbers, np.float64))), start)
    bisect = bisect_right if side == "right" else bisect_left
    column_cuts = list(zip(column.sections.tolist(), column.values.tolist(), strict=True))
    places = {cut: bisect(cuts, cut) for cut in set(column_cuts)}
    return np.fromiter((places[cut] for cut in column_cuts), np.int32, len(column_cuts))
