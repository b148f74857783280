"""The first messages of a topic, from which the events' schema is inferred where none is given."""

from __future__ import annotations

import time

import pyarrow as pa
from confluent_kafka import KafkaError, TopicPartition

from fieldfare.errors import InputError
from fieldfare.events import UnreadableError, json_values
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import ANSWER_SECONDS, consumer, explained
from fieldfare.kafka.offsets import Bounds, Offsets
from fieldfare.pipeline.event_files import plain_schema
from fieldfare.pipeline.inferred_types import schema_of_objects

_MESSAGES_MAX = 1_000


def first_messages(topic: KafkaTopic, group: str, start: Offsets, bounds: dict[int, Bounds]) -> list[bytes]:
    """The values of some messages from `start` on; none if there are none."""
    places = {
        partition: first
        for partition, bound in bounds.items()
        if (first := max(start.get(partition, 0), bound.low)) < bound.high
    }
    values: list[bytes] = []
    client = consumer(topic, group)
    deadline = time.monotonic() + ANSWER_SECONDS
    try:
        client.assign([TopicPartition(topic.name, *place) for place in places.items()])
        while places and len(values) < _MESSAGES_MAX and time.monotonic() < deadline:
            for message in client.consume(_MESSAGES_MAX, timeout=0.1):
                error = message.error()
                if error is None:
                    values += [message.value() or b""]
                elif error.code() == KafkaError._PARTITION_EOF:
                    places.pop(message.partition() or 0, None)
                elif not error.retriable():
                    raise explained(error, topic)
    finally:
        client.close()
    return values


def schema_of(values: list[bytes], topic: KafkaTopic) -> pa.Schema:
    """The schema that the first messages have."""
    events = []
    for value in values:
        try:
            events.append(json_values(value))
        except UnreadableError:
            continue  # it will be quarantined
    try:
        if not events:
            raise InputError("none of the first messages is a JSON object")
        return plain_schema(schema_of_objects(events))
    except (pa.ArrowException, InputError, OverflowError) as error:
        raise InputError(f"{topic}: cannot tell the events' schema: {error}; give it, as in 'price DOUBLE'") from error
