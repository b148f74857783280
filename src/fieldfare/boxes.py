"""Boxes in columns: what conditions compile to in bulk, and what an index is built from.

A table holds each attribute's intervals as one column of low cuts and one of high cuts, only for the boxes
that constrain that attribute, so that a million boxes are a few NumPy arrays and no Python objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fieldfare.model import Condition, Cut, Derived, Section, Test

_SECTIONS = tuple(Section)


@dataclass(frozen=True, slots=True)
class Cuts:
    """A column of cuts: their sections, and their values as float64, or as Python objects where not all are floats."""

    sections: npt.NDArray[np.uint8]
    values: npt.NDArray[Any]  # float64 where every section is NUMBER and no value is a large integer; else object

    @staticmethod
    def numbers(values: npt.NDArray[np.float64]) -> Cuts:
        """Cuts at floats, all in the section of numbers."""
        return Cuts(np.broadcast_to(np.uint8(Section.NUMBER), len(values)), values)

    @staticmethod
    def of(cuts: Sequence[Cut]) -> Cuts:
        """Cuts of any sections."""
        sections = np.fromiter((cut[0] for cut in cuts), np.uint8, len(cuts))
        if all(type(cut[1]) is float for cut in cuts):
            return Cuts(sections, np.fromiter((cut[1] for cut in cuts), np.float64, len(cuts)))
        values = np.empty(len(cuts), object)
        values[:] = [cut[1] for cut in cuts]
        return Cuts(sections, values)

    def take(self, positions: npt.NDArray[Any]) -> Cuts:
        """Some of the cuts."""
        return Cuts(self.sections[positions], self.values[positions])

    def listed(self) -> list[Cut]:
        """The cuts one by one."""
        sections = [_SECTIONS[section] for section in self.sections.tolist()]
        return list(zip(sections, self.values.tolist(), strict=True))

    @staticmethod
    def concatenated(parts: Sequence[Cuts]) -> Cuts:
        """All the parts' cuts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        floats = all(part.values.dtype == np.float64 for part in parts)
        values = [part.values if floats else part.values.astype(object) for part in parts]
        return Cuts(np.concatenate([part.sections for part in parts]), np.concatenate(values))


@dataclass(frozen=True, slots=True)
class AxisColumn:
    """The intervals on one attribute, for the boxes that constrain it."""

    boxes: npt.NDArray[np.int32]  # a box stands at most once
    low: Cuts
    high: Cuts


@dataclass(frozen=True, slots=True)
class MemberColumn:
    """The members that boxes ask of one list; a box may stand several times, and needs them all."""

    boxes: npt.NDArray[np.int32]
    values: Cuts


