"""One pipeline on this machine goes through fault after fault, and its output is as if there had been none."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

from tests.faults.conftest import Scene
from tests.faults.history import quarantined
from tests.faults.processes import Running, wait_until

CHANGES_MIN = 10_000


def test_faults_that_pass_leave_no_trace_in_the_output(scene: Scene) -> None:
    scene.traffic.prepare()
    run = scene.start()
    scene.wait_for_commits()
    with scene.traffic.flowing():
        moments = scene.calm()
        for fault in FAULTS:
            scene.catch_up()
            moments.append((fault.__name__.replace("_", " "), time.time()))
            fault(scene, run)
        scene.catch_up()
        moments.append(("", time.time()))
        wait_until(lambda: scene.history.changes >= CHANGES_MIN, "the subscriptions change")
    verdict = scene.verdict()
    assert verdict.is_clean, verdict
    assert verdict.pairs > scene.history.events
    scene.report(verdict, moments)


def workers_are_killed_in_batches(scene: Scene, run: Running) -> None:
    for _ in range(3):
        scene.kill_in_batch(run.python_workers)


def the_process_of_the_source_is_killed(scene: Scene, run: Running) -> None:  # noqa: ARG001
    (source,) = [process for process in run.members() if "python_streaming_source_runner" in process.command]
    source.kill()


def the_store_is_locked(scene: Scene, run: Running) -> None:
    with closing(sqlite3.connect(scene.traffic.store, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN EXCLUSIVE")
        wait_until(lambda: "locked by another process" in run.said, "the pipeline says that the store is locked")
        other.execute("ROLLBACK")


def the_store_is_gone(scene: Scene, run: Running) -> None:
    away = scene.traffic.store.with_suffix(".away")
    scene.traffic.store.rename(away)
    wait_until(lambda: "the file has gone" in run.said, "the pipeline says that the store is gone")
    away.rename(scene.traffic.store)


def snapshots_are_damaged(scene: Scene, run: Running) -> None:
    """Workers that have mapped a file keep what was in it, so new ones have to come for the damage to be met."""
    scene.damage_snapshots()
    for worker in run.python_workers():
        worker.kill()
    wait_until(lambda: "a snapshot is damaged" in run.said, "the pipeline says that a snapshot is damaged")


def a_file_is_truncated(scene: Scene, run: Running) -> None:  # noqa: ARG001
    scene.traffic.append_poison()
    wait_until(lambda: quarantined(scene.output) == scene.history.poison, "the file is in quarantine")


FAULTS: list[Callable[[Scene, Running], None]] = [
    workers_are_killed_in_batches,
    the_process_of_the_source_is_killed,
    the_store_is_locked,
    the_store_is_gone,
    snapshots_are_damaged,
    a_file_is_truncated,
]
