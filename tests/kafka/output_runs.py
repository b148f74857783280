"""Batches whose messages are known from their number, and runs that commit them to Kafka as the driver does.

As a program it is such runs, which are killed in a phase of a commit: see `PHASES`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from fieldfare.kafka.address import KafkaTopic
from fieldfare.pipeline.kafka.messages import MessageWriter
from fieldfare.pipeline.kafka.output import KafkaOutput
from fieldfare.pipeline.kafka.sink import KafkaSink
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.writer import WriteOptions
from fieldfare.store.outputs import WrittenFile

FILES, ROWS = 2, 50
PHASES = ("begin", "sending", "sent", "committing", "committed")


def owner_of(topic: KafkaTopic) -> str:
    """The identity of the checkpoint that writes a topic."""
    return f"checkpoint-of-{topic.name}"


def opened(topic: KafkaTopic, state: Path) -> KafkaOutput:
    output = KafkaOutput(KafkaSink(topic), owner_of(topic), state)
    output.prepare()
    return output


def staged(output: KafkaOutput, batch_id: int, run: str) -> list[WrittenFile]:
    """The files of a batch; another run makes other messages of it, as with other subscriptions."""
    stage = output.stage(batch_id)
    files = []
    for file in range(FILES):
        with MessageWriter(stage, output.task_options(WriteOptions())) as writer:
            numbers = [file * ROWS + row for row in range(ROWS)]
            events = pa.record_batch({"n": numbers, "batch": [batch_id] * ROWS, "run": [run] * ROWS})
            writer.write(events, pa.array([[number] for number in numbers], pa.list_(pa.int64())))
            written = writer.close()
        assert written is not None
        files.append(written)
    return files


def run_batch(output: KafkaOutput, batch_id: int, run: str) -> None:
    """What the pipeline does with a batch."""
    if not output.is_committed(batch_id):
        output.commit(batch_id, staged(output, batch_id, run), [BadEvent(f"in/0:{batch_id}", "bad", "junk")])


def assert_each_batch_is_there_once(messages: list[bytes], letters: list[bytes], batches: int) -> None:
    """Nothing lost, nothing twice, and all of a batch is of one run."""
    found = [json.loads(message) for message in messages]
    counts = Counter((message["batch"], message["n"]) for message in found)
    assert counts == {(batch, number): 1 for batch in range(batches) for number in range(FILES * ROWS)}
    assert len({(message["batch"], message["run"]) for message in found}) == batches
    places = sorted(json.loads(letter)["place"] for letter in letters)
    assert places == sorted(f"in/0:{batch}" for batch in range(batches))


class Doomed:
    """A producer that is killed, with its process, in a phase of a transaction."""

    def __init__(self, client: Any, phase: str, messages: int = FILES * ROWS) -> None:
        self._client, self._phase, self._messages = client, phase, messages
        self._produced = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def begin_transaction(self) -> None:
        self._client.begin_transaction()
        self._die_in("begin")

    def produce(self, *arguments: Any, **more: Any) -> None:
        self._client.produce(*arguments, **more)
        self._produced += 1
        if self._produced == self._messages // 2:
            self._client.flush(30)  # so that half of a batch is in the topic
            self._die_in("sending")

    def commit_transaction(self, seconds: float) -> None:
        self._client.flush(30)
        self._die_in("sent")
        if self._phase == "committing":
            threading.Timer(0.002, die).start()
        self._client.commit_transaction(seconds)
        self._die_in("committed")

    def _die_in(self, phase: str) -> None:
        if phase == self._phase:
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(topic: KafkaTopic, state: Path, batches: int, doomed: int, phase: str) -> None:
    """Commit batches from where the last run was; in the one that is `doomed`, end."""
    state.mkdir(exist_ok=True)
    output = opened(topic, state)
    known = state / "known"  # as Spark knows of the batches that were committed
    for batch_id in range(int(known.read_text()) if known.exists() else 0, batches):
        if batch_id == doomed:
            output._producer = Doomed(output._producer, phase)
        run_batch(output, batch_id, output._run)
        known.write_text(str(batch_id + 1))


def main(brokers: str, folder: Path, names: list[str], batches: int) -> None:
    """For each phase a topic: runs that are killed, and then runs that finish. Prints the signals that ended runs."""
    for doomed in (1, -1):
        children = []
        for name, phase in zip(names, PHASES, strict=True):
            child = os.fork()  # each has its own producer, and what they import is imported once
            if child == 0:
                run(KafkaTopic(brokers, name), folder / phase, batches, doomed, phase)
                os._exit(0)
            children.append(child)
        print(*(os.WTERMSIG(os.waitpid(child, 0)[1]) for child in children))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[4:], int(sys.argv[3]))
