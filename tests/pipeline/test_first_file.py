"""A pipeline on a folder without files yet: it waits for the first, or is told what the files will be."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fieldfare.errors import InputError
from fieldfare.files.formats import Format
from fieldfare.pipeline.run import Pipeline, PipelineOptions
from fieldfare.pipeline.source import FolderSource, is_ready, stream_folder
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.pipeline.watching import Watcher
from fieldfare.store.subscription_store import open_store

SCHEMA = "event_id BIGINT, x DOUBLE"


class _Told(Watcher):
    def __init__(self) -> None:
        self.notices: list[str] = []
        self.events = 0

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def batch(self, summary: BatchSummary) -> None:
        self.events += summary.events


@pytest.fixture
def options(tmp_path: Path) -> PipelineOptions:
    with open_store(tmp_path / "s.db") as store:
        store.add({1: "x < 10", 2: "x >= 5"}, now_seconds=time.time())
    (tmp_path / "in").mkdir()
    return PipelineOptions(
        str(tmp_path / "s.db"), tmp_path / "out", tmp_path / "state", layout="replicated", interval_seconds=0.05
    )


def put(folder: Path, name: str, text: str) -> None:
    (folder / f".{name}").write_text(text)
    (folder / f".{name}").rename(folder / name)


def found(folder: Path) -> dict[int, list[int]]:
    table = ds.dataset(folder / "out", partitioning="hive").to_table()
    ids = [sorted(some) for some in table["subscription_ids"].to_pylist()]
    return dict(zip(table["event_id"].to_pylist(), ids, strict=True))


def wait_until(is_true: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_waits_for_the_first_file_and_says_so(spark: SparkSession, options: PipelineOptions, tmp_path: Path) -> None:
    told = _Told()
    pipeline = Pipeline(spark, options, watcher=told)
    source = FolderSource(tmp_path / "in", tmp_path / "state" / "ledger")
    runner = threading.Thread(target=pipeline.run, args=(source,))
    runner.start()
    try:
        wait_until(lambda: any("waiting for the first file in" in notice for notice in told.notices))
        put(tmp_path / "in", "0.csv", "")  # which tells nothing
        put(tmp_path / "in", "1.csv", "event_id,x\n1,2\n2,7.5\n3,\n")
        wait_until(lambda: told.events >= 3)
    finally:
        pipeline.stop()
        runner.join(timeout=60)
    assert found(tmp_path) == {1: [1], 2: [1, 2], 3: []}


def test_a_pipeline_that_waits_can_be_stopped(spark: SparkSession, options: PipelineOptions, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, options)
    threading.Timer(0.3, pipeline.stop).start()
    assert pipeline.run(FolderSource(tmp_path / "in", tmp_path / "state" / "ledger")).events == 0
    told = _Told()
    idle = Pipeline(spark, replace(options, until_idle=True), watcher=told)
    assert idle.run(FolderSource(tmp_path / "in", tmp_path / "state" / "ledger")).events == 0
    assert told.notices[-1] == f"{tmp_path / 'in'} is empty: there is nothing to match"


@pytest.mark.parametrize(
    ("name", "text"),
    [("json", '{"event_id": 1, "x": 7.5}\n'), ("csv", "event_id,x\n1,7.5\n")],
)
def test_with_format_and_schema_it_starts_at_once(
    spark: SparkSession, options: PipelineOptions, tmp_path: Path, name: str, text: str
) -> None:
    told = _Told()
    source = FolderSource(tmp_path / "in", tmp_path / "state" / "ledger", format=name, schema=SCHEMA)
    pipeline = Pipeline(spark, replace(options, until_idle=True), watcher=told)
    assert pipeline.run(source).events == 0
    assert not [notice for notice in told.notices if "waiting" in notice or "empty" in notice]
    put(tmp_path / "in", "part-0", text)  # its name does not say what it is
    Pipeline(spark, replace(options, until_idle=True)).run(source)
    assert found(tmp_path) == {1: [1, 2]}


def test_what_is_known_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    source = FolderSource(folder, tmp_path / "ledger")
    assert is_ready(source)  # that there is no such folder is an error, and not worth the wait
    folder.mkdir()
    assert not is_ready(source)
    assert not is_ready(replace(source, schema=SCHEMA))
    assert not is_ready(replace(source, format="json"))
    assert is_ready(replace(source, format="json", schema=SCHEMA))
    put(folder, "a.jsonl", "")
    assert not is_ready(source)
    put(folder, "b.jsonl", "{}")
    assert is_ready(source)


def test_files_that_are_not_what_was_named_are_an_error(tmp_path: Path) -> None:
    nobody: Any = None  # it is found before Spark is asked
    with pytest.raises(InputError, match="format 'xml' is not known; it is one of json, csv, parquet"):
        FolderSource(tmp_path, tmp_path / "ledger", format="xml")
    put(tmp_path, "a.jsonl", json.dumps({"x": 1}))
    for name in ("parquet", "csv", Format.CSV):
        with pytest.raises(InputError, match=r"a\.jsonl: its name says that it is JSON lines, but the events are read"):
            stream_folder(nobody, FolderSource(tmp_path, tmp_path / "ledger", name, SCHEMA))
    (tmp_path / "a.jsonl").unlink()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b")
    with pytest.raises(InputError, match=r"b: it is a Parquet file, but the events are read as JSON lines"):
        stream_folder(nobody, FolderSource(tmp_path, tmp_path / "ledger", "json", SCHEMA))
    with pytest.raises(InputError, match=r"cannot tell its format.*or name the format: json, csv, parquet"):
        stream_folder(nobody, FolderSource(tmp_path, tmp_path / "ledger"))


def test_the_command_refuses_an_unknown_format_before_spark_starts(tmp_path: Path) -> None:
    paths = ["--events", str(tmp_path), "--output", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state")]
    command = [sys.executable, "-m", "fieldfare", "pipeline", "run", *paths, "--format", "xml"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "format 'xml' is not known; it is one of json, csv, parquet" in " ".join(ended.stderr.split())
    assert not (tmp_path / "state").exists()
