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
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.faults.processes import Running, users_of, wait_until
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


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_server(tmp_path_factory) as server:
        broker = Broker(server)
        events, output = broker.topic(2), broker.topic(2)
        with open_store(str(tmp_path / "s.db")) as store:
            store.add({1: "x < 10", 2: "x >= 5 AND x < 20"}, now_seconds=time.time())
        publisher = Publisher(broker, events)
        runs: list[Running] = []
        command = [sys.executable, "-m", "fieldfare", "pipeline", "run", "--events", str(events), "--interval", "0.1"]
        command += ["--output", str(output), "--store", str(tmp_path / "s.db"), "--checkpoint", str(tmp_path / "state")]

        def start() -> Running:
            log = tmp_path / f"run-{len(runs)}.log"
            runs.append(Running([*command, "--schema", "n BIGINT, x BIGINT"], tmp_path, log))
            return runs[-1]

        def batches() -> int:
            return len(broker.read(f"{output.name}-commits"))

        def progress() -> None:
            reached = batches() + 3

            def is_there() -> bool:
                assert runs[-1].popen.poll() is None, f"the pipeline has ended: {runs[-1].said[-3000:]}"
                return batches() >= reached

            wait_until(is_there, f"batches are committed; it said {runs[-1].said[-3000:]}")

        try:
            with publisher.publishing():
                run = start()
                progress()
                server.kill()
                server.start()
                progress()
                for worker in run.python_workers():
                    worker.kill()
                progress()
                run.kill()  # at any moment of a batch
                server.kill()  # and with it what it was talking to
                server.start()
                start()
                progress()
            wait_until(lambda: len(committed(broker, output)) >= publisher.sent, "all events are there")
            assert runs[-1].finish() == 0, runs[-1].said[-3000:]
        finally:
            for run in runs:
                run.kill_all()
        assert not publisher.failures
        assert_once_each(broker, output, publisher.sent)
    wait_until(lambda: not users_of(tmp_path), f"all processes end: {users_of(tmp_path)}", 30)


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
