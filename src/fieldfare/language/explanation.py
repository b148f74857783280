"""A compiled condition in words: its boxes with readable intervals, and its residual tests in SQL."""

from __future__ import annotations

import math

from fieldfare.language.hints import in_quotes, unquoted_words
from fieldfare.language.patterns import Pattern, prefix_end
from fieldfare.language.places import region_text
from fieldfare.language.times import format_timestamp
from fieldfare.model import (
    EXACT_INTEGER_MAX,
    MISSING,
    PRESENT,
    AllOf,
    AnyOf,
    Arithmetic,
    Attribute,
    Box,
    Call,
    CombinedTest,
    Comparison,
    Condition,
    Cut,
    DerivedWithin,
    Expression,
    InRegion,
    Interval,
    Like,
    Literal,
    Section,
    Test,
    Variable,
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
    """Several lines for a person: what an event must have to match."""
    if not condition.boxes:
        return f"{condition.text}\nnever matches: no box"
    count = len(condition.boxes)
    kind = "" if count == 1 else ", disjoint" if condition.disjoint else ", which may overlap"
    lines = [condition.text, f"{count} box{'es' if count > 1 else ''}{kind}"]
    if any(_is_wide(test) for box in condition.boxes for test in box.tests):
        lines.append(_WIDE)
    for number, box in enumerate(condition.boxes, start=1):
        lines += [f"box {number}:", *(f"  {line}" for line in _box_lines(box))]
    lines += [f"hint: {word} is read as an attribute; {in_quotes(word)}" for word in unquoted_words(condition)]
    return "\n".join(lines)


def _is_wide(test: Test) -> bool:
    """Whether a test stands for alternatives; one interval of an expression does not."""
    return isinstance(test, CombinedTest) and not (isinstance(test, DerivedWithin) and len(test.intervals) == 1)


def _box_lines(box: Box) -> list[str]:
    lines = [f"{name}: {_interval_text(name, interval)}" for name, interval in box.intervals.items()]
    for axis, interval in box.derived.items():
        name = expression_text(axis.expression)
        lines.append(_shortened(f"derived axis: {_interval_text(name, interval)}"))
    for member in box.members:
        lists = expression_text(member.lists.expression)
        lines.append(_shortened(f"member: {lists} contains {_value_text(member.value)}"))
    lines += [f"test: {_shortened(_test_text(test))}" for test in box.tests]
    return lines or ["every event"]


def _interval_text(name: str, interval: Interval) -> str:
    low, high = interval.low, interval.high
    if interval == MISSING:
        return f"{name} is missing"
    if interval == PRESENT:
        return f"{name} is any value"
    if high == section_end(low[0]) and low == section_start(low[0]):
        return f"{name} is {_SECTION_NOUNS[low[0]]}"
    if isinstance(low[1], bytes) and low[1] and high == (low[0], prefix_end(low[1])):
        return f"{name} starts with {_value_text(low)}"
    if high == cut_above(*low):
        return f"{name} = {_value_text(low)}"
    return _range_text(name, low, high)


def _range_text(name: str, low: Cut, high: Cut) -> str:
    lower = ""
    upper = ""
    if low != section_start(low[0]):
        below = _value_below(low)
        lower = f"{_value_text(low)} <= " if below is None else f"{_value_text(below)} < "
    if high != section_start(high[0]):
        below = _value_below(high)
        upper = f" < {_value_text(high)}" if below is None else f" <= {_value_text(below)}"
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
    return below if cut_above(*below) == cut and len(_value_text(below)) < len(_value_text(cut)) else None


def _value_text(cut: Cut) -> str:
    section, value = cut
    if isinstance(value, bytes):
        return _quoted(value.decode("utf-8", "backslashreplace"))
    if section is Section.BOOLEAN:
        return "true" if value else "false"
    if section is Section.TIME:
        return format_timestamp(int(value))
    return _number_text(value)


def _number_text(value: float) -> str:
    if abs(value) <= EXACT_INTEGER_MAX and value == int(value):
        return str(int(value))
    return str(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


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
            name = expression_text(axis.expression)
            return " or ".join(_interval_text(name, interval) for interval in intervals)
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


def expression_text(expression: Expression) -> str:
    """An expression in SQL, or nearly: functions that have no name in SQL have one here."""
    if isinstance(expression, Attribute | Variable):
        return expression.name
    if isinstance(expression, Literal):
        if isinstance(expression.value, str):
            return _quoted(expression.value)
        return "NULL" if expression.section is Section.NULL else _value_text((expression.section, expression.value))
    if isinstance(expression, Arithmetic):
        left, right = (_operand_text(side) for side in (expression.left, expression.right))
        return f"{left} {expression.operator} {right}"
    return _call_text(expression)


def _call_text(call: Call) -> str:
    parts = [_operand_text(part) for part in call.arguments]
    match call.function:
        case "and" | "or":
            return f" {call.function.upper()} ".join(parts)
        case "not":
            return f"NOT {parts[0]}"
        case "isnull":
            return f"{parts[0]} IS NULL"
        case "like":
            return f"{parts[0]} LIKE {parts[1]}"
        case "rlike":
            return f"{parts[0]} RLIKE {parts[1]}"
        case "cast":
            return f"cast({expression_text(call.arguments[0])} AS {parts[1].strip(chr(39))})"
        case "case":
            whens = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(parts[:-1:2], parts[1::2], strict=True))
            return f"CASE {whens} ELSE {parts[-1]} END"
        case "element":
            return f"{parts[0]}[{parts[1]}]"
        case "field":
            return f"{parts[0]}.{parts[1].strip(chr(39))}"
        case "exists" | "forall":
            return f"{call.function}({parts[0]}, {parts[1].strip(chr(39))} -> {expression_text(call.arguments[2])})"
        case name if not name[0].isalpha():
            return f"{parts[0]} {name} {parts[1]}"
        case name:
            return f"{name}({', '.join(map(expression_text, call.arguments))})"


def _operand_text(side: Expression) -> str:
    is_phrase = isinstance(side, Call) and (side.function in _PHRASES or not side.function[0].isalpha())
    return f"({expression_text(side)})" if is_phrase or isinstance(side, Arithmetic) else expression_text(side)


_PHRASES = {"and", "or", "not", "isnull", "like", "rlike"}
