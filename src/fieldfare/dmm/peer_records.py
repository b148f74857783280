"""The records in a peer's journal: what it published, whom that is owed to, what it wants, what it has taken.

A publication is stored before it is accepted, and a subscription before it is confirmed. For the other records nobody
waits. Without them leaves are asked again, and peers are sent again what they know by its number.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from fieldfare.messages import Span
from fieldfare.pastry.ports import Card


class _PeerRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    pass


class PeerLogBegun(_PeerRecord, frozen=True, tag="l"):
    """The id of this log, which is that of the peer's outboxes. Numbers of another log mean nothing here."""

    log: str


class PublicationStored(_PeerRecord, frozen=True, tag="e"):
    """An event that was published here."""

    number: int
    ref: str
    topic: str
    event: bytes
    expires_at: float
    at: float = 0.0  # when it was published; 0: the record is of a release that did not say it


class PublicationOwed(_PeerRecord, frozen=True, tag="o"):
    """Peers that want an event of this log."""

    number: int
    peers: tuple[Card, ...]


class PublicationSettled(_PeerRecord, frozen=True, tag="d"):
    """All peers that want an event have taken it. It is kept while it lives, should rings merge."""

    number: int


class PeerSubscriptionStored(_PeerRecord, frozen=True, tag="s"):
    """What this peer's program wants."""

    ref: str
    topic: str
    condition: str


class PeerSubscriptionRemoved(_PeerRecord, frozen=True, tag="r"):
    """What it wants no more."""

    ref: str


class NumbersTaken(_PeerRecord, frozen=True, tag="t"):
    """Numbers that were taken from the outbox of another peer. Those below `lowest` are not going to come."""

    peer: str
    outbox: str
    lowest: int
    numbers: tuple[int, ...]


PeerRecord: TypeAlias = (
    PeerLogBegun
    | PublicationStored
    | PublicationOwed
    | PublicationSettled
    | PeerSubscriptionStored
    | PeerSubscriptionRemoved
    | NumbersTaken
)


class _PeerRecords:
    """The codec of a peer's records. A peer holds its living events in memory, so no stream is read from the log."""

    def __init__(self) -> None:
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder(PeerRecord).decode

    def span(self, record: PeerRecord) -> Span | None:  # noqa: ARG002 - see RecordCodec
        return None


PEER_RECORDS = _PeerRecords()
