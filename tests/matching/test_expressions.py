"""Functions, casts and choices mean the same everywhere: for one event and for many, to the oracle and to Spark."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.matching.expressions import Pair, expression_conditions, ours_of
from tests.matching.strategies import DATES, MOMENTS, Event, typed_table, typed_tables

from fieldfare import Index
from fieldfare.matching import oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

slow_to_draw = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


def expected(texts: Sequence[str], rows: Sequence[Event]) -> list[list[int]]:
    return [oracle.match(dict(enumerate(texts)), row) for row in rows]  # type: ignore[misc]


@given(expression_conditions(8), typed_tables(rows=12))
@settings(slow_to_draw, max_examples=30)
def test_tables_rows_and_single_events_equal_the_oracle(pairs: list[Pair], table: pa.Table) -> None:
    texts, rows = ours_of(pairs), table.to_pylist()
    index = Index(dict(enumerate(texts)))
    answer = expected(texts, rows)
    assert [sorted(ids) for ids in index.match_table(table).to_pylist()] == answer
    assert [sorted(ids) for ids in index.match_rows(rows).to_pylist()] == answer
    assert [index.match(row) for row in rows] == answer


ANYTHING: list[Any] = [None, math.nan, 0, -7, 2.5, "", "a", "12", "2024-02-29", True, False, *DATES, *MOMENTS]


def disturbed(seed: int, table: pa.Table) -> list[Event]:
    """The events of a table, some of their values of another type, or missing."""
    rng = random.Random(seed)
    return [
        {name: rng.choice(ANYTHING) if rng.random() < 0.3 else value for name, value in row.items()}
        for row in table.to_pylist()
    ]


@given(expression_conditions(8), st.builds(disturbed, st.integers(0, 2**32), typed_tables(rows=8)))
@settings(slow_to_draw, max_examples=30)
def test_values_of_any_type_equal_the_oracle(pairs: list[Pair], rows: list[Event]) -> None:
    texts = ours_of(pairs)
    index = Index(dict(enumerate(texts)))
    answer = expected(texts, rows)
    assert [sorted(ids) for ids in index.match_rows(rows).to_pylist()] == answer
    assert [index.match(row) for row in rows] == answer


def judged_by_spark(spark: SparkSession, pairs: Sequence[Pair], table: pa.Table) -> list[Any]:
    """All conditions on all events in one job, in ANSI mode, which is Spark's default."""
    frame = spark.createDataFrame(table).coalesce(1)
    return frame.selectExpr(*(f"coalesce({pair.sparks}, false) AS c{n}" for n, pair in enumerate(pairs))).collect()


def compare_with_spark(spark: SparkSession, pairs: Sequence[Pair], table: pa.Table) -> None:
    texts, rows = ours_of(pairs), table.to_pylist()
    answer = Index(dict(enumerate(texts))).match_table(table).to_pylist()
    wrong = [
        (pairs[number].ours, {name: value for name, value in row.items() if name in texts[number]}, held)
        for row, flags, ids in zip(rows, judged_by_spark(spark, pairs, table), answer, strict=True)
        for number, held in enumerate(flags)
        if (number in ids) is not held
    ]
    assert not wrong, f"{len(wrong)} answers differ, the first: {wrong[:3]}"
    for number, text in enumerate(texts):
        for row, ids in zip(rows, answer, strict=True):
            assert oracle.holds(text, row) is (number in ids), (text, row)


@given(expression_conditions(25), typed_tables(rows=30))
@settings(slow_to_draw, max_examples=2, phases=[Phase.explicit, Phase.generate])  # shrinking would take many jobs
def test_equals_spark(spark: SparkSession, pairs: list[Pair], table: pa.Table) -> None:
    compare_with_spark(spark, pairs, table)


