"""A few boxes that come and go, matched one event at a time: what is cheapest while they are few.

A box is a bit. The cuts of the boxes divide each attribute's axis into slots, as everywhere in the index; here every
slot has a mask, an integer of Python with the bits of the boxes that take the slot's values. An event's value is found
among the cuts by bisection, and the event satisfies the boxes that are in the masks of all attributes. That is a
microsecond for each attribute, without an array; but a mask grows with the boxes, so this is only for some hundreds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain, compress
from operator import or_
from typing import Any, TypeVar

import numpy as np

from fieldfare.boxes import AxisColumn, BoxTable
from fieldfare.language.scalars import cut_of
from fieldfare.matching.batch import Piece, Values
from fieldfare.matching.evaluation import computed
from fieldfare.matching.masked_members import MaskedMembers
from fieldfare.matching.passing import attributes_of, can_judge, names_on, passes
from fieldfare.matching.residual import Residuals
from fieldfare.matching.rows import NAN_CUT, Event, batch_of_rows, cuts_of, point_of
from fieldfare.model import MISSING, Box, Cut, Derived, Interval, Section, SubscriptionId, Test

_FEW_BITS = 12  # up to so many, bits are taken out one by one
_FEW_TESTED = 16  # up to so many boxes have their residual tests judged one by one
_BIT_OF_DIGIT = bytes.maketrans(b"01", b"\x00\x01")


class _MaskedAxis:
    """The cuts on one attribute, ascending; masks[i] are the boxes that take the values above i of the cuts."""

    __slots__ = ("cuts", "free", "masks")

    def __init__(self, free: int) -> None:
        self.cuts: list[Cut] = []
        self.masks = [0]
        self.free = free  # the boxes that do not constrain the attribute

    @staticmethod
    def of(column: AxisColumn, box_count: int) -> _MaskedAxis:
        """The axis of a column of intervals; the box in row i of its table is bit i."""
        changes: dict[Cut, int] = {}
        constrained = 0
        for box, low, high in zip(column.boxes.tolist(), column.low.listed(), column.high.listed(), strict=True):
            bit = 1 << box
            constrained |= bit
            changes[low] = changes.get(low, 0) ^ bit
            changes[high] = changes.get(high, 0) ^ bit
        axis = _MaskedAxis(((1 << box_count) - 1) & ~constrained)
        axis.cuts = sorted(changes)
        mask = 0
        for cut in axis.cuts:
            mask ^= changes[cut]
            axis.masks.append(mask)
        return axis

    def insert(self, low: Cut, high: Cut, bit: int) -> None:
        """A box takes the values between two cuts."""
        first, end = self._slot_above(low), self._slot_above(high)
        masks = self.masks
        masks[first:end] = [mask | bit for mask in masks[first:end]]

    def _slot_above(self, cut: Cut) -> int:
        """The slot that begins at a cut, which becomes one of the axis's if it is new."""
        at = bisect_left(self.cuts, cut)
        if at == len(self.cuts) or self.cuts[at] != cut:
            self.cuts.insert(at, cut)
            self.masks.insert(at, self.masks[at])
        return at + 1

    def meeting(self, low: Cut, high: Cut) -> int:
        """The boxes that take some value from `low` to `high`."""
        first, last = bisect_right(self.cuts, low), bisect_right(self.cuts, high)
        return reduce(or_, self.masks[first : last + 1], self.free)

    def containing(self, low: Cut, high: Cut) -> int:
        """The boxes that take every value between two cuts: those that take the first and the last."""
        return self.masks[bisect_right(self.cuts, low)] & self.masks[bisect_left(self.cuts, high)] | self.free


