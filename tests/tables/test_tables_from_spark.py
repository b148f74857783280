"""The pipeline on Spark, into tables: what other tools find there is what brute force finds."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.store.conftest import PostgresServer
from tests.tables.test_lake_tables import read, wait_until

from fieldfare.pipeline import FolderSource, Pipeline, PipelineOptions, Watcher
from fieldfare.pipeline.tables.address import LakeTableSink, PostgresSink, parse_table
from fieldfare.store import open_store

CONDITIONS = {"slow": "speed < 25", "accident": "kind = 'accident'", "both": "speed < 25 AND kind = 'accident'"}
EVENTS = [{"number": n, "speed": n % 50, "kind": "accident" if n % 3 == 0 else "jam"} for n in range(200)]


def expected() -> set[tuple[int, str]]:
    """By DuckDB, which shares nothing with us."""
    found: set[tuple[int, str]] = set()
    rows = ", ".join(f"({event['number']}, {event['speed']}, '{event['kind']}')" for event in EVENTS)
    for subscription, condition in CONDITIONS.items():
        query = f"SELECT number FROM (VALUES {rows}) AS e(number, speed, kind) WHERE {condition}"  # noqa: S608 - all of it is ours
        found |= {(number, subscription) for (number,) in duckdb.execute(query).fetchall()}
    return found


def write_events(folder: Path, name: str, events: Sequence[Mapping[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.mark.parametrize("kind", ["delta", "iceberg", "postgresql"])
def test_tables_hold_what_brute_force_finds(
    kind: str, spark: SparkSession, tmp_path: Path, postgres: PostgresServer
) -> None:
    places = {
        "delta": f"delta:{tmp_path}/table",
        "iceberg": f"iceberg:{tmp_path}/lake/alerts.matches",
        "postgresql": f"{postgres.new_address()}&table=alerts",
    }
    sink = parse_table(places[kind])
    with open_store(str(tmp_path / "store.db")) as store:
        store.add(CONDITIONS, now_seconds=0.0)
    options = PipelineOptions(
        store=str(tmp_path / "store.db"), output=sink, checkpoint=tmp_path / "state", until_idle=True
    )
    half = len(EVENTS) // 2
    for number, events in enumerate((EVENTS[:half], EVENTS[half:])):  # the second run goes on where the first was
        write_events(tmp_path / "in", f"{number}.jsonl", events)
        source = FolderSource(tmp_path / "in", tmp_path / "state" / "ledger")
        Pipeline(spark, options).run(source)
    assert found(sink) == sorted(expected())


class _Told(Watcher):
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def notice(self, text: str) -> None:
        self.sentences.append(text)


def test_a_database_that_is_away_at_the_start_is_waited_for(
    spark: SparkSession, tmp_path: Path, postgres: PostgresServer
) -> None:
    sink = parse_table(f"{postgres.new_address()}&table=alerts")
    with open_store(str(tmp_path / "store.db")) as store:
        store.add(CONDITIONS, now_seconds=0.0)
    write_events(tmp_path / "in", "0.jsonl", EVENTS)
    told = _Told()
    options = PipelineOptions(
        store=str(tmp_path / "store.db"), output=sink, checkpoint=tmp_path / "state", until_idle=True
    )
    pipeline = Pipeline(spark, options, watcher=told)
    postgres.stop()
    try:
        run = threading.Thread(
            target=pipeline.run, args=(FolderSource(tmp_path / "in", tmp_path / "state" / "ledger"),)
        )
        run.start()
        wait_until(lambda: any("(trying again in" in sentence for sentence in told.sentences))
    finally:
        postgres.start()
    run.join()
    assert found(sink) == sorted(expected())


def found(sink: LakeTableSink | PostgresSink) -> list[tuple[int, str]]:
    if isinstance(sink, PostgresSink):
        with psycopg.connect(sink.address) as connection:
            return sorted(connection.execute("SELECT number, subscription_id FROM alerts").fetchall())
    rows = read(sink).to_pylist()
    return sorted((row["number"], subscription) for row in rows for subscription in row["subscription_ids"])
