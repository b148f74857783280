"""The driver is killed at the worst moments, and at any; started again on its checkpoint, it goes on."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.conftest import Scene
from tests.faults.history import History, check
from tests.faults.processes import DEADLINE_SECONDS, Running, wait_until


def test_a_driver_that_is_killed_goes_on_where_it_was(json_scene: Scene) -> None:
    scene = json_scene
    seed = random.randrange(1 << 32)
    print(f"random moments by seed {seed}")  # noqa: T201 - to find them again
    rng = random.Random(seed)
    run = scene.begin()
    with scene.traffic.flowing():
        scene.calm()
        for name, moment in WORST_MOMENTS.items():
            scene.traffic.append_poison()
            kill_at(scene, run, moment)
            scene.mark(f"the driver is killed when {name}")
            assert_readers_see_what_is_committed(scene)
            run, started = scene.start(), time.monotonic()
            scene.wait_for_commits()
            starting_seconds = time.monotonic() - started
            scene.catch_up()
        time.sleep(rng.uniform(0, 1))
        scene.mark("the driver's JVM is killed, then the next driver while it starts, and snapshots are damaged")
        run.jvm().kill()
        assert run.popen.wait(DEADLINE_SECONDS) == 2, run.said
        assert "start it again" in run.said
        run = scene.start()
        time.sleep(rng.uniform(0, starting_seconds))
        run.kill()
        scene.damage_snapshots()
        run = scene.start()
        scene.catch_up()
        assert "a snapshot is damaged" in run.said
        scene.recover()
    verdict = scene.verdict()
    assert verdict.is_clean, verdict
    scene.report(verdict)


def files_are_gathered(scene: Scene) -> bool:
    return bool(scene.staged("*/part-*.parquet"))


def spark_does_not_know_of_the_commit(scene: Scene) -> bool:
    batch = max((int(folder.name.partition("=")[2]) for folder in scene.output.glob("batch_id=*")), default=0)
    is_committed = (scene.output / f"batch_id={batch}" / "_commit.json").exists()
    return is_committed and not (scene.checkpoint / "spark" / "commits" / str(batch)).exists()


WORST_MOMENTS = {
    "the files of a commit are gathered": files_are_gathered,
    "a batch is committed and Spark does not know": spark_does_not_know_of_the_commit,
}


def kill_at(scene: Scene, run: Running, moment: Callable[[Scene], bool]) -> None:
    """Kill the driver at a moment, which has to be there still when the driver has been stopped."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if moment(scene):
            run.popen.send_signal(signal.SIGSTOP)
            wait_until(lambda: is_stopped(run), "the driver stops")
            time.sleep(0.5)  # Spark may have been told already, and be about to write that down
            if moment(scene):
                run.kill()
                return
            run.popen.send_signal(signal.SIGCONT)
    pytest.fail(f"the moment did not come: {moment.__name__}")


def is_stopped(run: Running) -> bool:
    return Path(f"/proc/{run.popen.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def assert_readers_see_what_is_committed(scene: Scene) -> None:
    known = scene.history
    verdict = check(History(list(known.appends), [], list(known.subscriptions)), scene.output)
    assert verdict.is_sound, verdict
