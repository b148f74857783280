"""The corners of functions, casts and operators: what Spark 4 answers there, found by asking it.

Where Spark raises an error the value is NULL.
"""

from __future__ import annotations

import datetime
import math

import pyarrow as pa
import pytest
from tests.matching.strategies import Event

from fieldfare import Index
from fieldfare.errors import ConditionError
from fieldfare.matching import oracle

_MAX, _MIN = 2**63 - 1, -(2**63)
_NOON = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("condition", "event"),
    [
        ("ceil(x) IS NULL", {"x": 9.3e18}),  # beyond 64 bits
        ("floor(x) IS NULL", {"x": -1e300}),
        ("floor(x) IS NULL", {"x": math.inf}),
        ("ceil(x) = -9223372036854775808", {"x": -(2.0**63)}),
        ("pmod(x, y) IS NULL", {"x": -1.5, "y": math.inf}),
        ("pmod(x, y) IS NULL", {"x": -1.5, "y": -math.inf}),
        ("pmod(x, y) = 1.5", {"x": 1.5, "y": -math.inf}),
        ("pmod(x, y) = 9223372036854775801", {"x": -7, "y": _MIN}),  # Java's sum wraps
        ("cast(x AS bigint) = 9223372036854775807", {"x": 2.0**63}),
        ("cast(x AS bigint) IS NULL", {"x": 9.3e18}),
        ("cast(x AS timestamp) > '9999-01-01'", {"x": 2**62}),
        ("cast(x AS timestamp) IS NULL", {"x": 1e300}),
        ("cast(s AS int) IS NULL", {"s": "5\x80"}),
        ("cast(s AS double) IS NULL", {"s": "\x7f5"}),
        ("cast(x AS string) = '1.0E23'", {"x": 1e23}),
        ("substring(s, -2147483648) = 'Ann'", {"s": "Anna"}),  # 2^31 - 1 characters, from far before the first
        ("locate('', s, 100) = 1", {"s": "abc"}),
        ("locate('', s, 0) = 0", {"s": "abc"}),
        ("array_distinct(tags)[0] = 'b'", {"tags": ["b", "a", "b", "c"]}),  # in their order
        ("array_union(tags, others)[2] = 'd'", {"tags": ["b", "a", "b"], "others": ["d", "a"]}),
        ("array_except(tags, others)[0] = 'b'", {"tags": ["b", "a", "b", "c"], "others": ["a"]}),
        ("array_intersect(tags, others)[1] = 'a'", {"tags": ["b", "a", "b", "c"], "others": ["a", "b"]}),
        ("cast(cast(x AS timestamp) AS bigint) = 9223372036854", {"x": _MAX}),
        ("hour(from_utc_timestamp(at, '+02:00')) = 14", {"at": _NOON}),
        ("hour(from_utc_timestamp(at, '-0130')) = 10", {"at": _NOON}),
        ("hour(to_utc_timestamp(at, 'Europe/Berlin')) = 10", {"at": _NOON}),
        (
            "to_utc_timestamp(from_utc_timestamp(at, 'Asia/Kolkata'), 'Asia/Kolkata') = '2024-07-01 12:00:00'",
            {"at": _NOON},
        ),
        ("at + INTERVAL -1 DAY = '2024-06-30 12:00:00'", {"at": _NOON}),
        ("s LIKE ANY ('a%', '%b')", {"s": "xb"}),
        ("NOT s LIKE ANY ('a%', '%b')", {"s": "c"}),
        ("s NOT LIKE ANY ('a%', '%b')", {"s": "ax"}),  # unlike one of them
        ("s NOT LIKE ALL ('a%', '%b')", {"s": "c"}),
        ("s LIKE ALL ('a%', '%b')", {"s": "ab"}),
        ("s ILIKE SOME ('A%')", {"s": "ab"}),
        ("lower(s) LIKE ANY ('a', NULL)", {"s": "A"}),
        ("(x > 5) IS UNKNOWN", {}),
        ("b IS NOT UNKNOWN", {"b": False}),
        ("s = r'a\\n'", {"s": "a\\n"}),  # as it is written
        ("s RLIKE r'^a\\d$'", {"s": "a5"}),
    ],
)
def test_corners(condition: str, event: Event) -> None:
    assert oracle.holds(condition, event)
    check(condition, event)


@pytest.mark.parametrize(
    ("condition", "event"),
    [
        ("cast(s AS int) = 5", {"s": "\x005\x7f"}),
        ("cast(x AS string) = '4.9E-324'", {"x": 5e-324}),
        ("date(cast(x AS timestamp)) IS NULL", {"x": _MIN}),  # the midnight before the first instant
        ("interval - 1 = 5", {"interval": 6}),  # an attribute may have that name
    ],
)
def test_corners_that_the_oracle_does_not_know(condition: str, event: Event) -> None:
    check(condition, event)


def check(condition: str, event: Event) -> None:
    index = Index({1: condition})
    assert index.match(event) == [1]
    assert index.match_rows([event, event]).to_pylist() == [[1], [1]]
    assert Index({1: f"({condition}) IS NOT TRUE"}).match(event) == []


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("x = 0xff", "only decimal numbers are supported, and no binary values"),
        ("x = X'ff'", "only decimal numbers are supported, and no binary values"),
        ("x = 1_000", "if an attribute has this name, put it in backquotes"),
        ("x = 0b11", "0b11 is none"),
        ("x = \N{ARABIC-INDIC DIGIT FIVE}", "only decimal numbers are supported"),
        ("s = N'a'", "a string needs no N before it"),
        ("s = \N{LEFT SINGLE QUOTATION MARK}a\N{RIGHT SINGLE QUOTATION MARK}", "straight quotes"),
        ("s LIKE ANY ()", "patterns in parentheses"),
        ("s LIKE ANY 5", "patterns in parentheses"),
        ("x = ANY (1, 2)", "use IN"),
        ("array_except(a, b) = 'x'", "lists are not compared"),
    ],
)
def test_what_would_be_misread_is_refused(condition: str, reason: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Index({1: condition})
    assert reason in caught.value.reason


def test_names_that_begin_like_numbers() -> None:
    index = Index({1: "5min > 1 AND `0xff` > 1 AND a.1_0 > 1"})
    assert index.match({"5min": 2, "0xff": 2, "a.1_0": 2}) == [1]


def test_the_first_instant_there_is() -> None:
    events = pa.table({"at": pa.array([_MIN, _MAX], pa.timestamp("us"))})
    index = Index({1: "at < '2024-01-01'", 2: "date(at) IS NULL", 3: "year(at) = 294247"})
    assert index.match_table(events).to_pylist() == [[1, 2], [3]]


def test_columns_and_single_events_agree_where_a_number_has_no_whole_number() -> None:
    events = pa.table({"x": [1.5, 1e300, math.nan, -math.inf, None]})
    index = Index({1: "floor(x) = 1", 2: "ceil(x) IS NULL"})
    assert index.match_table(events).to_pylist() == [[1], [2], [2], [2], [2]]
    assert [index.match(row) for row in events.to_pylist()] == [[1], [2], [2], [2], [2]]
