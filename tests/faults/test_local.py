"""One pipeline on this machine goes through fault after fault, and its output is as if there had been none.

Where the tests may mount file systems, its output and its checkpoint each have a small one, which can be filled.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.faults.conftest import Scene, scene_in
from tests.faults.history import quarantined
from tests.faults.processes import Running, wait_until


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A pipeline that runs through all tests of this file, with traffic."""
    with scene_in(tmp_path_factory.mktemp("live")) as scene, ExitStack() as disks:
        for folder in (scene.output, scene.checkpoint):
            mount_small_disk(folder, disks)
        disks.callback(scene.kill_all)  # before they go
        scene.begin()
        with scene.traffic.flowing():
            scene.calm()
            yield scene


def mount_small_disk(folder: Path, until: ExitStack) -> None:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48m", "fieldfare-test", str(folder)]
    if os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0:
        until.callback(subprocess.run, ["umount", str(folder)], check=True)


def workers_are_killed_in_batches(scene: Scene, run: Running) -> None:
    for _ in range(2):
        scene.kill_in_batch(run.python_workers())


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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_it_goes_on_when(live: Scene, fault: Callable[[Scene, Running], None]) -> None:
    live.mark(fault.__name__.replace("_", " "))
    fault(live, live.started[-1])
    live.catch_up()


@pytest.mark.parametrize("place", ["output", "checkpoint"])
def test_it_waits_when_there_is_no_space_in_the(live: Scene, place: str) -> None:
    folder: Path = getattr(live, place)
    if not folder.is_mount():
        pytest.skip("only root can mount a small file system to fill")
    live.mark(f"there is no space in the {place}")
    filler = folder / ".filler"
    before = live.said().count("No space left")

    def has_complained() -> bool:
        fill(filler)
        return live.said().count("No space left") > before

    wait_until(has_complained, "the pipeline says that there is no space")
    filler.unlink()
    live.catch_up()


def fill(filler: Path) -> None:
    size = 1 << 20
    with filler.open("ab", buffering=0) as file:
        while size:
            try:
                file.write(b"\0" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 16


def test_its_output_is_as_if_there_had_been_no_fault(live: Scene) -> None:
    live.recover()
    live.traffic.stop()
    verdict = live.verdict()
    assert verdict.is_clean, verdict
    assert verdict.pairs > live.history.events
    live.report(verdict)
