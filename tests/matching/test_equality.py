"""The index against every judge there is: the oracle, the compiled boxes, DuckDB, and Spark's own `where`."""

from __future__ import annotations

import datetime
import math
import random
import tempfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, multiple, rule
from tests.matching.batches import batch_of, code
from tests.matching.strategies import (
    TYPES,
    Event,
    conditions,
    duckdb_conditions,
    events,
    range_conditions,
    range_events,
    spark_conditions,
    typed_table,
    typed_tables,
)

from fieldfare import Index, Range
from fieldfare.language import compile  # noqa: A004
from fieldfare.matching import oracle
from fieldfare.matching.residual import Residuals
from fieldfare.model import Box, Cut, DerivedWithin, Section, SubscriptionId, cut_below, section_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

slow_to_draw = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


def expected(texts: Sequence[str], rows: Sequence[Event]) -> list[list[int]]:
    return [oracle.match(dict(enumerate(texts)), row) for row in rows]  # type: ignore[misc]


def lists(found: pa.ListArray) -> list[list[Any]]:
    """Lists of ids, each sorted: their own order is not defined."""
    return [sorted(ids) for ids in found.to_pylist()]


# The oracle


@given(st.lists(conditions(), min_size=1, max_size=6), st.lists(events(), min_size=1, max_size=6))
@settings(slow_to_draw, max_examples=300)
@example(["a < 2 * b"], [{"a": 3, "b": 2}, {"a": 4, "b": 2.0}, {"a": 3}])
@example(["x = 9007199254740993"], [{"x": 9007199254740993}, {"x": 2.0**53}, {"x": Decimal(9007199254740993)}])
@example(["x IN (1, NULL)", "NOT x IN (1, NULL)", "x NOT IN (1, 2)"], [{"x": 1}, {"x": 3}, {}])
@example(["x = 0"], [{"x": -0.0}, {"x": False}, {"x": "0"}, {"x": math.nan}])
@example(["NOT (x <=> 5)", "x <=> NULL"], [{"x": 5}, {"x": math.nan}, {"x": "5"}, {}])
@example(["day >= '2024-01-01'"], [{"day": datetime.date(2024, 1, 1)}, {"day": "2024-01-01"}, {"day": 2024}])
def test_index_equals_the_oracle(texts: list[str], rows: list[Event]) -> None:
    index = Index(dict(enumerate(texts)))
    answer = expected(texts, rows)
    assert [index.match(row) for row in rows] == answer
    assert lists(index.match_rows(rows)) == answer


@given(st.lists(conditions(), min_size=1, max_size=6), st.lists(events(), min_size=1, max_size=3))
@settings(slow_to_draw, max_examples=60)
def test_string_ids_keep_their_order(texts: list[str], rows: list[Event]) -> None:
    subscriptions: dict[SubscriptionId, str] = {f"s{len(texts) - number}": text for number, text in enumerate(texts)}
    index = Index(subscriptions)
    assert len(index) == len(texts)
    assert [index.match(row) for row in rows] == [oracle.match(subscriptions, row) for row in rows]


@given(st.lists(range_conditions(), min_size=1, max_size=5), st.lists(range_events(), min_size=1, max_size=4))
@settings(slow_to_draw, max_examples=200)
@example(["price > 5 AND price < 3", "price != 5 AND price BETWEEN 4 AND 6"], [{"price": Range(2, 6)}])
@example(["price != 5"], [{"price": Range(5, 5)}, {"price": Range(5.0, 5.5)}])
@example(["NOT price BETWEEN 4 AND 6"], [{"price": Range(4, 6)}, {"price": Range(4, None)}])
@example(
    [f"price = {2**53}", f"price > {2**53 + 1}"], [{"price": Range(2**53 + 1, 1e16)}, {"price": Range(None, 2**53 + 1)}]
)
def test_ranges_equal_the_oracle(texts: list[str], rows: list[Event]) -> None:
    index = Index(dict(enumerate(texts)))
    assert [index.match(row) for row in rows] == expected(texts, rows)
    assert lists(index.match_rows(rows)) == expected(texts, rows)


