"""Residual tests against the oracle, which sees the same test as SQL text."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.matching.batches import EPOCH, Event, batch_of, code
from tests.matching.strategies import FLOATS, INTEGERS, MOMENTS, STRINGS, sql

from fieldfare.errors import SnapshotError
from fieldfare.matching import oracle
from fieldfare.matching.passing import attributes_of, can_judge, passes
from fieldfare.matching.residual import Residuals
from fieldfare.matching.rows import cuts_of
from fieldfare.model import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Expression,
    Like,
    Literal,
    Range,
    Scalar,
    Section,
    Test,
    Variable,
)

# Tests to SQL


def text_of(node: Expression | Comparison | Like) -> str:
    if isinstance(node, Attribute):
        return node.name
    if isinstance(node, Literal):
        if node.section is Section.TIME:
            return sql(EPOCH + datetime.timedelta(microseconds=int(node.value)))
        return sql(bool(node.value) if node.section is Section.BOOLEAN else node.value)
    if isinstance(node, Like):
        items = (
            "%" if item is None else "_" if item == "" else "\\" + item if item in "%_\\" else item
            for item in node.pattern
        )
        return f"{node.attribute} {'NOT ' * node.negated}LIKE {sql(''.join(items))}"
    assert not isinstance(node, Call | Variable)
    return f"({text_of(node.left)} {node.operator} {text_of(node.right)})"


ATTRIBUTES = st.sampled_from(["x", "y", "z"]).map(Attribute)
NUMBERS: list[int | float] = [*INTEGERS, *FLOATS, 3037000500, -3037000500, 3037000499]
LITERALS = st.one_of(
    st.sampled_from(NUMBERS).map(lambda value: Literal(Section.NUMBER, value)),
    st.sampled_from(NUMBERS).map(lambda value: Literal(Section.NUMBER, value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: Literal(Section.NUMBER, value)),
    st.sampled_from(STRINGS).map(lambda value: Literal(Section.STRING, value)),
    st.booleans().map(lambda value: Literal(Section.BOOLEAN, value)),
    st.sampled_from(MOMENTS).map(lambda value: Literal(Section.TIME, int(code(value)[1]))),
)
EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    ATTRIBUTES | ATTRIBUTES | LITERALS,
    lambda inner: st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
    max_leaves=4,
)
COMPARISONS = st.builds(Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), EXPRESSIONS, EXPRESSIONS)
LIKES = st.builds(
    Like,
    st.sampled_from(["x", "y"]),
    st.lists(st.sampled_from([None, None, "", "a", "b", "c", "%", "é", "\\"]), max_size=5).map(tuple),
    st.booleans(),
)
TESTS = st.dictionaries(
    st.integers(0, 9), st.lists(COMPARISONS | COMPARISONS | LIKES, max_size=3).map(tuple), max_size=6
)
POINTS: st.SearchStrategy[Scalar] = st.one_of(
    st.sampled_from([*NUMBERS, math.nan, math.inf, -math.inf]),
    st.sampled_from(NUMBERS),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from(STRINGS),
    st.booleans(),
    st.sampled_from(MOMENTS),
    st.none(),
)
EVENTS = st.lists(st.fixed_dictionaries({"x": POINTS, "y": POINTS}, optional={"z": POINTS}), min_size=1, max_size=8)


def answers(tests: Mapping[int, tuple[Test, ...]], events: Sequence[Event], boxes: int) -> list[list[bool]]:
    """Whether each event passes the tests of each box."""
    grid = np.indices((len(events), boxes)).reshape(2, -1)
    residuals = Residuals.of(tests)
    held = residuals.holds(grid[0], grid[1].astype(np.int32), batch_of(events))
    again = Residuals.decoded(residuals.encoded()).holds(grid[0], grid[1].astype(np.int32), batch_of(events))
    assert (held == again).all()
    assert held.reshape(len(events), boxes).tolist() == [
        [singly(tests.get(box, ()), event, otherwise=bool(held[box + boxes * row])) for box in range(boxes)]
        for row, event in enumerate(events)
    ]
    return held.reshape(len(events), boxes).tolist()


def singly(tests: Sequence[Test], event: Event, *, otherwise: bool) -> bool:
    """The same judged value by value; `otherwise` where only columns can tell."""
    if not all(map(can_judge, tests)) or any(isinstance(value, Range) for value in event.values()):
        return otherwise
    points = {name: cuts_of(event.get(name), name)[0] for name in attributes_of(tests)}
    return all(passes(test, points) for test in tests)


@given(TESTS, EVENTS)
@settings(max_examples=400)
def test_equals_the_oracle(tests: dict[int, tuple[Comparison | Like, ...]], events: list[Event]) -> None:
    expected = [
        [all(oracle.holds(text_of(test), event) for test in tests.get(box, ())) for box in range(10)]
        for event in events
    ]
    assert answers(tests, events, 10) == expected


@given(TESTS)
def test_tests_come_back(tests: dict[int, tuple[Test, ...]]) -> None:
    back = Residuals.of(tests).tests()
    assert back == {box: tuple(without_double_percent(test) for test in given) for box, given in tests.items()}


def without_double_percent(test: Test) -> Test:
    if not isinstance(test, Like):
        return test
    pairs = zip(test.pattern, (*test.pattern[1:], ""), strict=False)
    return Like(test.attribute, tuple(a for a, b in pairs if a is not None or b is not None), test.negated)


@given(st.sampled_from("+-*%/"), st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.sampled_from(NUMBERS))
@settings(max_examples=500)
@example("*", 2**32, -(2**31), -(2**63))
@example("*", 2**32, 2**31, 2**63 - 1)
@example("*", -1, -(2**63), 0)
@example("%", -(2**63), -1, 0)
@example("%", -7, 3, -1)
@example("-", 0, -(2**63), 0)
@example("/", 2**63 - 1, 1, 2**63 - 1)
def test_numbers_at_their_edges(operator: str, x: float, y: float, z: float) -> None:
    names = [Attribute(name) for name in "xyz"]
    for comparison in ("=", "<", ">"):
        test = Comparison(comparison, Arithmetic(operator, names[0], names[1]), names[2])
        event: Event = {"x": x, "y": y, "z": z}
        assert answers({0: (test,)}, [event], 1) == [[oracle.holds(text_of(test), event)]]


RANGE_OPERANDS = st.tuples(st.integers(-9, 9), st.integers(0, 5)).map(
    lambda drawn: Range(drawn[0], drawn[0] + drawn[1])
)


@given(COMPARISONS, st.fixed_dictionaries({name: RANGE_OPERANDS | st.integers(-9, 9) for name in "xyz"}), st.data())
@settings(max_examples=300)
def test_ranges_miss_nothing(test: Comparison, event: Event, data: st.DataObject) -> None:
    """Where some point of the ranges passes, the ranges pass."""
    point: Event = {
        name: data.draw(st.integers(value.low, value.high)) if isinstance(value, Range) else value  # type: ignore[arg-type]
        for name, value in event.items()
    }
    if oracle.holds(text_of(test), point):
        assert answers({0: (test,)}, [event], 1) == [[True]]


def above_five(operator: str) -> Comparison:
    return Comparison(">", Arithmetic(operator, Attribute("x"), Attribute("y")), Literal(Section.NUMBER, 5))


@pytest.mark.parametrize(
    ("test", "x", "y", "expected"),
    [
        (Comparison("<", Attribute("x"), Attribute("y")), Range(5, 9), 5, False),
        (Comparison("<", Attribute("x"), Attribute("y")), Range(4, 9), 5, True),
        (Comparison(">=", Attribute("x"), Attribute("y")), Range(1.0, 4.5), 5, False),
        (Comparison("=", Attribute("x"), Attribute("y")), Range(1, 4), Range(4.0, 7.0), True),
        (Comparison("=", Attribute("x"), Attribute("y")), Range("a", "c"), "d", False),
        (Comparison("!=", Attribute("x"), Attribute("y")), Range(4, 4), 4, False),
        (Comparison("!=", Attribute("x"), Attribute("y")), Range(4, 5), 4, True),
        (Comparison("<", Attribute("x"), Attribute("y")), Range(1, 2), math.nan, False),
        (above_five("-"), Range(1, 8), 3, False),
        (above_five("/"), 1, Range(-1, 1), True),
        (above_five("/"), 1, Range(1, 2), False),
        (Like("x", (None, "b")), Range("ab", "ab"), 0, True),
        (Like("x", (None, "b")), Range("a", "a"), 0, False),
        (Like("x", (None, "b")), Range("a", "b"), 0, True),
        (Like("x", (None, "b")), 5, 0, False),
        (Like("x", (None, "b"), negated=True), 5, 0, False),
    ],
)  # fmt: skip
def test_ranges(test: Test, x: Scalar | Range, y: Scalar | Range, expected: bool) -> None:
    assert answers({0: (test,)}, [{"x": x, "y": y}], 1) == [[expected]]


def test_one_shape_is_one_group() -> None:
    tests: dict[int, tuple[Test, ...]] = {
        box: (Comparison("<", Attribute("w"), Arithmetic("*", Literal(Section.NUMBER, box), Attribute("price"))),)
        for box in range(1000)
    }
    residuals = Residuals.of(tests)
    assert len(residuals.groups) == 1
    assert residuals.attributes == {"w", "price"}
    boxes = np.arange(1000, dtype=np.int32)
    held = residuals.holds(np.zeros(1000, np.int64), boxes, batch_of([{"w": 1000, "price": 2.0}]))
    assert np.flatnonzero(held).tolist() == list(range(501, 1000))


def test_without_tests_all_pairs_hold() -> None:
    residuals = Residuals.of({})
    assert residuals.attributes == frozenset()
    assert residuals.holds(np.zeros(3, np.int64), np.arange(3, dtype=np.int32), batch_of([{}])).all()


def test_no_pairs() -> None:
    residuals = Residuals.of({4: (Comparison("<", Attribute("x"), Attribute("y")),)})
    assert residuals.holds(np.empty(0, np.int64), np.empty(0, np.int32), batch_of([])).tolist() == []


@pytest.mark.parametrize("damage", [b"", b"\x00", b"not msgpack", b"\x95\x01\x02\x03\x04\x05"])
def test_damaged_bytes_are_a_snapshot_error(damage: bytes) -> None:
    with pytest.raises(SnapshotError, match="damaged"):
        Residuals.decoded(damage)
