"""What brokers send to each other: who wants which events of a topic, and ranges of events from log to log.

An edge *joins* a topic with a summary of what is wanted there, its interest. Every other edge of the topic is an
*origin* for it: it confirms the interest, is told where to resume, and sends ranges. A range says: of my log's events
of this topic after one position and up to another, these are all that your interest, in this version, wants. The
receiving edge owns the cursor, so a range that comes twice, late or by another way does no harm.

A routing broker between the edges passes frames on to the edge that they name, and remembers joins for those that come
later. Edges with a link of their own send each other the same frames. Edges are named by the ids of their logs.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.messages.coordination import TopicOffer
from fieldfare.messages.frames import Position
from fieldfare.messages.move_frames import Follows
from fieldfare.messages.streams import TopicKey

BROKER_PROTOCOL = "fieldfare-broker/1"
LogId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Version: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class BrokerFrame(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A frame between brokers. What a later release adds stands last and has a default."""

    topic: TopicKey


class Join(BrokerFrame, frozen=True, tag="join"):
    """An edge serves this topic. Joining again replaces its interest; an older version changes nothing."""

    edge: LogId
    version: Version
    wanted: bytes  # an encoded fieldfare.overlay.covering.Covering
    is_origin: bool = True  # False: it is one subscription of an edge that reads what is alive
    offer: TopicOffer | None = None  # what the topic offers, as this edge knows; None: what topics offer by default


class Joined(BrokerFrame, frozen=True, tag="joined"):
    """A routing broker to an edge that has just joined: the other edges that have."""

    edges: list[LogId]


class Leave(BrokerFrame, frozen=True, tag="leave"):
    """An edge is no longer reached over this link for this topic."""

    edge: LogId


class Confirm(BrokerFrame, frozen=True, tag="confirm"):
    """An origin to a receiver: events after this position are matched with this version of your interest."""

    origin: LogId
    receiver: LogId
    version: Version
    position: Position


class Resume(BrokerFrame, frozen=True, tag="resume"):
    """A receiver to an origin: send what comes after this position, matched with this version or a later one."""

    origin: LogId
    receiver: LogId
    position: Position
    version: Version


class Taken(BrokerFrame, frozen=True, tag="taken"):
    """A receiver to an origin: all up to this position is in my log."""

    origin: LogId
    receiver: LogId
    position: Position


class DialBack(BrokerFrame, frozen=True, tag="dial_back"):
    """A receiver to an origin that cannot be dialled: dial me, so that there is a second path."""

    origin: LogId
    receiver: LogId
    name: str  # of the receiver, as it is known to coordination


class Register(BrokerFrame, frozen=True, tag="register"):
    """An edge to the home of a topic that Spark matches: what its subscriptions want, for the home's pipeline.

    The home answers with Confirm when its pipeline has them. A long list comes in several parts.
    """

    origin: LogId  # the home
    receiver: LogId
    version: Version
    since: Version | None  # these are all changes since that version; None: this is all there is
    changes: list[tuple[str, str | None]]  # subscriptions and their conditions; no condition: it has ended
    part: int = 0
    is_last: bool = True


class ExportedEvent(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An event on its way to another log."""

    position: Position  # in the origin's log
    seconds_left: float  # of its lifespan: clocks differ
    delivery: bytes  # a Delivery in JSON, as the origin stored it
    subscriptions: list[str] | None = None  # who wants it, where the pipeline matched it: see `remote_id`
    follows: Follows | None = None  # take it only after the events of these logs up to these positions

    def of(self, receiver: LogId) -> ExportedEvent:
        """The same with the subscriptions of one receiver only."""
        if self.subscriptions is None:
            return self
        own = [each for each in self.subscriptions if edge_of(each) == receiver]
        return ExportedEvent(self.position, self.seconds_left, self.delivery, own, self.follows)


class Share(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The part of a message that is one receiver's range."""

    receiver: LogId
    after: Position
    version: Version
    events: list[int] | None = None  # which of the message's events it wants; None: all
    lost_upto: Position = -1  # living events up to here left the origin's log before they could be sent
    expired_upto: Position = -1  # events up to here left it when they had expired


class Ranges(BrokerFrame, frozen=True, tag="ranges"):
    """An origin to several receivers: ranges that end at the same position. Each event travels once over a link."""

    origin: LogId
    upto: Position
    events: list[ExportedEvent]
    shares: list[Share]

    def of(self, share: Share) -> Ranges:
        """The same with the range of one receiver only."""
        if share.events is None:
            return self if len(self.shares) == 1 else Ranges(self.topic, self.origin, self.upto, self.events, [share])
        events = [self.events[number].of(share.receiver) for number in share.events]
        own = Share(share.receiver, share.after, share.version, None, share.lost_upto, share.expired_upto)
        return Ranges(self.topic, self.origin, self.upto, events, [own])


class Find(BrokerFrame, frozen=True, tag="find"):
    """An edge to all others of a topic: who has this durable subscription? Each answers with Found."""

    asker: LogId
    number: int
    subscription: str


class Found(BrokerFrame, frozen=True, tag="found"):
    """The answer of one edge to the one that asked."""

    edge: LogId
    asker: LogId
    number: int
    is_here: bool
    is_contested: bool = False  # it is not, but it is looked for there too, and that edge goes first


AnyBrokerFrame: TypeAlias = (
    Join | Joined | Leave | Confirm | Resume | Taken | Ranges | DialBack | Find | Found | Register
)


def remote_id(edge: LogId, subscription: str) -> str:
    """The id of another edge's subscription, which is like no id of an edge's own: names have no slash."""
    return f"{edge}/{subscription}"


def edge_of(remote: str) -> LogId:
    """The edge that a remote id names; of another id, all of it."""
    return remote.partition("/")[0]
