"""The records in an edge's journal: msgpack, versioned by the journal's format. A checkpoint is records too."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import msgspec

from fieldfare.messages.beside import WebhookForm
from fieldfare.messages.frames import Position
from fieldfare.messages.move_frames import Follows, SealedPublisher
from fieldfare.messages.streams import Span, own_part_of, stream_of
from fieldfare.qos import Consuming, Matching, Offered, Requested


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
    origin: str | None = None  # the log that they were published in; None: this one
    origin_positions: list[Position] = []  # of each, in that log
    origin_upto: Position = -1  # all that was wanted of that log's events of this topic, up to here, is in this log
    cursors: dict[str, Position] = {}  # of a batch: up to where the pipeline has the events of each other log
    follows: Follows = {}  # of a publisher that came from other edges: they come after these positions of other logs
    upto: int | None = None  # of a publisher that reads another log: the number to go on with


class SubscriptionStored(_Record, frozen=True, tag="s"):
    """A durable subscription."""

    subscription: str
    tenant: str
    topic: str
    condition: str
    qos: Requested
    position: Position
    webhook: str | None = None
    replay: str = ""  # the name under which events of other logs are here for this subscription only
    replayed: dict[str, Position] = {}  # of each such log up to where; what else is here of those is not for it
    consuming: Consuming = Consuming()
    since: float = 0.0  # events that were accepted before this time are not for it
    is_paused: bool = False
    is_moved: bool = False  # of one that exists: it goes on after `position`, wherever it was
    webhook_form: WebhookForm = "fieldfare"


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
    version: int = 0  # of the offer, where other edges offer the same
    home: str = ""  # the edge whose pipeline matches it; empty: this one


class TopicRemoved(_Record, frozen=True, tag="z"):
    """A topic was deleted, with its subscriptions and its events up to a position.

    Its publishers go on with their numbers, should there be a topic of that name again.
    """

    tenant: str
    topic: str
    position: Position
    sequences: dict[str, int] = {}


class CursorsMoved(_Record, frozen=True, tag="c"):
    """Up to where durable subscriptions have acknowledged. Written now and then, not for each acknowledgement."""

    tenant: str
    positions: dict[str, Position]


class EventsOutstanding(_Record, frozen=True, tag="q"):
    """Which events of a durable subscription are not settled, after its cursor and up to a position; all others are.

    Written as CursorsMoved is, in its place, for subscriptions whose events are known one by one.
    """

    tenant: str
    subscription: str
    cursor: Position
    upto: Position
    events: list[tuple[Position, int, int, float]]  # with attempts, refusals, and the time before which it must wait


class DeadLetter(_Record, frozen=True, tag="d"):
    """Events that a webhook did not take or a consumer refused, and why."""

    tenant: str
    subscription: str
    at: float
    reason: str
    deliveries: list[bytes]
    attempts: int = 0


class DeadLettersRedriven(_Record, frozen=True, tag="v"):
    """Dead letters are sent again. They are kept until they are acknowledged."""

    tenant: str
    subscription: str
    positions: list[Position]


class DeadLettersDropped(_Record, frozen=True, tag="g"):
    """Dead letters are forgotten: somebody said so, or they were sent again and acknowledged."""

    tenant: str
    subscription: str
    positions: list[Position]


class PublishersMoved(_Record, frozen=True, tag="p"):
    """What publishers of a topic sent last. In checkpoints, and for events that the pipeline has and not the log."""

    tenant: str
    topic: str
    sequences: dict[str, int]  # the last of each publisher
    ids: list[tuple[str | None, str]] = []  # recent ones, each with its publisher
    matched_ids: list[tuple[str | None, str]] = []  # in checkpoints: the same of events that the pipeline has matched
    readers: list[str] = []  # those of them that read another log, and are never forgotten


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


class TimesKept(_Record, frozen=True, tag="w"):
    """In checkpoints: when the events of a topic came, as a sparse table (see `routing.position_times`).

    Columns, of which each holds its first number, and then from each number to the next.
    """

    tenant: str
    topic: str
    positions: list[int]
    untils: list[int]
    milliseconds: list[int]
    events: list[int]
    sizes_bytes: list[int]


class BehindCounted(_Record, frozen=True, tag="b"):
    """How many events of a topic match subscriptions that have not acknowledged them, when positions were written.

    Of each subscription the count, from which position to which it is one, and whether it is exact or an upper bound.
    Those that are not named have none up to `upto`; but in a record that is not of a checkpoint, nothing is said of
    them.
    """

    tenant: str
    topic: str
    upto: Position
    counts: dict[str, tuple[int, Position, Position, bool]]
    is_complete: bool = False  # of a checkpoint


class LogBegun(_Record, frozen=True, tag="l"):
    """The id of this log, which is random. Positions of another log mean nothing here."""

    log: str


class InterestExported(_Record, frozen=True, tag="i"):
    """What this edge wants of a topic's events in other logs. Stored before it is sent to other brokers."""

    tenant: str
    topic: str
    version: int
    wanted: bytes  # an encoded Covering


