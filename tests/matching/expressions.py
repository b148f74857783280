"""Random expressions over every function and type, each in our words and in Spark's.

Where Spark would raise an error for a row, ours are NULL: so Spark's words say try_add, try_cast and so on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st
from tests.matching.strategies import sql_string


class Pair(NamedTuple):
    """A condition or an expression: as conditions have it, and as Spark does."""

    ours: str
    sparks: str


Pairs = Callable[[random.Random], Pair]  # drawn from a seed: as Hypothesis' own strategies they would be too large


def same(*texts: str) -> Pairs:
    return lambda rng: Pair(*[rng.choice(texts)] * 2)


def form(ours: str, *parts: Pairs, sparks: str | None = None) -> Pairs:
    """A form with a place for each part; in Spark's words another one, if they differ."""

    def drawn(rng: random.Random) -> Pair:
        found = [part(rng) for part in parts]
        words = ours.format(*(part.ours for part in found))
        return Pair(words, (sparks or ours).format(*(part.sparks for part in found)))

    return drawn


def any_of(*options: Pairs) -> Pairs:
    return lambda rng: rng.choice(options)(rng)


def choices(values: Pairs, conditions: Pairs) -> list[Pairs]:
    """What chooses between values of one type."""
    return [
        form("coalesce({}, {})", values, values),
        form("if({}, {}, {})", conditions, values, values),
        form("CASE WHEN {} THEN {} WHEN {} THEN {} END", conditions, values, conditions, values),
        form("CASE WHEN {} THEN {} ELSE {} END", conditions, values, values),
        form("nullif({}, {})", values, values),
        form("greatest({}, {})", values, values),
        form("least({}, {}, {})", values, values, values),
    ]


SMALL = same("0", "1", "2", "3", "-1", "-2", "10")
TEXT_LITERALS = same(
    *map(sql_string, ["", "a", "b", "ab", "abc", "A", "é", "É", " a ", "a%", "12", "-7", "1.5", "true"])
)
PATTERNS = same(*map(sql_string, ["a%", "%b", "%b%", "_", "a_c", "%", "", "A%", "%É", "a\\%"]))
TIME_LITERALS = same("TIMESTAMP '2024-01-01 12:00:00'", "TIMESTAMP '2024-02-29 23:59:59.999999'", "DATE '2024-01-01'")
UNITS = same("'YEAR'", "'quarter'", "'MONTH'", "'week'", "'DAY'", "'HOUR'", "'MINUTE'", "'SECOND'")
TEXTS = any_of(same("symbol"), same("tag"), same("symbol"), TEXT_LITERALS)
INTEGERS = any_of(same("pieces", "boxes"), SMALL)
FLOATS = same("rate", "ratio", "0.5D", "2.5D")
TIMES = any_of(same("moment", "until"), TIME_LITERALS)
FIELDS = (
    "year",
    "quarter",
    "month",
    "day",
    "dayofmonth",
    "dayofyear",
    "dayofweek",
    "weekday",
    "hour",
    "minute",
    "second",
)


def texts(inner: Pairs, integers: Pairs, conditions: Pairs) -> Pairs:
    return any_of(
        TEXTS,
        form("lower({})", inner),
        form("upper({})", inner),
        form("trim({})", inner),
        form("ltrim({})", inner),
        form("rtrim({})", inner),
        form("left({}, {})", inner, SMALL),
        form("right({}, {})", inner, SMALL),
        form("substring({}, {})", inner, SMALL),
        form("substr({}, {}, {})", inner, SMALL, SMALL),
        form("concat({}, {})", inner, inner),
        form("({} || {})", inner, inner),
        form("replace({}, {}, {})", inner, TEXT_LITERALS, TEXT_LITERALS),
        form("reverse({})", inner),
        form("cast({} AS string)", integers),
        form("cast({} AS string)", same("rate", "flag", "moment", "date(moment)")),
        *choices(inner, conditions),
    )


def integers(inner: Pairs, some_texts: Pairs, times: Pairs, conditions: Pairs) -> Pairs:
    return any_of(
        INTEGERS,
        form("length({})", some_texts),
        form("locate({}, {})", TEXT_LITERALS, some_texts),
        form("locate({}, {}, {})", TEXT_LITERALS, some_texts, SMALL),
        form("instr({}, {})", some_texts, TEXT_LITERALS),
        form("abs({})", inner),
        form("ceil({})", FLOATS),
        form("floor({})", FLOATS),
        form("round({}, {})", inner, same("0", "1", "-1")),
        form("({} div {})", inner, inner, sparks="({} div nullif({}, 0))"),
        form("({} + {})", inner, inner, sparks="try_add({}, {})"),
        form("({} - {})", inner, inner, sparks="try_subtract({}, {})"),
        form("({} % {})", inner, inner, sparks="try_mod({}, {})"),
        form("cast({} AS int)", some_texts, sparks="try_cast({} AS int)"),
        form("cast({} AS bigint)", FLOATS, sparks="try_cast({} AS bigint)"),
        form("cast({} AS int)", same("flag", "hot")),
        *(form(f"{field}({{}})", times) for field in FIELDS),
        *choices(inner, conditions),
    )