EVERY_FORM = [
    "lower(symbol) = 'a'", "upper(tag) > 'A'", "length(symbol) = 3", "char_length(symbol) > 1", "trim(tag) = 'a'",
    "left(symbol, 1) = 'a'", "left(symbol, 2) = 'a'", "left(symbol, 1) != 'a'", "right(symbol, 1) = 'c'",
    "substring(symbol, 1, 2) = 'ab'", "substring(symbol, -2) = 'bc'", "substring(symbol, 0, 1) = 'a'",
    "concat(symbol, tag) = 'aa'", "symbol || '!' = 'a!'", "symbol || NULL = 'a'", "concat(symbol, pieces) = 'a1'",
    "replace(symbol, 'a', 'b') = 'b'", "replace(symbol, 'a') = ''", "startswith(symbol, 'a')", "startswith(tag, '')",
    "endswith(symbol, 'c')", "contains(symbol, 'b')", "locate('b', symbol) = 2", "instr(symbol, 'é') > 0",
    "symbol LIKE '%c'", "symbol NOT LIKE '%c'", "symbol ILIKE 'A%'", "symbol ILIKE '%É%'",
    "symbol LIKE left(symbol, 1) || '%'",
    "lower(symbol) LIKE '%b%'", "tag LIKE concat('%', right(symbol, 1))", "lower(symbol) LIKE 'a!%' ESCAPE '!'",
    "abs(pieces) = 7", "ceil(rate) = 1", "ceiling(rate) = 3", "floor(rate) = -2", "round(rate) = 3",
    "round(rate, 1) = 0.5", "round(-2.5) = -3", "pmod(pieces, 3) = 2", "pmod(-7, 3) = 2", "power(pieces, 2) = 49",
    "sqrt(pieces) < 2", "sign(rate) = -1", "greatest(pieces, boxes) = 5", "least(pieces, boxes, 2) = 2",
    "mod(pieces, 3) = -1", "greatest(symbol, 'b') = 'b'", "pieces div 2 = -3", "pieces + boxes > 5",
    "pieces + boxes > 2 AND boxes + pieces < 6", "pieces * 2 = 10", "-pieces > 3", "cast(pieces AS string) = '5'",
    "cast(rate AS string) = '0.5'", "cast(rate AS int) = 2", "cast(flag AS int) = 1", "cast(pieces AS boolean)",
    "string(pieces) = '1'", "pieces::string = '2'", "cast(moment AS string) = '2024-01-01 12:00:00'",
    "cast(moment AS bigint) > 0", "cast('2024-01-01' AS date) = day",
    "date('2024-01-01') = day", "length(symbol) = '3'", "length(symbol) > length(tag)", "date(moment) = '2024-01-01'",
    "date(moment) = DATE '2024-01-01'", "year(moment) = 2024", "year(day) = 1969", "quarter(day) = 4",
    "month(moment) = 2", "day(moment) = 29", "hour(moment) BETWEEN 8 AND 12", "minute(moment) = 59",
    "second(moment) = 59", "dayofweek(day) = 2", "weekday(day) = 0", "dayofyear(day) = 60",
    "date_trunc('MONTH', moment) = '2024-02-01'", "moment + INTERVAL 1 DAY > '2024-01-02'",
    "day + INTERVAL 1 MONTH = '2024-02-01'", "moment > until - INTERVAL 1 YEAR",
    "hour(from_utc_timestamp(moment, 'Europe/Berlin')) = 13", "moment - INTERVAL '1.5' SECONDS < '2024-01-01'",
    "CASE WHEN pieces > 1 THEN symbol ELSE tag END = 'a'", "CASE pieces WHEN 1 THEN true WHEN 2 THEN flag END",
    "if(flag, pieces, boxes) = 1", "coalesce(pieces, boxes, 0) = 0", "nullif(pieces, 1) IS NULL",
    "ifnull(symbol, 'x') = 'x'", "nvl(pieces, 1) = 1", "pieces IN (boxes, 1)", "pieces NOT IN (boxes, 1)",
    "symbol IN (tag, 'a', NULL)", "(pieces > 1) IS NULL", "(pieces > 1) IS NOT NULL", "(pieces > boxes) IS TRUE",
    "(pieces > boxes) IS NOT TRUE", "(symbol LIKE '%b%') IS NULL", "coalesce(pieces > 1, false)",
    "NOT coalesce(pieces > 1, flag)", "(pieces > 1) = flag", "isnull(lower(symbol))", "isnotnull(pieces + boxes)",
    "pieces + boxes IS NULL", "lower(symbol) <=> NULL", "lower(symbol) <=> lower(tag)", "abs(pieces) <=> 1",
    "if(pieces > 1, flag, hot)", "CASE WHEN flag THEN hot END IS NULL", "lower(symbol) IN ('a', 'b')",
    "NOT lower(symbol) BETWEEN 'a' AND 'b'", "'abc' LIKE 'a%'", "lower('A') = 'a'",
    "substring(symbol, 1, 1) IN ('a', 'é')", "endswith(symbol, '😀') OR startswith(symbol, '😀')",
    "lower(NULL) IS NULL",
]  # fmt: skip


