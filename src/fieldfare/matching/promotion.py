"""Which expressions become axes of a part's tree, and which stay residual tests.

An axis costs every event: its value is computed, and searched. So an expression becomes one if many boxes use it, or
if a box has nothing else that an index could use; and only so many do. An interval on any other expression becomes a
residual test, and back when its box is read off the tree, for the next part may decide otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from fieldfare.boxes import AxisColumn, BoxTable, Cuts
from fieldfare.language.costs import BOXES_MIN, DERIVED_AXES_MAX
from fieldfare.language.expressions import has_call
from fieldfare.language.intervals import compared, intersection, section_interval
from fieldfare.language.patterns import prefix_end
from fieldfare.matching.requirements import member_requirements, requirements
from fieldfare.model import (
    AnyOf,
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Cut,
    Derived,
    DerivedWithin,
    Interval,
    Like,
    Literal,
    Section,
    Test,
    cut_above,
    section_end,
    section_start,
)

Key = TypeVar("Key", str, Derived)


class Placed(NamedTuple):
    """What the tree of a part is built from: the intervals on its axes, and the tests that are left."""

    attributes: Mapping[str, AxisColumn]
    derived: Mapping[Derived, AxisColumn]
    tests: Mapping[int, tuple[Test, ...]]


def placed(table: BoxTable) -> Placed:
    """The boxes of a table with their expressions promoted to axes, or demoted to tests."""
    if not table.derived:
        return Placed(table.axes, {}, table.tests)
    promoted = _promoted(table)
    tests = dict(table.tests)
    needed: dict[str, dict[int, Interval]] = {}
    for axis, column in table.derived.items():
        if axis not in promoted:
            intervals = zip(column.low.listed(), column.high.listed(), strict=True)
            for box, (low, high) in zip(column.boxes.tolist(), intervals, strict=True):
                tests[box] = (*tests.get(box, ()), *_tests_of(axis, Interval(low, high)))
                for name, interval in requirements(axis, Interval(low, high)).items():
                    needed.setdefault(name, {}).setdefault(box, interval)
    derived = {axis: table.derived[axis] for axis in sorted(promoted)}
    return Placed(with_intervals(table.axes, needed), derived, tests)


def with_requirements(table: BoxTable) -> BoxTable:
    """Wider boxes without expressions: what these need of attributes takes their place."""
    needed: dict[str, dict[int, Interval]] = {}
    for axis, column in table.derived.items():
        intervals = zip(column.low.listed(), column.high.listed(), strict=True)
        for box, (low, high) in zip(column.boxes.tolist(), intervals, strict=True):
            for name, interval in requirements(axis, Interval(low, high)).items():
                needed.setdefault(name, {}).setdefault(box, interval)
    for lists, members in table.members.items():
        for name, interval in member_requirements(lists).items():
            by_box = needed.setdefault(name, {})
            for box in members.boxes.tolist():
                by_box.setdefault(box, interval)
    return replace(table, axes=with_intervals(table.axes, needed), derived={}, members={})


def _promoted(table: BoxTable) -> set[Derived]:
    has_plain = np.zeros(len(table), np.bool_)
    for column in table.axes.values():
        has_plain[column.boxes] = True
    counts = {
        axis: len(column.boxes)
        for axis, column in table.derived.items()
        if len(column.boxes) >= BOXES_MIN or not has_plain[column.boxes].all()
    }
    return set(sorted(counts, key=lambda axis: (-counts[axis], axis))[:DERIVED_AXES_MAX])


def with_intervals(
    axes: Mapping[Key, AxisColumn], needed: Mapping[Key, Mapping[int, Interval]]
) -> dict[Key, AxisColumn]:
    """The columns with an interval for each box that has none on an axis, and needs one."""
    result = dict(axes)
    for name, by_box in needed.items():
        known = axes.get(name)
        boxes = sorted(by_box.keys() - (() if known is None else known.boxes.tolist()))
        if not boxes:
            continue
        low, high = Cuts.of([by_box[box].low for box in boxes]), Cuts.of([by_box[box].high for box in boxes])
        column = AxisColumn(np.array(boxes, np.int32), low, high)
        if known is not None:
            numbers = np.concatenate([known.boxes, column.boxes])
            lows, highs = Cuts.concatenated([known.low, low]), Cuts.concatenated([known.high, high])
            column = AxisColumn(numbers, lows, highs)
        result[name] = column
    return result


# Between intervals and tests


def _tests_of(axis: Derived, interval: Interval) -> tuple[Test, ...]:
    """The residual tests that an interval on an expression is, in the form that is answered fastest."""
    expression, low, high = axis.expression, interval.low, interval.high
    if isinstance(expression, Arithmetic) and not has_call(expression) and low[0] is not Section.NULL:
        numbers = intersection((interval,), (section_interval(Section.NUMBER),))
        return _comparisons(expression, numbers[0]) if numbers else (AnyOf(()),)
    match expression:
        case Call("mirrored", (Attribute(name),)) if isinstance(low[1], bytes) and low[1]:
            if high == (Section.STRING, prefix_end(low[1])):
                return (Like(name, (None, *low[1].decode()[::-1])),)
    return (DerivedWithin(axis, (interval,)),)


def _comparisons(expression: Arithmetic, interval: Interval) -> tuple[Test, ...]:
    low, high = interval.low, interval.high
    if high == cut_above(*low):
        return (_comparison("=", expression, low),)
    tests: list[Test] = []
    if low != section_start(Section.NUMBER):
        tests.append(_comparison(">=", expression, low))
    if high != section_end(Section.NUMBER):
        tests.append(_comparison("<", expression, high))
    return tuple(tests) or (_comparison(">=", expression, low),)


def _comparison(operator: str, expression: Arithmetic, cut: Cut) -> Comparison:
    value = cut[1]
    return Comparison(operator, expression, Literal(Section.NUMBER, value if not isinstance(value, bytes) else 0))


def with_derived(tests: Iterable[Test]) -> tuple[dict[Derived, Interval], tuple[Test, ...]]:
    """The way back: the intervals that some tests of a box are, and the other tests."""
    found: dict[Derived, Interval] = {}
    others: list[Test] = []
    for test in tests:
        pair = _interval_of(test)
        if pair is None:
            others.append(test)
            continue
        axis, interval = pair
        both = intersection((found[axis],), (interval,)) if axis in found else (interval,)
        if both:
            found[axis] = both[0]
        else:
            others.append(test)
    return found, tuple(others)


def _interval_of(test: Test) -> tuple[Derived, Interval] | None:
    match test:
        case DerivedWithin(axis, (interval,)):
            return axis, interval
        case Like(name, (None, *rest), False) if rest and all(rest):
            prefix = "".join(map(str, rest))[::-1].encode()
            axis = Derived.of(Call("mirrored", (Attribute(name),)))
            return axis, Interval((Section.STRING, prefix), (Section.STRING, prefix_end(prefix)))
        case Comparison(operator, Arithmetic() as expression, Literal(Section.NUMBER, value)):
            if operator != "!=" and not isinstance(value, str):
                intervals = compared(operator, Section.NUMBER, value)
                return (Derived.of(expression), intervals[0]) if len(intervals) == 1 else None
    return None
