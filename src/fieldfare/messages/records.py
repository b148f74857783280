"""The records in an edge's journal: msgpack, versioned by the journal's format. A checkpoint is records too."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import msgspec

from fieldfare.messages.frames import Position
from fieldfare.messages.streams import Span, stream_of
from fieldfare.qos import Matching, Offered, Requested


class _Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    pass


class EventsStored(_Record, frozen=True, tag="e"):
    """Events of one publication, from `position` on. `subscriptions` are known where the pipeline matched them."""

    position: Position
    tenant: str
    topic: str
    at: float
    expires_at: float
    deliveries: list[bytes]  # each a Delivery, in JSON
    publisher: str | None = None
    sequence: int | None = None
    has_ids: bool = False  # the publisher gave ids, by which it may send again
    subscriptions: list[list[str]] | None = None
    batch: int | None = None


class SubscriptionStored(_Record, frozen=True, tag="s"):
    """A durable subscription."""

    subscription: str
    tenant: str
    topic: str
    condition: str
    qos: Requested
    position: Position
    webhook: str | None = None


class SubscriptionRemoved(_Record, frozen=True, tag="r"):
    """A durable subscription has ended."""

    tenant: str
    subscription: str


class TopicStored(_Record, frozen=True, tag="t"):
    """What a topic offers from now on."""

    tenant: str
    topic: str
    offered: Offered
    matching: Matching


class CursorsMoved(_Record, frozen=True, tag="c"):
    """Up to where durable subscriptions have acknowledged. Written now and then, not for each acknowledgement."""

    tenant: str
    positions: dict[str, Position]


class DeadLetter(_Record, frozen=True, tag="d"):
    """Events that a webhook did not take, and why."""

    tenant: str
    subscription: str
    at: float
    reason: str
    deliveries: list[bytes]


class PublishersMoved(_Record, frozen=True, tag="p"):
    """What publishers of a topic sent last. In checkpoints, and for events that the pipeline has and not the log."""

    tenant: str
    topic: str
    sequences: dict[str, int]  # the last of each publisher
    ids: list[tuple[str | None, str]] = []  # recent ones, each with its publisher


class Reached(_Record, frozen=True, tag="n"):
    """The last position that was used; of each (tenant, topic) the last that was stored, and the pipeline's batch.

    In checkpoints; in the log, where the events say it, only when positions begin to be used that it does not hold.
    """

    position: Position
    topics: list[tuple[str, str, Position, int]] = []


class KeptBytes(_Record, frozen=True, tag="k"):
    """In checkpoints: bytes of events that a tenant keeps, by the minute in which they expire."""

    tenant: str
    bytes_by_step: dict[int, int]


Record: TypeAlias = (
    EventsStored
    | SubscriptionStored
    | SubscriptionRemoved
    | TopicStored
    | CursorsMoved
    | DeadLetter
    | PublishersMoved
    | Reached
    | KeptBytes
)


class _EdgeRecords:
    """The codec of an edge's records. A topic of a tenant is a stream."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
        self._stream_of = lru_cache(maxsize=1024)(stream_of)  # a third of the time that a span takes

    def encode(self, record: Record) -> bytes:
        return self._encoder.encode(record)

    def decode(self, body: bytes | memoryview) -> Record:
        return self._decoder.decode(body)

    def span(self, record: Record) -> Span | None:
        if not isinstance(record, EventsStored) or not record.deliveries:
            return None
        last = record.position + len(record.deliveries) - 1
        return Span(self._stream_of(record.tenant, record.topic), record.position, last, record.expires_at)


EDGE_RECORDS = _EdgeRecords()
