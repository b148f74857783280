"""A summary of what is wanted beyond a link: a bounded number of boxes that take all that many conditions take.

An event that any of the conditions matches is taken by the covering too; one that none of them matches may be. So a
broker that forwards by it forwards too much, never too little. A covering of few conditions is exact, but for their
residual tests and expressions, of which it only has what attributes they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fieldfare.boxes import BoxTable
from fieldfare.matching.masks import BoxMasks
from fieldfare.matching.promotion import with_requirements
from fieldfare.matching.requirements import required_intervals
from fieldfare.model import Box, Condition, Interval, Section, section_start
from fieldfare.overlay.covering_format import COVERING_BYTES_MAX, decode_boxes, encode_boxes, size_bytes_max
from fieldfare.partitioning.few_boxes import few_boxes

BOXES_MAX = 1_024
_SINGLY_MAX = 64  # boxes of a condition that are added one by one
_NEAR_MAX = 32  # boxes that are looked at together, to find whether they cover another
_PIECES_MAX = 16  # of that other, which they may leave uncovered on the way
_WHOLE_AXIS = Interval(section_start(Section.NULL), section_start(Section.END))

Intervals = Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Covering:
    """What is wanted: an event that is in one of the boxes. Without boxes, nothing is."""

    boxes: tuple[Box, ...] = ()

    @staticmethod
    def of(
        conditions: Iterable[Condition], boxes_max: int = BOXES_MAX, bytes_max: int = COVERING_BYTES_MAX
    ) -> Covering:
        """A covering of some conditions."""
        listed = list(conditions)
        return Covering.of_table(BoxTable.from_conditions(listed, range(len(listed))), boxes_max, bytes_max)

    @staticmethod
    def of_table(table: BoxTable, boxes_max: int = BOXES_MAX, bytes_max: int = COVERING_BYTES_MAX) -> Covering:
        """A covering of conditions that were compiled in bulk."""
        if boxes_max < 1:
            raise ValueError("a covering needs at least one box: boxes_max is 1 or more")
        if table.derived or table.members:
            table = with_requirements(table)
        boxes = few_boxes(table, boxes_max)
        while len(encode_boxes(boxes)) > bytes_max:
            if len(boxes) == 1:
                return EVERYTHING
            boxes = few_boxes(table, len(boxes) // 2)
        return Covering(boxes)

    @staticmethod
    def decode(data: bytes) -> Covering:
        """The covering that `encode` gave; a CoveringError if it is none."""
        return Covering(decode_boxes(data))

    def encode(self) -> bytes:
        """It as bytes."""
        return encode_boxes(self.boxes)

    @property
    def is_everything(self) -> bool:
        """Whether every event is wanted, as far as one box says so."""
        return any(not box.intervals for box in self.boxes)

    @property
    def condition(self) -> Condition:
        """It as a condition, for an index."""
        return Condition("", self.boxes, disjoint=len(self.boxes) < 2)

    def covers(self, box: Box) -> bool:
        """Whether every event in a box is wanted. Where that takes long to find out, the answer is no."""
        if any(_contains(other.intervals, box.intervals) for other in self.boxes):
            return True
        near = [other.intervals for other in self.boxes if _are_near(other.intervals, box.intervals)]
        return _are_covering(near, box.intervals)

    def meets(self, box: Box) -> bool:
        """Whether some event in a box may be wanted."""
        return any(_are_near(other.intervals, box.intervals) for other in self.boxes)

    def beyond(self, older: Covering) -> Covering:
        """The boxes that an older covering does not have.

        If this one has grown from it by `CoveringBuilder.add`, the older one and these want the same as this one.
        """
        known = {_key(box) for box in older.boxes}
        return Covering(tuple(box for box in self.boxes if _key(box) not in known))


EVERYTHING = Covering((Box({}),))


class CoveringBuilder:
    """A covering that grows as conditions come. It shrinks only where it is replaced by one of those that are left."""

    def __init__(self, boxes_max: int = BOXES_MAX, bytes_max: int = COVERING_BYTES_MAX) -> None:
        self.boxes_max, self._bytes_max = boxes_max, bytes_max
        self._covering: Covering | None = None
        self.replace(Covering())

    @property
    def covering(self) -> Covering:
        """What is covered now."""
        if self._covering is None:
            self._covering = Covering(tuple(self._boxes.values()))
        return self._covering

    def replace(self, covering: Covering) -> None:
        """Cover this in place of all that was covered: to shrink, a covering of the conditions that are left."""
        self._covering = covering
        self._boxes = dict(enumerate(covering.boxes))
        self._next_number = len(self._boxes)
        self._size_bytes_max = sum(map(size_bytes_max, covering.boxes))
        conditions = [Condition("", (box,), disjoint=True) for box in covering.boxes]
        numbers = range(len(conditions))
        self._masks = BoxMasks.of(BoxTable.from_conditions(conditions, numbers), numbers)

    def add(self, condition: Condition) -> bool:
        """Cover a condition too; whether something is covered now that was not."""
        boxes = map(required_intervals, condition.boxes)
        new = [intervals for intervals in boxes if not self._covers(intervals)]
        if not new:
            return False
        if len(new) > _SINGLY_MAX:
            self._regroup([*self.covering.boxes, *map(Box, new)], self.boxes_max)
            return True
        for intervals in new:
            self._add(intervals)
        if len(self._boxes) > self.boxes_max or self._size_bytes_max > self._bytes_max:
            # To fewer boxes than are allowed, so that the next conditions do not take as long as this one.
            left = max(1, min(self.boxes_max, len(self._boxes) - 1))
            self._regroup(self.covering.boxes, left - left // 8)
        elif self._masks.box_count > 2 * self.boxes_max:
            self.replace(self.covering)  # the masks are rid of the boxes that were removed
        return True

    def _covers(self, intervals: Intervals) -> bool:
        if self._masks.has_box_around(intervals):
            return True
        near = self._masks.owners_near(intervals)
        return len(near) <= _NEAR_MAX and _are_covering([self._boxes[number].intervals for number in near], intervals)

    def _add(self, intervals: Intervals) -> None:
        for number in self._masks.owners_near(intervals):
            if _contains(intervals, self._boxes[number].intervals):
                self._masks.remove(number)
                self._size_bytes_max -= size_bytes_max(self._boxes.pop(number))
        box = Box(intervals)
        self._boxes[self._next_number] = box
        self._masks.add(self._next_number, (box,))
        self._next_number += 1
        self._size_bytes_max += size_bytes_max(box)
        self._covering = None

    def _regroup(self, boxes: Sequence[Box], boxes_max: int) -> None:
        self.replace(Covering.of([Condition("", tuple(boxes), disjoint=False)], boxes_max, self._bytes_max))


# Boxes, as their intervals


def _key(box: Box) -> frozenset[tuple[str, Interval]]:
    return frozenset(box.intervals.items())


def _contains(outer: Intervals, inner: Intervals) -> bool:
    for name, interval in outer.items():
        other = inner.get(name)
        if other is None or other.low < interval.low or interval.high < other.high:
            return False
    return True


def _are_near(left: Intervals, right: Intervals) -> bool:
    """Whether two boxes share points."""
    return all(
        interval.low < right[name].high and right[name].low < interval.high
        for name, interval in left.items()
        if name in right
    )


def _are_covering(boxes: Sequence[Intervals], other: Intervals) -> bool:
    """Whether every point of another box is in one of the boxes. Where that takes long to find, the answer is no."""
    uncovered = [other]
    for box in boxes:
        uncovered = [piece for part in uncovered for piece in _outside(part, box)]
        if not uncovered or len(uncovered) > _PIECES_MAX:
            break
    return not uncovered


def _outside(part: Intervals, box: Intervals) -> Iterator[Intervals]:
    """The part without a box, in disjoint pieces: at most one below it and one above it on each attribute."""
    if not _are_near(part, box):
        yield part
        return
    rest = dict(part)
    for name, interval in box.items():
        own = rest.get(name, _WHOLE_AXIS)
        if own.low < interval.low:
            yield rest | {name: Interval(own.low, interval.low)}
        if interval.high < own.high:
            yield rest | {name: Interval(interval.high, own.high)}
        rest[name] = Interval(max(own.low, interval.low), min(own.high, interval.high))
