"""A real broker for all tests of Kafka, and clients that know nothing of Fieldfare: they say what is in a topic."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import check_java
from tests.kafka.security import SASL_SSL, Authority, made_authority

pytest.importorskip("confluent_kafka")

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from fieldfare.bench.kafka.server import KafkaServer
from fieldfare.errors import MissingDependencyError
from fieldfare.kafka.address import KafkaTopic


@dataclass
class Broker:
    """A broker, as anybody can use it."""

    server: KafkaServer

    @property
    def settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.server.address, "log_level": 0}

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.settings)

    def topic(self, partitions: int = 1, name: str = "", **config: str) -> KafkaTopic:
        """A new topic, which the broker knows: its controller answers before that."""
        topic = KafkaTopic(self.server.address, name or f"t{uuid.uuid4().hex[:12]}")
        settings = {name.replace("_", "."): value for name, value in config.items()}
        _done(self.admin.create_topics([NewTopic(topic.name, partitions, 1, config=settings)]))
        while topic.name not in self.admin.list_topics(timeout=30).topics or not self._is_led(topic, partitions):
            time.sleep(0.02)
        return topic

    def _is_led(self, topic: KafkaTopic, partitions: int) -> bool:
        """Whether the leader of every partition answers."""
        places = {TopicPartition(topic.name, partition): OffsetSpec.latest() for partition in range(partitions)}
        return all(future.exception() is None for future in self.admin.list_offsets(places).values())

    def delete(self, topic: KafkaTopic) -> None:
        _done(self.admin.delete_topics([topic.name]))

    def grow(self, topic: KafkaTopic, partitions: int) -> None:
        _done(self.admin.create_partitions([NewPartitions(topic.name, partitions)]))

    def remove_before(self, topic: KafkaTopic, partition: int, offset: int) -> None:
        """What retention does, but now."""
        _done(self.admin.delete_records([TopicPartition(topic.name, partition, offset)]))

    def send(
        self, topic: KafkaTopic, values: Iterable[bytes | None], partition: int = 0, key: bytes | None = None
    ) -> None:
        client = Producer(self.settings)
        for value in values:
            client.produce(topic.name, value, key, partition)
            client.poll(0)
        assert client.flush(30) == 0

    def transaction(
        self, topic: KafkaTopic, values: Iterable[bytes], *, commit: bool = True, partition: int = 0
    ) -> None:
        client = Producer({**self.settings, "transactional.id": uuid.uuid4().hex})
        client.init_transactions(30)
        client.begin_transaction()
        for value in values:
            client.produce(topic.name, value, partition=partition)
        client.flush(30)
        client.commit_transaction(30) if commit else client.abort_transaction(30)

    def read(self, name: str) -> list[Message]:
        """All committed messages of a topic, partition by partition."""
        settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
        settings |= {"fetch.wait.max.ms": 10}  # the end is told when nothing comes for so long: batches come faster
        partitions = self.admin.list_topics(name, timeout=30).topics[name].partitions
        found: list[Message] = []
        with closing(Consumer({**self.settings, **settings, "enable.auto.commit": False})) as client:
            for partition in sorted(partitions):
                client.assign([TopicPartition(name, partition, 0)])
                is_over = False
                while not is_over:
                    for message in client.consume(10_000, timeout=0.1):
                        is_over |= message.error() is not None
                        found += [message] if message.error() is None else []
        return found


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return made_authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Broker]:
    with running_server(tmp_path_factory, authority.broker_settings, ("PLAINTEXT", SASL_SSL)) as server:
        yield Broker(server)


def running_server(
    folders: pytest.TempPathFactory,
    settings: dict[str, str] | None = None,
    protocols: tuple[str, ...] = ("PLAINTEXT",),
    folder: Path | None = None,
) -> KafkaServer:
    """A broker of one's own. Without Maven there is none; CI must have it."""
    check_java()
    from fieldfare.bench.kafka.jars import kafka_jars

    try:
        kafka_jars()
    except MissingDependencyError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    settings = {"log.cleaner.backoff.ms": "100", **(settings or {})}
    return KafkaServer(folder or folders.mktemp("kafka"), settings, protocols=protocols)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96m", "fieldfare-test", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        if os.environ.get("CI") == "true":
            pytest.fail("CI runs as root, and may mount a small tmpfs")
        pytest.skip("mounting a small tmpfs needs root and the permission to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - whichever is there


def fill(folder: Path) -> Path:
    """Take all the space there is; returns the file that has it."""
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    return filler