@given(st.lists(spark_conditions(), min_size=1, max_size=6), typed_tables(rows=8))
@settings(slow_to_draw, max_examples=100)
def test_tables_equal_the_oracle(texts: list[str], table: pa.Table) -> None:
    index = Index(dict(enumerate(texts)))
    answer = expected(texts, table.to_pylist())
    assert lists(index.match_table(table)) == answer
    assert lists(index.match_rows(table.to_pylist())) == answer
    chunked = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    assert lists(index.match_table(chunked)) == answer
    assert lists(index.match_table(table.slice(2, 4).to_batches()[0])) == answer[2:6]


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (pa.array(["a", "b", None]).dictionary_encode(), "x = 'a'"),
        (pa.array(["a", "b", None], pa.large_string()), "x = 'a'"),
        (pa.array(["a", "b", None], pa.string_view()), "x = 'a'"),
        (pa.array([1, 2, None], pa.int8()), "x = 1"),
        (pa.array([1, 2, None], pa.uint64()), "x = 1"),
        (pa.array([1.5, 2, None], pa.float32()), "x = 1.5"),
        (pa.array([1.5, 2, None], pa.float16()), "x = 1.5"),
        (pa.array([Decimal("1.50"), Decimal("2.00"), None]), "x = 1.5"),
        (pa.array([True, False, None]), "x"),
        (pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None], pa.date64()), "x < DATE '2024-01-02'"),
        (pa.array([0, 86_400, None], pa.timestamp("s")), "x < TIMESTAMP '1970-01-02 00:00:00'"),
        (pa.array([0, 86_400, None], pa.timestamp("s", "Europe/Berlin")), "x < TIMESTAMP '1970-01-02 00:00:00'"),
        (pa.array([{"low": 1, "high": 3}, {"low": 5, "high": 9}, None]), "x BETWEEN 2 AND 4"),
    ],
)
def test_arrow_types(column: pa.Array, condition: str) -> None:
    assert Index({7: condition}).match_table(pa.table({"x": column})).to_pylist() == [[7], [], []]


@given(st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9), st.booleans()), max_size=8), st.integers(-4, 10))
@settings(max_examples=60)
def test_boxes_from_columns_are_half_open(bounds: list[tuple[int, int, bool]], value: int) -> None:
    low = pa.array([low for low, _, _ in bounds], pa.int64())
    high = pa.array([None if opened else high for _, high, opened in bounds], pa.int64())
    index = Index.from_boxes(pa.array(range(len(bounds)), pa.int64()), {"x": (low, high)})
    assert index.match({"x": value}) == [
        i for i, (a, b, opened) in enumerate(bounds) if a <= value and (opened or value < b)
    ]


# The compiler, without the index


@given(conditions(), events())
@settings(slow_to_draw, max_examples=400)
def test_boxes_equal_the_oracle(text: str, event: Event) -> None:
    condition = compile(text)
    holding = [box for box in condition.boxes if box_holds(box, event)]
    assert bool(holding) == oracle.holds(text, event)
    assert len(holding) <= 1 or not condition.disjoint


def box_holds(box: Box, event: Event) -> bool:
    cuts = {name: cut_of(value) for name, value in event.items()}
    null = section_start(Section.NULL)
    within = all(interval.low <= cuts.get(name, null) < interval.high for name, interval in box.intervals.items())
    derived = (DerivedWithin(axis, (interval,)) for axis, interval in box.derived.items())
    residuals = Residuals.of({0: (*box.tests, *derived)})
    return within and bool(residuals.holds(np.zeros(1, np.int64), np.zeros(1, np.int32), batch_of([event]))[0])


def cut_of(value: Any) -> Cut:
    if value is None or value != value:  # noqa: PLR0124  # NaN
        return section_start(Section.NULL if value is None else Section.NAN)
    return cut_below(*code(value))


# Updates, saving and mapping


