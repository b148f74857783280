"""The pipeline as users start it, from Kafka to Kafka, while its broker, its workers and its driver are killed.

A publisher sends numbered events and notes what the broker acknowledged. At the end every committed message is read by
a client that knows nothing of Fieldfare: each event must be there once, with the subscriptions that it satisfies.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.faults.processes import Running, standalone_cluster, users_of, wait_until
from tests.kafka.conftest import Broker, running_server

from fieldfare.kafka.address import KafkaTopic
from fieldfare.store.subscription_store import open_store

JUNK_EVERY = 500


class Publisher:
    """Sends events until it is stopped. An event that cannot be read comes now and then."""

    def __init__(self, broker: Broker, topic: KafkaTopic) -> None:
        self._topic = topic
        settings = {"enable.idempotence": True, "message.timeout.ms": 120_000}
        self._client = Producer({**broker.settings, **settings})
        self.sent = 0
        self.failures: list[str] = []

    @contextmanager
    def publishing(self) -> Iterator[None]:
        is_over = threading.Event()
        thread = threading.Thread(target=self._publish, args=(is_over,))
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _publish(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            for _ in range(20):
                number = self.sent
                junk = number % JUNK_EVERY == JUNK_EVERY - 1
                value = b"junk %d" % number if junk else json.dumps({"n": number, "x": number % 100}).encode()
                self._client.produce(self._topic.name, value, partition=number % 2, on_delivery=self._note)
                self.sent += 1
            self._client.poll(0)
            is_over.wait(0.05)
        assert self._client.flush(120) == 0

    def _note(self, error: object, message: object) -> None:  # noqa: ARG002
        if error is not None:
            self.failures.append(str(error))


@dataclass
class Flow:
    """A pipeline from one topic to another, as a command that can be killed and started again."""

    broker: Broker
    folder: Path
    options: tuple[str, ...] = ()
    runs: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.events, self.output = self.broker.topic(2), self.broker.topic(2)
        self.publisher = Publisher(self.broker, self.events)
        with open_store(str(self.folder / "s.db")) as store:
            store.add({1: "x < 10", 2: "x >= 5 AND x < 20"}, now_seconds=time.time())

    def start(self) -> Running:
        command = [sys.executable, "-m", "fieldfare", "pipeline", "run", "--events", str(self.events)]
        command += ["--output", str(self.output), "--schema", "n BIGINT, x BIGINT", "--interval", "0.1"]
        command += ["--store", str(self.folder / "s.db"), "--checkpoint", str(self.folder / "state"), *self.options]
        self.runs.append(Running(command, self.folder, self.folder / f"run-{len(self.runs)}.log"))
        return self.runs[-1]

    def progress(self) -> None:
        """Wait for some more batches."""
        reached = self._batches() + 3

        def is_there() -> bool:
            assert self.runs[-1].popen.poll() is None, f"the pipeline has ended: {self.runs[-1].said[-3000:]}"
            return self._batches() >= reached

        wait_until(is_there, f"batches are committed; it said {self.runs[-1].said[-3000:]}")

    def _batches(self) -> int:
        return len(self.broker.read(f"{self.output.name}-commits"))

    def assert_sound(self) -> None:
        """Wait for the last events, end the pipeline, and look at all that was committed."""
        sent = self.publisher.sent
        wait_until(lambda: len(committed(self.broker, self.output)) >= sent, "all events are there")
        assert self.runs[-1].finish() == 0, self.runs[-1].said[-3000:]
        assert not self.publisher.failures
        assert_once_each(self.broker, self.output, sent)


@contextmanager
def flow(broker: Broker, folder: Path, *options: str) -> Iterator[Flow]:
    """A pipeline that is ended, with all that it started."""
    made = Flow(broker, folder, options)
    try:
        yield made
    finally:
        for run in made.runs:
            run.kill_all()


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_server(tmp_path_factory) as server, flow(Broker(server), tmp_path) as pipeline:
        with pipeline.publisher.publishing():
            run = pipeline.start()
            pipeline.progress()
            server.kill()
            server.start()
            pipeline.progress()
            for worker in run.python_workers():
                worker.kill()
            pipeline.progress()
            run.kill()  # at any moment of a batch
            server.kill()  # and with it what it was talking to
            server.start()
            pipeline.start()
            pipeline.progress()
        pipeline.assert_sound()
    wait_until(lambda: not users_of(tmp_path), f"all processes end: {users_of(tmp_path)}", 30)


def test_executors_of_a_cluster_are_killed(broker: Broker, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as cluster, flow(broker, tmp_path, "--master", cluster.master) as pipeline:
        with pipeline.publisher.publishing():
            run = pipeline.start()
            pipeline.progress()
            for count in (1, 2):
                wait_until(lambda: len(cluster.executors()) == 2, "both workers have an executor")
                for executor in cluster.executors()[:count]:
                    executor.kill()
                pipeline.progress()
            run.kill()
            pipeline.start()
            pipeline.progress()
        pipeline.assert_sound()


def committed(broker: Broker, output: KafkaTopic) -> list[bytes]:
    return [
        message.value() or b"" for name in (output.name, f"{output.name}-dead-letters") for message in broker.read(name)
    ]


def assert_once_each(broker: Broker, output: KafkaTopic, sent: int) -> None:
    found = [json.loads(message.value() or b"") for message in broker.read(output.name)]
    sound = [number for number in range(sent) if number % JUNK_EVERY != JUNK_EVERY - 1]
    assert Counter(event["n"] for event in found) == Counter(sound)
    for event in found:
        wanted = [1] * (event["x"] < 10) + [2] * (5 <= event["x"] < 20)
        assert (event["x"], event["subscription_ids"]) == (event["n"] % 100, wanted)
    letters = [json.loads(message.value() or b"") for message in broker.read(f"{output.name}-dead-letters")]
    junk = [f"junk {number}" for number in range(sent) if number % JUNK_EVERY == JUNK_EVERY - 1]
    assert sorted(letter["raw"] for letter in letters) == sorted(junk)
