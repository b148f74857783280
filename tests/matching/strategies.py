"""Conditions and events for Hypothesis, over every operator and type.

Literals and event values come from the same small pools, so that they often meet exactly, or just miss: random
conditions over random events would nearly never match, and would test only the word no.
"""

from __future__ import annotations

import datetime
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa
from hypothesis import strategies as st

from fieldfare.model import Range, Scalar

Event = dict[str, Scalar | Range]
T = TypeVar("T")

UTC = datetime.UTC
INTEGERS = [0, 1, 2, 3, 5, -1, -7, 10, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), 2**63 - 513]
FLOATS = [
    0.0,
    -0.0,
    0.5,
    1.0,
    1.5,
    2.5,
    5.0,
    -1.5,
    math.nextafter(1, 2),
    5e-324,
    2.0**53,
    2.0**63,
    1e16,
    -1e300,
    1.7e308,
]
STRINGS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "a\x00",
    "A",
    "a%",
    "a_c",
    "it's",
    'a"b',
    "a\\b",
    "x\ny",
    "é",
    "éa",
    "😀",
    "10",
    "true",
]
DATE_STRINGS = ["2024-01-01", "2024-02-29", "2024-01-01 12:00:00", "2024"]
DATES = [datetime.date(2024, 1, 1), datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]
MOMENTS = [
    datetime.datetime(2024, 1, 1),  # noqa: DTZ001  # no zone means UTC
    datetime.datetime(2024, 1, 1, 12, tzinfo=UTC),
    datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999),  # noqa: DTZ001
    datetime.datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
]
COMPARISONS = ["=", "!=", "<>", "<", "<=", ">", ">=", "==", "<=>"]


@dataclass(frozen=True)
class Kind:
    """Attributes of one type: the literals they meet, and the values they take."""

    attributes: list[str]
    literals: list[Scalar]
    values: list[Scalar]
    comparisons: list[str] = field(default_factory=lambda: COMPARISONS)


# The types of a schema-less world: integers and floats mix, dates and timestamps mix.
NUMBER = Kind(["price", "a.b"], [*INTEGERS, *FLOATS], [*INTEGERS, *FLOATS, math.nan, math.inf, -math.inf])
STRING = Kind(["symbol", "tag"], [*STRINGS, *DATE_STRINGS], [*STRINGS, *DATE_STRINGS])
BOOLEAN = Kind(["flag", "on sale"], [True, False], [True, False])
TIME = Kind(["at", "day"], [*DATES, *MOMENTS, *DATE_STRINGS], [*DATES, *MOMENTS])
MIXED = (NUMBER, STRING, BOOLEAN, TIME)


def sql_name(name: str) -> str:
    return name if name.replace(".", "").isalnum() else f"`{name}`"


def sql_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\x00", "\\0")
    return f"'{escaped}'"


