from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from fieldfare.errors import (
    ConditionSyntaxError,
    ConditionTypeError,
    DuplicateIdError,
    EventError,
    InvalidIdError,
    SubscriptionError,
    UnknownAttributeError,
)
from fieldfare.pipeline import match

SCHEMA = """
    event_id BIGINT NOT NULL, symbol STRING, price DOUBLE, volume BIGINT, small TINYINT, ratio FLOAT,
    amount DECIMAL(12, 2), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, halted BOOLEAN,
    place STRUCT<city: STRING, zone: INT>,
    raw BINARY, tags ARRAY<STRING>, counts MAP<STRING, INT>, deep ARRAY<STRUCT<a: INT, b: ARRAY<STRING>>>
"""
CONDITIONS = {
    "cheap": "price < 10",
    "yhoo": "symbol = 'YHOO' AND volume > 1000000",
    "either": "symbol IN ('IBM', 'SUN') OR price BETWEEN 50 AND 60",
    "not": "NOT (symbol = 'IBM' AND price > 20)",
    "null": "symbol IS NULL",
    "present": "price IS NOT NULL AND symbol <> 'IBM'",
    "prefix": "symbol LIKE 'Y%'",
    "pattern": "symbol LIKE '%U_'",
    "small": "small >= -3 AND small != 2",
    "ratio": "ratio > 0.5",
    "amount": "amount <= 12.5",
    "day": "day >= DATE '2024-02-01'",
    "at": "at < TIMESTAMP '2024-03-01 12:00:00'",
    "halted": "halted",
    "moving": "NOT halted",
    "between attributes": "volume > 1000 * price",
    "exact": "volume = 9007199254740993",
    "safe": "symbol <=> NULL",
    "member": "array_contains(tags, 'a') AND array_contains(tags, 'b')",
    "member and volume": "array_contains(tags, 'b') AND volume > 100000",
    "no member": "NOT array_contains(tags, 'c')",
    "unsure": "array_contains(tags, 'c') IS NULL",
    "no list": "tags IS NULL",
    "size": "size(tags) = 3 AND size(deep) = 1",
    "overlap": "arrays_overlap(tags, array('b', 'z'))",
    "subset": "size(array_except(array('a', 'b'), tags)) = 0",
    "superset": "size(array_except(tags, array('a', 'b'))) = 1",
    "element": "tags[2] = 'b' AND element_at(tags, -3) = 'a'",
    "key": "counts['k'] > 50 AND counts['n'] IS NULL",
    "dotted key": "counts.k > 150",
    "some member": "exists(deep, d -> d.a > 100)",
    "deep member": "exists(deep, d -> array_contains(d.b, 'x')) AND deep[0].a < 20",
    "unsure of some": "exists(tags, t -> t = 'c') IS NULL",
    "all members": "forall(deep, d -> d.a % 2 = 0 OR d.a = small)",
}


def event(number: int) -> tuple[Any, ...]:
    def unless(divisor: int, value: object) -> object:
        return None if number % divisor == 0 else value

    return (
        number,
        unless(7, ["YHOO", "IBM", "SUN", "YUM", ""][number % 5]),
        unless(11, float("nan") if number % 13 == 0 else number * 1.5),
        9007199254740992 + number % 3 if number % 4 == 0 else number * 50_000,
        unless(5, number % 10 - 5),
        unless(6, number / 100),
        unless(8, Decimal(number) / 4),
        unless(9, datetime.date(2024, 1, 1) + datetime.timedelta(days=number)),
        unless(10, datetime.datetime(2024, 2, 20, 6) + datetime.timedelta(hours=7 * number)),  # noqa: DTZ001
        datetime.datetime(2024, 2, 20, 6),  # noqa: DTZ001 - Spark's type without a zone
        unless(3, number % 2 == 0),
        unless(4, Row(city=["Brno", "Oslo"][number % 2], zone=number % 3)),
        unless(5, bytes([number % 256])),
        unless(6, ["a", None, "b"]),
        unless(7, {"k": number, "n": None}),
        [Row(a=number, b=["x"])],
    )


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([event(number) for number in range(200)], SCHEMA).repartition(3)


def subscriptions(spark: SparkSession, conditions: dict[Any, Any], id_type: str = "STRING") -> DataFrame:
    return spark.createDataFrame(list(conditions.items()), f"subscription_id {id_type}, condition STRING")


