from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.pipeline.output_runs import FAULT, FILES, ROWS, events_of, run_batch, run_on
from tests.store.conftest import PostgresServer

from fieldfare.errors import InputError, TableError, TableUnavailableError
from fieldfare.pipeline.output import EventWriter, WriteOptions
from fieldfare.pipeline.tables.address import PostgresSink, parse_table
from fieldfare.pipeline.tables.postgres import PostgresOutput


@pytest.fixture
def sink(postgres: PostgresServer) -> PostgresSink:
    found = parse_table(f"{postgres.new_address()}&table=alerts")
    assert isinstance(found, PostgresSink)
    return found


@contextmanager
def opened(sink: PostgresSink, state: Path) -> Iterator[PostgresOutput]:
    with closing(PostgresOutput(sink, "owner", state)) as output:
        output.prepare()
        yield output


def rows_of(sink: PostgresSink, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(sink.address) as connection:
        return connection.execute(query.encode()).fetchall()


def commit_batch(output: PostgresOutput, batch_id: int, events: pa.RecordBatch, ids: pa.ListArray) -> None:
    with EventWriter(output.stage(batch_id), output.task_options(WriteOptions(string_ids=True))) as writer:
        writer.write(events, ids)
        written = writer.close()
    output.commit(batch_id, [written] if written else [])


def expected_pairs(batches: int) -> list[tuple[int, int, int]]:
    return sorted(
        (batch_id, number, subscription)
        for batch_id in range(batches)
        for file in range(FILES)
        for number, ids in zip(*(column.to_pylist() for column in _columns(batch_id, file)), strict=True)
        for subscription in ids
    )


def _columns(batch_id: int, file: int) -> tuple[pa.Array, pa.Array]:
    events, ids = events_of(batch_id, file)
    return events.column("number"), ids


def found_pairs(sink: PostgresSink) -> list[tuple[Any, ...]]:
    return sorted(rows_of(sink, "SELECT batch_id, number, subscription_id FROM alerts"))


def test_each_pair_is_a_row_once(sink: PostgresSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path) as output:
        run_batch(output, 0)
        run_batch(output, 1)
    with opened(sink, tmp_path) as output:
        assert output.is_committed(1)
        run_batch(output, 1)
        run_batch(output, 2)
    assert found_pairs(sink) == expected_pairs(3)
    assert len(expected_pairs(3)) == 3 * FILES * ROWS * 1.5
    dead = rows_of(sink, "SELECT batch_id, place, reason, content FROM alerts_dead_letters ORDER BY batch_id")
    assert dead == [(batch_id, FAULT.place, FAULT.reason, FAULT.raw) for batch_id in range(3)]


def test_values_of_every_type_are_there_as_they_were(sink: PostgresSink, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, 12, 30, 0, 250_000, tzinfo=UTC)
    events = pa.record_batch(
        {
            "flag": pa.array([True, None]),
            "whole": pa.array([2**63 - 1, None], pa.int64()),
            "share": pa.array([0.1, float("nan")]),
            "day": pa.array([date(2026, 1, 31), None]),
            "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "text": pa.array(['a "quoted", text\nof two lines', ""]),
            "bytes": pa.array([b"\x00\xff", None]),
            "span": pa.array([{"low": 1, "high": 5}, None]),
            "tags": pa.array([["a", "b"], []]),
        }
    )
    with opened(sink, tmp_path) as output:
        commit_batch(output, 0, events, pa.array([["s"], ["s"]]))
    first, second = rows_of(sink, "SELECT * FROM alerts ORDER BY whole NULLS LAST")
    assert first == (
        True,
        2**63 - 1,
        0.1,
        date(2026, 1, 31),
        moment,
        'a "quoted", text\nof two lines',
        b"\x00\xff",
        {"low": 1, "high": 5},
        ["a", "b"],
        "s",
        0,
    )
    assert second[2] != second[2]  # NaN
    assert (second[0], second[5], second[7], second[8]) == (None, "", None, [])


def test_a_text_that_postgresql_cannot_hold_becomes_a_dead_letter(sink: PostgresSink, tmp_path: Path) -> None:
    events = pa.record_batch({"text": ["fine", "with \0 inside"]})
    with opened(sink, tmp_path) as output:
        commit_batch(output, 0, events, pa.array([["a"], ["a"]]))
    assert rows_of(sink, "SELECT text FROM alerts") == [("fine",)]
    ((batch_id, reason, content),) = rows_of(sink, "SELECT batch_id, reason, content FROM alerts_dead_letters")
    assert (batch_id, "character zero" in reason, "inside" in content) == (0, True, True)


def test_an_earlier_driver_finds_that_it_was_replaced(sink: PostgresSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "one") as earlier:
        run_batch(earlier, 0)
        with opened(sink, tmp_path / "two") as later:
            assert later.is_committed(0)
            with pytest.raises(TableError, match="another driver"):
                run_batch(earlier, 1)
            run_batch(later, 1)
    assert found_pairs(sink) == expected_pairs(2)


def test_an_older_copy_of_the_checkpoint_is_refused(sink: PostgresSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path) as output:
        run_batch(output, 3)
        with pytest.raises(TableError, match="older copy"):
            output.is_committed(2)


def test_a_server_that_is_away_is_told_and_comes_back(
    sink: PostgresSink, postgres: PostgresServer, tmp_path: Path
) -> None:
    with opened(sink, tmp_path) as output:
        run_batch(output, 0)
        postgres.stop()
        try:
            with pytest.raises(TableUnavailableError):
                run_batch(output, 1)
        finally:
            postgres.start()
        run_batch(output, 1)
    assert found_pairs(sink) == expected_pairs(2)


@pytest.mark.parametrize(
    "done", ["DROP TABLE alerts", "DELETE FROM fieldfare_commits", "UPDATE fieldfare_commits SET batch_id = 0"]
)
def test_a_table_that_lost_what_it_had_is_refused(done: str, sink: PostgresSink, tmp_path: Path) -> None:
    """Deleted, or restored from an older copy."""
    with opened(sink, tmp_path) as output:
        run_batch(output, 0)
        run_batch(output, 1)
        with psycopg.connect(sink.address) as connection:
            connection.execute(done)
        with pytest.raises(TableError, match=r"does not have them now|is gone"):
            run_batch(output, 2)
    with pytest.raises(TableError, match="had the batches up to 1, and does not have them now"), opened(sink, tmp_path):
        pass


def test_a_checkpoint_may_go_on_in_another_table(sink: PostgresSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path) as output:
        run_batch(output, 0)
    with opened(replace(sink, table="more_alerts"), tmp_path) as output:
        run_batch(output, 1)
    assert found_pairs(sink) == expected_pairs(1)
    assert rows_of(sink, "SELECT DISTINCT batch_id FROM more_alerts") == [(1,)]


def test_a_table_of_somebody_else_is_refused(sink: PostgresSink, tmp_path: Path) -> None:
    with psycopg.connect(sink.address) as connection:
        connection.execute("CREATE TABLE alerts (name text)")
    with opened(sink, tmp_path) as output, pytest.raises(TableError, match="use another one"):
        run_batch(output, 0)
    assert rows_of(sink, "SELECT * FROM alerts") == []


def test_whatever_is_killed_each_pair_is_there_once(sink: PostgresSink, tmp_path: Path) -> None:
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    rng = random.Random(5)
    place = f"{sink.address}&table={sink.table}"
    for _ in range(8):
        command = [sys.executable, "-m", "tests.tables.endless_run", place, str(tmp_path / "state"), str(acknowledged)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
    batches = len(acknowledged.read_bytes()) + 2
    assert batches > 8
    with opened(sink, tmp_path / "state") as output:
        run_on(output, acknowledged, batches)
    assert found_pairs(sink) == expected_pairs(batches)


@pytest.mark.parametrize("table", ["", "a;b", 'x"y', "a.b.c", "1st", "x" * 42])
def test_names_that_cannot_be_tables_are_refused(table: str) -> None:
    with pytest.raises(InputError, match="cannot be the table"):
        parse_table(f"postgresql://user@host/database?table={table}")


def test_a_password_is_not_shown() -> None:
    sink = parse_table("postgresql://user:canary@host/database?table=alerts")
    assert "canary" not in f"{sink} {sink!r}"
    assert str(sink) == "postgresql://host/database?table=alerts"
