"""What the measurements do with Kafka themselves: make topics, fill them, and read what was committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2


def quiet(address: str) -> dict[str, Any]:
    """The settings of a client that says nothing."""
    return {"bootstrap.servers": address, "log_level": 0}


def make_topics(address: str, names: Sequence[str]) -> None:
    """New topics."""
    asker = AdminClient(quiet(address))
    for made in asker.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
        made.result(30)


def fill(address: str, name: str, values: Sequence[bytes]) -> None:
    """Send messages, divided among the partitions, and wait until the broker has them."""
    client = Producer({**quiet(address), "queue.buffering.max.messages": len(values) + 1})
    for number, value in enumerate(values):
        client.produce(name, value, partition=number % PARTITIONS)
    client.flush(120)


def reader(address: str, name: str, group: str = "bench") -> Consumer:
    """A consumer at the beginning of a topic, that gets what is committed."""
    settings = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
    client = Consumer({**quiet(address), **settings, "enable.partition.eof": True, "fetch.wait.max.ms": 10})
    client.assign([TopicPartition(name, partition, 0) for partition in range(PARTITIONS)])
    return client


def values_of(address: str, name: str) -> Iterator[bytes]:
    """The messages that are committed now."""
    ends = 0
    with closing(reader(address, name)) as client:
        while ends < PARTITIONS:
            for message in client.consume(10_000, timeout=0.1):
                if message.error() is not None:
                    ends += 1
                else:
                    yield message.value()