class Updates(RuleBasedStateMachine):
    """Any sequence of adds, removes, saves and loads answers as a fresh build would."""

    ids = Bundle("ids")

    @initialize(texts=st.lists(conditions(), max_size=4), target=ids)
    def build(self, texts: list[str]) -> Any:
        self.subscriptions: dict[SubscriptionId, str] = {f"first {n}": text for n, text in enumerate(texts)}
        self.index = Index(self.subscriptions)
        self.versions = 0
        return multiple(*self.subscriptions)

    @rule(texts=st.lists(conditions(), max_size=3), gone=st.lists(consumes(ids), max_size=3), target=ids)
    def update(self, texts: list[str], gone: list[str]) -> Any:
        self.versions += 1
        added: dict[SubscriptionId, str] = {f"{self.versions} {n}": text for n, text in enumerate(texts)}
        before = self.index
        rows: list[Event] = [{"price": 1, "symbol": "a"}, {"flag": True}]
        answers = lists(before.match_rows(rows))
        self.index = before.updated(add=added, remove=gone)
        assert lists(before.match_rows(rows)) == answers  # an index never changes
        self.subscriptions = {i: text for i, text in self.subscriptions.items() if i not in gone} | added
        return multiple(*added)

    @rule(name=consumes(ids), text=conditions(), target=ids)
    def change_one(self, name: str, text: str) -> str:
        """Removed and added at once: the new condition counts, in the new place."""
        self.index = self.index.updated(add={name: text}, remove=[name])
        del self.subscriptions[name]
        self.subscriptions[name] = text
        return name

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(folder)
            self.index = Index.load(folder)

    @rule(rows=st.lists(events(), min_size=1, max_size=3))
    def match(self, rows: list[Event]) -> None:
        answer = [oracle.match(self.subscriptions, row) for row in rows]
        assert [self.index.match(row) for row in rows] == answer
        as_sets = [sorted(ids) for ids in answer]
        assert lists(self.index.match_rows(rows)) == as_sets
        assert lists(Index(self.subscriptions).match_rows(rows)) == as_sets
        assert len(self.index) == len(self.subscriptions)


TestUpdates = Updates.TestCase
TestUpdates.settings = settings(slow_to_draw, max_examples=25, stateful_step_count=12)


# DuckDB


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@given(st.lists(duckdb_conditions(), min_size=1, max_size=8), typed_tables(rows=12))
@settings(slow_to_draw, max_examples=80)
def test_equals_duckdb(duck: duckdb.DuckDBPyConnection, texts: list[str], table: pa.Table) -> None:
    zoneless = pa.schema([(name, pa.timestamp("us") if pa.types.is_timestamp(t) else t) for name, t in TYPES.items()])
    duck.register("events", table.cast(zoneless))
    columns = ", ".join(f"({text}) IS TRUE" for text in texts)
    judged = duck.execute(f"SELECT {columns} FROM events").fetchall()  # noqa: S608  # conditions are SQL
    compare_with_judge(texts, table, judged)


def compare_with_judge(texts: list[str], table: pa.Table, judged: Sequence[Sequence[object]]) -> None:
    """Our answers and the oracle's against an engine's: one row of booleans for each event."""
    rows = table.to_pylist()
    answer = Index(dict(enumerate(texts))).match_table(table).to_pylist()
    wrong = [
        (texts[number], {name: value for name, value in row.items() if name in texts[number]}, holds)
        for row, flags, ids in zip(rows, judged, answer, strict=True)
        for number, holds in enumerate(flags)
        if (number in ids) is not holds or oracle.holds(texts[number], row) is not holds
    ]
    assert not wrong, f"{len(wrong)} answers differ, the first: {wrong[0]}"


# Spark


