"""What the brokers of a tree send to their neighbours. The tree has no cycles, so there is one way between any two.

    Present, Absent              who is in the tree, and over which neighbour
    RingFound                    why a link is closed that would make the tree a ring
    Advertisement …              which broker serves a topic, and what may be published there; it travels to all
    Want, WantMet                what is wanted beyond a link: it travels where a matching advertisement came from
    Stream                       events of one origin, from neighbour to neighbour, each over every link once
    Echo                         how long a frame takes to a neighbour and back
    Drained                      how much of the streams a neighbour has dealt with: the window of a link
    PassOn                       a frame for one broker, wherever it is: what edges say to each other

A stream is a sequence of ranges, as between edges: of the origin's events of this topic after one position and up to
another, these are all that is wanted beyond this link. A version counts what was wanted on one link of one topic. Edges
are named by the ids of their logs, brokers by their names.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.messages.broker_frames import AnyBrokerFrame, ExportedEvent, LogId, Version
from fieldfare.messages.coordination import Member, TopicOffer
from fieldfare.messages.frames import Position
from fieldfare.messages.streams import TopicKey
from fieldfare.placement.placement_frames import AnyArrivalFrame, SessionTag, TraceId

BROKERS_MAX = 100_000  # in a path


class TreeFrame(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A frame between neighbours. What a later release adds stands last and has a default."""


class Present(TreeFrame, frozen=True, tag="present"):
    """A broker is in the tree. A later version of the same broker replaces an older one."""

    member: Member
    version: Version
    path: Annotated[tuple[str, ...], Meta(max_length=BROKERS_MAX)]  # from that broker to the sender, both included


class Absent(TreeFrame, frozen=True, tag="absent"):
    """A broker can no longer be reached over this link."""

    name: str


class RingFound(TreeFrame, frozen=True, tag="ring_found"):
    """With this link some brokers would be linked in a ring; its sender closes it."""

    ring: Annotated[tuple[str, ...], Meta(max_length=BROKERS_MAX)]  # the brokers in it, the first one also last


class Advertisement(TreeFrame, frozen=True, tag="advertisement"):
    """A broker serves a topic, and this is what may be published there. A later version replaces an older one."""

    topic: TopicKey
    origin: LogId
    version: Version
    published: bytes  # an encoded fieldfare.overlay.covering.Covering
    offer: TopicOffer | None = None
    is_owed: bool = False  # it has durable subscriptions to the topic
    number: int = (
        0  # counts what a neighbour was told: an answer to what was told before an end is none to what came after
    )


class AdvertisementKnown(TreeFrame, frozen=True, tag="advertisement_known"):
    """All brokers beyond this link know it. What is wanted of it here was sent before."""

    topic: TopicKey
    origin: LogId
    version: Version
    number: int = 0  # that of the advertisement


class AdvertisementEnded(TreeFrame, frozen=True, tag="advertisement_ended"):
    """A broker no longer serves a topic, or cannot be reached over this link."""

    topic: TopicKey
    origin: LogId


class Want(TreeFrame, frozen=True, tag="want"):
    """What is wanted of a topic beyond this link. A later version replaces an older one."""

    topic: TopicKey
    version: Version
    wanted: bytes  # an encoded fieldfare.overlay.covering.Covering


class WantMet(TreeFrame, frozen=True, tag="want_met"):
    """Every broker that this want concerns matches with it, or with more. Streams that come after this frame do."""

    topic: TopicKey
    version: Version


class Stream(TreeFrame, frozen=True, tag="stream"):
    """A range of one origin's events."""

    topic: TopicKey
    origin: LogId
    after: Position
    upto: Position
    version: Version  # of what is wanted beyond this link, with which it was matched at least
    events: list[ExportedEvent]
    lost_upto: Position = -1  # living events up to here left the origin's log before they could be sent
    expired_upto: Position = -1  # events up to here left it when they had expired
    traces: list[tuple[Position, TraceId]] = []  # events that POP traces
    sessions: list[tuple[Position, SessionTag]] = []  # events that GRAPE traces


class Echo(TreeFrame, frozen=True, tag="echo"):
    """Measures how long a frame takes to a neighbour and back: it goes the way of all frames, and waits with them."""

    sent_at: float  # by the clock of whoever measures
    is_answer: bool = False


class Drained(TreeFrame, frozen=True, tag="drained"):
    """Bytes of streams that have been dealt with since the link is open."""

    size_bytes: Annotated[int, Meta(ge=0)]


class PassOn(TreeFrame, frozen=True, tag="pass_on"):
    """A frame for the broker with this log."""

    to: LogId
    frame: AnyBrokerFrame | AnyArrivalFrame


AnyTreeFrame: TypeAlias = (
    Present
    | Absent
    | RingFound
    | Advertisement
    | AdvertisementKnown
    | AdvertisementEnded
    | Want
    | WantMet
    | Stream
    | Echo
    | Drained
    | PassOn
)
