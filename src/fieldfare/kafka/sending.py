"""Sending in transactions: a new producer fences its predecessors and aborts the transactions that they left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import ANSWER_SECONDS, kafka_errors, producer

COMMIT_SECONDS = 30.0
_LIMIT_MIN = 1_000  # librdkafka takes no less
_FRAME_BYTES = 10_000  # what Kafka adds to a message, and more
_PRODUCER_SETTINGS = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 << 10,
    "transaction.timeout.ms": 60_000,
}


def transactional_producer(topic: KafkaTopic, transactional_id: str, message_bytes_max: int) -> Producer:
    """A producer that may begin its first transaction. Others of the same id are fenced from now on."""
    limit = {"message.max.bytes": message_bytes_max + _FRAME_BYTES}
    client = producer(topic, transactional_id, **_PRODUCER_SETTINGS, **limit)
    with kafka_errors(topic):
        client.init_transactions(COMMIT_SECONDS)
    return client


def topic_limit(topic: KafkaTopic, asker: AdminClient, bytes_max: int) -> int:
    """How large a message may be: as the topic says, if it says less. Then librdkafka refuses a larger one by itself.

    Else a broker would refuse the larger one with all that are in one batch with it.
    """
    with kafka_errors(topic):
        place = ConfigResource(ConfigResource.Type.TOPIC, topic.name)
        (asked,) = asker.describe_configs([place], request_timeout=ANSWER_SECONDS).values()
        try:
            limit = int(asked.result()["max.message.bytes"].value)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:  # it may be written to, but not looked at
                return bytes_max
            raise
    return min(bytes_max, max(_LIMIT_MIN, limit) - _FRAME_BYTES)


def make_missing(topic: KafkaTopic, asker: AdminClient, wanted: Sequence[NewTopic]) -> None:
    """Make the topics that stand beside a topic, where they are not there."""
    with kafka_errors(topic):
        there = asker.list_topics(timeout=ANSWER_SECONDS).topics
        missing = [each for each in wanted if each.topic not in there]
        for made in (asker.create_topics(missing) if missing else {}).values():
            made.result(ANSWER_SECONDS)


def send_message(client: Producer, topic: str, value: bytes, key: bytes | None = None, **more: Any) -> None:
    """Send a message in the transaction that is under way."""
    while True:
        try:
            client.produce(topic, value, key, **more)
        except BufferError:  # so many messages are on their way that the next one has to wait
            client.poll(0.05)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL:
                client.commit_transaction(COMMIT_SECONDS)  # it does not commit, but raises what was fatal: fencing?
            raise
        else:
            return