class OriginsMoved(_Record, frozen=True, tag="o"):
    """Up to where a topic's events in other logs have been dealt with. Written now and then, and in checkpoints."""

    tenant: str
    topic: str
    positions: dict[str, Position]  # by the id of the log


class SubscriptionReplayed(_Record, frozen=True, tag="y"):
    """Events of other logs were read for an unnamed subscription, whose client may come back for them."""

    tenant: str
    topic: str
    subscription: str
    replay: str
    replayed: dict[str, Position]


class EdgeRegistered(_Record, frozen=True, tag="h"):
    """At the home of a topic that Spark matches: what another edge's subscriptions want has changed."""

    tenant: str
    topic: str
    edge: str
    version: int
    changes: list[tuple[str, str | None]]  # subscriptions and their conditions; no condition: it has ended


class EventsMissed(_Record, frozen=True, tag="m"):
    """Events of a topic that were published elsewhere are gone before they came here."""

    tenant: str
    topic: str
    position: Position  # the last of this log when that was known: who has not got so far is to be told
    detail: str


class PublisherSealed(_Record, frozen=True, tag="x"):
    """A publisher has left for another edge. Stored before it is told what it takes along."""

    tenant: str
    at: float
    sealed: SealedPublisher


class PublisherAdopted(_Record, frozen=True, tag="a"):
    """A publisher has come from another edge. Stored before it goes on here."""

    tenant: str
    at: float
    sealed: SealedPublisher


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
    | LogBegun
    | InterestExported
    | OriginsMoved
    | EventsMissed
    | SubscriptionReplayed
    | EdgeRegistered
    | PublisherSealed
    | PublisherAdopted
    | EventsOutstanding
    | DeadLettersRedriven
    | DeadLettersDropped
    | TimesKept
    | BehindCounted
    | TopicRemoved
)


class _EdgeRecords:
    """The codec of an edge's records. A topic of a tenant is a stream."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
        self._stream_of = lru_cache(maxsize=1024)(stream_of)  # a third of the time that a span takes
        self._own_part_of = lru_cache(maxsize=1024)(own_part_of)

    def encode(self, record: Record) -> bytes:
        return self._encoder.encode(record)

    def decode(self, body: bytes | memoryview) -> Record:
        return self._decoder.decode(body)

    def span(self, record: Record) -> Span | None:
        if not isinstance(record, EventsStored) or not record.deliveries:
            return None
        stream, last = self._stream_of(record.tenant, record.topic), record.position + len(record.deliveries) - 1
        part = self._own_part_of(record.tenant, record.topic) if record.origin is None else ""
        return Span(stream, record.position, last, record.expires_at, part)


EDGE_RECORDS = _EdgeRecords()
