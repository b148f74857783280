"""Reads the partitions of a topic from given places, for a thread of its own: pieces of messages, and where to go on.

A piece ends at a position and not at a message: the ends of transactions and the gaps of compaction bring none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from fieldfare.errors import FencedError, InputError, KafkaTopicError, KafkaUnavailableError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import ANSWER_SECONDS, consumer, explained, kafka_errors
from fieldfare.kafka.decoding import JsonOfMessages
from fieldfare.kafka.offsets import Offsets
from fieldfare.kafka.schema_registry import BadMessageError
from fieldfare.kafka.watching import TopicWatch

_MESSAGES_MAX, _PIECE_BYTES = 2_000, 1 << 20  # in one piece; the last message may exceed it
_IDLE_SECONDS = 0.5
_GATHER_SECONDS = 0.005
_LOOK_SECONDS = 5.0  # how often it is looked whether the topic has changed
_QUEUES = {"queued.max.messages.kbytes": 16 << 10, "fetch.message.max.bytes": 4 << 20, "fetch.wait.max.ms": 50}
_OUT_OF_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_PASSING = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE}


@dataclass(slots=True)
class Piece:
    """Some messages of a partition, and the offset after them."""

    partition: int
    upto: int
    events: list[tuple[int, bytes]] = field(default_factory=list)  # offsets, and JSON
    bad: list[tuple[int, bytes, str]] = field(default_factory=list)  # offsets, messages, and why they are no events
    lost: int = 0  # offsets before it that were removed before they were read
    size_bytes: int = 0


class TopicReader:
    """One topic. An error means that it has to be opened anew."""

    def __init__(self, topic: KafkaTopic, group: str, decoder: JsonOfMessages) -> None:
        self._topic, self._decoder = topic, decoder
        self._watch = TopicWatch(topic)
        self._client = consumer(topic, group, **_QUEUES)
        self.topic_id, self.partitions = self._watch.partitions()
        self._offsets: Offsets = {}
        self._looked_at = time.monotonic()

    def beginning(self, starting: str) -> Offsets:
        """Where a starting point is now."""
        return self._watch.beginning(starting).offsets

    def require_alone(self, log_id: str) -> None:
        """Raise if another edge has shown offsets in this group: it reads the topic too, or has."""
        with kafka_errors(self._topic):
            places = [TopicPartition(self._topic.name, partition) for partition in self.partitions]
            found = self._client.committed(places, timeout=ANSWER_SECONDS)
        for place in found:
            if place.metadata and place.metadata != log_id:
                raise FencedError(
                    f"{self._topic}: another edge reads it in the same group, or did (the log {place.metadata}): one "
                    "edge of a deployment reads a topic. If that one is gone for good, name another group"
                )

    def show(self, offsets: Offsets, log_id: str) -> None:
        """Show Kafka's own tools how far it is. Nothing depends on it, so no error does any harm."""
        places = [TopicPartition(self._topic.name, *place, metadata=log_id) for place in offsets.items()]
        with suppress(KafkaException):
            self._client.commit(offsets=places, asynchronous=True)

    def assign(self, offsets: Offsets) -> None:
        """Read on from these offsets."""
        self._offsets = dict(offsets)
        with kafka_errors(self._topic):
            self._client.assign([TopicPartition(self._topic.name, *place) for place in offsets.items()])

    def behind(self) -> int | None:
        """How many offsets are known that have not been read; None: that is not known yet."""
        behind = 0
        for partition, offset in self._offsets.items():
            _, high = self._client.get_watermark_offsets(TopicPartition(self._topic.name, partition), cached=True)
            if high < 0:
                return None
            behind += max(0, high - offset)
        return behind

    def read(self) -> list[Piece]:
        """What has come; after a while without anything, nothing."""
        if time.monotonic() > self._looked_at + _LOOK_SECONDS:
            self._look()
        first = self._client.poll(_IDLE_SECONDS)
        if first is None:
            return []
        return list(self._pieces([first, *self._client.consume(_MESSAGES_MAX, timeout=_GATHER_SECONDS)]))

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _look(self) -> None:
        """Raise if the topic is gone, is another one by now, or has more partitions; or if nobody answers."""
        topic_id, partitions = self._watch.partitions()
        if topic_id != self.topic_id:
            raise KafkaTopicError(f"{self._topic}: the topic was deleted and made anew")
        if partitions != self.partitions:
            raise KafkaUnavailableError(f"{self._topic}: it has {len(partitions)} partitions now: they are read too")
        self._looked_at = time.monotonic()

    def _pieces(self, messages: Iterable[Message]) -> Iterable[Piece]:
        open_pieces: dict[int, Piece] = {}
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            error = message.error()
            if error is not None:
                yield from self._removed(error, partition)
                if error.code() != KafkaError._PARTITION_EOF:
                    continue
                self._offsets[partition] = max(self._offsets[partition], offset)
                if partition in open_pieces:
                    open_pieces[partition].upto = self._offsets[partition]
                continue
            piece = open_pieces.get(partition)
            if piece is None or piece.size_bytes > _PIECE_BYTES:
                if piece is not None:
                    yield piece
                piece = open_pieces[partition] = Piece(partition, offset)
            self._add(piece, offset, message.value())
            self._offsets[partition] = piece.upto = offset + 1
        yield from open_pieces.values()

    def _add(self, piece: Piece, offset: int, value: bytes | None) -> None:
        if value is None:
            return  # it says that a key is deleted
        try:
            json = self._decoder.json(value)
            piece.events.append((offset, json))
            piece.size_bytes += len(json)
        except BadMessageError as error:
            piece.size_bytes += len(value)
            piece.bad.append((offset, value, str(error)))

    def _removed(self, error: KafkaError, partition: int) -> Iterable[Piece]:
        """What came that is no message: an error, or nothing, or that retention was faster."""
        if error.code() in _PASSING or error.code() == KafkaError._PARTITION_EOF or error.retriable():
            return
        if error.code() not in _OUT_OF_RANGE or partition not in self._offsets:
            raise explained(error, self._topic)
        with kafka_errors(self._topic):
            place = TopicPartition(self._topic.name, partition)
            low, high = self._client.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
        first = self._offsets[partition]
        if first > high:
            raise InputError(
                f"{self._topic}: partition {partition} was read up to {first:,}, but ends at {high:,}: the brokers "
                "have lost messages, or are others. To read what is there now, name another group"
            )
        if low <= first:
            raise KafkaUnavailableError(f"{self._topic}: partition {partition} does not have offset {first:,} now")
        self._offsets[partition] = low
        self._client.assign([TopicPartition(self._topic.name, *each) for each in self._offsets.items()])
        yield Piece(partition, low, lost=low - first)
