"""What Pastry nodes send to each other, one frame in each datagram.

Every frame names its sender and the sender's life. A frame with a number is sent again until it is acknowledged. A
sender's numbers grow with its clock and are never used twice, not even in another life, so a receiver knows repeats.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.pastry.ids import DIGITS, ID_BYTES
from fieldfare.pastry.ports import MESSAGE_BYTES_MAX, Assurance, Card

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Life: TypeAlias = Annotated[int, Meta(ge=0, le=2**42)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
KeyBytes: TypeAlias = Annotated[bytes, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Message: TypeAlias = Annotated[bytes, Meta(max_length=MESSAGE_BYTES_MAX)]
Cards: TypeAlias = Annotated[tuple[Card, ...], Meta(max_length=128)]
Hops: TypeAlias = Annotated[int, Meta(ge=0, le=255)]

PIECE_BYTES = 1_150  # a packet with one of them fits in an Ethernet frame
_PIECES_MAX = MESSAGE_BYTES_MAX // PIECE_BYTES + 2


class PastryFrame(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Anything that a node sends."""

    name: Name
    life: Life


class NumberedFrame(PastryFrame, frozen=True):
    """Something that proves by its number that it is new. All but heartbeats are acknowledged."""

    number: Number


# For every message


class Acknowledge(PastryFrame, frozen=True, tag=0):
    """The frame of this number has come."""

    number: Number
    is_joined: bool  # else the sender is not to be put in tables yet


class Piece(NumberedFrame, frozen=True, tag=1):
    """A part of a frame that is too large for a datagram."""

    whole: Number  # the number of the frame
    index: Annotated[int, Meta(ge=0, lt=_PIECES_MAX)]
    count: Annotated[int, Meta(ge=2, le=_PIECES_MAX)]
    data: Annotated[bytes, Meta(min_length=1, max_length=PIECE_BYTES)]


# For the application


class Hop(NumberedFrame, frozen=True, tag=2):
    """A message on its way to a key, from one node to the next. It is acknowledged unless its assurance is NONE."""

    key: KeyBytes
    source: Card
    serial: Number  # the source's own number of the message, whichever way it takes
    hops: Hops  # this one included
    assurance: Assurance
    message: Message


class Note(NumberedFrame, frozen=True, tag=3):
    """A message from one node to another."""

    is_acknowledged: bool
    message: Message


class Arrived(PastryFrame, frozen=True, tag=4):
    """To the source of a message: it has come to its end."""

    serial: Number


# For the ring


class Ping(NumberedFrame, frozen=True, tag=5):
    """A question whether the receiver lives."""


class Heartbeat(NumberedFrame, frozen=True, tag=6):
    """To the neighbour on each side: I live, and this is a hash of the leaves that we both should have."""

    is_to_successor: bool
    leaves_hash: Number


class LeafCards(NumberedFrame, frozen=True, tag=7):
    """The sender's leaf set. If it answers a frame, it acknowledges that too."""

    answers: Number  # 0: it was not asked for
    wants_answer: bool
    is_joined: bool  # else its leaf set is not complete yet
    cards: Cards


class Join(NumberedFrame, frozen=True, tag=8):
    """On its way to the id of a node that joins, or looks for another ring. Nodes on the way introduce themselves."""

    newcomer: Card
    hops: Hops


class Hello(PastryFrame, frozen=True, tag=13):
    """The sender has joined: whoever has a place for it may ask it."""


class RowAsk(NumberedFrame, frozen=True, tag=9):
    """A question for a row of the receiver's prefix table."""

    row: Annotated[int, Meta(ge=0, lt=DIGITS)]


class SomeCards(NumberedFrame, frozen=True, tag=10):
    """Nodes that may be useful to the receiver. If it answers a frame, it acknowledges that too."""

    answers: Number
    cards: Cards


class Gone(PastryFrame, frozen=True, tag=11):
    """A node of the leaf set does not answer any more."""

    card: Card


class Goodbye(NumberedFrame, frozen=True, tag=12):
    """The sender leaves; these are its leaves."""

    cards: Cards


AnyPastryFrame: TypeAlias = (
    Acknowledge
    | Piece
    | Hop
    | Note
    | Arrived
    | Ping
    | Heartbeat
    | LeafCards
    | Join
    | Hello
    | RowAsk
    | SomeCards
    | Gone
    | Goodbye
)


class PastryTimer(StrEnum):  # not an Enum: hosts keep timers by key, and a string's hash is known
    """The timers of a node."""

    ROUND = "pastry: a period is over"
    RESEND = "pastry: something has not been acknowledged"
    ARRIVAL = "pastry: the arrival of something has not been confirmed"
    JOIN = "pastry: nobody has let us join"
