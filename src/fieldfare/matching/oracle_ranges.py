"""Ranges, for the oracle: enough points of one that a condition holds for some point if it holds for one of these."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from sqlglot import exp

from fieldfare.matching.oracle_values import Time, Value, parsed_time, section, value_of
from fieldfare.model import Range


def marks(tree: exp.Expr, constant: Callable[[exp.Expr], Value]) -> Iterator[Value]:
    """The values at which the condition's truth may change: every constant in it, and the ends of LIKE prefixes."""
    for node in tree.find_all(exp.Literal, exp.Neg, exp.Cast, exp.Binary):
        if isinstance(node, exp.Like):
            prefix = str(node.expression.this).removesuffix("%")
            yield prefix
            if prefix:
                yield prefix[:-1] + _next_character(prefix[-1])
        elif not isinstance(node, exp.Predicate | exp.Connector) and not node.find(exp.Column):
            yield constant(node)
            if node.is_string:
                yield parsed_time(node.this)


def _next_character(character: str) -> str:
    after = ord(character) + 1
    return chr(0xE000 if after == 0xD800 else min(after, 0x10FFFF))


def points(ends: Range, marks: list[Value]) -> list[Value]:
    """Enough points of a range: its ends, the marks in it, and one point in each gap between these."""
    low, high = value_of(ends.low), value_of(ends.high)
    kind = section(low) or section(high)
    if kind is bool:
        known: list[Value] = [False, True]
    elif kind is str:
        strings = {value for value in (low, high, *marks, "") if isinstance(value, str)}
        known = [*strings, *(value + "\x00" for value in strings)]
    elif kind is Time:
        times = {value.microseconds for value in (low, high, *marks) if isinstance(value, Time)}
        known = [Time(near) for time in times for near in (time - 1, time, time + 1)]
    else:
        values = (low, high, *marks, -math.inf, math.inf)
        numbers = sorted({value for value in values if isinstance(value, int | float) and section(value) is float})
        known = [*numbers, *(_between(a, b) for a, b in itertools.pairwise(numbers))]
    return [
        value
        for value in known
        if (low is None or low <= value) and (high is None or value <= high)  # type: ignore[operator]  # one section
    ]


def _between(a: float, b: float) -> float:
    """A number between two, or one of them where there is none between."""
    if math.isinf(a) and math.isinf(b):
        return 0.0
    if math.isinf(a) or math.isinf(b):
        most = math.nextafter(math.inf, 0)
        return max(a, -most) if math.isinf(a) else min(b, most)
    middle = (Fraction(a) + Fraction(b)) / 2
    return float(middle) if a < float(middle) < b else min(max(math.floor(middle), a), b)
