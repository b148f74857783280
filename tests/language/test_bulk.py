"""Conditions compiled in bulk are exactly those compiled one at a time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fieldfare import language
from fieldfare.boxes import BoxTable
from fieldfare.errors import ConditionError, ConditionLimitError, ConditionSyntaxError
from fieldfare.language import shapes
from fieldfare.model import Condition, Cut, Section

Boxes = Counter[object]


def cut_of(cut: Cut) -> object:
    return cut[0], type(cut[1]), cut[1]


def boxes_of_condition(condition: Condition) -> Boxes:
    return Counter(
        (
            frozenset(
                (name, cut_of(item.low), cut_of(item.high))
                for name, item in [*box.intervals.items(), *box.derived.items()]
            ),
            frozenset((member.lists, cut_of(member.value)) for member in box.members),
            frozenset(box.tests),
            not condition.disjoint,
        )
        for box in condition.boxes
    )


def boxes_by_owner(table: BoxTable) -> dict[int, list[object]]:
    intervals: list[set[object]] = [set() for _ in range(len(table))]
    for name, column in [*table.axes.items(), *table.derived.items()]:
        assert (column.boxes[1:] > column.boxes[:-1]).all()
        for cuts in (column.low, column.high):
            assert len(cuts.sections) == len(cuts.values) == len(column.boxes)
        sides = [
            [
                cut_of((Section(section), value))
                for section, value in zip(cuts.sections, cuts.values.tolist(), strict=True)
            ]
            for cuts in (column.low, column.high)
        ]
        for box, low, high in zip(column.boxes, *sides, strict=True):
            intervals[box].add((name, low, high))
    members: list[set[object]] = [set() for _ in range(len(table))]
    for lists, asked in table.members.items():
        for box, cut in zip(asked.boxes.tolist(), asked.values.listed(), strict=True):
            members[box].add((lists, cut_of(cut)))
    result: dict[int, list[object]] = {}
    for box, owner in enumerate(table.owners.tolist()):
        tests = frozenset(table.tests.get(box, ()))
        key = (frozenset(intervals[box]), frozenset(members[box]), tests, bool(table.overlapping[box]))
        result.setdefault(owner, []).append(key)
    return result


@pytest.mark.parametrize("condition", ["startswith(x, '{}')", "left(x, {}) IS NULL", "NOT contains(x, '{}')"])
def test_conditions_that_are_calls_with_literals_are_compiled_in_bulk_too(condition: str) -> None:
    compiled = language.compile_many([condition.format(number) for number in range(20)])
    assert not compiled.errors
    assert sorted(set(compiled.table.owners.tolist())) == list(range(20))


def compiled_singly(text: str, limits: language.Limits) -> tuple[Boxes, ConditionError | None]:
    try:
        return boxes_of_condition(language.compile(text, limits=limits)), None
    except ConditionError as error:
        return Counter(), error


def assert_bulk_is_single(conditions: Sequence[str], limits: language.Limits | None = None) -> None:
    limits = limits or language.Limits()
    compiled = language.compile_many(conditions, limits)
    owned = boxes_by_owner(compiled.table)
    errors = dict(compiled.errors)
    for index, text in enumerate(conditions):
        expected, fault = compiled_singly(text, limits)
        found = errors.pop(index, None)
        assert (type(found), str(found)) == (type(fault), str(fault))
        boxes = owned.pop(index, [])
        assert Counter(boxes) == expected, text
    assert not errors
    assert not owned


NUMBERS = ["0", "1", "2", "1.5", "10", "1e3", "2.5E-3", "0.0", "9007199254740991", "9007199254740993", "1e999", "1e30"]
STRINGS = [
    *("'a'", "'ab'", "'b'", "''", "'it''s'", "'it\\'s'", '"q"', '"d""q"', "'é'", "'\\ud800'", "'a\ud800'", "'--'"),
    *("'2024'", "'2024-01-01'", "' 2024-01-02 '", "'-2024'", "'2024-13-01'", "'%'", "'a%'", "'ab%'", "'a%b'", "'a_'"),
    *("'a\\%'", "'a%%'", "'a\0'", "'5'", "'1 AND x > 2'", "'`'", "'\"'", "'a\\\\'"),
]
SHAPES = [
    "x > {n}",
    "{n} <= x",
    "x = -{n}",
    "x < - {n} AND x > -{n}",
    "x = {s}",
    "x != {n} AND y != {s}",
    "x BETWEEN {n} AND {n}",
    "NOT (x BETWEEN {n} AND {n})",
    "x >= {s} AND x < {s}",
    "x IN ({n}, {n}, {n}) AND y > {n}",
    "x IN ({s}, {s})",
    "x NOT IN ({n}, {n})",
    "x IN ({n}, {s})",
    "x LIKE {s} AND y = {n}",
    "x NOT LIKE {s}",
    "x LIKE {s} ESCAPE {s}",
    "x = DATE {s}",
    "x > TIMESTAMP {s} AND x < {s}",
    "x IS NULL AND y < {n}",
    "x IS NOT NULL AND x > {n}",
    "flag AND NOT other AND x = {n}",
    "flag = true AND x != {s}",
    "NOT (x < {n} OR y > {n})",
    "x < {n} OR x > {n}",
    "x < {n} OR y > {n}",
    "(x > {n} AND y < {n}) OR z = {s}",
    "x <=> {n}",
    "x < {n} * y",
    "x < {n} + {n}",
    "x = {n}L",
    "`x {n}` = {n} AND a1.b2 = {n}",
    "x1 > {n} -- {n}",
    "x = {n} AND",
    "x = {n} {n}",
    "x = {s}{s}",
    "x = NULL AND y = {n}",
    "x = r{s}",
    "x={n}AND y={n}",
    "x€{n} = {n}",
    "x = .{n}",
    "x BETWEEN {n} AND {n} OR x BETWEEN {n} AND {n}",
    "x != {n} AND x != {n} AND x > {n}",
    "x = '{n}",
    "x > {n} AND x = {s}",
    "x < {n} OR y > {n} OR x > {n}",
    "(x < {n} OR y > {n}) AND (x > {n} OR z = {s})",
    "(x > {n} AND y > {n}) OR (x > {n} AND y > {n})",
    "(x != {n} AND y > {n}) OR (x != {n} AND y > {n}) OR z = {s}",
    "x BETWEEN {n} AND {n} AND y > {n} OR y < {n} AND x < {n}",
    "NOT (x < {n} AND y > {n}) OR flag",
    "x < y",
    "x <=> y AND z > {n}",
    "x + {n} < y * {n} AND z > {n}",
    "x * {n} < -{n} - y OR z = {s}",
    "x * {n} + y > {n}",
    "x * {n} + y BETWEEN {n} AND {n} OR y * {n} + x = {n}",
    "x * {n} > {n} AND x * {n} < {n}",
    "x + {n} * {n} > y",
    "x LIKE {s} OR y LIKE {s}",
    "lower(x) LIKE {s} AND y ILIKE {s}",
    "round(x * {n}) = {n} AND y < {n}",
    "(x > {n}) IS NOT TRUE AND y > {n}",
    "CASE WHEN x > {n} THEN y > {n} ELSE z = {s} END",
    "coalesce(x, {n}) > {n}",
    "x IN (y, {n})",
    "array_contains(x, {n}) OR array_contains(x, {n})",
    "array_contains(x, {s}) AND (array_contains(x, {n}) OR y > {n})",
    "year(x) = {n} OR left(y, {n}) = {s}",
]


@st.composite
def conditions_of_few_shapes(draw: st.DrawFn) -> list[str]:
    chosen = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2))
    generator = random.Random(draw(st.integers(0, 2**32)))
    numbers = generator.sample(NUMBERS, draw(st.integers(1, len(NUMBERS))))
    strings = generator.sample(STRINGS, draw(st.integers(1, len(STRINGS))))
    rows = [generator.choice(chosen) for _ in range(draw(st.integers(8, 24)))]
    return [_filled(row, generator, numbers, strings) for row in rows]


def _filled(shape: str, generator: random.Random, numbers: list[str], strings: list[str]) -> str:
    while "{n}" in shape:
        shape = shape.replace("{n}", generator.choice(numbers), 1)
    while "{s}" in shape:
        shape = shape.replace("{s}", generator.choice(strings), 1)
    return shape


@settings(max_examples=200, deadline=None)
@given(conditions_of_few_shapes())
@example(["x IN (1, 1)", "x IN (1, 2)"] * 8)
@example(["x = '2024'"] * 9)
@example(["x = 'a'", "x = 5"] * 8)
@example(["`a` = 1", "`b` = 1"] * 8)
@example(["x = 'a", "x = 'a'"] * 8)
@example(["x\0 = 1", "x = 1"] * 8)
def test_bulk_is_single(conditions: list[str]) -> None:
    assert_bulk_is_single(conditions)


@pytest.mark.parametrize("shape", SHAPES)
def test_bulk_is_single_for_each_shape(shape: str) -> None:
    generator = random.Random(5)
    assert_bulk_is_single([_filled(shape, generator, NUMBERS, STRINGS) for _ in range(40)])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("x1.5e'\"`\\ =<-/*A", max_size=12), min_size=1, max_size=8))
def test_bulk_is_single_for_any_text(texts: list[str]) -> None:
    assert_bulk_is_single([text for text in texts for _ in range(9)])


def test_lower_limits_hold_in_bulk() -> None:
    conditions = [f"x IN ({number}, {number + 1}, {number + 2})" for number in range(10)]
    assert_bulk_is_single(conditions, language.Limits(boxes_max=2))
    assert_bulk_is_single(conditions, language.Limits(characters_max=13))


def test_nothing_is_an_empty_table() -> None:
    compiled = language.compile_many([])
    assert len(compiled.table) == 0
    assert compiled.errors == []


def test_errors_concern_their_own_condition_only() -> None:
    conditions = ["x = 1", "x = ", "(" * 60 + "x = 1" + ")" * 60, "x = 2"]
    compiled = language.compile_many(conditions)
    assert [(index, type(error)) for index, error in compiled.errors] == [
        (1, ConditionSyntaxError),
        (2, ConditionLimitError),
    ]
    assert compiled.table.owners.tolist() == [0, 3]
    bad = language.compile_many([None, "x = 1"])  # type: ignore[list-item]
    assert [index for index, _ in bad.errors] == [0]


def test_an_error_has_its_own_place_whatever_was_compiled_before() -> None:
    language.compile("long_name = 1 AND y LIKE 'a'")
    with pytest.raises(ConditionError) as caught:
        language.compile("long_name = 123456 AND y LIKE 'a\\\\'")
    assert caught.value.position == 30


def test_numbers_of_most_shapes_stay_floats() -> None:
    compiled = language.compile_many([f"x >= {number} AND x < {number + 5}" for number in range(100)])
    column = compiled.table.axes["x"]
    assert column.low.values.dtype == column.high.values.dtype == float
    assert not compiled.table.overlapping.any()


@pytest.mark.parametrize(
    ("text", "shape", "literals"),
    [
        ("x = 5", ("x = ", "number", ""), ["5"]),
        ("x1 = 1.5e-3 AND a.5b", ("x1 = ", "number", " AND a.5b"), ["1.5e-3"]),
        ("x='it''s'", ("x=", "string", ""), ["'it''s'"]),
        ("`5 'x` < 2", ("`5 'x` < ", "number", ""), ["2"]),
        ("x > 5L", ("x > 5L",), []),
        ("x -1", ("x -", "number", ""), ["1"]),
    ],
)
def test_shapes(text: str, shape: shapes.Shape, literals: list[str]) -> None:
    assert shapes.scan(text) == (shape, literals)
    found = shapes.matcher(shape)(text)
    assert found is not None
    assert list(found.groups()) == literals


def test_an_open_quote_has_no_shape() -> None:
    assert shapes.scan("x = 'a''") is None
    assert shapes.scan("'\\'" * 30_000 + "\\") is None
