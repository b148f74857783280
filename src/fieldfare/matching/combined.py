"""Residual tests that AND and OR combine: what is left of a condition that would have too many boxes.

A test is a tree whose leaves are sets of intervals, comparisons and LIKEs. As in the index, an attribute's values are
replaced by slots (see axis.py), once for a batch; a leaf is then a search in a short list of slots. Every part of a
tree is asked only about the events that the parts before it have left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, Cuts
from fieldfare.matching.axis import NULL_SLOT, Axis, Slots
from fieldfare.matching.batch import Batch
from fieldfare.matching.derived_slots import slots_of
from fieldfare.matching.evaluation import computed, computed_for
from fieldfare.matching.operands import Mask
from fieldfare.matching.residual_groups import Group, Places, group_of, grouped, shape_of
from fieldfare.model import AllOf, AnyOf, AxisKey, CombinedTest, DerivedWithin, Interval, Test, Within

_FEW_ROWS_RATIO = 4  # an expression is computed for a whole batch if it is needed for more than so small a part of it


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The slots of a set of intervals: from bounds[0] up to bounds[1], from bounds[2] up to bounds[3], and so on."""

    axis: AxisKey
    bounds: Slots


@dataclass(frozen=True, slots=True)
class _Branch:
    """All of the parts, or any of them."""

    parts: tuple[_Node, ...]
    is_all: bool


_Node = _Leaf | _Branch | Group


class CombinedTests:
    """Some combined tests, by number."""

    def __init__(self, tests: Sequence[CombinedTest]) -> None:
        sets: dict[AxisKey, dict[tuple[Interval, ...], None]] = {}
        for within in _withins(tests):
            sets.setdefault(_axis_of(within), {})[within.intervals] = None
        self._axes: dict[AxisKey, Axis] = {}
        self._bounds: dict[tuple[AxisKey, tuple[Interval, ...]], Slots] = {}
        for key, found in sets.items():
            self._place(key, list(found))
        self._nodes = [self._node(test) for test in tests]

    def holds(self, rows: Places, tests: Places, batch: Batch) -> Mask:
        """Whether test `tests[i]` holds for event `rows[i]`, for every i; of a range, whether it can hold."""
        held = np.zeros(len(rows), np.bool_)
        events = _Events(batch, self._axes)
        for number, pairs in grouped(tests):
            held[pairs] = events.hold(self._nodes[number], rows[pairs])
        return held

    def _place(self, key: AxisKey, sets: list[tuple[Interval, ...]]) -> None:
        """Make an axis, and find the slots of the sets on it."""
        intervals = [interval for intervals in sets for interval in intervals]
        low, high = (
            Cuts.of([interval.low for interval in intervals]),
            Cuts.of([interval.high for interval in intervals]),
        )
        axis = self._axes[key] = Axis.of(AxisColumn(np.arange(len(intervals), dtype=np.int32), low, high))
        bounds = np.stack([axis.slots_of_cuts(low), axis.slots_of_cuts(high)], axis=1).reshape(-1)
        start = 0
        for some in sets:
            end = start + 2 * len(some)
            self._bounds[key, some] = bounds[start:end]
            start = end

    def _node(self, test: Test) -> _Node:
        if isinstance(test, AllOf | AnyOf):
            return _Branch(tuple(map(self._node, test.tests)), isinstance(test, AllOf))
        if isinstance(test, Within | DerivedWithin):
            return _Leaf(_axis_of(test), self._bounds[_axis_of(test), test.intervals])
        shape, literals = shape_of(test)
        return group_of(shape, [literals])


def _axis_of(test: Within | DerivedWithin) -> AxisKey:
    return test.attribute if isinstance(test, Within) else test.axis


def _withins(tests: Iterable[Test]) -> Iterable[Within | DerivedWithin]:
    for test in tests:
        if isinstance(test, Within | DerivedWithin):
            yield test
        elif isinstance(test, AllOf | AnyOf):
            yield from _withins(test.tests)


class _Events:
    """A batch, with the slots of the attributes that were asked about."""

    def __init__(self, batch: Batch, axes: dict[AxisKey, Axis]) -> None:
        self._batch = batch
        self._axes = axes
        self._slots: dict[str, tuple[Slots, Slots]] = {}

    def hold(self, node: _Node, rows: Places) -> Mask:
        """Whether a test holds for each of some events."""
        if isinstance(node, _Leaf):
            return _meets(node.bounds, *self._slots_at(node.axis, rows))
        if isinstance(node, Group):
            return node.holds(rows, np.zeros(len(rows), np.int64), self._batch)
        held = np.full(len(rows), node.is_all, np.bool_)
        undecided = np.arange(len(rows))
        for part in node.parts:
            if not len(undecided):
                break
            decided = self.hold(part, rows[undecided]) != node.is_all
            held[undecided[decided]] = not node.is_all
            undecided = undecided[~decided]
        return held

    def _slots_at(self, key: AxisKey, rows: Places) -> tuple[Slots, Slots]:
        """The slots of some events; of few, an expression is computed for these alone."""
        if isinstance(key, str):
            low, high = self._slots_of(key)
            return low[rows], high[rows]
        axis = self._axes[key]
        if key in self._batch.computed or len(rows) * _FEW_ROWS_RATIO > self._batch.rows:
            low, high = slots_of(axis, computed(key, self._batch), self._batch.rows)
            return low[rows], high[rows]
        distinct, back = np.unique(rows, return_inverse=True)
        low, high = slots_of(axis, computed_for(key, self._batch, distinct), self._batch.rows)
        return low[distinct][back], high[distinct][back]

    def _slots_of(self, attribute: str) -> tuple[Slots, Slots]:
        """The slots of the lowest and the highest point of each event's value."""
        if attribute not in self._slots:
            axis = self._axes[attribute]
            low = np.full(self._batch.rows, NULL_SLOT, np.int32)
            high = low.copy()
            for piece in self._batch.columns.get(attribute, ()):
                rows = slice(None) if piece.rows is None else piece.rows
                low[rows] = high[rows] = axis.slots_of_values(piece.section, piece.low)
                if piece.high is not None:
                    high[rows] = axis.slots_of_values(piece.section, piece.high)
            self._slots[attribute] = low, high
        return self._slots[attribute]


def _meets(bounds: Slots, low: Slots, high: Slots) -> Mask:
    """Whether some slot from `low` to `high` lies between the bounds: inside, an odd number of them is at or below."""
    first, last = (np.searchsorted(bounds, slots, side="right") for slots in (low, high))
    met: npt.NDArray[np.bool_] = (first % 2 == 1) | (last > first)
    return met
