"""Few boxes that together take at least what many boxes take: the hulls of groups.

Whatever the groups are, nothing is missed: a hull reaches from the lowest to the highest cut of its boxes, and
constrains only what all of them constrain. How the groups are chosen (see box_groups.py) decides how much is taken in
vain. That needs a guess of which values events have: half of it is the number of cuts that lie between two values,
because conditions are many where values are, and half of it, for numbers and times, is the distance between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, BoxTable
from fieldfare.matching.axis import Axis, Slots
from fieldfare.model import Box, Interval, Section
from fieldfare.partitioning.box_groups import Labels, Places, inside_of, merge_groups, split_groups

_MEASURED_ATTRIBUTES_MAX = 64  # by which groups are chosen; the time grows with their square
_COMPARED_PER_BOX = 4  # boxes in which others are sought, for each box that is allowed
_MERGED_PER_BOX, _MERGED_MIN = (
    2,
    1_024,
)  # groups that are merged from below: better groups than by splitting, but slower
_MERGED_QUICKLY = 1_024  # groups up to which four are merged for each that is to be left; beyond it, two
_MERGED_MAX = 4_096  # time and memory grow with the square: where two are more than this, groups are only split
_SPAN_MIN = 1e-290  # numbers that are closer together are told apart only by their count: floats are hardly exact there
_MISSING_SHARE = 0.5  # of the boxes that do not ask for an attribute, as a guess of the events that do not have it


@dataclass(frozen=True, slots=True)
class _Column:
    """One attribute's intervals, as the numbers of the slots at which they begin and end."""

    attribute: str
    axis: Axis
    boxes: npt.NDArray[np.int32]
    low: Slots
    high: Slots

    @staticmethod
    def of(attribute: str, column: AxisColumn) -> _Column:
        axis = Axis.of(column)
        return _Column(attribute, axis, column.boxes, axis.slots_of_cuts(column.low), axis.slots_of_cuts(column.high))

    @property
    def end(self) -> int:
        """The slot after the last."""
        return self.axis.last_slot + 1


def few_boxes(table: BoxTable, boxes_max: int) -> tuple[Box, ...]:
    """At most `boxes_max` boxes that take all that the table's boxes take. Residual tests are dropped.

    They take nothing else, if the table has not more boxes than that which lie in no other.
    """
    if not len(table):
        return ()
    columns = [_Column.of(attribute, column) for attribute, column in sorted(table.axes.items())]
    return _hulls(columns, _grouped(columns, len(table), boxes_max))


def _hulls(columns: list[_Column], labels: Labels) -> tuple[Box, ...]:
    sizes = np.bincount(labels)
    hulls: list[dict[str, Interval]] = [{} for _ in sizes]
    for column in columns:
        groups = labels[column.boxes]
        low, high = np.full(len(sizes), column.end), np.zeros(len(sizes), np.int64)
        np.minimum.at(low, groups, column.low)
        np.maximum.at(high, groups, column.high)
        asked_by_all = np.bincount(groups, minlength=len(sizes)) == sizes
        chosen = np.flatnonzero(asked_by_all & ((low > 0) | (high < column.end)))
        lows, highs = column.axis.cuts_at(low[chosen]).listed(), column.axis.cuts_at(high[chosen]).listed()
        for group, first, last in zip(chosen.tolist(), lows, highs, strict=True):
            hulls[group][column.attribute] = Interval(first, last)
    return tuple(map(Box, hulls))


# Choosing groups


def _grouped(columns: list[_Column], boxes: int, boxes_max: int) -> Labels:
    """The group of each box. A box that lies in another is in its group, whose hull it does not change."""
    lows, highs = _places(columns, boxes)
    every = np.arange(boxes)
    is_measured = lows.shape[1] == len(columns)
    outer = inside_of(lows, highs, _COMPARED_PER_BOX * boxes_max) if is_measured else every
    outermost = np.flatnonzero(outer == every)
    labels = np.empty(boxes, np.int64)
    labels[outermost] = _split_and_merged(lows[outermost], highs[outermost], boxes_max)
    return labels[outer]


def _split_and_merged(lows: Places, highs: Places, groups_max: int) -> Labels:
    if len(lows) <= groups_max:
        return np.arange(len(lows))
    if 2 * groups_max > _MERGED_MAX:
        return split_groups(lows, highs, groups_max)
    merged_max = min(4 * groups_max, max(2 * groups_max, _MERGED_QUICKLY))
    if len(lows) <= merged_max:
        return merge_groups(lows, highs, groups_max)
    labels = split_groups(lows, highs, merged_max)
    groups = int(labels.max()) + 1
    hull_lows, hull_highs = np.ones((groups, lows.shape[1])), np.zeros((groups, lows.shape[1]))
    np.minimum.at(hull_lows, labels, lows)
    np.maximum.at(hull_highs, labels, highs)
    return merge_groups(hull_lows, hull_highs, groups_max)[labels]


def _places(columns: list[_Column], boxes: int) -> tuple[Places, Places]:
    """Where each box begins and ends, from 0 to 1, on the attributes that most boxes ask for."""
    measured = sorted(columns, key=lambda column: -len(column.boxes))[:_MEASURED_ATTRIBUTES_MAX]
    lows, highs = np.zeros((boxes, len(measured))), np.ones((boxes, len(measured)))
    for number, column in enumerate(measured):
        places = _places_of_slots(column.axis, _MISSING_SHARE * (1.0 - len(column.boxes) / boxes))
        lows[column.boxes, number] = places[column.low]
        highs[column.boxes, number] = places[column.high]
    return lows, highs


def _places_of_slots(axis: Axis, missing_share: float) -> npt.NDArray[np.float64]:
    """Where each slot begins, from 0 to 1, and at last where the last one ends: ascending, and no two alike."""
    slots = axis.last_slot + 1
    places = np.empty(slots + 1)
    places[0] = 0.0
    places[1:] = np.linspace(max(missing_share, 1.0 / slots), 1.0, slots)
    for section, values in ((Section.NUMBER, axis.numbers), (Section.TIME, axis.times)):
        finite = values[np.isfinite(values)] / 2  # halves: the span may be too long for a float
        if len(finite) < 2 or finite[-1] - finite[0] < _SPAN_MIN:
            continue
        shares = (np.clip(values / 2, finite[0], finite[-1]) - finite[0]) / (finite[-1] - finite[0])
        start = axis.starts[section] + 1
        by_count = places[start : start + len(values)]
        by_distance = by_count[0] + (by_count[-1] - by_count[0]) * shares
        places[start : start + len(values)] = (by_count + by_distance) / 2
    return places


def warm_up() -> None:
    """Call every kernel once: a machine's first time compiles them."""
    lows, highs = np.array([[0.0], [0.5]]), np.array([[0.5], [1.0]])
    inside_of(lows, highs, 2)
    split_groups(lows, highs, 2)
    merge_groups(lows, highs, 1)
