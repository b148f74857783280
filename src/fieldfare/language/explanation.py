"""A compiled condition in words: its boxes with readable intervals, and its residual tests in SQL."""

from __future__ import annotations

import math

from fieldfare.language.costs import cost_lines
from fieldfare.language.expression_text import expression_text, operand_text, quoted, value_text
from fieldfare.language.hints import in_quotes, unquoted_words
from fieldfare.language.network_functions import block_text
from fieldfare.language.patterns import Pattern, prefix_end
from fieldfare.language.places import region_text
from fieldfare.model import (
    MISSING,
    PRESENT,
    AllOf,
    AnyOf,
    Box,
    Call,
    CombinedTest,
    Comparison,
    Condition,
    Cut,
    Derived,
    DerivedWithin,
    InRegion,
    Interval,
    Like,
    Section,
    Test,
    Within,
    cut_above,
    section_end,
    section_start,
)

_SECTION_NOUNS = {
    Section.NAN: "NaN",
    Section.BOOLEAN: "any boolean",
    Section.NUMBER: "any number",
    Section.STRING: "any string",
    Section.TIME: "any date or timestamp",
}
_WIDE = "the condition has too many alternatives for a box each: the boxes are wider than it, and tests decide the rest"
_TEST_CHARACTERS_MAX = 200


def explain(condition: Condition) -> str:
    """Several lines for a person: what an event must have to match, and what it costs to find out."""
    if not condition.boxes:
        return f"{condition.text}\nnever matches: no box"
    count = len(condition.boxes)
    kind = "" if count == 1 else ", disjoint" if condition.disjoint else ", which may overlap"
    lines = [condition.text, f"{count} box{'es' if count > 1 else ''}{kind}"]
    if any(_is_wide(test) for box in condition.boxes for test in box.tests):
        lines.append(_WIDE)
    for number, box in enumerate(condition.boxes, start=1):
        lines += [f"box {number}:", *(f"  {line}" for line in _box_lines(box))]
    lines += [f"cost: {line}" for line in cost_lines(condition)]
    lines += [f"hint: {word} is read as an attribute; {in_quotes(word)}" for word in unquoted_words(condition)]
    return "\n".join(lines)


def _is_wide(test: Test) -> bool:
    """Whether a test stands for alternatives; one interval of an expression does not."""
    return isinstance(test, CombinedTest) and not (isinstance(test, DerivedWithin) and len(test.intervals) == 1)


def _box_lines(box: Box) -> list[str]:
    lines = [f"{name}: {_interval_text(name, interval)}" for name, interval in box.intervals.items()]
    for axis, interval in box.derived.items():
        lines.append(_shortened(f"derived axis: {_derived_text(axis, interval)}"))
    for member in box.members:
        lists = expression_text(member.lists.expression)
        lines.append(_shortened(f"member: {lists} contains {value_text(member.value)}"))
    lines += [f"test: {_shortened(_test_text(test))}" for test in box.tests]
    return lines or ["every event"]


def _derived_text(axis: Derived, interval: Interval) -> str:
    """An interval of an expression: where the expression is a part of an operator, as this operator."""
    expression, (low, high) = axis.expression, (interval.low, interval.high)
    if isinstance(expression, Call):
        (section, value), argument = low, expression.arguments[0] if expression.arguments else expression
        match expression.function:
            case "ip" if isinstance(value, bytes) and isinstance(high[1], bytes) and high[1].endswith(b"\x00"):
                block = block_text(value.decode(), high[1][:-1].decode())
                if block is not None:
                    return f"ip_in({expression_text(argument)}, {quoted(block)})"
            case "mirrored" if isinstance(value, bytes) and value and high == (section, prefix_end(value)):
                return f"{operand_text(argument)} LIKE {_pattern_text((None, *value.decode()[::-1]))}"
        if section is Section.BOOLEAN and high == cut_above(*low):
            return expression_text(expression) if value else f"NOT {operand_text(expression)}"
    return _interval_text(operand_text(expression) if interval == MISSING else expression_text(expression), interval)