class BoxMasks:
    """The boxes of some subscriptions. Owners are listed in the order they were added in."""

    __slots__ = (
        "_alive",
        "_axes",
        "_bits",
        "_derived",
        "_members",
        "_owners",
        "_residuals",
        "_several",
        "_tested",
        "_tests",
    )

    def __init__(self) -> None:
        self._axes: dict[str, _MaskedAxis] = {}
        self._derived: dict[Derived, _MaskedAxis] = {}
        self._members = MaskedMembers()
        self._owners: list[SubscriptionId] = []  # of each bit
        self._bits: dict[SubscriptionId, int] = {}  # of each owner
        self._alive = 0
        self._several = False  # an owner may have several boxes
        self._tested = 0  # the boxes with residual tests
        self._tests: dict[int, tuple[Test, ...]] = {}  # by bit
        self._residuals: Residuals | None = None  # those tests; None: they have changed since

    @staticmethod
    def of(table: BoxTable, ids: Sequence[SubscriptionId]) -> BoxMasks:
        """The boxes of a table; an owner i there is the subscription `ids[i]`."""
        table = table.take(np.argsort(table.owners, kind="stable"))
        masks = BoxMasks()
        masks._axes = {name: _MaskedAxis.of(column, len(table)) for name, column in table.axes.items()}
        masks._derived = {axis: _MaskedAxis.of(column, len(table)) for axis, column in table.derived.items()}
        masks._members = MaskedMembers.of(table)
        masks._owners = [ids[owner] for owner in table.owners.tolist()]
        for number, owner in enumerate(masks._owners):
            masks._bits[owner] = masks._bits.get(owner, 0) | 1 << number
        masks._alive = (1 << len(table)) - 1
        masks._several = len(masks._bits) < len(table)
        masks._tests = dict(table.tests)
        masks._tested = sum(1 << box for box in table.tests)
        return masks

    @property
    def box_count(self) -> int:
        """How many boxes there are, those of removed owners included: what time and memory grow with."""
        return len(self._owners)

    def add(self, owner: SubscriptionId, boxes: Iterable[Box]) -> None:
        """Add a subscription, which must be new."""
        before = len(self._owners)
        for box in boxes:
            self._add_box(owner, box)
        self._bits[owner] = (1 << len(self._owners)) - (1 << before)
        self._alive |= self._bits[owner]
        self._several |= len(self._owners) > before + 1

    def _add_box(self, owner: SubscriptionId, box: Box) -> None:
        number = len(self._owners)
        bit = 1 << number
        _insert(self._axes, box.intervals, bit)
        if self._derived or box.derived:
            _insert(self._derived, box.derived, bit)
        if box.members:
            self._members.insert(box.members, bit)
        if box.tests:
            self._tests[number] = box.tests
            self._tested |= bit
            self._residuals = None
        self._owners.append(owner)

    def remove(self, owner: SubscriptionId) -> bool:
        """Forget a subscription; whether it was there."""
        bits = self._bits.pop(owner, None)
        if bits is None:
            return False
        self._alive &= ~bits
        return True

    def match(self, event: Event) -> list[Any]:
        """The subscriptions that an event satisfies, each once."""
        found = self._alive
        for name, axis in self._axes.items():
            low, high = cuts_of(event.get(name), name)
            if low is high:
                found &= axis.masks[bisect_right(axis.cuts, low)] | axis.free
            else:
                found &= axis.meeting(low, high)
        if self._members and found:
            found = self._members.satisfied(found, event)
        if self._derived and found:
            found = self._within_derived(found, event)
        if found & self._tested:
            found ^= self._failing(found & self._tested, event)
        if not found:
            return []
        owners = _chosen(self._owners, found)
        return list(dict.fromkeys(owners)) if self._several else owners

    def _within_derived(self, found: int, event: Event) -> int:
        """Those of some boxes whose intervals on expressions hold; only what decides about a box is computed."""
        points: dict[str, tuple[Section, Any]] = {}
        ranged: set[str] = set()
        for key, axis in self._derived.items():
            if not found & ~axis.free:
                continue
            names = names_on(key)
            for name in names:
                if name not in points:
                    low, high = cuts_of(event.get(name), name)
                    points[name] = low if low is not NAN_CUT else point_of(event[name], name)
                    if low is not high:
                        ranged.add(name)
            if ranged and not ranged.isdisjoint(names):
                found &= _meeting_ranges(axis, key, event)
            else:
                found &= axis.masks[bisect_right(axis.cuts, cut_of(key, points))] | axis.free
            if not found:
                break
        return found

    def has_box_around(self, intervals: Mapping[str, Interval]) -> bool:
        """Whether one box takes all that lies in these intervals; residual tests do not count."""
        found = self._alive
        for name, axis in self._axes.items():
            interval = intervals.get(name)
            found &= axis.free if interval is None else axis.containing(interval.low, interval.high)
        return found != 0

    def owners_near(self, intervals: Mapping[str, Interval]) -> list[Any]:
        """The owner of each box that shares points with these intervals, or touches them: one for each box."""
        found = self._alive
        for name, interval in intervals.items():
            axis = self._axes.get(name)
            if axis is not None:
                found &= axis.meeting(interval.low, interval.high)
        return _chosen(self._owners, found)

    def _failing(self, tested: int, event: Event) -> int:
        """Those of some boxes whose residual tests the event does not pass."""
        boxes = _chosen(range(len(self._owners)), tested)
        held = self._held_singly(boxes, event) if len(boxes) <= _FEW_TESTED else None
        if held is None:
            self._residuals = self._residuals or Residuals.of(self._tests)
            batch = batch_of_rows([event], self._residuals.attributes)
            rows, places = np.zeros(len(boxes), np.int64), np.array(boxes, np.int32)
            held = self._residuals.holds(rows, places, batch).tolist()
        return sum(1 << box for box, holds in zip(boxes, held, strict=True) if not holds)

    def _held_singly(self, boxes: Sequence[int], event: Event) -> list[bool] | None:
        """Whether each of a few boxes passes its tests; None where that takes columns."""
        tests = [self._tests[box] for box in boxes]
        points: dict[str, tuple[Section, Any]] = {}
        for name in attributes_of(chain.from_iterable(tests)):
            low, high = cuts_of(event.get(name), name)
            points[name] = low if low is not NAN_CUT else point_of(event[name], name)
            if low is not high:
                return None
        if not all(map(can_judge, chain.from_iterable(tests))):
            return None
        return [all(passes(test, points) for test in some) for some in tests]


