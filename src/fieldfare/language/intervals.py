"""Sets of values of one attribute, as disjoint intervals in ascending order.

Intervals that touch become one, except at the start of a section: an interval then stays within numbers, or within
strings, where an index handles it best.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from fieldfare.model import (
    MISSING,
    PRESENT,
    Cut,
    Interval,
    Section,
    cut_above,
    cut_below,
    section_end,
    section_start,
)

Intervals = tuple[Interval, ...]
_STARTS = {section_start(section) for section in Section}


def section_interval(section: Section) -> Interval:
    """All values of a section."""
    return Interval(section_start(section), section_end(section))


def compared(operator: str, section: Section, value: float | bytes) -> Intervals:
    """The values of a section that stand in a relation to one of them; the operator is one of = != < <= > >=."""
    below, above = cut_below(section, value), cut_above(section, value)
    start, end = section_start(section), section_end(section)
    match operator:
        case "=":
            return spans((below, above))
        case "!=":
            return spans((start, below), (above, end))
        case "<":
            return spans((start, below))
        case "<=":
            return spans((start, above))
        case ">":
            return spans((above, end))
        case _:
            return spans((below, end))


def spans(*pairs: tuple[Cut, Cut]) -> Intervals:
    """The intervals between pairs of cuts, those that are not empty."""
    return tuple(Interval(low, high) for low, high in pairs if low < high)


def union(intervals: Iterable[Interval]) -> Intervals:
    """Everything that is in any of the intervals."""
    ordered = sorted(intervals, key=_low)
    united: list[Interval] = []
    for interval in ordered:
        last = united[-1] if united else None
        if last is None or interval.low > last.high or (interval.low == last.high and interval.low in _STARTS):
            united.append(interval)
        elif interval.high > last.high:
            united[-1] = Interval(last.low, interval.high)
    return tuple(united)


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """Everything that is in both."""
    common: list[Interval] = []
    at_left = at_right = 0
    while at_left < len(left) and at_right < len(right):
        first, second = left[at_left], right[at_right]
        low, high = max(first.low, second.low), min(first.high, second.high)
        if low < high:
            common.append(Interval(low, high))
        if first.high <= second.high:
            at_left += 1
        else:
            at_right += 1
    return tuple(common)


def complement(intervals: Intervals) -> Intervals:
    """Everything that is not in them, NULL and NaN and all other sections included; they must not hold NULL."""
    lows = [PRESENT.low, *(interval.high for interval in intervals)]
    highs = [*(interval.low for interval in intervals), PRESENT.high]
    return (MISSING, *spans(*zip(lows, highs, strict=True)))


def outside(intervals: Intervals, section: Section | None) -> Intervals:
    """NULL, and the values of a section that are not in the intervals, which must not hold NULL; None: of any."""
    rest = complement(intervals)
    return rest if section is None else (MISSING, *intersection(rest[1:], (section_interval(section),)))


def runs(intervals: Intervals, count: int) -> Intervals:
    """Fewer, wider intervals that together hold all of these: each from the start to the end of a run of them."""
    starts = [len(intervals) * number // count for number in range(count + 1)]
    return tuple(Interval(intervals[start].low, intervals[end - 1].high) for start, end in itertools.pairwise(starts))


def contains(outer: Intervals, inner: Intervals) -> bool:
    """Whether every one of the inner intervals lies in one of the outer."""
    return intersection(outer, inner) == inner


def _low(interval: Interval) -> Cut:
    return interval.low