@dataclass(frozen=True, slots=True)
class BoxTable:
    """Boxes of many subscriptions. Box i belongs to subscription `owners[i]`."""

    owners: npt.NDArray[np.int32]
    axes: Mapping[str, AxisColumn]
    overlapping: npt.NDArray[np.bool_]  # the box's subscription has another box that shares points with it
    tests: Mapping[int, tuple[Test, ...]] = field(default_factory=dict)  # residual tests, by box
    derived: Mapping[Derived, AxisColumn] = field(default_factory=dict)  # the intervals on expressions
    members: Mapping[Derived, MemberColumn] = field(default_factory=dict)  # by the expression that gives the list

    def __len__(self) -> int:
        return len(self.owners)

    def take(self, boxes: npt.NDArray[Any]) -> BoxTable:
        """Some of the boxes, each at most once, numbered by their place in `boxes`; owners keep their numbers."""
        places = np.full(len(self), -1, np.int32)
        places[boxes] = np.arange(len(boxes), dtype=np.int32)
        tests = {int(places[box]): tests for box, tests in self.tests.items() if places[box] >= 0}
        axes, derived = _moved(self.axes, places), _moved(self.derived, places)
        members = _moved_members(self.members, places)
        return BoxTable(self.owners[boxes], axes, self.overlapping[boxes], tests, derived, members)

    @staticmethod
    def from_conditions(conditions: Sequence[Condition], owners: Sequence[int]) -> BoxTable:
        """The boxes of `conditions`; condition i belongs to subscription `owners[i]`."""
        box_owners: list[int] = []
        overlapping: list[bool] = []
        tests: dict[int, tuple[Test, ...]] = {}
        columns: dict[str, _Lists] = {}
        derived: dict[Derived, _Lists] = {}
        members: dict[Derived, tuple[list[int], list[Cut]]] = {}
        for condition, owner in zip(conditions, owners, strict=True):
            for box in condition.boxes:
                number = len(box_owners)
                box_owners.append(owner)
                overlapping.append(not condition.disjoint)
                if box.tests:
                    tests[number] = box.tests
                for attribute, interval in box.intervals.items():
                    boxes, lows, highs = columns.setdefault(attribute, ([], [], []))
                    boxes.append(number)
                    lows.append(interval.low)
                    highs.append(interval.high)
                for member in box.members:
                    member_boxes, values = members.setdefault(member.lists, ([], []))
                    member_boxes.append(number)
                    values.append(member.value)
                for axis, interval in box.derived.items():
                    boxes, lows, highs = derived.setdefault(axis, ([], [], []))
                    boxes.append(number)
                    lows.append(interval.low)
                    highs.append(interval.high)
        owned, is_overlapping = np.array(box_owners, np.int32), np.array(overlapping, np.bool_)
        in_columns = {
            lists: MemberColumn(np.array(boxes, np.int32), Cuts.of(values))
            for lists, (boxes, values) in members.items()
        }
        return BoxTable(owned, _listed_columns(columns), is_overlapping, tests, _listed_columns(derived), in_columns)

    @staticmethod
    def concatenated(parts: Sequence[BoxTable]) -> BoxTable:
        """All the parts' boxes, one after the other, each with the owner it has."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part) for part in parts)])
        columns: dict[str, list[AxisColumn]] = {}
        derived: dict[Derived, list[AxisColumn]] = {}
        members: dict[Derived, list[MemberColumn]] = {}
        tests: dict[int, tuple[Test, ...]] = {}
        for start, part in zip(starts.tolist(), parts, strict=False):
            tests.update({start + box: box_tests for box, box_tests in part.tests.items()})
            for attribute, column in part.axes.items():
                moved = AxisColumn(column.boxes + np.int32(start), column.low, column.high)
                columns.setdefault(attribute, []).append(moved)
            for axis, column in part.derived.items():
                moved = AxisColumn(column.boxes + np.int32(start), column.low, column.high)
                derived.setdefault(axis, []).append(moved)
            for lists, some in part.members.items():
                members.setdefault(lists, []).append(MemberColumn(some.boxes + np.int32(start), some.values))
        owners = np.concatenate([np.empty(0, np.int32), *(part.owners for part in parts)])
        overlapping = np.concatenate([np.empty(0, np.bool_), *(part.overlapping for part in parts)])
        return BoxTable(owners, _joined(columns), overlapping, tests, _joined(derived), _joined_members(members))


_Key = TypeVar("_Key", str, Derived)
_Lists = tuple[list[int], list[Cut], list[Cut]]  # boxes, low cuts, high cuts


def _moved_members(
    members: Mapping[Derived, MemberColumn], places: npt.NDArray[np.int32]
) -> dict[Derived, MemberColumn]:
    moved = {}
    for lists, column in members.items():
        chosen = np.flatnonzero(places[column.boxes] >= 0)
        if len(chosen):
            moved[lists] = MemberColumn(places[column.boxes[chosen]], column.values.take(chosen))
    return moved


def _joined_members(members: Mapping[Derived, Sequence[MemberColumn]]) -> dict[Derived, MemberColumn]:
    return {
        lists: MemberColumn(
            np.concatenate([column.boxes for column in columns]),
            Cuts.concatenated([column.values for column in columns]),
        )
        for lists, columns in members.items()
    }


def _moved(axes: Mapping[_Key, AxisColumn], places: npt.NDArray[np.int32]) -> dict[_Key, AxisColumn]:
    """The columns with the boxes that have a new place, at those."""
    moved = {}
    for axis, column in axes.items():
        chosen = np.flatnonzero(places[column.boxes] >= 0)
        if len(chosen):
            boxes = places[column.boxes[chosen]]
            moved[axis] = AxisColumn(boxes, column.low.take(chosen), column.high.take(chosen))
    return moved


def _listed_columns(axes: Mapping[_Key, _Lists]) -> dict[_Key, AxisColumn]:
    return {
        axis: AxisColumn(np.array(boxes, np.int32), Cuts.of(lows), Cuts.of(highs))
        for axis, (boxes, lows, highs) in axes.items()
    }


def _joined(axes: Mapping[_Key, Sequence[AxisColumn]]) -> dict[_Key, AxisColumn]:
    return {
        axis: AxisColumn(
            np.concatenate([column.boxes for column in pieces]),
            Cuts.concatenated([column.low for column in pieces]),
            Cuts.concatenated([column.high for column in pieces]),
        )
        for axis, pieces in axes.items()
    }
