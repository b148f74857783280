"""Compiled conditions mean what SQL means: an independent three-valued interpreter is the oracle."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare import language
from fieldfare.model import (
    INT64_MAX,
    INT64_MIN,
    AllOf,
    AnyOf,
    Arithmetic,
    Attribute,
    Box,
    Call,
    Comparison,
    Condition,
    DerivedWithin,
    Expression,
    Like,
    Literal,
    Section,
    Test,
    Within,
)


@dataclass(frozen=True)
class Time:
    microseconds: int


NEW_YEAR = Time(1_704_067_200_000_000)  # 2024-01-01
Value = Any  # None, bool, int, float, str or Time
Event = Mapping[str, Value]
Evaluator = Callable[[Event], bool | None]
RELATIONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# -- What a compiled condition says of an event ---------------------------------------------------------------


def point(value: Value) -> tuple[Section, Any]:
    match value:
        case None:
            return Section.NULL, 0
        case float() if math.isnan(value):
            return Section.NAN, 0
        case bool():
            return Section.BOOLEAN, int(value)
        case int() | float():
            return Section.NUMBER, value
        case str():
            return Section.STRING, value.encode()
        case _:
            return Section.TIME, value.microseconds


def boxes_holding(condition: Condition, event: Event) -> int:
    return sum(box_holds(box, event) for box in condition.boxes)


def holds(condition: Condition, event: Event) -> bool:
    count = boxes_holding(condition, event)
    assert count <= 1 or not condition.disjoint
    return count > 0


def box_holds(box: Box, event: Event) -> bool:
    inside = all(interval.low <= point(event.get(name)) < interval.high for name, interval in box.intervals.items())
    for axis, interval in box.derived.items():
        value = mirrored(axis.expression, event)
        inside = inside and interval.low <= (point(value) if value == value else point(None)) < interval.high  # noqa: PLR0124
    return inside and all(test_holds(test, event) for test in box.tests)


def mirrored(expression: Expression, event: Event) -> Value:
    """What a derived axis of these conditions holds: arithmetic, or a text from its end, for LIKE '%end'."""
    if isinstance(expression, Call):
        (attribute,) = expression.arguments
        value = calculated(attribute, event)
        return value[::-1] if expression.function == "mirrored" and isinstance(value, str) else None
    return calculated(expression, event)


def test_holds(test: Test, event: Event) -> bool:
    if isinstance(test, Like):
        value = event.get(test.attribute)
        return isinstance(value, str) and like(value, list(test.pattern)) is not test.negated
    if isinstance(test, Within):
        return any(interval.low <= point(event.get(test.attribute)) < interval.high for interval in test.intervals)
    if isinstance(test, DerivedWithin):
        value = point(mirrored(test.axis.expression, event))
        return any(interval.low <= value < interval.high for interval in test.intervals)
    if isinstance(test, AllOf | AnyOf):
        held = [test_holds(part, event) for part in test.tests]
        return all(held) if isinstance(test, AllOf) else any(held)
    assert isinstance(test, Comparison)
    return compared(test.operator, calculated(test.left, event), calculated(test.right, event)) is True


test_holds.__test__ = False  # type: ignore[attr-defined]


def calculated(expression: Expression, event: Event) -> Value:
    if isinstance(expression, Attribute):
        return event.get(expression.name)
    if isinstance(expression, Literal):
        return Time(int(expression.value)) if expression.section is Section.TIME else expression.value
    assert isinstance(expression, Arithmetic)
    return arithmetic(expression.operator, calculated(expression.left, event), calculated(expression.right, event))


# -- What SQL says ----------------------------------------------------------------------------------------------


def compared(relation: str, left: Value, right: Value) -> bool | None:
    (left_section, left_value), (right_section, right_value) = point(left), point(right)
    if left_section != right_section or left_section in (Section.NULL, Section.NAN):
        return None
    return bool(RELATIONS[relation](left_value, right_value))


def compared_with_literal(relation: str, value: Value, literal: Value) -> bool | None:
    if isinstance(value, Time) and isinstance(literal, str):
        literal = {"2024": NEW_YEAR, "2024-01-01": NEW_YEAR}.get(literal)
    return compared(relation, value, literal)


def arithmetic(symbol: str, left: Value, right: Value) -> Value:
    if not all(point(side)[0] is Section.NUMBER for side in (left, right)):
        return None
    integers = isinstance(left, int) and isinstance(right, int)
    if symbol in "/%" and right == 0:
        return None
    if symbol == "/":
        return left / right
    if symbol == "%":
        if not integers:
            return math.nan if math.isinf(left) else math.fmod(left, right)
        return int(math.copysign(abs(left) % abs(right), left))
    value = {"+": operator.add, "-": operator.sub, "*": operator.mul}[symbol](left, right)
    return None if integers and not INT64_MIN <= value <= INT64_MAX else value


def like(text: str, pattern: list[str | None]) -> bool:
    if not pattern:
        return not text
    if pattern[0] is None:
        return any(like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("", text[0]) and like(text[1:], pattern[1:])


def negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def all_of(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def any_of(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


# -- Conditions as text, together with what they mean -------------------------------------------------------------

NAMES = ["a", "b", "c"]
names = st.sampled_from(NAMES)
LITERALS: list[tuple[str, Value]] = [
    ("1", 1),
    ("2", 2),
    ("-1", -1),
    ("0", 0),
    ("1.5", 1.5),
    ("9007199254740993", 2**53 + 1),
    ("1e3", 1000.0),
    ("''", ""),
    ("'a'", "a"),
    ("'ab'", "ab"),
    ("'2024'", "2024"),
    ("'2024-01-01'", "2024-01-01"),
    ("DATE '2024-01-01'", NEW_YEAR),
    ("TIMESTAMP '2024-01-01 00:00:00.000001'", Time(NEW_YEAR.microseconds + 1)),
    ("true", True),
    ("false", False),
    ("NULL", None),
]
VALUES = [
    *(value for _, value in LITERALS),
    math.nan,
    math.inf,
    -math.inf,
    -0.0,
    2**53,
    2**53 + 2,
    float(2**53),
    math.nextafter(1.5, 2),
    INT64_MAX,
    INT64_MIN,
    "abc",
    "b",
    "a\0",
    "é",
    Time(NEW_YEAR.microseconds - 1),
]
literals = st.sampled_from(LITERALS)
events = st.dictionaries(names, st.sampled_from(VALUES))
Meaning = tuple[str, Evaluator]


@st.composite
def comparisons(draw: st.DrawFn) -> Meaning:
    name, (text, value), relation = draw(names), draw(literals), draw(st.sampled_from(list(RELATIONS)))
    if draw(st.booleans()):
        return f"{name} {relation} {text}", lambda event: compared_with_literal(relation, event.get(name), value)
    mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(relation, relation)
    return f"{text} {mirrored} {name}", lambda event: compared_with_literal(relation, event.get(name), value)


@st.composite
def null_safe_comparisons(draw: st.DrawFn) -> Meaning:
    name, (text, value) = draw(names), draw(literals)

    def meaning(event: Event) -> bool:
        if value is None:
            return event.get(name) is None
        return compared_with_literal("=", event.get(name), value) is True

    if draw(st.booleans()):
        return f"{name} IS DISTINCT FROM {text}", lambda event: not meaning(event)
    return f"{name} <=> {text}", meaning


@st.composite
def lists(draw: st.DrawFn) -> Meaning:
    name, items, negation = draw(names), draw(st.lists(literals, min_size=1, max_size=4)), draw(st.booleans())

    def meaning(event: Event) -> bool | None:
        found = any_of([compared_with_literal("=", event.get(name), value) for _, value in items])
        return negated(found) if negation else found

    return f"{name} {'NOT ' if negation else ''}IN ({', '.join(text for text, _ in items)})", meaning


@st.composite
def betweens(draw: st.DrawFn) -> Meaning:
    name, low, high, negation = draw(names), draw(literals), draw(literals), draw(st.booleans())

    def meaning(event: Event) -> bool | None:
        value = event.get(name)
        inside = all_of([compared_with_literal(">=", value, low[1]), compared_with_literal("<=", value, high[1])])
        return negated(inside) if negation else inside

    return f"{name} {'NOT ' if negation else ''}BETWEEN {low[0]} AND {high[0]}", meaning


@st.composite
def likes(draw: st.DrawFn) -> Meaning:
    name, negation = draw(names), draw(st.booleans())
    parts = draw(st.lists(st.sampled_from([None, "", "a", "b", "%"]), max_size=4))
    text = "".join("%" if part is None else {"": "_", "%": "\\%"}.get(part, part) for part in parts)

    def meaning(event: Event) -> bool | None:
        value = event.get(name)
        return like(value, parts) is not negation if isinstance(value, str) else None

    return f"{name} {'NOT ' if negation else ''}LIKE '{text}'", meaning


@st.composite
def residuals(draw: st.DrawFn) -> Meaning:
    left, right, other, relation = draw(names), draw(names), draw(names), draw(st.sampled_from(list(RELATIONS)))
    symbol = draw(st.sampled_from(["", *"+-*/%"]))
    if not symbol:
        return f"{left} {relation} {right}", lambda event: compared(relation, event.get(left), event.get(right))

    def meaning(event: Event) -> bool | None:
        return compared(relation, arithmetic(symbol, event.get(left), event.get(right)), event.get(other))

    return f"{left} {symbol} {right} {relation} {other}", meaning


@st.composite
def attribute_tests(draw: st.DrawFn) -> Meaning:
    name, other = draw(names), draw(names)

    def null_safe(event: Event) -> bool:
        value, second = event.get(name), event.get(other)
        return (value is None and second is None) or compared("=", value, second) is True

    def truth(event: Event) -> bool | None:
        value = event.get(name)
        return value if isinstance(value, bool) else None

    choices: list[Meaning] = [
        (f"{name} IS NULL", lambda event: event.get(name) is None),
        (f"{name} IS NOT NULL", lambda event: event.get(name) is not None),
        (f"{name} IS TRUE", lambda event: event.get(name) is True),
        (f"{name} IS NOT FALSE", lambda event: event.get(name) is not False),
        (name, truth),
        (f"{name} <=> {other}", null_safe),
        ("TRUE", lambda _: True),
        ("FALSE", lambda _: False),
        ("NULL", lambda _: None),
    ]
    return draw(st.sampled_from(choices))


leaves = st.one_of(comparisons(), null_safe_comparisons(), lists(), betweens(), likes(), residuals(), attribute_tests())


def joined(parts: list[Meaning], word: str) -> Meaning:
    text = f" {word} ".join(f"({text})" for text, _ in parts)
    combine = all_of if word == "AND" else any_of
    return text, lambda event: combine([meaning(event) for _, meaning in parts])


def inverted(part: Meaning) -> Meaning:
    text, meaning = part
    return f"NOT ({text})", lambda event: negated(meaning(event))


conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(joined, st.lists(inner, min_size=2, max_size=3), st.sampled_from(["AND", "OR"])),
        st.builds(inverted, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(conditions, st.lists(events, min_size=1, max_size=12))
def test_a_condition_holds_where_sql_says_true(condition: Meaning, given_events: list[Event]) -> None:
    text, meaning = condition
    compiled = language.compile(text)
    for event in given_events:
        assert holds(compiled, event) is (meaning(event) is True), (text, event)


@settings(max_examples=300, deadline=None)
@given(conditions, st.lists(events, min_size=1, max_size=12), st.integers(1, 4))
def test_a_low_limit_of_boxes_leaves_the_meaning(condition: Meaning, given_events: list[Event], boxes_max: int) -> None:
    text, meaning = condition
    compiled = language.compile(text, limits=language.Limits(boxes_max=boxes_max))
    assert len(compiled.boxes) <= boxes_max
    for event in given_events:
        assert holds(compiled, event) is (meaning(event) is True), (text, event)


@settings(max_examples=150, deadline=None)
@given(leaves)
def test_a_leaf_holds_on_all_values(condition: Meaning) -> None:
    text, meaning = condition
    compiled, opposite = language.compile(text), language.compile(f"NOT ({text})")
    for value in VALUES:
        event = {"a": value, "b": 1, "c": value}
        assert holds(compiled, event) is (meaning(event) is True), event
        assert holds(opposite, event) is (meaning(event) is False), event


@settings(max_examples=60, deadline=None)
@given(conditions)
def test_double_negation_changes_nothing(condition: Meaning) -> None:
    text, _ = condition
    assert language.compile(f"NOT (NOT ({text}))").boxes == language.compile(text).boxes


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("x = 9223372036854775807", {"x": INT64_MAX}, True),
        ("x = 9223372036854775807", {"x": INT64_MAX - 1}, False),
        ("x > 9223372036854775806", {"x": INT64_MAX}, True),
        ("x < -9223372036854775807", {"x": INT64_MIN}, True),
        ("x > -9223372036854775808", {"x": INT64_MIN + 1}, True),
        ("x > -9223372036854775808", {"x": INT64_MIN}, False),
        ("x = 18446744073709551616", {"x": 2.0**64}, True),
        ("x = 9007199254740993", {"x": 2**53}, False),
        ("x = 9007199254740993", {"x": float(2**53)}, False),
        ("x = 9007199254740993", {"x": 2**53 + 1}, True),
        ("x > 9007199254740992.0", {"x": 2**53 + 1}, True),
        ("x = 0", {"x": -0.0}, True),
        ("x = -0.0", {"x": 0}, True),
        ("x < 0", {"x": -0.0}, False),
        ("x > 1e308 * 10", {"x": math.inf}, False),
        ("x >= 1e308 * 10", {"x": math.inf}, True),
        ("x <= 1e308 * 10", {"x": math.inf}, True),
        ("x > 5", {"x": math.inf}, True),
        ("x = 5L AND y = 1.5D AND z = 2.5BD", {"x": 5, "y": 1.5, "z": 2.5}, True),
        ("x = 1.1F", {"x": 1.100000023841858}, True),
        ("x > .5 AND x < 5.", {"x": 0.75}, True),
        ("x = - 5", {"x": -5}, True),
        ("x = +5", {"x": 5}, True),
        ("x = -(-5)", {"x": 5}, True),
        ("x < 2 + 3 * 4", {"x": 13}, True),
        ("x = 7 / 2", {"x": 3.5}, True),
        ("x = -7 % 3", {"x": -1}, True),
        ("x = 1 / 0 OR TRUE", {}, True),
        ("x = 9223372036854775807 + 1", {"x": 2.0**63}, False),
        ("-x < 5", {"x": -4}, True),
        ("-x < 5", {"x": -6}, False),
        ("s = 'it''s'", {"s": "it's"}, True),
        ("s = 'it\\'s'", {"s": "it's"}, True),
        ('s = "a""b"', {"s": 'a"b'}, True),
        ("s = 'tab\\there\\u00e9\\101\\0'", {"s": "tab\thereéA\0"}, True),
        ("s = '\\ud83d\\ude00'", {"s": "😀"}, True),
        ("s LIKE '100\\%'", {"s": "100%"}, True),
        ("s LIKE '100\\%'", {"s": "1000"}, False),
        ("s LIKE 'a!_%' ESCAPE '!'", {"s": "a_b"}, True),
        ("s LIKE 'a!_%' ESCAPE '!'", {"s": "axb"}, False),
        ("s NOT LIKE 'a!_%' ESCAPE '!'", {"s": "axb"}, True),
        ("s LIKE '%'", {"s": ""}, True),
        ("s LIKE '%'", {"s": 5}, False),
        ("s LIKE ''", {"s": ""}, True),
        ("s < 'é'", {"s": "z"}, True),
        ("s LIKE 'é%'", {"s": "été"}, True),
        ("s > ''", {"s": "\0"}, True),
        ("`a b`.c = 1 AND Date = 2", {"a b.c": 1, "Date": 2}, True),
        ("a.b.c.d.e.f = 1", {"a.b.c.d.e.f": 1}, True),
        ("x == 5", {"x": 5}, True),
        ("x <> 5", {"x": 6}, True),
        ("!flag", {"flag": False}, True),
        ("flag = true AND flag IN (true) AND flag > false", {"flag": True}, True),
        ("X = 1", {"x": 1}, False),
        ("x IN (1, NULL)", {"x": 1}, True),
        ("x NOT IN (1, NULL)", {"x": 2}, False),
        ("x = NULL", {"x": None}, False),
        ("NOT (x = NULL)", {"x": 1}, False),
        ("5 BETWEEN x AND y", {"x": 1, "y": 9}, True),
        ("x = x", {"x": None}, False),
        ("x = x", {"x": "a"}, True),
        ("1 < 2 AND 'a' = 'a' AND DATE '2024-01-01' = '2024'", {}, True),
        ("t >= DATE '2024-01-01' AND t < TIMESTAMP '2024-01-01 00:00:00.000002'", {"t": NEW_YEAR}, True),
        ("t < '2024-01-01T01:00:00+02:00'", {"t": NEW_YEAR}, False),
        ("t = 'yesterday'", {"t": NEW_YEAR}, False),
    ],
)
def test_meaning(text: str, event: Event, expected: bool) -> None:
    assert holds(language.compile(text), event) is expected


@pytest.mark.parametrize(
    ("text", "count", "disjoint"),
    [
        ("TRUE", 1, True),
        ("FALSE", 0, True),
        ("NULL", 0, True),
        ("x IN (1, 2, 3)", 3, True),
        ("x IN (1, 1, 1)", 1, True),
        ("x < 5 OR x < 7", 1, True),
        ("x < 5 OR x >= 5", 1, True),
        ("x != 5", 2, True),
        ("x > 5 AND x < 3", 0, True),
        ("x > 1 AND x > 2 AND x < 9", 1, True),
        ("x = 1 OR y = 2", 2, False),
        ("x = 1 OR (x = 1 AND y = 2)", 1, True),
        ("(x = 1 AND y = 2) OR (x = 3 AND y = 2)", 2, True),
        ("x IS NULL OR x IS NOT NULL", 2, True),
        ("x = 'a' OR TRUE", 1, True),
        ("s = '2024'", 2, True),
        ("(a = 1 OR b = 1) AND (a = 1 OR b = 1)", 2, False),
    ],
)
def test_boxes_are_few(text: str, count: int, disjoint: bool) -> None:
    compiled = language.compile(text)
    assert (len(compiled.boxes), compiled.disjoint) == (count, disjoint)


def test_residual_boxes_ask_the_index_for_what_may_pass() -> None:
    (box,) = language.compile("weight < 2 * price").boxes
    assert {interval.low[0] for interval in box.intervals.values()} == {Section.NUMBER}
    assert [type(test) for test in box.tests] == [Comparison]
    (box,) = language.compile("s LIKE 'ab%c'").boxes
    assert box.intervals["s"].low == (Section.STRING, b"ab")
