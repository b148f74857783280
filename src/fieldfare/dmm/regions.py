"""Regions of a space: cells of a recursive halving, along one axis after the other, and what lies in them.

A grid says which axis each bit of a z-code halves: the axes take turns, and one whose bits are used up is passed over.
What subscriptions and events occupy are *extents*, a range of codes on each axis. Whether an extent touches a region is
a comparison of ranges on each axis. Comparing z-codes would not do: an extent that crosses the middle of the first
axis has the empty code, and yet touches few regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from fieldfare.dmm.axis_codes import CodedAxis, CodeRange
from fieldfare.dmm.zcodes import ZCode
from fieldfare.matching.rows import cuts_of
from fieldfare.model import Box

Extent = tuple[CodeRange, ...]  # a range of codes on each axis of a grid
Target = tuple[Extent, ...]  # what a subscription wants of a space, or where an event lies: some extents together


class Grid:
    """The regions of the space of some attributes."""

    def __init__(self, attributes: Sequence[str], axes: Sequence[CodedAxis]) -> None:
        self.attributes = tuple(attributes)
        self.axes = tuple(axes)
        self.turns = tuple(_turns([axis.bits for axis in axes]))  # the number of the axis that each bit halves
        self.bits = len(self.turns)  # of a whole z-code
        self._whole: Extent = tuple((0, (1 << axis.bits) - 1) for axis in axes)

    # Regions

    def cell(self, region: ZCode) -> Extent:
        """What a region holds: a range of codes on each axis."""
        values, widths = [0] * len(self.axes), [axis.bits for axis in self.axes]
        for axis, digit in zip(self.turns, region, strict=False):
            values[axis] = values[axis] << 1 | (digit == "1")
            widths[axis] -= 1
        return tuple((value << width, (value + 1 << width) - 1) for value, width in zip(values, widths, strict=True))

    def touches(self, region: ZCode, target: Target) -> bool:
        """Whether some point of the target lies in a region."""
        cell = self.cell(region)
        return any(are_meeting(cell, extent) for extent in target)

    def code_of_point(self, codes: Sequence[int]) -> ZCode:
        """The whole z-code of one point."""
        digits = [iter(f"{code:0{axis.bits}b}") for code, axis in zip(codes, self.axes, strict=True)]
        return "".join([next(digits[axis]) for axis in self.turns])

    def enclosing(self, target: Target) -> ZCode:
        """The smallest region that holds a target, which has an extent at least."""
        first = self.code_of_point([min(extent[axis][0] for extent in target) for axis in range(len(self.axes))])
        last = self.code_of_point([max(extent[axis][1] for extent in target) for axis in range(len(self.axes))])
        shared = takewhile(lambda digits: digits[0] == digits[1], zip(first, last, strict=True))
        return "".join(digit for digit, _ in shared)

    def corner(self, region: ZCode, target: Target) -> ZCode | None:
        """The whole z-code of a point of the target in a region; None where they share none."""
        cell = self.cell(region)
        for extent in target:
            if are_meeting(cell, extent):
                return self.code_of_point([max(own[0], other[0]) for own, other in zip(cell, extent, strict=True)])
        return None

    # What lies in them

    def extent_of_box(self, box: Box) -> Extent:
        """Where a box lies; on attributes that it does not constrain, everywhere."""
        return tuple(
            axis.codes_of(box.intervals[name]) if name in box.intervals else whole
            for name, axis, whole in zip(self.attributes, self.axes, self._whole, strict=True)
        )

    def target_of_boxes(self, boxes: Iterable[Box]) -> Target:
        """Where the boxes of a subscription lie."""
        return tuple(dict.fromkeys(map(self.extent_of_box, boxes)))

    def hull(self, target: Target) -> Extent:
        """The smallest extent around a target, which has one at least."""
        sides = zip(*target, strict=True)
        return tuple((min(low for low, _ in side), max(high for _, high in side)) for side in sides)

    def target_of_event(self, event: Mapping[str, Any]) -> Target:
        """Where an event lies. A range is an extent too; an attribute that the event does not have is NULL there."""
        ranges = []
        for name, axis in zip(self.attributes, self.axes, strict=True):
            low, high = cuts_of(event.get(name), name)
            code = axis.code_of(low)
            ranges.append((code, code if low is high else axis.code_of(high)))
        return (tuple(ranges),)


def are_meeting(one: Extent, other: Extent) -> bool:
    """Whether two extents share points."""
    return all(low <= last and first <= high for (low, high), (first, last) in zip(one, other, strict=True))


def _turns(bits: Sequence[int]) -> Iterator[int]:
    for turn in range(max(bits, default=0)):
        yield from (axis for axis, count in enumerate(bits) if turn < count)