EVERY_OPERATOR = [
    "quantity = 5", "quantity == 5", "quantity != 5", "quantity <> 5", "quantity < 5", "quantity <= 5", "quantity > 5",
    "quantity >= 5", "5 < quantity", "quantity <=> 5", "quantity <=> NULL", "NOT (quantity <=> 5)", "quantity = NULL",
    "NOT quantity = NULL", "quantity BETWEEN 1 AND 5", "quantity NOT BETWEEN 1 AND 5", "quantity BETWEEN 5 AND 1",
    "quantity IN (1, 5)", "quantity NOT IN (1, 5)", "quantity IN (1, NULL)", "quantity NOT IN (1, NULL)",
    "quantity IS NULL", "quantity IS NOT NULL", "NOT quantity IS NULL", "quantity = -9223372036854775808",
    "quantity = 9223372036854775807", "quantity > 9007199254740992", "quantity < 2.5", "price = 0", "price = -0.0",
    "price < 1e300", "price > -1e300", "price >= 1.7e308", "price = 5e-324", "price <> 0.5",
    "symbol = 'a'", "symbol < 'b'", "symbol >= ''", "symbol = 'it\\'s'", "symbol = \"it's\"", "symbol = 'a\\\\b'",
    "symbol IN ('a', 'é', '😀')", "symbol BETWEEN 'a' AND 'abc'", "symbol LIKE 'a%'", "symbol NOT LIKE 'a%'",
    "symbol LIKE '%b%'", "symbol LIKE 'a_c'", "symbol LIKE 'a\\_c'", "symbol LIKE 'a\\%'", "symbol LIKE '_'",
    "symbol LIKE ''", "symbol LIKE '%'", "symbol LIKE 'a!%' ESCAPE '!'", "symbol NOT LIKE '%!_%' ESCAPE '!'",
    "symbol LIKE '%\\n%'", "symbol LIKE 'abc'", "symbol < tag", "symbol <=> 'a'", "symbol > '2024-01-01'",
    "flag", "NOT flag", "flag = true", "flag != true", "flag IN (true)", "flag IS NULL", "flag < true", "flag = hot",
    "flag OR hot", "flag AND NOT hot", "NOT (flag AND hot)", "NOT (flag OR quantity > 1)", "flag <=> false",
    "day = DATE '2024-01-01'", "day < DATE '2024-02-29'", "day = '2024-01-01'", "day < moment",
    "moment = TIMESTAMP '2024-01-01 12:00:00'", "moment > TIMESTAMP '2024-01-01 12:00:00+02:00'",
    "moment >= DATE '2024-01-01'", "moment >= '2024-01-01'", "moment = '2024-01-01 12:00:00'", "moment < '2024'",
    "day IN (DATE '2024-01-01', DATE '2024-02-29')", "pieces < boxes", "pieces < 2 * boxes", "pieces + boxes = 5",
    "pieces - boxes > 0", "pieces * boxes >= 3", "pieces / boxes > 1", "pieces % boxes = 1", "pieces % 3 = -1",
    "-pieces > boxes", "rate / ratio < 1", "rate % ratio = 0.5", "rate * 2 > ratio + 1", "pieces < rate",
    "pieces + 1 < 2 * (boxes - 3)", "NOT (pieces < boxes)", "pieces > 1 + 2 * 3", "true", "false", "1 = 1", "NULL",
    "pieces = 1 OR (boxes > 2 AND NOT (symbol LIKE 'a%' OR price < 1)) OR moment IS NULL",
]  # fmt: skip


def judged_by_spark(spark: SparkSession, texts: list[str], table: pa.Table) -> Sequence[Sequence[object]]:
    """All conditions on all events in one job; x / 0 is NULL, as in ours, and not an error."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        frame = spark.createDataFrame(table).coalesce(1)
        return frame.selectExpr(*(f"coalesce({text}, false) AS c{n}" for n, text in enumerate(texts))).collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_every_operator_equals_spark(spark: SparkSession) -> None:
    table = typed_table(random.Random(1), rows=60)
    compare_with_judge(EVERY_OPERATOR, table, judged_by_spark(spark, EVERY_OPERATOR, table))


@given(st.lists(spark_conditions(), min_size=30, max_size=30), typed_tables(rows=30))
@settings(slow_to_draw, max_examples=3, phases=[Phase.explicit, Phase.generate])  # shrinking would take many jobs
def test_equals_spark(spark: SparkSession, texts: list[str], table: pa.Table) -> None:
    compare_with_judge(texts, table, judged_by_spark(spark, texts, table))
