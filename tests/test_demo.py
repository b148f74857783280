from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from tests.runtime.processes import COMMAND

from fieldfare.demo import traffic


def watch(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
    )


def test_the_same_seed_tells_the_same_story() -> None:
    first, second = (traffic.subscriptions(50, np.random.default_rng(7)) for _ in range(2))
    assert first.equals(second)
    assert traffic.events(1, 50, np.random.default_rng(7)).equals(traffic.events(1, 50, np.random.default_rng(7)))


def test_the_demo_runs_from_start_to_end(tmp_path: Path) -> None:
    # In a process of its own: the demo starts and stops Spark, and the other tests share a session.
    ended = watch("demo", "--drivers", "2000", "--events", "5000", "--folder", "demo", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    for words in ("events/s", "matches", "go home", "hear of", "Spark's own where()", "fieldfare match"):
        assert words in ended.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    matches = pq.read_table(tmp_path / "demo" / "matches")
    assert matches.num_rows > 0
    assert "subscription_ids" in matches.column_names


def test_two_networks_meet_through_a_crash(tmp_path: Path) -> None:
    ended = watch("demo", "networks", "--seconds", "2", "--rate", "100", "--folder", "demo", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    for words in ("is killed (SIGKILL)", "The leader gives the topic to", "came once and in order"):
        assert words in ended.stdout


def test_a_publisher_moves_to_its_subscribers(tmp_path: Path) -> None:
    ended = watch("demo", "placement", "--seconds", "1", "--folder", "demo", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    for words in ("GRAPE has moved the exchange's publisher from berlin to rome", "came once and in order"):
        assert " ".join(ended.stdout.split()).count(words) == 1