def floats(inner: Pairs, some_integers: Pairs) -> Pairs:
    return any_of(
        FLOATS,
        form("({} / {})", some_integers, some_integers, sparks="try_divide({}, {})"),
        form("({} * {})", inner, inner),
        form("({} - {})", inner, inner),
        form("round({}, {})", inner, same("0", "1", "2")),
        form("sqrt(abs({}))", inner),
        form("sign({})", inner),
        form("power({}, {})", same("pieces", "2"), same("2", "3")),
        form("pmod({}, {})", inner, same("2.5D", "1.5D", "-2.0D")),
        form("cast({} AS double)", TEXTS, sparks="try_cast({} AS double)"),
        form("abs({})", inner),
    )


def times(inner: Pairs, conditions: Pairs) -> Pairs:
    return any_of(
        TIMES,
        form("date_trunc({}, {})", UNITS, inner),
        form("({} + INTERVAL 1 DAY)", inner),
        form("({} - INTERVAL '90' MINUTES)", inner),
        form("({} + INTERVAL 1 MONTH)", inner),
        form("({} - INTERVAL 3 YEARS)", inner),
        form("from_utc_timestamp({}, 'Europe/Berlin')", inner),
        form(
            "cast({} AS timestamp)", same("'2024-01-01 12:00:00'", "symbol", "day"), sparks="try_cast({} AS timestamp)"
        ),
        *choices(inner, conditions)[:4],
    )


def compared(values: Pairs, literals: Pairs) -> list[Pairs]:
    signs = ("=", "!=", "<", "<=", ">", ">=", "<=>")
    with_literal = any_of(*(form(f"{{}} {sign} {{}}", values, literals) for sign in signs))
    between = form("{} BETWEEN {} AND {}", values, literals, literals)
    among = form("{} IN ({}, {})", values, literals, values)
    return [
        with_literal,
        with_literal,
        any_of(*(form(f"{{}} {sign} {{}}", values, values) for sign in signs)),
        between,
        among,
        form("{} IS NULL", values),
    ]


def conditions_over(depth: int) -> Pairs:
    """Conditions whose expressions are some calls deep."""
    simple = any_of(
        same("flag", "hot", "pieces > 1", "symbol = 'a'", "moment IS NULL", "symbol LIKE 'a%'", "rate <= boxes"),
        form("NOT {}", same("flag", "hot")),
    )
    some_texts, some_integers, some_floats, some_times = TEXTS, INTEGERS, FLOATS, TIMES
    for _ in range(depth):
        some_texts, some_integers, some_floats, some_times = (
            texts(some_texts, some_integers, simple),
            integers(some_integers, some_texts, some_times, simple),
            floats(some_floats, some_integers),
            times(some_times, simple),
        )
    dates = form("date({})", some_times)
    leaves = [
        *compared(some_texts, TEXT_LITERALS),
        *compared(some_integers, SMALL),
        *compared(some_floats, same("0", "1.5D", "-2")),
        *compared(some_times, TIME_LITERALS),
        *compared(dates, same("'2024-01-01'", "DATE '2024-02-29'")),
        form("{} LIKE {}", some_texts, PATTERNS),
        form("{} ILIKE {}", some_texts, PATTERNS),
        form("{} NOT LIKE {}", some_texts, PATTERNS),
        form("startswith({}, {})", some_texts, TEXT_LITERALS),
        form("endswith({}, {})", some_texts, TEXT_LITERALS),
        form("contains({}, {})", some_texts, TEXT_LITERALS),
        form("cast({} AS boolean)", some_texts, sparks="try_cast({} AS boolean)"),
    ]
    leaf = any_of(*leaves, simple)
    for _ in range(2):
        leaf = any_of(leaf, leaf, leaf, _joined(leaf))
    return leaf


def _joined(inner: Pairs) -> Pairs:
    """Conditions made of conditions."""
    return any_of(
        form("({} AND {})", inner, inner),
        form("({} OR {})", inner, inner),
        form("NOT ({})", inner),
        form("({}) IS NULL", inner),
        form("({}) IS NOT TRUE", inner),
        form("(({}) IS FALSE)", inner),
        form("coalesce({}, {})", inner, inner),
        form("if({}, {}, {})", inner, inner, inner),
        form("CASE WHEN {} THEN {} ELSE {} END", inner, inner, inner),
        form("(({}) = ({}))", inner, inner),
    )


CONDITIONS = conditions_over(2)


def expression_conditions(count: int) -> st.SearchStrategy[list[Pair]]:
    """Some conditions with expressions."""
    return st.integers(0, 2**32).map(lambda seed: drawn_conditions(random.Random(seed), count))


def drawn_conditions(rng: random.Random, count: int) -> list[Pair]:
    return [CONDITIONS(rng) for _ in range(count)]


def ours_of(pairs: Sequence[Pair]) -> list[str]:
    return [pair.ours for pair in pairs]