def test_every_form_equals_spark(spark: SparkSession) -> None:
    pairs = [Pair(text, text.replace("sqrt(pieces)", "sqrt(nullif(pieces, -1))")) for text in EVERY_FORM]
    compare_with_spark(spark, pairs, typed_table(random.Random(2), rows=60))


# What is not Spark's, and what differs


@pytest.mark.parametrize(
    ("condition", "event", "held"),
    [
        ("ip_in(a, '10.0.0.0/8')", {"a": "10.255.255.255"}, True),
        ("ip_in(a, '10.0.0.0/8')", {"a": "11.0.0.0"}, False),
        ("NOT ip_in(a, '10.0.0.0/8')", {"a": "11.0.0.0"}, True),
        ("NOT ip_in(a, '10.0.0.0/8')", {"a": "no address"}, False),
        ("ip_in(a, '10.0.0.0/8')", {"a": "::ffff:10.1.2.3"}, True),
        ("ip_in(a, '2001:db8::/32')", {"a": "2001:db8:ffff::1"}, True),
        ("ip_in(a, '2001:db8::/32')", {"a": "2001:db9::"}, False),
        ("ip_in(a, '::/0')", {"a": "10.0.0.1"}, False),
        ("ip_in(a, '192.168.1.7')", {"a": "192.168.1.7"}, True),
        ("if(ip_in(a, '10.0.0.0/8'), b, c) = 1", {"a": "10.0.0.1", "b": 1}, True),
        (
            "cast(day AS string) = '2024-01-01 00:00:00'",
            {"day": datetime.date(2024, 1, 1)},
            True,
        ),  # a date is a midnight
        ("cast(date(day) AS string) = '2024-01-01'", {"day": datetime.date(2024, 1, 1)}, True),
        ("x * 0.1 = 0.3", {"x": 3}, False),  # floats: Spark's decimals would say true
        ("round(x * 0.1, 6) = 0.3", {"x": 3}, True),
        ("sqrt(x) > 5", {"x": -1}, False),  # NaN compares with nothing here; in Spark it is the largest number
        ("sqrt(x) IS NULL", {"x": -1}, True),
        ("coalesce(x, 5) = 5", {"x": float("nan")}, True),
        ("s = 5", {"s": "5"}, False),  # an attribute is not cast by being compared
        ("cast(s AS bigint) = 5", {"s": "5"}, True),
        ("lower(s) = 5", {"s": "5"}, True),  # a call gives a text, which Spark casts
        ("cast(s AS int) = 5", {"s": "5.5"}, False),
        ("cast(s AS int) IS NULL", {"s": "5.5"}, True),
        ("cast(x AS int) IS NULL", {"x": 2**31}, True),
        ("x + 1 IS NULL", {"x": 2**63 - 1}, True),
        ("1 / x IS NULL", {"x": 0}, True),
        ("x div 2 = 1", {"x": 3.0}, False),
        ("hour(at) = 9", {"at": "2024-01-01T09:30:00Z"}, True),  # JSON has no times: a text is read as one
        ("hour(at) = 9", {"at": "nine"}, False),
        ("year(at) = 1969", {"at": datetime.date(1969, 12, 31)}, True),
        ("lower(s) = 'i̇'", {"s": "İ"}, True),
        ("lower(s) = 'ας'", {"s": "ΑΣ"}, True),
        ("upper(s) = 'SS'", {"s": "ß"}, True),
        ("trim(s) = 'a\t'", {"s": " a\t "}, True),
        ("`a + b` > 5 AND a + b < 3", {"a": 1, "b": 1, "a + b": 6}, True),
        ("`a + b` > 5 AND a + b < 3", {"a": 4, "b": 1, "a + b": 6}, False),
        ("a + 1 = 9007199254740993", {"a": 2**53}, True),
        ("a + 1.0 = 9007199254740993", {"a": 2**53}, False),
    ],
)
def test_meaning(condition: str, event: Event, held: bool) -> None:
    index = Index({1: condition})
    assert index.match(event) == [1] * held
    assert index.match_rows([event, event]).to_pylist() == [[1] * held] * 2
