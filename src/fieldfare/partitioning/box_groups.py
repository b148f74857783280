"""Kernels that put many boxes into few groups, so that the hulls of the groups hold little that no box wants.

A box is a row of lows and a row of highs, one place from 0 to 1 for each attribute; from 0 to 1 is unconstrained. Its
volume guesses the share of the events that it takes. Many boxes are split from the top: always the group whose halves
save the most volume. Some hundred are merged from below: always the two whose hull adds the least volume.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

_BINS = 16  # a group may be split between any two of them, for each key
_SAMPLED_BOXES = 1_024  # of a group, by which its split is chosen
_CENTRE, _WIDTH = 0, 1  # the keys by which a group is split, for each attribute

Places = npt.NDArray[np.float64]  # a row for each box, a column for each attribute
Labels = npt.NDArray[np.int64]  # the group of each box; groups are numbered from 0


def inside_of(lows: Places, highs: Places, compared_max: int) -> npt.NDArray[np.int64]:
    """For each box one that it lies in, or itself. Only `compared_max` of the largest that stay are compared with."""
    larger_first = np.argsort(-np.prod(highs - lows, axis=1), kind="stable")
    return np.asarray(_inside_of(lows, highs, larger_first, compared_max))


def split_groups(lows: Places, highs: Places, groups_max: int) -> Labels:
    """Groups of boxes, split from the top; fewer than `groups_max` where boxes cannot be told apart."""
    boxes = _Boxes(lows, highs, np.arange(len(lows)))
    waiting = [_group(boxes, 0, len(lows))]
    whole: list[_Group] = []  # that cannot be split
    while waiting and len(waiting) + len(whole) < groups_max:
        group = heapq.heappop(waiting)
        middle = _divide(boxes, group.start, group.end, group.split)
        if middle in (group.start, group.end):
            whole.append(group)
            continue
        heapq.heappush(waiting, _group(boxes, group.start, middle))
        heapq.heappush(waiting, _group(boxes, middle, group.end))
    labels = np.empty(len(lows), np.int64)
    for label, group in enumerate(whole + waiting):
        labels[boxes.order[group.start : group.end]] = label
    return labels


def merge_groups(lows: Places, highs: Places, groups_max: int) -> Labels:
    """Groups of boxes, merged from below. Time and memory grow with the square of the number of boxes."""
    merged_into = np.arange(len(lows))
    _merge(lows.copy(), highs.copy(), groups_max, merged_into)
    return np.unique(merged_into, return_inverse=True)[1].astype(np.int64)


@njit(cache=True, nogil=True)
def _is_inside(lows, highs, inner, outer):  # type: ignore[no-untyped-def]
    for attribute in range(lows.shape[1]):
        if lows[inner, attribute] < lows[outer, attribute] or highs[inner, attribute] > highs[outer, attribute]:
            return False
    return True


@njit(cache=True, nogil=True)
def _inside_of(lows, highs, larger_first, compared_max):  # type: ignore[no-untyped-def]
    outer = np.arange(len(larger_first))
    compared = np.empty(min(compared_max, len(larger_first)), np.int64)
    count = 0
    for box in larger_first:
        for place in range(count):
            if _is_inside(lows, highs, box, compared[place]):
                outer[box] = compared[place]
                break
        if outer[box] == box and count < len(compared):
            compared[count] = box
            count += 1
    return outer


# Splitting


class _Boxes(NamedTuple):
    lows: Places
    highs: Places
    order: npt.NDArray[np.int64]  # a group is a part of it


class _Split(NamedTuple):
    attribute: int  # -1: the boxes cannot be told apart
    key: int
    divided_at: float  # the boxes whose key is below are one half


class _Group(NamedTuple):
    minus_saved: float  # the volume that its split saves, negative: what saves the most is split first
    start: int
    end: int
    split: _Split


def _group(boxes: _Boxes, start: int, end: int) -> _Group:
    saved, split = _best_split(boxes, start, end)
    return _Group(-saved, start, end, _Split(*split))


@njit(cache=True, nogil=True, inline="always")
def _key(boxes, box, attribute, key):  # type: ignore[no-untyped-def]
    low, high = boxes.lows[box, attribute], boxes.highs[box, attribute]
    return low + high if key == _CENTRE else high - low


@njit(cache=True, nogil=True)
def _best_split(boxes, start, end):  # type: ignore[no-untyped-def]
    """The volume that the best split of a group saves, and that split."""
    sample = boxes.order[start : end : max(1, (end - start) // _SAMPLED_BOXES)]
    saved, split = -np.inf, (-1, _CENTRE, 0.0)
    for attribute in range(boxes.lows.shape[1]):
        for key in (_CENTRE, _WIDTH):
            least, most = np.inf, -np.inf
            for box in sample:
                value = _key(boxes, box, attribute, key)
                least, most = min(least, value), max(most, value)
            if not least < most:
                continue
            saved_here, divided_at = _best_value(boxes, sample, (attribute, key), least, most)
            if saved_here > saved:
                saved, split = saved_here, (attribute, key, divided_at)
    return saved, split


@njit(cache=True, nogil=True)
def _best_value(boxes, sample, attribute_key, least, most):  # type: ignore[no-untyped-def]
    """The volume that a split by one key saves at its best value, and that value."""
    attribute, key = attribute_key
    attributes = boxes.lows.shape[1]
    hull_lows, hull_highs = np.ones((_BINS, attributes)), np.zeros((_BINS, attributes))
    counts = np.zeros(_BINS, np.int64)
    rate = _BINS / (most - least)
    for box in sample:
        at = min(_BINS - 1, int((_key(boxes, box, attribute, key) - least) * rate))
        counts[at] += 1
        _enlarge(hull_lows[at], hull_highs[at], boxes.lows[box], boxes.highs[box])
    upper = np.zeros(_BINS)  # the volume of the hull of each bin and all after it
    low, high = np.ones(attributes), np.zeros(attributes)
    for at in range(_BINS - 1, -1, -1):
        upper[at] = _enlarge(low, high, hull_lows[at], hull_highs[at])
    saved, first = -np.inf, 0
    low[:], high[:] = 1.0, 0.0
    for at in range(_BINS - 1):
        lower = _enlarge(low, high, hull_lows[at], hull_highs[at])
        if counts[at + 1] and upper[0] - lower - upper[at + 1] > saved:
            saved, first = upper[0] - lower - upper[at + 1], at + 1
    return saved, least + first / rate


@njit(cache=True, nogil=True)
def _enlarge(low, high, other_low, other_high):  # type: ignore[no-untyped-def]
    """Enlarge a hull by a box, in place; its volume then."""
    volume = 1.0
    for attribute in range(len(low)):
        low[attribute] = min(low[attribute], other_low[attribute])
        high[attribute] = max(high[attribute], other_high[attribute])
        volume *= max(0.0, high[attribute] - low[attribute])
    return volume


@njit(cache=True, nogil=True)
def _divide(boxes, start, end, split):  # type: ignore[no-untyped-def]
    """Move the lower half of a group to its front; where the upper half starts."""
    middle = start
    if split.attribute < 0:
        return middle
    for place in range(start, end):
        box = boxes.order[place]
        if _key(boxes, box, split.attribute, split.key) < split.divided_at:
            boxes.order[place], boxes.order[middle] = boxes.order[middle], box
            middle += 1
    return middle


# Merging


@njit(cache=True, nogil=True)
def _added_volume(lows, highs, left, right):  # type: ignore[no-untyped-def]
    """The volume that is in the hull of two boxes, but in neither of them."""
    hull, first, second, common = 1.0, 1.0, 1.0, 1.0
    for attribute in range(lows.shape[1]):
        left_low, left_high = lows[left, attribute], highs[left, attribute]
        right_low, right_high = lows[right, attribute], highs[right, attribute]
        hull *= max(left_high, right_high) - min(left_low, right_low)
        first *= left_high - left_low
        second *= right_high - right_low
        common *= max(0.0, min(left_high, right_high) - max(left_low, right_low))
    return hull - first - second + common


@njit(cache=True, nogil=True)
def _merge(lows, highs, groups_max, merged_into):  # type: ignore[no-untyped-def]
    """Merge until `groups_max` boxes are left; merged_into[i] becomes the box in which box i ended."""
    count = len(lows)
    costs = np.full((count, count), np.inf, np.float32)  # of merging a box with one of a higher number
    for box in range(count):
        for other in range(box + 1, count):
            costs[box, other] = _added_volume(lows, highs, box, other)
    cheapest = np.empty(count, np.int64)  # for each box the number in its row with the least cost
    for box in range(count):
        cheapest[box] = np.argmin(costs[box])
    for _ in range(count - groups_max):
        kept = 0
        for box in range(count):
            if costs[box, cheapest[box]] < costs[kept, cheapest[kept]]:
                kept = box
        gone = cheapest[kept]
        merged_into[gone] = kept
        _enlarge(lows[kept], highs[kept], lows[gone], highs[gone])
        costs[gone], costs[:, gone] = np.inf, np.inf
        for box in range(count):
            if merged_into[box] == box:
                _update_costs(lows, highs, (kept, gone), box, costs, cheapest)
        cheapest[kept] = np.argmin(costs[kept])
    for box in range(count):
        while merged_into[box] != merged_into[merged_into[box]]:
            merged_into[box] = merged_into[merged_into[box]]


@njit(cache=True, nogil=True)
def _update_costs(lows, highs, kept_gone, box, costs, cheapest):  # type: ignore[no-untyped-def]
    """A box's costs after another was enlarged and a third is gone."""
    kept, gone = kept_gone
    if box < kept:
        costs[box, kept] = _added_volume(lows, highs, box, kept)
        if costs[box, kept] < costs[box, cheapest[box]]:
            cheapest[box] = kept
    elif kept < box:
        costs[kept, box] = _added_volume(lows, highs, kept, box)
    if cheapest[box] in (kept, gone):
        cheapest[box] = np.argmin(costs[box])