def test_every_condition_has_the_meaning_it_has_in_spark(spark: SparkSession, events: DataFrame) -> None:
    # where() keeps the rows for which the condition is true, neither false nor NULL: all conditions in one job.
    wanted = [f"coalesce({condition}, false) AS `{name}`" for name, condition in CONDITIONS.items()]
    matched = match(events, subscriptions(spark, CONDITIONS)).selectExpr("event_id", "subscription_ids", *wanted)
    rows = matched.collect()
    assert len(rows) == 200
    for row in rows:
        assert sorted(row.subscription_ids) == sorted(name for name in CONDITIONS if row[name]), row.event_id


def test_the_same_rows_as_where_row_for_row(spark: SparkSession, events: DataFrame) -> None:
    condition = CONDITIONS["either"]
    matched = match(events, subscriptions(spark, {1: condition}, "INT")).where("array_contains(subscription_ids, 1)")
    wanted = sorted(map(repr, events.where(condition).collect()))
    assert sorted(map(repr, matched.drop("subscription_ids").collect())) == wanted
    assert wanted


def test_struct_fields_are_attributes_with_dotted_names(spark: SparkSession, events: DataFrame) -> None:
    condition = "place.city = 'Brno' AND place.zone > 0"
    matched = match(events, subscriptions(spark, {"brno": condition})).where("size(subscription_ids) = 1")
    wanted = events.where(condition).select("event_id").collect()
    assert sorted(row.event_id for row in matched.collect()) == sorted(row.event_id for row in wanted)
    assert wanted


def test_payload_is_untouched(spark: SparkSession, events: DataFrame) -> None:
    matched = match(events, subscriptions(spark, CONDITIONS))
    assert matched.schema.fields[:-1] == events.schema.fields
    # By their text, because NaN is not equal to itself.
    carried = sorted(map(repr, matched.drop("subscription_ids").collect()))
    assert carried == sorted(map(repr, events.collect()))


@pytest.mark.parametrize("id_type", ["TINYINT", "SMALLINT", "INT", "BIGINT", "STRING"])
def test_ids_keep_their_type(spark: SparkSession, id_type: str) -> None:
    ids: list[Any] = ["1", "5", "9"] if id_type == "STRING" else [1, 5, 9]
    events = spark.createDataFrame([(1.0,), (50.0,)], "price DOUBLE")
    matched = match(events, subscriptions(spark, dict.fromkeys(ids, "price < 10"), id_type))
    assert matched.schema["subscription_ids"].dataType.simpleString() == f"array<{id_type.lower()}>"
    assert not matched.schema["subscription_ids"].nullable
    assert [sorted(row.subscription_ids) for row in matched.orderBy("price").collect()] == [ids, []]


def test_ranges(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [(1, (5.0, 15.0)), (2, (11.0, 15.0)), (3, None)], "n INT, price STRUCT<low: DOUBLE, high: DOUBLE>"
    )
    matched = match(events, subscriptions(spark, {"cheap": "price < 10"}))
    assert [row.subscription_ids for row in matched.orderBy("n").collect()] == [["cheap"], [], []]


