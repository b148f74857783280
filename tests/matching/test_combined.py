"""Conditions with more alternatives than the limit: wide boxes and combined tests, against the oracle and DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.matching.strategies import (
    TYPES,
    Event,
    conditions,
    duckdb_conditions,
    events,
    range_events,
    typed_table,
    typed_tables,
)

from fieldfare import Index, Range
from fieldfare.language import Limits, compile_many, explain
from fieldfare.language import compile as compile_condition
from fieldfare.matching import oracle
from fieldfare.model import CombinedTest, Condition

slow_to_draw = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
SEVERAL = "(price IN (1, 2, 5) OR symbol LIKE 'a%') AND (symbol IN ('a', 'ab', 'b') OR flag) AND price != 3"
LIMITS = st.sampled_from([Limits(boxes_max=1), Limits(boxes_max=2), Limits(boxes_max=3), Limits(steps_max=4)])


def index_of(texts: Sequence[str], limits: Limits) -> Index:
    compiled = compile_many(texts, limits)
    assert not compiled.errors
    return Index.of_compiled(range(len(texts)), compiled.table)


def expected(texts: Sequence[str], rows: Sequence[Event]) -> list[list[int]]:
    return [oracle.match(dict(enumerate(texts)), row) for row in rows]  # type: ignore[misc]


def joined(texts: list[str], words: list[str]) -> str:
    text = texts[0]
    for other, word in zip(texts[1:], words, strict=False):
        text = f"({text} {word} {other})"
    return text


def several(some: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Longer conditions, so that something is left over the limit at every level of the tree."""
    words = st.lists(st.sampled_from(["AND", "OR"]), min_size=3, max_size=3)
    return st.builds(joined, st.lists(some, min_size=2, max_size=4), words)


def has_combined(condition: Condition) -> bool:
    return any(isinstance(test, CombinedTest) for box in condition.boxes for test in box.tests)


@given(st.lists(several(conditions()), min_size=1, max_size=4), st.lists(events(), min_size=1, max_size=6), LIMITS)
@settings(slow_to_draw, max_examples=250)
def test_any_limit_leaves_the_meaning(texts: list[str], rows: list[Event], limits: Limits) -> None:
    index = index_of(texts, limits)
    answer = expected(texts, rows)
    assert [index.match(row) for row in rows] == answer
    assert [sorted(ids) for ids in index.match_rows(rows).to_pylist()] == answer


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@given(st.lists(several(duckdb_conditions()), min_size=1, max_size=6), typed_tables(rows=12), LIMITS)
@settings(slow_to_draw, max_examples=60)
def test_equals_duckdb(duck: duckdb.DuckDBPyConnection, texts: list[str], table: pa.Table, limits: Limits) -> None:
    zoneless = pa.schema([(name, pa.timestamp("us") if pa.types.is_timestamp(t) else t) for name, t in TYPES.items()])
    duck.register("events", table.cast(zoneless))
    columns = ", ".join(f"({text}) IS TRUE" for text in texts)
    judged = duck.execute(f"SELECT {columns} FROM events").fetchall()  # noqa: S608  # conditions are SQL
    found = index_of(texts, limits).match_table(table).to_pylist()
    assert [sorted(ids) for ids in found] == [[n for n, holds in enumerate(row) if holds] for row in judged]


def ordinary(rng: random.Random, depth: int) -> str:
    """A nested condition with IN lists, such as people and programs write."""
    if depth:
        parts = [ordinary(rng, depth - 1) for _ in range(rng.randint(2, 4))]
        return f"{rng.choice(['', '', 'NOT '])}({rng.choice([' AND ', ' OR ']).join(parts)})"
    name = rng.choice(["pieces", "boxes", "quantity"])
    values = ", ".join(map(str, rng.sample(range(-7, 30), rng.randint(2, 12))))
    return rng.choice([f"{name} IN ({values})", f"{name} NOT IN ({values})", f"symbol != '{rng.choice('abc')}'"])


def test_ordinary_nested_conditions_compile_and_mean_the_same() -> None:
    rng = random.Random(5)
    table = typed_table(rng, rows=40)
    rows = table.select(["pieces", "boxes", "quantity", "symbol"]).to_pylist()
    exploding = 0
    while exploding < 4:
        text = ordinary(rng, 4)
        condition = compile_condition(text)
        if has_combined(condition):
            exploding += 1
            index = Index({0: text})
            answer = [oracle.holds(text, row) for row in rows]
            assert [bool(index.match(row)) for row in rows] == answer
            assert [bool(ids) for ids in index.match_table(table).to_pylist()] == answer


@given(st.lists(range_events(), min_size=1, max_size=4), LIMITS)
@settings(slow_to_draw, max_examples=60)
def test_a_range_matches_at_least_where_some_point_of_it_does(rows: list[Event], limits: Limits) -> None:
    index = index_of([SEVERAL], limits)
    for row, found in zip(rows, index.match_rows(rows).to_pylist(), strict=True):
        assert index.match(row) == found
        assert found or not oracle.holds(SEVERAL, row)


def test_a_range_meets_a_long_list_exactly() -> None:
    text = f"x IN ({', '.join(map(str, range(0, 4000, 2)))})"
    index = Index({1: text})
    events = [{"x": Range(1, 1)}, {"x": Range(1, 2)}, {"x": Range(4000, 9000)}, {"x": Range(None, 0)}]
    assert [index.match(event) for event in events] == [[], [1], [], [1]]
    assert index.match_rows(events).to_pylist() == [[], [1], [], [1]]


def test_an_attribute_that_only_a_test_asks_about_is_read(tmp_path: Path) -> None:
    """No box constrains it, yet batches must bring its column; and so it stays when the index is saved and merged."""
    text = " OR ".join(f"a{number} = 1" for number in range(1_100))
    index = Index({1: text})
    assert "a7" in index.attributes
    rows: list[Event] = [{"a7": 1}, {"a7": 2}, {}, {"a1099": 1, "a3": None}]
    index.save(tmp_path / "saved")
    grown = index
    for number in range(2, 5):
        grown = grown.updated({number: text})
    for same in (index, Index.load(tmp_path / "saved")):
        assert same.match_rows(rows).to_pylist() == [[1], [], [], [1]]
        assert same.match_table(pa.Table.from_pylist(rows, pa.schema([("a7", pa.int64())]))).to_pylist()[0] == [1]
    assert grown.compacted().match(rows[0]) == [1, 2, 3, 4]


def test_explain_says_that_the_boxes_are_wider() -> None:
    text = " AND ".join(f"a{number} IN (1, 3, 5, 7)" for number in range(6))
    shown = explain(compile_condition(text))
    assert "too many alternatives" in shown
    assert "test: a0 = 1 or a0 = 3 or a0 = 5 or a0 = 7" in shown
    nested = explain(compile_condition("x = 1 OR (y = 1 AND (z IN (1, 3) OR NOT u))", limits=Limits(boxes_max=1)))
    assert "test: x = 1 or (y = 1 and ((z = 1 or z = 3) or u = false))" in nested
    assert "too many alternatives" not in explain(compile_condition("x IN (1, 3)"))