def sql(value: Scalar) -> str:
    """A literal in Spark's SQL."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "false"}[value]
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    return sql_string(value) if isinstance(value, str) else repr(value)


def named(build: Callable[[], st.SearchStrategy[T]]) -> Callable[[], st.SearchStrategy[T]]:
    """Builds a strategy once, and lets Hypothesis call it by its name: spelled out, it would fill pages."""
    strategy = build()

    def drawn(draw: st.DrawFn) -> T:
        return draw(strategy)

    drawn.__name__ = build.__name__
    return st.composite(drawn)


ABSENT = object()
_TIME = re.compile(r"(TIMESTAMP|DATE) '")
_TEXT = re.compile(r"(?<!TIMESTAMP )(?<!DATE )'[^']*'(?=[,)])")


def names(kind: Kind) -> st.SearchStrategy[str]:
    return st.sampled_from([sql_name(name) for name in kind.attributes])


def literals(kind: Kind) -> st.SearchStrategy[str]:
    return st.sampled_from([sql(literal) for literal in kind.literals])


def like_patterns() -> st.SearchStrategy[str]:
    """Patterns as SQL literals: prefixes most of all, then anything, escapes included."""
    pieces = st.sampled_from(["%", "%", "_", "a", "b", "c", "é", "😀", "x", "\n", "\\%", "\\_", "\\\\"])
    anything = st.lists(pieces, max_size=5).map("".join)
    prefix = st.sampled_from(["", "a", "ab", "é", "a\\%", "b"]).map(lambda text: text + "%")
    return (prefix | anything).map(sql_string)


def leaves(kind: Kind) -> st.SearchStrategy[str]:
    """Conditions without AND, OR and NOT, on attributes of one kind."""
    name, literal = names(kind), literals(kind)
    operator = st.sampled_from(kind.comparisons)
    ordered = st.sampled_from([operator for operator in kind.comparisons if operator != "<=>"])
    options = [
        st.builds("{} {} {}".format, name, operator, literal),
        st.builds("{} {} {}".format, name, operator, literal),
        st.builds("{} {} {}".format, literal | st.just("NULL"), operator, name),
        st.builds("{} {}BETWEEN {} AND {}".format, name, st.sampled_from(["", "NOT "]), literal, literal),
        st.builds(
            "{} {}IN ({})".format,
            name,
            st.sampled_from(["", "NOT "]),
            st.lists(literal | literal | st.just("NULL"), min_size=1, max_size=4).map(", ".join),
        ),
        st.builds("{} IS {}NULL".format, name, st.sampled_from(["", "NOT "])),
        st.builds("{} {} {}".format, name, ordered, name),
    ]
    if kind.literals[0] is True:
        options += [name, name.map("NOT {}".format)]
    if isinstance(kind.literals[0], str):
        options += [st.builds("{} {}LIKE {}".format, name, st.sampled_from(["", "NOT "]), like_patterns())] * 2
    return st.one_of(options)


def arithmetic(kind: Kind, operators: str = "+-*/%") -> st.SearchStrategy[str]:
    """Comparisons between arithmetic over numbers."""
    expressions = st.recursive(
        names(kind) | literals(kind),
        lambda inner: (
            st.builds("({} {} {})".format, inner, st.sampled_from(operators), inner)
            | inner.filter(lambda text: not text.startswith("-")).map("-{}".format)
        ),
        max_leaves=4,
    )
    ordered = st.sampled_from([operator for operator in kind.comparisons if operator != "<=>"])
    return st.builds("{} {} {}".format, names(kind) | expressions, ordered, expressions).filter(
        lambda text: any(sql_name(name) in text for name in kind.attributes)
    )


def combined(leaf: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """NOT, AND and OR over leaves, nested."""
    return st.recursive(
        leaf,
        lambda inner: (
            st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner) | inner.map("NOT ({})".format)
        ),
        max_leaves=5,
    )


@named
def conditions() -> st.SearchStrategy[str]:
    """Conditions for events without a schema: now and then a literal of another kind, which never compares."""
    usual = [leaves(kind) for kind in MIXED]
    crossed = [
        leaves(Kind(kind.attributes, other.literals, [])) for kind in MIXED for other in MIXED if kind is not other
    ]
    return combined(
        st.sampled_from([*usual, *usual, arithmetic(NUMBER), st.one_of(crossed)]).flatmap(lambda leaf: leaf)
    )


def _without_absent(event: Mapping[str, object]) -> Event:
    return {name: value for name, value in event.items() if value is not ABSENT}  # type: ignore[misc]


@named
def events() -> st.SearchStrategy[Event]:
    """Events for these conditions: attributes missing, NULL, extra, and now and then of another type."""
    anything: list[Scalar] = [value for kind in MIXED for value in kind.values]
    fields: dict[str, st.SearchStrategy[object]] = {"unused": st.sampled_from(anything)}
    for kind in MIXED:
        unusual = st.sampled_from([ABSENT, ABSENT, None, *anything[:: len(anything) // 3]])
        for name in kind.attributes:
            fields[name] = st.one_of([st.sampled_from(kind.values)] * 7 + [unusual])
    return st.fixed_dictionaries(fields).map(_without_absent)


# Typed columns, for engines that need a schema. Their meaning is ours as long as types do not mix, integers beyond
# 2**53 do not meet floats, nothing overflows, and there is no NaN (which Spark and DuckDB hold equal to itself).

INTEGER = Kind(["quantity", "stock"], [*INTEGERS], [*INTEGERS, None])
DOUBLE = Kind(["price", "weight"], [*FLOATS, 0, 1, 5], [*FLOATS, math.inf, -math.inf, None])
COUNT = Kind(["pieces", "boxes"], [2, 3, -1, 1], [0, 1, 2, 3, 5, -1, -7, None])
RATE = Kind(["rate", "ratio"], [2, 3, -1], [0.0, -0.0, 0.5, 1.0, 1.5, 2.5, -1.5, None])
TEXT = Kind(["symbol", "tag"], [*STRINGS, *DATE_STRINGS], [*STRINGS, *DATE_STRINGS, None])
FLAG = Kind(["flag", "hot"], [True, False], [True, False, None])
MOMENT = Kind(["moment", "until"], [*MOMENTS, *DATES, *DATE_STRINGS], [*MOMENTS, None])
DAY = Kind(["day", "due"], [*DATES, DATE_STRINGS[0]], [*DATES, None])
TYPED = (INTEGER, DOUBLE, COUNT, RATE, TEXT, FLAG, MOMENT, DAY)
TYPES = {
    "quantity": pa.int64(), "stock": pa.int64(), "pieces": pa.int64(), "boxes": pa.int64(),
    "price": pa.float64(), "weight": pa.float64(), "rate": pa.float64(), "ratio": pa.float64(),
    "symbol": pa.string(), "tag": pa.string(), "flag": pa.bool_(), "hot": pa.bool_(),
    "moment": pa.timestamp("us", "UTC"), "until": pa.timestamp("us", "UTC"), "day": pa.date32(), "due": pa.date32(),
}  # fmt: skip


def typed_tables(rows: int) -> st.SearchStrategy[pa.Table]:
    """Events with a schema, drawn from a seed: value by value they would be too much for Hypothesis to draw."""
    return st.integers(0, 2**32).map(lambda seed: typed_table(random.Random(seed), rows))


def typed_table(rng: random.Random, rows: int) -> pa.Table:
    columns = {name: rng.choices(kind.values, k=rows) for kind in TYPED for name in kind.attributes}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in TYPES.items()})


@named
def spark_conditions() -> st.SearchStrategy[str]:
    """Conditions that Spark accepts on these columns, with Spark's own escapes.

    In a list with both times and strings Spark compares as times, as we do, but without ANSI mode as text.
    """
    options = [
        leaves(kind).filter(lambda text: not (" IN (" in text and _TIME.search(text) and _TEXT.search(text)))
        for kind in TYPED
    ]
    return combined(
        st.sampled_from([*options, *options, arithmetic(COUNT), arithmetic(RATE)]).flatmap(lambda leaf: leaf)
    )


@named
def duckdb_conditions() -> st.SearchStrategy[str]:
    """Conditions that DuckDB reads as Spark does: no <=>, no backslash, nothing divided, times as literals."""
    operators = [operator for operator in COMPARISONS if operator != "<=>"]
    kinds = [replace(kind, comparisons=operators) for kind in TYPED if kind not in (TEXT, MOMENT, DAY)]
    times: list[Scalar] = [*DATES, *(moment.replace(tzinfo=None) for moment in MOMENTS)]
    plain: list[Scalar] = [text for text in STRINGS if sql_string(text) == f"'{text}'"]
    kinds += [replace(kind, comparisons=operators, literals=times) for kind in (MOMENT, DAY)]
    kinds += [replace(TEXT, comparisons=operators, literals=plain)]
    sums = [arithmetic(kind, "+-*") for kind in kinds if kind.attributes in (COUNT.attributes, RATE.attributes)]
    options = [leaves(kind).filter(lambda text: "\\" not in text) for kind in kinds]
    return combined(st.sampled_from([*options, *options, *sums]).flatmap(lambda leaf: leaf))


# Ranges. A condition of comparisons with literals has an exact meaning on ranges; residual tests do not.


def ranges(values: Sequence[Scalar]) -> st.SearchStrategy[Range]:
    """Ranges between values given in their order, some with an open end."""
    places = st.integers(0, len(values) - 1)
    return st.builds(
        lambda a, b, opened: Range(
            None if opened == 1 else values[min(a, b)],
            None if opened == 2 else values[max(a, b)],
        ),
        places,
        places,
        st.integers(0, 5),
    )


@named
def range_conditions() -> st.SearchStrategy[str]:
    plain = [Kind(kind.attributes[:1], kind.literals, kind.values) for kind in MIXED]
    prefixes = st.sampled_from(["'a%'", "'ab%'", "'é%'", "'%'", "'abc'"])
    like = st.builds("symbol {}LIKE {}".format, st.sampled_from(["", "NOT "]), prefixes)
    single = st.one_of([leaves(kind) for kind in plain]).filter(lambda text: not _compares_attributes(text))
    return combined(single.filter(lambda text: "LIKE" not in text) | like)


def _compares_attributes(text: str) -> bool:
    return any(text.count(sql_name(kind.attributes[0])) > 1 for kind in MIXED)


@named
def range_events() -> st.SearchStrategy[Event]:
    numbers: list[float] = sorted([*INTEGERS, *FLOATS, math.inf, -math.inf])
    moments = sorted(moment.replace(tzinfo=UTC) for moment in MOMENTS)
    fields: dict[str, st.SearchStrategy[Scalar | Range]] = {
        "price": ranges(numbers) | st.sampled_from(NUMBER.values),
        "symbol": ranges(sorted([*STRINGS, *DATE_STRINGS])) | st.sampled_from(STRING.values),
        "flag": ranges([False, True]) | st.sampled_from(BOOLEAN.values),
        "at": ranges(moments) | st.sampled_from(TIME.values),
    }
    return st.fixed_dictionaries({}, optional=fields)
