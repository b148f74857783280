"""Markers: a message for each commit, in the commit's own transaction, in a compacted topic beside the output.

A marker's key is the identity of who commits, so that the last one of a key says what is committed.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TypeVar

import msgspec
from confluent_kafka import IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from fieldfare.errors import KafkaTopicError, KafkaUnavailableError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import ANSWER_SECONDS, consumer, explained, kafka_errors

MARKERS_SUFFIX = "-commits"
_WINDOW = 200  # offsets that are read at first, from the end; then more and more
_OPEN_SECONDS_MAX = 60.0  # for the transactions of other pipelines to end, which hide what came after them


Marker = TypeVar("Marker", bound=msgspec.Struct)


def markers_topic(topic: KafkaTopic) -> NewTopic:
    """How the topic of markers is made."""
    compacted = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
    return NewTopic(topic.name, num_partitions=1, config=compacted)


def last_marker(
    topic: KafkaTopic, asker: AdminClient, owner: str, kind: type[Marker], *, stable: bool = False
) -> Marker | None:
    """The last marker of an owner, which has this kind.

    After `init_transactions` it is certain: it waits for what other owners have under way, which hides what came
    after it. With `stable` it does not wait, and the owner's own marker may still be hidden.
    """
    place = TopicPartition(topic.name, 0)
    isolation = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    first = _offset(topic, asker, {place: OffsetSpec.earliest()}, isolation)
    end = _offset(topic, asker, {place: OffsetSpec.latest()}, isolation)
    start, window = end, _WINDOW
    while start > first:
        stop, start = start, max(first, start - window)
        if (found := _last_between(topic, owner, kind, start, stop)) is not None:
            return found
        window *= 8
    return None


def _offset(
    topic: KafkaTopic, asker: AdminClient, asked: dict[TopicPartition, OffsetSpec], isolation: IsolationLevel
) -> int:
    with kafka_errors(topic):
        (answer,) = asker.list_offsets(asked, isolation_level=isolation, request_timeout=ANSWER_SECONDS).values()
        return int(answer.result().offset)


def _last_between(topic: KafkaTopic, owner: str, kind: type[Marker], start: int, stop: int) -> Marker | None:
    """Read up to an end that may not be stable yet: it becomes so when open transactions end."""
    found, position = None, start
    deadline = time.monotonic() + _OPEN_SECONDS_MAX
    with closing(consumer(topic, owner, **{"fetch.wait.max.ms": 10})) as client:
        client.assign([TopicPartition(topic.name, 0, start)])
        while position < stop:
            for message in client.consume(min(stop - position, _WINDOW), timeout=0.05):
                error, offset = message.error(), message.offset() or 0
                if error is None:
                    position = offset + 1
                    if message.key() == owner.encode() and offset < stop:
                        found = _decoded(topic, kind, message.value() or b"", offset)
                elif error.code() == KafkaError._PARTITION_EOF:
                    position = max(position, offset)
                elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise explained(error, topic)
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(f"{topic}: the last commits cannot be read: a transaction is open there")
    return found


def _decoded(topic: KafkaTopic, kind: type[Marker], value: bytes, offset: int) -> Marker:
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise KafkaTopicError(
            f"{topic}: the message at offset {offset} is no marker of a commit ({error}): use another output topic"
        ) from error