def _interval_text(name: str, interval: Interval) -> str:
    low, high = interval.low, interval.high
    if interval == MISSING:
        return f"{name} is missing"
    if interval == PRESENT:
        return f"{name} is any value"
    if high == section_end(low[0]) and low == section_start(low[0]):
        return f"{name} is {_SECTION_NOUNS[low[0]]}"
    if isinstance(low[1], bytes) and low[1] and high == (low[0], prefix_end(low[1])):
        return f"{name} starts with {value_text(low)}"
    if high == cut_above(*low):
        return f"{name} = {value_text(low)}"
    return _range_text(name, low, high)


def _range_text(name: str, low: Cut, high: Cut) -> str:
    lower = ""
    upper = ""
    if low != section_start(low[0]):
        below = _value_below(low)
        lower = f"{value_text(low)} <= " if below is None else f"{value_text(below)} < "
    if high != section_start(high[0]):
        below = _value_below(high)
        upper = f" < {value_text(high)}" if below is None else f" <= {value_text(below)}"
    if low[0] == high[0] or high == section_end(low[0]):
        return _one_sided(name, lower, upper)
    sections = [_SECTION_NOUNS[Section(at)] for at in range(low[0] + bool(lower), high[0]) if at != Section.END]
    sides = [side for side in (_one_sided(name, lower, ""), *sections, _one_sided(name, "", upper)) if side != name]
    return " or ".join(sides)


def _one_sided(name: str, lower: str, upper: str) -> str:
    """`5 < x` alone reads better as `x > 5`."""
    if lower and not upper:
        value, sign = lower.rsplit(" ", 2)[0], lower.rsplit(" ", 2)[1]
        return f"{name} {'>' if sign == '<' else '>='} {value}"
    return f"{lower}{name}{upper}"


def _value_below(cut: Cut) -> Cut | None:
    """The value that the cut lies just above, where that value is the simpler one to write."""
    section, value = cut
    if isinstance(value, bytes):
        return (section, value[:-1]) if value.endswith(b"\x00") else None
    if section is Section.NUMBER and isinstance(value, float):
        below: Cut = (section, math.nextafter(value, -math.inf))
    elif section is Section.TIME:
        below = (section, value - 1)
    else:
        return None
    return below if cut_above(*below) == cut and len(value_text(below)) < len(value_text(cut)) else None


def _test_text(test: Test) -> str:
    match test:
        case Like(attribute, pattern, negated):
            return f"{attribute} {'NOT ' if negated else ''}LIKE {_pattern_text(pattern)}"
        case InRegion(x, y, region):
            return region_text(x, y, region)
        case Comparison(operator, left, right):
            return f"{expression_text(left)} {operator} {expression_text(right)}"
        case Within(attribute, intervals):
            return " or ".join(_interval_text(attribute, interval) for interval in intervals)
        case DerivedWithin(axis, intervals):
            return " or ".join(_derived_text(axis, interval) for interval in intervals)
        case AllOf(tests):
            return " and ".join(map(_part_text, tests)) or "every event"
        case AnyOf(tests):
            return " or ".join(map(_part_text, tests)) or "no event"


def _part_text(test: Test) -> str:
    """A test inside another, in parentheses where it has parts itself."""
    has_parts = isinstance(test, AllOf | AnyOf)
    if isinstance(test, Within | DerivedWithin):
        has_parts = len(test.intervals) > 1
    return f"({_test_text(test)})" if has_parts else _test_text(test)


def _shortened(text: str) -> str:
    return text if len(text) <= _TEST_CHARACTERS_MAX else f"{text[:_TEST_CHARACTERS_MAX]} …"


def _pattern_text(pattern: Pattern) -> str:
    special = {"%": "\\%", "_": "\\_", "\\": "\\\\", "'": "''"}
    return "'" + "".join("%" if part is None else special.get(part, part) if part else "_" for part in pattern) + "'"
