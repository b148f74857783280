"""Sends an edge's events to a topic, for a thread of its own: a batch and its position are one transaction.

The position is in a marker, in a compacted topic beside the target (`kafka/markers.py`), so it is there exactly if the
events are. After an error nobody knows how a transaction ended: a new producer of the same id ends it one way or the
other, and then the marker tells which. Every run claims the topic by a marker of its own; who finds another's, ends.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer

from fieldfare.errors import InputError, KafkaUnavailableError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import admin, fenced, kafka_errors
from fieldfare.kafka.markers import MARKERS_SUFFIX, last_marker, markers_topic
from fieldfare.kafka.sending import COMMIT_SECONDS, make_missing, send_message, topic_limit, transactional_producer
from fieldfare.kafka.watching import TopicWatch
from fieldfare.runtime.kafka.options import EdgeView

NOTHING_SENT = -1
_MESSAGE_BYTES_MAX = 1_000_000
_REFUSED_MAX = 1_000


class EdgeMarker(msgspec.Struct, frozen=True):
    """Up to which position of an edge's log events are in the topic."""

    log: str
    position: int
    run: str  # of the edge that wrote it
    edge: str
    refused: tuple[int, ...] = ()  # the latest before it that are not there, being too large: they may be sent again


class Outgoing(NamedTuple):
    """An event as a message."""

    position: int
    value: bytes
    key: bytes | None
    headers: list[tuple[str, bytes]]


class Sender:
    """One topic, and one edge that sends to it."""

    def __init__(self, topic: KafkaTopic, transactional_id: str, edge: EdgeView) -> None:
        self.sent = NOTHING_SENT  # the last position that is in the topic
        self._refused: tuple[int, ...] = ()
        self._topic, self._id, self._edge = topic, transactional_id, edge
        self._markers = topic.beside(MARKERS_SUFFIX)
        self._run = uuid.uuid4().hex
        self._has_claimed = False
        self._producer: Producer | None = None

    def open(self) -> None:
        """Take the topic over from earlier runs, or find out how this run's last transaction ended."""
        if self._producer is not None:
            return
        asker = admin(self._topic)
        TopicWatch(self._topic).partitions()  # an error if it is not there
        make_missing(self._topic, asker, [markers_topic(self._markers)])
        if self._has_claimed:  # so as not to fence another run whose claim can be seen
            self._require_claim(last_marker(self._markers, asker, self._id, EdgeMarker, stable=True))
        client = transactional_producer(self._topic, self._id, topic_limit(self._topic, asker, _MESSAGE_BYTES_MAX))
        found = last_marker(self._markers, asker, self._id, EdgeMarker)
        if self._has_claimed:
            self._require_claim(found)
        log_id = self._edge.log_id()
        if found is not None and found.log == log_id:
            self.sent, self._refused = found.position, found.refused
        if self.sent > self._edge.last_position():
            raise InputError(
                f"{self._topic} has events up to position {self.sent:,} of this edge's log, which ends at "
                f"{self._edge.last_position():,}: an older copy of the log was restored. To go on, name another "
                "transactional_id; what the log lost is in the topic"
            )
        self._commit(client, [], self.sent, self._refused)
        self._has_claimed = True

    def is_unsent(self, position: int) -> bool:
        """Whether the event at a position is not in the topic."""
        return position > self.sent or position in self._refused

    def send(self, messages: Sequence[Outgoing], position: int, refused: Sequence[int]) -> list[int]:
        """Send messages: all events up to a position are in the topic then, but for some that were refused.

        Returns the positions of those that are too large. If there are any, nothing was sent.
        """
        client, self._producer = self._producer, None
        if client is None:
            raise KafkaUnavailableError(f"{self._topic}: there is no connection")
        too_large: list[int] = []
        try:
            sent = {message.position for message in messages}
            left = tuple(each for each in (*self._refused, *refused) if each not in sent)[-_REFUSED_MAX:]
            self._commit(client, messages, max(position, self.sent), left, too_large)
        except KafkaUnavailableError:
            raise
        except Exception:
            if not too_large:
                raise
            with kafka_errors(self._topic):
                client.abort_transaction(COMMIT_SECONDS)
            self._producer = client
        return too_large

    def close(self) -> None:
        """Let go of the connection."""
        self._producer = None

    def _commit(
        self,
        client: Producer,
        messages: Sequence[Outgoing],
        position: int,
        refused: tuple[int, ...],
        too_large: list[int] | None = None,
    ) -> None:
        marker = EdgeMarker(self._edge.log_id(), position, self._run, self._edge.name, refused)
        with kafka_errors(self._topic):
            client.begin_transaction()
            for message in messages:
                self._send(client, message, too_large)
            send_message(client, self._markers.name, msgspec.json.encode(marker), self._id.encode())
            client.commit_transaction(COMMIT_SECONDS)
        self._producer, self.sent, self._refused = client, position, refused

    def _send(self, client: Producer, message: Outgoing, too_large: list[int] | None) -> None:
        try:
            send_message(client, self._topic.name, message.value, message.key, headers=message.headers)
        except KafkaException as error:
            if too_large is not None and error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                too_large.append(message.position)
            raise

    def _require_claim(self, found: EdgeMarker | None) -> None:
        if found is None or found.run != self._run:
            raise fenced(self._topic)