def test_a_stream(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    events.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(events.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    matched = match(stream, subscriptions(spark, CONDITIONS), snapshots=tmp_path / "snapshots")
    assert matched.isStreaming
    writer = matched.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    assert query.awaitTermination(120)
    batch = match(events, subscriptions(spark, CONDITIONS))
    columns = ["event_id", "sort_array(subscription_ids)"]
    streamed = spark.read.parquet(str(tmp_path / "out")).selectExpr(columns).collect()
    assert sorted(streamed) == sorted(batch.selectExpr(columns).collect())
    assert len(list((tmp_path / "snapshots").iterdir())) == 1


@pytest.mark.filterwarnings("ignore:the events have no attribute")
def test_empty_sides(spark: SparkSession, events: DataFrame) -> None:
    assert match(events.limit(0), subscriptions(spark, CONDITIONS)).collect() == []
    nobody = match(events, subscriptions(spark, {}))
    assert {tuple(row.subscription_ids) for row in nobody.collect()} == {()}
    unknown = match(events.select("event_id"), subscriptions(spark, {"cheap": "price < 10", "none": "price IS NULL"}))
    assert {tuple(row.subscription_ids) for row in unknown.collect()} == {("none",)}


def test_no_shuffle(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    match(spark.range(10), subscriptions(spark, {"one": "id = 1"})).explain()
    plan = capsys.readouterr().out
    assert "MapInArrow" in plan
    assert "Exchange" not in plan


@pytest.mark.parametrize(
    ("rows", "schema", "error"),
    [
        ([("a", "price <")], "subscription_id STRING, condition STRING", ConditionSyntaxError),
        ([("a", "price < 1"), ("a", "price < 2")], "subscription_id STRING, condition STRING", DuplicateIdError),
        ([(None, "price < 1")], "subscription_id STRING, condition STRING", InvalidIdError),
        ([(1.5, "price < 1")], "subscription_id DOUBLE, condition STRING", InvalidIdError),
        ([("a", None)], "subscription_id STRING, condition STRING", ConditionSyntaxError),
        ([("a", 1)], "subscription_id STRING, condition INT", SubscriptionError),
        ([("a", "price < 1")], "id STRING, condition STRING", SubscriptionError),
    ],
)
def test_unsound_subscriptions_fail_before_any_task(
    spark: SparkSession, rows: list[Any], schema: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        match(spark.range(1), spark.createDataFrame(rows, schema))


def test_events_that_cannot_be_matched_fail_before_any_task(spark: SparkSession) -> None:
    wanted = subscriptions(spark, {"cheap": "price < 10"})
    with pytest.raises(EventError, match="price"):
        match(spark.createDataFrame([(bytearray(b"1"),)], "price BINARY"), wanted)
    with pytest.raises(EventError, match="subscription_ids"):
        match(spark.createDataFrame([(1, "x")], "price INT, subscription_ids STRING"), wanted)
    with pytest.raises(EventError, match="two columns"):
        match(spark.createDataFrame([(1, 2)], "price INT, price INT"), wanted)


@pytest.mark.parametrize(
    "condition",
    [
        "symbol = 5",
        "price = 'x'",
        "halted < 3",
        "at > 5",
        "place.city > 1 AND price < 10",
        "NOT symbol = 5",
        "tags = 5",
        "NOT tags < 'a'",
        "tags LIKE 'a%'",
        "tags",
        "lower(tags) = 'a'",
        "tags + 1 > 2",
        "size(price) = 1",
        "array_contains(symbol, 'a')",
        "tags = array('a')",
        "price > current_timestamp()",
    ],
)
def test_a_comparison_that_can_never_hold_names_its_subscription(
    spark: SparkSession, events: DataFrame, condition: str
) -> None:
    with pytest.raises(ConditionTypeError) as raised:
        match(events, subscriptions(spark, {"good": "price < 10", "bad one": condition}))
    assert raised.value.__notes__ == ["in subscription 'bad one'"]


@pytest.mark.filterwarnings("ignore:the events have no attribute")
def test_a_comparison_that_can_hold_is_no_error(spark: SparkSession, events: DataFrame) -> None:
    conditions = [
        "at > '2024-01-01'",
        "symbol > '2024-01-01'",
        "symbol IS NULL",
        "price IN (1, 'x')",
        "unknown = 5",
        "FALSE",
    ]
    assert match(events, subscriptions(spark, {condition: condition for condition in conditions})).count() == 200


def test_subscriptions_cannot_be_a_stream(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS subscription_id", "'a = 1' AS condition")
    with pytest.raises(SubscriptionError, match="stream"):
        match(spark.range(1), stream)


@pytest.mark.parametrize(
    "condition", ["Price < 10", "symbol = 'A' OR Price < 10", "Price > volume", "place.City = 'Oslo'"]
)
def test_a_column_in_another_case_is_an_error(spark: SparkSession, events: DataFrame, condition: str) -> None:
    wanted = {"good": "price < 10", "bad": condition}
    with pytest.raises(UnknownAttributeError, match="names are matched as they are written") as caught:
        match(events, subscriptions(spark, wanted))
    assert caught.value.__notes__ == ["in subscription 'bad'"]
    assert caught.value.position == condition.index("Price" if "Price" in condition else "place")


def test_an_unknown_column_is_a_warning(spark: SparkSession, events: DataFrame) -> None:
    with pytest.warns(UserWarning, match="no attribute 'prise'; did you mean 'price'"):
        match(events, subscriptions(spark, {"typo": "prise < 10"}))


def test_functions_have_the_meaning_they_have_in_spark(spark: SparkSession) -> None:
    events = spark.sql(
        "SELECT * FROM VALUES ('Anna', 3, TIMESTAMP '2026-01-05 09:30:00'), ('bob', -2, NULL), (NULL, 5, "
        "TIMESTAMP '2026-01-03 23:59:59') AS t(name, x, at)"
    )
    conditions = [
        "lower(name) = 'anna'",
        "hour(at) BETWEEN 8 AND 10",
        "abs(x) + length(name) > 6",
        "CASE WHEN x > 0 THEN at > '2026-01-04' ELSE name LIKE '%b' END",
        "coalesce(name, 'nobody') ILIKE 'N%'",
    ]
    subscriptions = spark.createDataFrame(list(enumerate(conditions)), "subscription_id int, condition string")
    found = {row.x: row.subscription_ids for row in match(events, subscriptions).collect()}
    for number, condition in enumerate(conditions):
        expected = {row.x for row in events.where(condition).collect()}
        assert {x for x, ids in found.items() if number in ids} == expected, condition


@pytest.mark.parametrize(
    ("events", "condition", "reason"),
    [
        ("SELECT 'a' COLLATE UTF8_LCASE AS s", "s = 'A'", "collation UTF8_LCASE"),
        ("SELECT map(1, 1) AS m", "m['1'] = 1", "keys of type"),
        ("SELECT array(struct(1 AS a)) AS items", "items.a = 1", "items is a list"),
        ("SELECT 'a' AS s", "abs(s) > 1", "abs needs a number"),
    ],
)
def test_what_spark_would_answer_otherwise_is_refused(
    spark: SparkSession, events: str, condition: str, reason: str
) -> None:
    subscriptions = spark.createDataFrame([(1, condition)], "subscription_id int, condition string")
    with pytest.raises((EventError, ConditionTypeError), match=reason):
        match(spark.sql(events), subscriptions)


def test_times_need_a_session_in_utc(spark: SparkSession) -> None:
    events = spark.sql(
        "SELECT TIMESTAMP '2026-01-05 09:30:00' AS at, DATE '2026-01-05' AS day, TIMESTAMP_NTZ '2026-01-05' AS local"
    )
    refused = ["hour(at) = 9", "at > '2026-01-05 09:00:00'", "coalesce(at, at) < '2026-02-01'", "day = current_date()"]
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for condition in refused:
            with pytest.raises(ConditionTypeError, match="Europe/Berlin"):
                match(events, subscriptions(spark, {1: condition}, "INT"))
        taken = ["day > '2026-01-04' AND local < '2026-01-06'", "at IS NOT NULL"]
        (row,) = match(events, subscriptions(spark, dict(enumerate(taken)), "INT")).collect()
        assert row.subscription_ids == [0, 1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_now_is_one_instant_of_the_call_or_of_the_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    conditions = {1: "at > current_timestamp() - INTERVAL 1 HOUR", 2: "at > now()", 3: "day = current_date"}
    now = datetime.datetime.now(datetime.UTC)
    rows = [(n, now + datetime.timedelta(minutes=minutes), now.date()) for n, minutes in enumerate((-70, -50, 50))]
    events = spark.createDataFrame(rows, "n INT, at TIMESTAMP, day DATE")
    wanted = {
        n: [number for number, text in conditions.items() if events.where(f"n = {n} AND {text}").count()]
        for n in range(3)
    }
    batch = match(events, subscriptions(spark, conditions, "INT"))
    assert {row.n: row.subscription_ids for row in batch.collect()} == wanted
    assert batch.columns == ["n", "at", "day", "subscription_ids"]
    events.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "in"))
    writer = match(stream, subscriptions(spark, conditions, "INT")).writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    assert query.start(str(tmp_path / "out")).awaitTermination(120)
    assert {row.n: row.subscription_ids for row in spark.read.parquet(str(tmp_path / "out")).collect()} == wanted
    with pytest.raises(EventError, match="_fieldfare_now"):
        match(events.withColumnRenamed("n", "_fieldfare_now"), subscriptions(spark, conditions, "INT"))


def test_places_and_regular_expressions_are_matched_in_spark_too(spark: SparkSession) -> None:
    rows = [(1, 13.4, 52.5, "banana"), (2, 179.99, -17.0, "a\n"), (3, None, 5.0, None), (4, 5.0, 5.0, "b")]
    places = spark.createDataFrame(rows, "event_id INT, longitude DOUBLE, latitude DOUBLE, name STRING")
    conditions = {
        "Berlin": "ST_DistanceSphere(ST_Point(longitude, latitude), ST_Point(13.405, 52.52)) < 25000",
        "Fiji": "ST_DistanceSphere(ST_Point(longitude, latitude), ST_Point(-179.9, -17)) < 25000",
        "square": "ST_Covers(ST_GeomFromText('POLYGON((0 0, 5 0, 5 5, 0 5, 0 0))'), ST_Point(longitude, latitude))",
        "pattern": "name RLIKE 'a$'",
    }
    found = {
        row.event_id: sorted(row.subscription_ids) for row in match(places, subscriptions(spark, conditions)).collect()
    }
    assert found == {1: ["Berlin", "pattern"], 2: ["Fiji", "pattern"], 3: [], 4: ["square"]}
    assert {row.event_id for row in places.where(conditions["pattern"]).collect()} == {1, 2}
