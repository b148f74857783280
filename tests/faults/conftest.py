"""A scene for faults: folders, a store, traffic, and the pipeline as a command. Nothing of it outlives its test."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.conftest import JAVA_MISSING
from tests.faults.history import History, Verdict, check, committed_events
from tests.faults.processes import Process, Running, users_of, wait_until
from tests.faults.traffic import Traffic

_CALM_BATCHES = 5
Moments = list[tuple[str, float]]  # what happened, and when


@dataclass
class Scene:
    """One pipeline on one checkpoint, which may be started several times, and what goes on around it."""

    folder: Path
    output: Path
    checkpoint: Path
    traffic: Traffic
    started: list[Running] = field(default_factory=list)

    @property
    def history(self) -> History:
        return self.traffic.history

    def arguments(self, *options: str) -> list[str]:
        places = {
            "--events": self.traffic.events,
            "--store": self.traffic.store,
            "--output": self.output,
            "--checkpoint": self.checkpoint,
        }
        named = [str(word) for place in places.items() for word in place]
        schema = "event_id BIGINT, x DOUBLE, y DOUBLE"
        return ["pipeline", "run", *named, "--schema", schema, "--interval", "0.1", *options]

    def start(self, *options: str) -> Running:
        """Start the pipeline, as a user does."""
        return self.run([sys.executable, "-m", "fieldfare", *self.arguments(*options)])

    def run(self, command: list[str]) -> Running:
        log = self.folder / f"run-{len(self.started)}.log"
        self.started.append(Running(command, self.folder, log))
        return self.started[-1]

    def said(self) -> str:
        """What all runs said."""
        return "\n".join(run.said for run in self.started)

    def wait_for_commits(self, events: int | None = None) -> None:
        """Wait until more events are committed than now; or at least so many."""
        wanted = committed_events(self.output) + 1 if events is None else events
        alive = self.started[-1]

        def is_there() -> bool:
            assert alive.popen.poll() is None, f"the pipeline has ended: {alive.said[-3000:]}"
            return committed_events(self.output) >= wanted

        wait_until(is_there, f"{wanted} events are committed; it said: {alive.said[-3000:]}")

    def catch_up(self) -> None:
        """Wait until all that is appended now is committed."""
        self.wait_for_commits(self.history.events + len(self.history.poison))

    def batch_is_under_way(self) -> bool:
        return any(self.output.glob("_staging-*/*"))

    def kill_in_batch(self, victims: Callable[[], list[Process]]) -> None:
        """Kill processes that hold tasks: they are stopped first, so that the tasks of a batch wait in them."""
        before = self._lost_tasks()
        while self._lost_tasks() == before:
            stopped = victims()
            for process in stopped:
                process.kill(signal.SIGSTOP)
            wait_until(self.batch_is_under_way, "a batch begins")
            time.sleep(0.5)  # until its tasks are there; if they are not yet, no task is lost, and it is done again
            for process in stopped:
                process.kill()
            self.catch_up()

    def _lost_tasks(self) -> int:
        return (self.checkpoint / "spark.log").read_text(errors="replace").count("Lost task")

    def damage_snapshots(self) -> None:
        """Change bytes in all parts of the compiled subscriptions."""
        for file in self.checkpoint.glob("fieldfare/snapshots/base-*/part-*/*"):
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 0xFF
            damaged = file.with_name(f".{file.name}")
            damaged.write_bytes(content)
            damaged.rename(file)

    def verdict(self) -> Verdict:
        """Let the pipeline finish what was appended, end it, and hold its output against the history."""
        self.catch_up()
        assert self.started[-1].finish() == 0, self.started[-1].said[-3000:]
        return check(self.history, self.output)

    def calm(self) -> Moments:
        """Some batches without a fault, to compare with: the first of the moments to be reported on."""
        self.catch_up()
        moments = [("", time.time())]
        for _ in range(_CALM_BATCHES):
            self.wait_for_commits()
        return moments

    def report(self, verdict: Verdict, moments: Moments) -> None:
        """Print for how long latency rose after each fault, up to the next; the last moment is only an end."""
        history = self.history
        (_, calm), (_, fault) = moments[:2]
        usual = verdict.latency(calm, fault)
        print(  # noqa: T201 - for people: how long faults are felt
            f"\n  {history.events:,} events, {verdict.pairs:,} pairs, {history.changes:,} changes: none lost or extra",
            f"without a fault: latency {usual:.1f} s",
            *(verdict.rise(fault, start, end, usual) for (fault, start), (_, end) in pairwise(moments[1:])),
            sep="\n  ",
        )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(JAVA_MISSING)
    traffic = Traffic(tmp_path, History())
    stage = Scene(tmp_path, tmp_path / "out", tmp_path / "state", traffic)
    try:
        yield stage
    finally:
        for run in stage.started:
            run.kill_all()
    wait_until(lambda: not users_of(tmp_path), f"all processes end: {users_of(tmp_path)}", 30)
    shutil.rmtree(tmp_path)


@pytest.fixture
def json_scene(scene: Scene) -> Scene:
    scene.traffic = replace(scene.traffic, suffix="jsonl")
    return scene
