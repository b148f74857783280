"""The disk is full, under the output and under the checkpoint: nothing is taken for done, and space is all it needs."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.conftest import Scene
from tests.faults.processes import Running, wait_until


@pytest.fixture
def small_disks(scene: Scene) -> Iterator[Scene]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system to fill")
    mounted: list[Path] = []
    try:
        for folder in (scene.output, scene.checkpoint):
            folder.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", "size=48m", "fieldfare-test", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
            mounted.append(folder)
        yield scene
    finally:
        for run in scene.started:
            run.kill_all()
        for folder in mounted:
            subprocess.run(["umount", str(folder)], check=True)  # noqa: S607 - wherever the system has it


def test_a_full_disk_is_waited_for(small_disks: Scene) -> None:
    scene = small_disks
    scene.traffic.prepare()
    run = scene.start()
    scene.wait_for_commits()
    with scene.traffic.flowing():
        moments = scene.calm()
        for name, folder in (("output", scene.output), ("checkpoint", scene.checkpoint)):
            scene.catch_up()
            moments.append((f"no space in the {name}", time.time()))
            run_out_of_space(run, folder)
            scene.catch_up()
        moments.append(("", time.time()))
        wait_until(lambda: scene.history.changes >= 10_000, "the subscriptions change")
    verdict = scene.verdict()
    assert verdict.is_clean, verdict
    scene.report(verdict, moments)


def run_out_of_space(run: Running, folder: Path) -> None:
    """Fill a file system until the pipeline has complained twice, then free the space."""
    filler = folder / ".filler"
    before = run.said.count("No space left")

    def has_complained() -> bool:
        fill(filler)
        return run.said.count("No space left") >= before + 2

    wait_until(has_complained, "the pipeline says that there is no space")
    filler.unlink()


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
