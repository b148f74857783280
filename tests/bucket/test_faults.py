"""What is killed: drivers in each phase of a commit, the object store, workers. Readers find each event once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bucket.doomed_run import PHASES
from tests.bucket.object_store import SECRET_KEY, ObjectStoreServer
from tests.bucket.test_output import found_numbers, opened
from tests.faults.processes import Running, users_of, wait_until
from tests.pipeline.output_runs import expected_numbers, run_batch

from fieldfare.errors import BucketUnavailableError
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.bucket.objects import Objects
from fieldfare.pipeline.bucket.output import commits
from fieldfare.pipeline.committed import read_output
from fieldfare.store.subscription_store import open_store

BATCHES = 3
JUNK_EVERY = 100


def written(settings: dict[str, str], folder: Path) -> Path:
    path = folder / "settings"
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    return path


def test_a_driver_killed_in_any_phase_of_a_commit(object_store: ObjectStoreServer, tmp_path: Path) -> None:
    place, settings = object_store.place(), written(object_store.settings, tmp_path)
    command = [sys.executable, "-m", "tests.bucket.doomed_run", str(place), str(settings), str(tmp_path), str(BATCHES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split("\n")[:2] == ["9 9 9", "0 0 0"], done.stderr
    for phase in PHASES:
        below = Bucket(f"{place}/{phase}", place.settings)
        assert found_numbers(below) == expected_numbers(BATCHES), phase
        named = {file.path for commit in commits(below) for file in commit.files}
        there = {found.key for found in Objects(below).below() if found.key.endswith(".parquet")}
        # Where the commit was the last thing the driver did, nobody has removed what lingering tasks left of it.
        assert len(there - named) == (phase == "committed"), phase


def test_an_object_store_killed_between_any_two_requests(object_store: ObjectStoreServer, tmp_path: Path) -> None:
    place = object_store.place()
    output = opened(place, tmp_path)
    is_over = threading.Event()
    committed = 0

    def commit() -> None:
        nonlocal committed
        while not is_over.is_set():
            try:
                run_batch(output, committed)
            except BucketUnavailableError:
                time.sleep(0.05)  # as the pipeline does
            else:
                committed += 1

    driver = threading.Thread(target=commit)
    driver.start()
    try:
        for _ in range(2):
            before = committed
            wait_until(lambda before=before: committed >= before + 5, "batches are committed")  # type: ignore[misc]
            object_store.kill()
            object_store.start()
        before = committed
        wait_until(lambda: committed >= before + 2, "batches are committed")
    finally:
        is_over.set()
        driver.join()
    assert found_numbers(place) == expected_numbers(committed)


class Appender:
    """Puts numbered events into a place until it is stopped, object by object; now and then one that is junk."""

    def __init__(self, place: Bucket) -> None:
        self._objects = Objects(place)
        self.sent = 0

    @contextmanager
    def appending(self) -> Iterator[None]:
        is_over = threading.Event()
        thread = threading.Thread(target=self._append, args=(is_over,))
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _append(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            numbers = range(self.sent, self.sent + JUNK_EVERY)
            lines = [json.dumps({"n": n, "x": n % 100}).encode() for n in numbers[:-1]] + [b"junk %d" % numbers[-1]]
            name = f"{self.sent:09d}.jsonl"
            try:
                self._objects.upload(name, b"\n".join(lines))
                self.sent += JUNK_EVERY
            except BucketUnavailableError:
                pass  # whether it is there or not: the same comes again under the same name
            is_over.wait(0.3)


def test_the_pipeline_from_bucket_to_bucket(object_store: ObjectStoreServer, tmp_path: Path) -> None:
    events, output = object_store.place(), object_store.place()
    settings = str(written(object_store.settings, tmp_path))
    with open_store(str(tmp_path / "s.db")) as store:
        store.add({1: "x < 10", 2: "x >= 5 AND x < 20"}, now_seconds=time.time())
    command = [sys.executable, "-m", "fieldfare", "pipeline", "run", "--events", str(events), "--interval", "0.1"]
    command += ["--events-config", settings, "--output", str(output), "--output-config", settings]
    command += ["--store", str(tmp_path / "s.db"), "--checkpoint", str(tmp_path / "state")]
    command += ["--schema", "n BIGINT, x BIGINT", "--format", "json"]
    runs: list[Running] = []
    appender = Appender(events)

    def start() -> Running:
        runs.append(Running(command, tmp_path, tmp_path / f"run-{len(runs)}.log"))
        return runs[-1]

    def batches() -> int:
        return sum(1 for _ in commits(output))

    def progress() -> None:
        reached = batches() + 2

        def is_there() -> bool:
            assert runs[-1].popen.poll() is None, f"the pipeline has ended: {runs[-1].said[-3000:]}"
            return batches() >= reached

        wait_until(is_there, f"batches are committed; it said {runs[-1].said[-3000:]}")

    try:
        with appender.appending():
            run = start()
            progress()
            object_store.kill()
            object_store.start()
            progress()
            for worker in run.python_workers():
                worker.kill()
            progress()
            run.kill()  # at any moment of a batch
            run = start()
            progress()
            second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
            assert second.returncode != 0
            assert "another pipeline runs on" in second.stderr
        wait_until(lambda: counted(output) >= appender.sent, "all events are there")
        assert run.finish() == 0, run.said[-3000:]
    finally:
        for run in runs:
            run.kill_all()
    found = read_output(output).read_all().to_pylist()
    sound = [n for n in range(appender.sent) if n % JUNK_EVERY != JUNK_EVERY - 1]
    assert Counter(row["n"] for row in found) == Counter(sound)
    for row in found:
        wanted = [1] * (row["x"] < 10) + [2] * (5 <= row["x"] < 20)
        assert (row["x"], row["subscription_ids"]) == (row["n"] % 100, wanted)
    assert counted(output) == appender.sent
    said = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "settings"]
    assert not [path for path in said if SECRET_KEY.encode() in path.read_bytes()]
    wait_until(lambda: not users_of(tmp_path), f"all processes end: {users_of(tmp_path)}", 30)


def counted(output: Bucket) -> int:
    return sum(commit.rows + commit.quarantined for commit in commits(output))
