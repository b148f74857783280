"""The pipeline on Spark, from a place in an object store to another: what readers find is what brute force finds."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.bucket.object_store import SECRET_KEY, ObjectStoreServer
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.errors import PipelineError
from fieldfare.pipeline import Bucket, FolderSource, Pipeline, PipelineOptions, read_output
from fieldfare.pipeline.bucket.objects import Objects
from fieldfare.pipeline.bucket.output import commits
from fieldfare.store import open_store

CONDITIONS = {"slow": "speed < 25", "accident": "kind = 'accident'", "both": "speed < 25 AND kind = 'accident'"}
EVENTS: list[dict[str, Any]] = [
    {"number": n, "speed": n % 50, "kind": "accident" if n % 3 == 0 else "jam"} for n in range(4_000)
]


def expected() -> set[tuple[int, str]]:
    """By DuckDB, which shares nothing with us."""
    table = pa.Table.from_pylist(EVENTS)
    found: set[tuple[int, str]] = set()
    for subscription, condition in CONDITIONS.items():
        rows = duckdb.arrow(table).filter(condition).project("number").fetchall()
        found |= {(number, subscription) for (number,) in rows}
    return found


def encoded(events: list[dict[str, Any]], suffix: str) -> bytes:
    if suffix == "jsonl":
        return "".join(json.dumps(event) + "\n" for event in events).encode()
    if suffix == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(events[0]))
        writer.writeheader()
        writer.writerows(events)
        return text.getvalue().encode()
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(events), stream, row_group_size=500)
    return stream.getvalue()


@pytest.mark.parametrize(("suffix", "layout"), [("jsonl", "replicated"), ("csv", "multi"), ("parquet", "replicated")])
def test_readers_find_what_brute_force_finds(
    suffix: str, layout: str, spark: SparkSession, tmp_path: Path, object_store: ObjectStoreServer
) -> None:
    events, output = object_store.place(), object_store.place()
    with open_store(str(tmp_path / "store.db")) as store:
        store.add(CONDITIONS, now_seconds=0.0)
    options = PipelineOptions(
        str(tmp_path / "store.db"), output, tmp_path / "state", layout=layout, matchers=2, until_idle=True
    )
    half = len(EVENTS) // 2
    for run, some in enumerate((EVENTS[:half], EVENTS[half:])):  # the second run goes on where the first was
        Objects(events).upload(f"{run}.{suffix}", encoded(some, suffix))
        if run:
            Objects(events).upload(f"poison.{'csv' if suffix == 'jsonl' else 'jsonl'}", b"poison\n")
            Objects(events).upload(f"_hidden.{suffix}", b"hidden")
            Objects(events).upload(f"below/other.{suffix}", encoded(some, suffix))
        source = FolderSource(events, tmp_path / "state" / "ledger", events_per_batch_max=3_000)
        Pipeline(spark, options).run(source)
    rows = read_output(output).read_all().to_pylist()
    assert sorted(row["number"] for row in rows) == list(range(len(EVENTS)))
    assert {(row["number"], name) for row in rows for name in row["subscription_ids"]} == expected()
    quarantined = [Objects(output).read(commit.quarantine) for commit in commits(output) if commit.quarantine]
    assert [b"poison" in (content or b"") for content in quarantined] == [True]
    assert not [path for path in (tmp_path / "state").rglob("*") if _has_secret(path)]


def _has_secret(path: Path) -> bool:
    return path.is_file() and SECRET_KEY.encode() in path.read_bytes()


def test_what_waits_in_a_bucket_is_told(tmp_path: Path, object_store: ObjectStoreServer) -> None:
    events = object_store.place()
    Objects(events).upload("1.jsonl", encoded(EVENTS, "jsonl"))
    (tmp_path / "settings").write_text("".join(f"{name} = {value}\n" for name, value in events.settings.items()))
    command = ["pipeline", "status", "--events", str(events), "--checkpoint", str(tmp_path / "state")]
    found = CliRunner().invoke(app, [*command, "--events-config", str(tmp_path / "settings"), "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["files"] == 1
    assert SECRET_KEY not in found.output


@pytest.mark.parametrize("checkpoint", ["s3://bucket/state", "s3:/bucket/state", "gs://bucket/state"])
def test_a_checkpoint_in_an_object_store_is_refused(checkpoint: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="use a local folder or NFS"):
        PipelineOptions(str(tmp_path / "store.db"), Bucket("s3://bucket/out"), Path(checkpoint))
