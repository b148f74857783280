"""Clients of confluent-kafka, quiet, and their errors in Fieldfare's words: what passes, and what does not."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from fieldfare.errors import FencedError, InputError, KafkaTopicError, KafkaUnavailableError, MissingDependencyError
from fieldfare.kafka.address import KafkaTopic

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
    from confluent_kafka.admin import AdminClient
except ImportError as error:
    raise MissingDependencyError("confluent-kafka is missing: pip install 'fieldfare[kafka]'") from error

ANSWER_SECONDS = 10.0  # for one request
_LOGGER = logging.getLogger("fieldfare.kafka")
_LOGGER.addHandler(logging.NullHandler())  # librdkafka's lines are for those who ask: errors are raised, and told
_LOGGER.propagate = False

_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_REASONS = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
_REASON_SECONDS = 60.0
_reasons: dict[str, tuple[float, str]] = {}  # of brokers: why connections failed last, and when
_LASTING = {
    KafkaError._AUTHENTICATION,
    KafkaError._INVALID_ARG,
    KafkaError._SSL,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError.INVALID_CONFIG,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.UNSUPPORTED_VERSION,
}


def consumer(topic: KafkaTopic, group: str, **settings: Any) -> Consumer:
    """A consumer that reads what is committed, from offsets that we name; it commits none by itself."""
    ours = {
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }
    with kafka_errors(topic):
        return Consumer({**_common(topic), **settings, **ours}, logger=_LOGGER)


def producer(topic: KafkaTopic, transactional_id: str, **settings: Any) -> Producer:
    """A producer of transactions."""
    with kafka_errors(topic):
        return Producer({**settings, **_common(topic), "transactional.id": transactional_id}, logger=_LOGGER)


def admin(topic: KafkaTopic) -> AdminClient:
    """A client that asks about topics."""
    with kafka_errors(topic):
        return AdminClient(_common(topic), logger=_LOGGER)


def _common(topic: KafkaTopic) -> dict[str, Any]:
    return {
        "error_cb": partial(_note, topic.brokers),
        "client.id": "fieldfare",
        "reconnect.backoff.max.ms": 1_000,
        "socket.keepalive.enable": True,
        **topic.settings,
        "bootstrap.servers": topic.brokers,
    }


def _note(brokers: str, error: KafkaError) -> None:
    """Remember why connections fail: requests only say that they took too long."""
    if error.code() in _REASONS:
        _reasons[brokers] = time.monotonic(), error.str()


def _reason(brokers: str) -> str:
    noted_at, reason = _reasons.get(brokers, (0.0, ""))
    return f" ({reason}: look at the settings)" if reason and time.monotonic() < noted_at + _REASON_SECONDS else ""


@contextmanager
def kafka_errors(topic: KafkaTopic, asked: AdminClient | None = None) -> Iterator[None]:
    """Turn what librdkafka raises into an error that says what to do. Settings, which may be secret, are in none."""
    try:
        yield
    except KafkaException as error:
        if asked is not None:
            asked.poll(0)  # it notes why connections failed, and does so only when it is polled
        raise explained(error.args[0], topic) from error


def fenced(topic: KafkaTopic) -> FencedError:
    """The error of a driver that is not alone."""
    return FencedError(f"{topic}: another driver, with the same checkpoint, has taken this output over: this one ends")


def explained(error: KafkaError, topic: KafkaTopic) -> KafkaTopicError | InputError:
    """The error to raise for an error of librdkafka."""
    code, text = error.code(), error.str()
    if code in _FENCED:
        return fenced(topic)
    if code in _GONE:
        return KafkaTopicError(f"{topic}: there is no such topic or partition: create it, or name another")
    if code == KafkaError._INVALID_ARG:
        return InputError(f"{topic}: Kafka's client does not take its settings: {text}")
    if code in _LASTING:
        return KafkaTopicError(f"{topic}: {text}: look at rights and settings")
    return KafkaUnavailableError(f"{topic}: Kafka does not answer: {text}{_reason(topic.brokers)}")
