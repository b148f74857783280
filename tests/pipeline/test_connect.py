"""`match` on Spark Connect, on a real server, which PySpark brings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import JAVA_MISSING

from fieldfare import Index

for package in ("grpc", "grpc_status", "google.rpc", "zstandard"):
    pytest.importorskip(package, reason="Spark Connect needs pip install 'pyspark[connect]'")

CONDITIONS = {
    "cheap": "price < 10",
    "either": "price BETWEEN 20 AND 30 OR place.city = 'Oslo'",
    "unknown": "price IS NULL",
}


@pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason=JAVA_MISSING)
def test_a_batch_and_a_stream_are_matched_on_spark_connect_and_the_pipeline_says_why_it_is_not(tmp_path: Path) -> None:
    prices = [None if number % 7 == 0 else number * 1.5 for number in range(40)]
    cities = [["Oslo", "Rome"][number % 2] for number in range(40)]
    lines = [
        json.dumps({"event_id": number, "price": price, "place": {"city": city}})
        for number, (price, city) in enumerate(zip(prices, cities, strict=True))
    ]
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text("\n".join(lines[:25]))
    (tmp_path / "events" / "2.json").write_text("\n".join(lines[25:]))
    rows = "".join(f'{name},"{condition}"\n' for name, condition in CONDITIONS.items())
    (tmp_path / "subscriptions.csv").write_text(f"subscription_id,condition\n{rows}")
    program = str(Path(__file__).with_name("connect_program.py"))
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, program, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr[-5000:]
    found = json.loads(ended.stdout)
    rows_of_events = [{"price": price, "place.city": city} for price, city in zip(prices, cities, strict=True)]
    matches = Index(CONDITIONS).match_rows(rows_of_events).to_pylist()
    expected = {str(number): sorted(ids) for number, ids in enumerate(matches)}
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["batch"] == expected
    assert found["stream"] == expected
    assert found["types"].startswith("ConditionTypeError: ")
    assert found["pipeline"].startswith("PipelineError: the pipeline decides about each batch in this process")
    assert not (tmp_path / "state").exists()