_Key = TypeVar("_Key", str, Derived)


def _insert(axes: dict[_Key, _MaskedAxis], intervals: Mapping[_Key, Interval], bit: int) -> None:
    """A new box, the last of all, takes what its intervals say."""
    for key in intervals.keys() - axes.keys():
        axes[key] = _MaskedAxis(bit - 1)
    for key, axis in axes.items():
        interval = intervals.get(key)
        if interval is None:
            axis.free |= bit
        else:
            axis.insert(interval.low, interval.high, bit)


def _meeting_ranges(axis: _MaskedAxis, key: Derived, event: Event) -> int:
    """The boxes that take a value that an expression may have, where attributes are ranges."""
    values = computed(key, batch_of_rows([event], names_on(key)))
    if len(values.anything):
        return reduce(or_, axis.masks, axis.free)
    for piece in values.pieces:
        return axis.meeting(_cut(piece, piece.low), _cut(piece, piece.low if piece.high is None else piece.high))
    return axis.meeting(MISSING.low, MISSING.low)


def _cut(piece: Piece, values: Values) -> Cut:
    return piece.section, values.numbers[0].item() if values.texts is None else values.texts[0]


def _chosen(items: Sequence[Any], bits: int) -> list[Any]:
    """The items whose bits are set."""
    if bits.bit_count() > _FEW_BITS:
        return list(compress(items, f"{bits:b}"[::-1].encode().translate(_BIT_OF_DIGIT)))
    chosen = []
    while bits:
        lowest = bits & -bits
        chosen.append(items[lowest.bit_length() - 1])
        bits ^= lowest
    return chosen
