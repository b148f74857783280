"""A scene for faults: folders, a store, traffic, and the pipeline as a command. Nothing of it outlives its test."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.conftest import JAVA_MISSING
from tests.faults.history import History, Verdict, check, committed_events
from tests.faults.processes import Process, Running, users_of, wait_until
from tests.faults.traffic import Traffic

CHANGES_MIN = 10_000
_CALM_BATCHES = 5


@dataclass
class Scene:
    """One pipeline on one checkpoint, which may be started several times, and what goes on around it."""

    folder: Path
    output: Path
    checkpoint: Path
    traffic: Traffic
    started: list[Running] = field(default_factory=list)
    moments: list[tuple[str, float]] = field(default_factory=list)  # what happened, and when

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

    def kill_all(self) -> None:
        for run in self.started:
            run.kill_all()

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

    def staged(self, pattern: str) -> list[Path]:
        """What lies in the staging folders of batches that are under way."""
        with suppress(FileNotFoundError):  # one has just been committed
            return list(self.output.glob(f"_staging-*/{pattern}"))
        return []

    def batch_is_under_way(self) -> bool:
        return bool(self.staged("*"))

    def kill_in_batch(self, victims: list[Process]) -> None:
        """Kill processes that hold tasks: they are stopped first, so that a batch whose tasks they have gets stuck."""
        for process in victims:
            process.kill(signal.SIGSTOP)
        wait_until(self._batch_is_stuck, "a batch waits for those that were stopped")
        for process in victims:
            process.kill()
        self.catch_up()

    def _batch_is_stuck(self) -> bool:
        with suppress(FileNotFoundError):
            return any(time.time() - stage.stat().st_mtime > 2 for stage in self.staged("*"))
        return False

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

    def begin(self, *options: str) -> Running:
        """Start the pipeline with something to do."""
        self.traffic.prepare()
        run = self.start(*options)
        self.wait_for_commits()
        return run

    def calm(self) -> None:
        """Some batches without a fault, to compare with."""
        self.catch_up()
        self.mark("calm")
        for _ in range(_CALM_BATCHES):
            self.wait_for_commits()

    def mark(self, fault: str) -> None:
        """A fault happens now."""
        self.moments.append((fault, time.time()))

    def recover(self) -> None:
        """The last fault is over when all that is appended is committed; traffic ends with enough changes."""
        self.catch_up()
        self.mark("the end")
        wait_until(lambda: self.history.changes >= CHANGES_MIN, "the subscriptions change")

    def report(self, verdict: Verdict) -> None:
        """Print for how long latency rose after each fault, up to the next moment."""
        history = self.history
        (_, calm), (_, fault) = self.moments[:2]
        usual = verdict.latency(calm, fault)
        print(  # noqa: T201 - for people: how long faults are felt
            f"\n  {history.events:,} events, {verdict.pairs:,} pairs, {history.changes:,} changes: none lost or extra",
            f"without a fault: latency {usual:.1f} s",
            *(verdict.rise(fault, start, end, usual) for (fault, start), (_, end) in pairwise(self.moments[1:])),
            sep="\n  ",
        )


@contextmanager
def scene_in(folder: Path) -> Iterator[Scene]:
    """A scene, of which no process and no file is left at the end."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(JAVA_MISSING)
    scene = Scene(folder, folder / "out", folder / "state", Traffic(folder, History()))
    try:
        yield scene
    finally:
        scene.kill_all()
    wait_until(lambda: not users_of(folder), f"all processes end: {users_of(folder)}", 30)
    shutil.rmtree(folder)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with scene_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def json_scene(scene: Scene) -> Scene:
    scene.traffic = replace(scene.traffic, suffix="jsonl")
    return scene
