"""Functions of days, paddings, logarithms and bits, and SQL's own ways to write calls, beside the oracle and Spark."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.matching.expressions import Pair
from tests.matching.strategies import Event, typed_table
from tests.matching.test_expressions import compare_with_spark, expected

from fieldfare import Index
from fieldfare.errors import ConditionError
from fieldfare.language import compile  # noqa: A004

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMS = [
    "trim('a', symbol) = 'b'", "ltrim('a', symbol) = 'bc'", "rtrim('c', symbol) = 'ab'", "btrim(symbol, 'ac') = 'b'",
    "btrim(symbol) = 'a'", "lpad(symbol, 3, '*') = '**a'", "rpad(symbol, 2) = 'a '", "lpad(symbol, pieces, 'xy') = 'a'",
    "repeat(symbol, 2) = 'aa'", "initcap(symbol) = 'Ab'", "split_part(symbol, 'b', 1) = 'a'",
    "split_part(symbol, 'b', -1) = 'c'", "split_part(symbol, tag, 2) = ''", "substring_index(symbol, 'b', 1) = 'a'",
    "substring_index(symbol, 'b', -1) = 'c'", "translate(symbol, 'ab', 'x') = 'x'", "ascii(symbol) = 97",
    "ascii(symbol) > 127", "octet_length(symbol) = 2", "ln(abs(pieces)) > 1", "exp(rate) > 2",
    "log(2, boxes) = 1", "log10(pieces) = 1", "log2(pieces) > 2", "log(rate) < 0", "pieces & 1 = 1", "pieces | 8 = 10",
    "pieces ^ boxes = 0", "~pieces = -6", "(pieces & 3) | 8 = 9", "1 + pieces & 3 = 2", "try_add(pieces, boxes) = 3",
    "try_subtract(pieces, 1) = 0", "try_multiply(pieces, 2) = 4", "try_divide(pieces, boxes) = 1",
    "nvl2(tag, 1, 0) = 1",
    "nvl2(pieces, symbol, tag) = 'a'", "equal_null(symbol, tag)", "equal_null(pieces, NULL)",
    "NOT equal_null(pieces, 1)",
    "if(equal_null(symbol, 'a'), flag, hot)", "date_add(day, 1) = '2024-01-02'", "date_sub(moment, 30) < '2024-01-01'",
    "date_add(day, pieces) > day", "datediff(moment, day) > 0", "date_diff(until, moment) = 0", "last_day(day) = day",
    "last_day(moment) = '2024-02-29'", "trunc(moment, 'MM') = '2024-02-01'", "trunc(day, 'week') = day",
    "trunc(day, 'QUARTER') = '2024-01-01'", "trunc(day, 'hour') IS NULL", "make_date(year(day), 1, 1) = day",
    "weekofyear(day) = 1", "dayname(day) = 'Mon'", "monthname(moment) = 'Feb'", "to_date(moment) = day",
    "to_timestamp(day) = moment", "unix_timestamp(moment) > 0", "unix_seconds(moment) < 0",
    "date_format(moment, 'yyyy-MM') = '2024-01'",
    "date_format(moment, 'd.M.yy HH:mm:ss.SSS') LIKE '%.24 12:00:00.000'",
    "date_format(day, 'EEEE, MMMM a hh') = 'Monday, January AM 12'",
    "date_format(moment, 'EEE h \\'o\\'\\'clock\\'') LIKE '% 12 o\\'clock'",
    "unix_millis(moment) % 1000 = 0", "unix_micros(moment) = unix_micros(until)", "unix_date(day) > 19000",
    "timestamp_seconds(pieces) > '1970-01-01'", "timestamp_millis(unix_millis(moment)) = moment",
    "timestamp_micros(unix_micros(moment)) = moment", "symbol LIKE ANY ('a%', '%c')",
    "symbol NOT LIKE ANY ('a%', '%c')",
    "symbol LIKE ALL ('a%', '%c')", "tag NOT LIKE ALL ('a%', '%c')", "(pieces > 1) IS UNKNOWN",
    "(pieces > boxes) IS NOT UNKNOWN", "moment + INTERVAL -1 DAY > '2024-01-01'",
    "hour(from_utc_timestamp(moment, '+02:00')) = 14", "to_utc_timestamp(moment, 'Europe/Berlin') < moment",
]  # fmt: skip


def table_of(rows: int) -> pa.Table:
    return typed_table(random.Random(5), rows)


def small(condition: str) -> Pair:
    """A condition, and what Spark is asked: not to make a text of 2^63 characters, nor to count that many days."""
    ours = condition
    for call in ("lpad(symbol, pieces", "date_add(day, pieces", "timestamp_seconds(pieces"):
        ours = ours.replace(call, call.replace("pieces", "cast(if(abs(pieces) < 1000, pieces, NULL) AS int)"))
    return Pair(ours, ours)


@pytest.mark.parametrize("condition", FORMS)
def test_tables_rows_and_single_events_equal_the_oracle(condition: str) -> None:
    table = table_of(60)
    rows = table.to_pylist()
    texts = [small(condition).ours, f"({small(condition).ours}) IS NULL"]
    index = Index(dict(enumerate(texts)))
    answer = expected(texts, rows)
    assert [sorted(ids) for ids in index.match_table(table).to_pylist()] == answer
    assert [sorted(ids) for ids in index.match_rows(rows).to_pylist()] == answer
    assert [index.match(row) for row in rows] == answer
    assert any(answer)


def test_every_form_equals_spark(spark: SparkSession) -> None:
    compare_with_spark(spark, list(map(small, FORMS)), table_of(60))


@pytest.mark.parametrize(
    ("condition", "plain"),
    [
        ("trim(BOTH '0' FROM code) = '7'", "trim('0', code) = '7'"),
        ("trim('0' FROM code) = '7'", "trim('0', code) = '7'"),
        ("trim(LEADING '0' FROM code) = '7'", "ltrim('0', code) = '7'"),
        ("trim(TRAILING FROM code) = '7'", "rtrim(code) = '7'"),
        ("btrim(code, '0') = '7'", "trim('0', code) = '7'"),
        ("unix_timestamp() > 5", "unix_timestamp(now()) > 5"),
        ("position('@' IN mail) > 0", "locate('@', mail) > 0"),
        ("extract(YEAR FROM at) = 2026", "year(at) = 2026"),
        ("extract(week FROM at) = 1", "weekofyear(at) = 1"),
        ("date_part('DOW', at) = 1", "dayofweek(at) = 1"),
        ("to_date(at) = '2026-01-01'", "cast(at AS date) = '2026-01-01'"),
        ("try_divide(a, b) > 2", "a / b > 2"),
        ("regexp(s, '^a')", "s RLIKE '^a'"),
        ("try_element_at(tags, 1) = 'a'", "element_at(tags, 1) = 'a'"),
        ("equal_null(a, 5)", "a <=> 5"),
        ("at + INTERVAL -1 DAY > '2026-01-01'", "at - INTERVAL 1 DAY > '2026-01-01'"),
        ("s LIKE ANY ('a%', 'b')", "s LIKE 'a%' OR s LIKE 'b'"),
        ("s NOT ILIKE ALL ('a%', 'b')", "s NOT ILIKE 'a%' AND s NOT ILIKE 'b'"),
    ],
)
def test_ways_to_write_the_same(condition: str, plain: str) -> None:
    assert compile(condition).boxes == compile(plain).boxes


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("extract(SECOND FROM at) = 1", "second(at)"),
        ("extract('year' FROM at) = 1", "not supported"),
        ("date_part('epoch', at) = 1", "weekofyear(at)"),
        ("date_part(field, at) = 1", "weekofyear(at)"),
        ("a & b | c = 1", "parentheses"),
        ("a & 1.5 = 1", "whole number"),
        ("dateadd(HOUR, 1, at) > now()", "INTERVAL"),
        ("isnan(x)", "NaN counts as NULL"),
        ("split(s, ',')[0] = 'a'", "split_part"),
        ("date_format(at, 'QQ') = '01'", "a pattern of yyyy"),
        ("date_format(at, s) = '01'", "a pattern of yyyy"),
        ("[1, 2][0] = x", "array(1, 2)"),
        ("array(1, 2)[0] = x", "get(array(1, 2), 0)"),
        ("sum(x) > 1", "one event"),
        ("ST_DWithin(ST_Point(x, y), ST_Point(1, 2), 5)", "ST_DistanceSphere"),
        ("ST_Disjoint(ST_Point(x, y), ST_Point(1, 2))", "NOT ST_Intersects"),
        ("ST_Covers(ST_GeomFromText('POLYGON EMPTY'), ST_Point(x, y))", "covers nothing"),
        ("ST_Covers(ST_GeomFromText('POLYGON Z((0 0 1,1 0 1,1 1 1,0 0 1))'), ST_Point(x, y))", "x and y"),
        ("list_contains(tags, 'a')", "array_contains"),
        ("cast(x AS varchar(3)) = 'a'", "use string"),
    ],
)
def test_refusals_say_what_to_write(condition: str, reason: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Index({1: condition})
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("condition", "event"),
    [
        ("repeat(s, x) IS NULL", {"s": "abc", "x": 10**9}),
        ("replace(s, 'a', repeat('b', 1000000)) IS NULL", {"s": "a" * 1000}),
        ("concat(s, s, s, s, s, s, s, s, s) IS NULL", {"s": "a" * 2_000_000}),
        ("exists(a, x -> exists(a, y -> x > y + 5000)) IS NULL", {"a": list(range(2000))}),
        ("exists(a, x -> exists(a, y -> x > y + 98))", {"a": list(range(100))}),
        ("lpad(s, x, '*') IS NULL", {"s": "abc", "x": 2**31 - 1}),
        ("rpad(s, x) IS NULL", {"s": "abc", "x": 2**62}),
        ("date_add(at, x) IS NULL", {"at": "2024-01-01", "x": 2**62}),
        ("exp(x) > 1e308", {"x": 1000}),
        ("ln(x) IS NULL", {"x": 0}),
        ("log(x, 8) IS NULL", {"x": -2}),
        ("x & 1 IS NULL", {"x": 1.5}),
        ("x & 1 = 1", {"x": 2**63 - 1}),
    ],
)
def test_no_value_takes_much_memory_or_fails(condition: str, event: Event) -> None:
    index = Index({1: condition})
    assert index.match(event) == [1]
    assert index.match_rows([event, event]).to_pylist() == [[1], [1]]
