from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from fieldfare.demo import traffic


def test_the_same_seed_tells_the_same_story() -> None:
    first, second = (traffic.subscriptions(50, np.random.default_rng(7)) for _ in range(2))
    assert first.equals(second)
    assert traffic.events(1, 50, np.random.default_rng(7)).equals(traffic.events(1, 50, np.random.default_rng(7)))


def test_the_demo_runs_from_start_to_end(tmp_path: Path) -> None:
    # In a process of its own: the demo starts and stops Spark, and the other tests share a session.
    program = "from fieldfare.cli import app; app()"
    arguments = ["demo", "--drivers", "2000", "--events", "5000", "--folder", str(tmp_path / "demo")]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    for words in ("events/s", "matches", "go home", "hear of", "Spark's own where()", "fieldfare match"):
        assert words in ended.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    matches = pq.read_table(tmp_path / "demo" / "matches")
    assert matches.num_rows > 0
    assert "subscription_ids" in matches.column_names
