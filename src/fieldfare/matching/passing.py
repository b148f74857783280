"""Residual tests on one event: what `residual` does in columns, done value by value, where columns would cost more."""

from __future__ import annotations

import functools
import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fieldfare.language.arithmetic import calculated
from fieldfare.language.expressions import names_in
from fieldfare.language.scalars import cut_of
from fieldfare.model import (
    AllOf,
    AnyOf,
    Arithmetic,
    Attribute,
    Comparison,
    Cut,
    Derived,
    DerivedWithin,
    Expression,
    InRegion,
    Interval,
    Like,
    Literal,
    Section,
    Test,
    Within,
    section_start,
)

Points = Mapping[
    str, tuple[Section, Any]
]  # the value of each attribute, which is no range, as `rows.point_of` gives it

_NULL, _NUMBER, _STRING = Section.NULL, Section.NUMBER, Section.STRING
_UNKNOWN = section_start(_NULL)
_INCOMPARABLE = (_NULL, Section.NAN)
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def attributes_of(tests: Iterable[Test]) -> frozenset[str]:
    """The attributes whose values some tests need."""
    names: set[str] = set()
    for test in tests:
        match test:
            case AllOf() | AnyOf():
                names |= _names_combined(test)
            case Comparison(_, left, right):
                names |= names_in(left) | names_in(right)
            case InRegion(x, y):
                names |= {x, y}
            case DerivedWithin(axis):
                names |= names_on(axis)
            case _:
                names.add(test.attribute)
    return frozenset(names)


@functools.lru_cache(maxsize=4_096)
def _names_combined(test: AllOf | AnyOf) -> frozenset[str]:
    return attributes_of(test.tests)


@functools.lru_cache(maxsize=65_536)
def names_on(axis: Derived) -> frozenset[str]:
    """The attributes that a derived axis needs."""
    return frozenset(names_in(axis.expression))


def passes(test: Test, points: Points) -> bool:
    """Whether an event passes a test, which `can_judge`."""
    match test:
        case Comparison():
            return _compares(test, points)
        case Like():
            return _is_like(test, points[test.attribute])
        case InRegion():
            return _is_in_region(test, points)
        case Within():
            return _is_within(test.intervals, points[test.attribute])
        case DerivedWithin(axis, intervals):
            return _is_within(intervals, cut_of(axis, points))
        case AllOf(tests):
            return all(passes(part, points) for part in tests)
        case AnyOf(tests):
            return any(passes(part, points) for part in tests)


def can_judge(test: Test) -> bool:
    """Whether `passes` knows how to answer a test; it does not know the _ of LIKE."""
    if isinstance(test, AllOf | AnyOf):
        return _can_judge_all(test)
    return not isinstance(test, Like) or "" not in test.pattern


@functools.lru_cache(maxsize=4_096)
def _can_judge_all(test: AllOf | AnyOf) -> bool:
    return all(map(can_judge, test.tests))


def _is_within(intervals: tuple[Interval, ...], point: Cut) -> bool:
    if point[0] is Section.NAN:
        point = section_start(Section.NAN)  # lists too
    at = bisect_right(intervals, point, key=_low)
    return at > 0 and point < intervals[at - 1].high


_low: Callable[[Interval], Cut] = operator.attrgetter("low")


def _compares(test: Comparison, points: Points) -> bool:
    (section, left), (other, right) = _value(test.left, points), _value(test.right, points)
    return section is other and section not in _INCOMPARABLE and _RELATIONS[test.operator](left, right)


def _value(expression: Expression, points: Points) -> Cut:
    if isinstance(expression, Attribute):
        return points[expression.name]
    if isinstance(expression, Literal):
        value = expression.value
        return expression.section, value.encode() if isinstance(value, str) else value
    if not isinstance(expression, Arithmetic):
        raise TypeError(f"a comparison has no part such as {expression}")
    (section, left), (other, right) = _value(expression.left, points), _value(expression.right, points)
    if section is not _NUMBER or other is not _NUMBER or isinstance(left, bytes) or isinstance(right, bytes):
        return _UNKNOWN
    result = calculated(expression.operator, left, right)
    return _UNKNOWN if result is None or math.isnan(result) else (_NUMBER, result)


def _is_in_region(test: InRegion, points: Points) -> bool:
    (section, x), (other, y) = points[test.x], points[test.y]
    if section is not _NUMBER or other is not _NUMBER:
        return False
    from fieldfare.geometry.regions import region_holds

    return region_holds(np.frombuffer(test.region, np.float64), float(x), float(y))


def _is_like(test: Like, point: Cut) -> bool:
    section, text = point
    if section is not _STRING or not isinstance(text, bytes):
        return False
    first, *others = _between_percents(test.pattern)
    if not others:
        return (text == first) is not test.negated
    *middle, last = others
    at, end = len(first), len(text) - len(last)
    matched = at <= end and text.startswith(first) and text.endswith(last)
    for piece in middle if matched else ():
        at = text.find(piece, at, end)  # at its first place: an earlier one never hurts
        if at < 0:
            return test.negated
        at += len(piece)
    return matched is not test.negated


@functools.lru_cache(maxsize=4_096)
def _between_percents(pattern: tuple[str | None, ...]) -> tuple[bytes, ...]:
    """What stands before, between and after the % of a pattern, which are None in it."""
    pieces = [""]
    for item in pattern:
        if item is None:
            pieces.append("")
        else:
            pieces[-1] += item
    return tuple(piece.encode() for piece in pieces)
