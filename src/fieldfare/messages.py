"""What nodes are told, what they do, and what travels between them: data only, so that any host can run any node.

A node is a state machine: `node.handle(message, now) -> effects`. A message is something that happened to it, an
effect something its host is to do. Nodes have no sockets, files, clocks or randomness of their own; one host performs
effects on asyncio, another under a virtual clock (see `fieldfare.runtime` and `fieldfare.simulation`).

    frames    what a client and its edge send to each other: JSON, a line each, versioned by the protocol's name
    inputs    what a host tells a node: a frame came, a record is stored, a timer is due
    effects   what a node asks of its host: send a frame, store a record, set a timer
    records   what a node's log holds: msgpack, versioned by the log's format

`now` is seconds since 1970 by a clock that never jumps: a host reads the time once and then counts monotonically.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Raw

from fieldfare.qos import Offered, Published, Requested

PROTOCOL = "fieldfare.v1"  # the WebSocket subprotocol; a change that old clients cannot read gets a new name
FRAME_BYTES_MAX = 4 * 1024 * 1024
EVENTS_MAX = 10_000  # in one publication
EVENT_BYTES_MAX = 256 * 1024
CONDITION_CHARACTERS_MAX = 16_384  # compiling holds up everybody at an edge: longer ones are for the pipeline

# Of an event at one edge: they only grow, within one topic in the order of delivery. -1 is before the first.
Position: TypeAlias = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
Ref: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # a client's number for a request, which the answer repeats
# Of a topic, a subscription. A `$` alone would let a line break follow.
Name: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$(?!\n)")]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]  # an id that others made
Window: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]

Right: TypeAlias = Literal["publish", "subscribe", "manage"]


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Who is at the other end of a connection: a tenant, and the topics for each right, where `*` stands for all."""

    tenant: str
    rights: dict[Right, tuple[str, ...]]

    def may(self, right: Right, topic: str) -> bool:
        """Whether this right is given for this topic."""
        return any(
            given in ("*", topic) or (given.endswith("*") and topic.startswith(given[:-1]))
            for given in self.rights.get(right, ())
        )


class _Frame(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    pass


# What a client sends. Every request is answered by a frame with its ref: the one named, or Refused.


class Publish(_Frame, frozen=True, tag="publish"):
    """Events for a topic; answered by Accepted, for all of them or for none.

    A publisher that numbers its events, from `sequence` on without gaps, may send them again when no answer came: what
    was accepted already is accepted again, but delivered once. Without numbers the ids, if given, do the same for a
    while.
    """

    ref: Ref
    topic: Name
    events: Annotated[list[Raw], Meta(max_length=EVENTS_MAX)]
    publisher: Text | None = None
    sequence: Annotated[int, Meta(ge=0)] | None = None  # of the first of these events
    ids: list[Text] | None = None  # one for each event
    qos: Published = Published()


class Subscribe(_Frame, frozen=True, tag="subscribe"):
    """A new subscription, delivered on this connection; answered by Subscribed.

    Without a name it lives as long as the connection; a client that comes back, be it after a crash of the edge,
    subscribes again with `after`, and misses nothing that a reliable topic accepted. With a name it is durable: it
    lives, and its events wait, until Unsubscribe; subscribing again by the same name goes on where it was.
    """

    ref: Ref
    topic: Name
    condition: Annotated[str, Meta(max_length=CONDITION_CHARACTERS_MAX)]
    qos: Requested = Requested()
    name: Name | None = None
    after: Position | None = None  # deliver what came after this position; None: from now on, or as durability says
    window: Window = 1024  # so many events may be on their way without an acknowledgement
    webhook: Annotated[str, Meta(max_length=2048)] | None = None  # deliver by POST to this URL; needs a name


class Attach(_Frame, frozen=True, tag="attach"):
    """Deliver a durable subscription on this connection, and no longer on another; answered by Subscribed."""

    ref: Ref
    subscription: str
    after: Position | None = None  # acknowledges up to there; None goes on after what was acknowledged last
    window: Window = 1024


class Ack(_Frame, frozen=True, tag="ack"):
    """All events of a subscription up to a position have been received and dealt with. Not answered."""

    subscription: str
    position: Position
    is_final: bool = True  # False: they have left this connection, send more, but keep them for the next


class Detach(_Frame, frozen=True, tag="detach"):
    """Deliver no more of a subscription here; a durable one waits for the next Attach. Not answered."""

    subscription: str


class Unsubscribe(_Frame, frozen=True, tag="unsubscribe"):
    """End a subscription; answered by Unsubscribed."""

    ref: Ref
    subscription: str


class DeclareTopic(_Frame, frozen=True, tag="declare_topic"):
    """Create a topic, or change what it offers to those that subscribe from now on; answered by Done."""

    ref: Ref
    topic: Name
    offered: Offered = Offered()
    matching: Literal["edge", "spark"] = "edge"


class List(_Frame, frozen=True, tag="list"):
    """Ask for the topics, the subscriptions, or the dead letters of one; answered by Listed, page by page."""

    ref: Ref
    what: Literal["topics", "subscriptions", "dead_letters"]
    after: str = ""  # the last name of the page before
    count_max: Annotated[int, Meta(ge=1, le=1000)] = 100
    subscription: str | None = None


ClientFrame: TypeAlias = Publish | Subscribe | Attach | Ack | Detach | Unsubscribe | DeclareTopic | List


# What an edge sends.


class Accepted(_Frame, frozen=True, tag="accepted"):
    """A publication is accepted, and if its topic is reliable, it will survive."""

    ref: Ref
    count: int
    duplicates: int = 0  # so many of them had been accepted before


class Subscribed(_Frame, frozen=True, tag="subscribed"):
    """A subscription is in force: every matching event that is published from now on is delivered."""

    ref: Ref
    subscription: str
    position: Position  # it begins after this one
    is_new: bool = True


class Deliver(_Frame, frozen=True, tag="deliver"):
    """Events for a subscription, each a Delivery, in order. A client that saw a position before passes over it."""

    subscription: str
    events: list[Raw]


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event as it is delivered."""

    position: Position
    id: str
    at: float  # when it was accepted, in seconds since 1970
    event: Raw  # as it was published
    publisher: str | None = None


class Notice(_Frame, frozen=True, tag="notice"):
    """Something that a subscriber has to know."""

    subscription: str
    kind: Literal["gap", "deadline", "detached"]
    detail: str
    position: Position | None = None  # of a gap: events up to here were dropped


class Unsubscribed(_Frame, frozen=True, tag="unsubscribed"):
    """A subscription has ended."""

    ref: Ref
    subscription: str


class Done(_Frame, frozen=True, tag="done"):
    """A request has been carried out."""

    ref: Ref


class Listed(_Frame, frozen=True, tag="listed"):
    """A page of a list."""

    ref: Ref
    items: list[dict[str, Any]]
    next: str | None = None  # the `after` of the next page


class Refused(_Frame, frozen=True, tag="refused"):
    """A request has not been carried out, and nothing of it has happened."""

    ref: Ref | None
    code: RefusalCode
    reason: str
    expected: int | None = None  # of a gap in a publisher's numbers: the one that is missing


RefusalCode: TypeAlias = Literal[
    "invalid",  # the request is wrong: change it
    "condition",  # the condition is
    "qos",  # more is requested than offered
    "forbidden",  # no right
    "unknown",  # there is no such thing, or it is another tenant's
    "sequence",  # the publisher's numbers have a gap
    "limit",  # there are too many already
    "busy",  # too much at once: try again later
    "storage",  # it cannot be stored now: try again later
]

EdgeFrame: TypeAlias = Accepted | Subscribed | Deliver | Notice | Unsubscribed | Done | Listed | Refused


# What a host tells a node.


class Started(msgspec.Struct, frozen=True, gc=False):
    """All of the log has been recovered: begin."""


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A client has connected, and proved who it is."""

    connection: str
    identity: Identity


class Received(msgspec.Struct, frozen=True, gc=False):
    """A frame came over a connection."""

    connection: str
    frame: ClientFrame


class Closed(msgspec.Struct, frozen=True, gc=False):
    """A connection is gone."""

    connection: str


class Stored(msgspec.Struct, frozen=True, gc=False):
    """All records up to this number are in the log, and durable where they had to be."""

    number: int


class NotStored(msgspec.Struct, frozen=True, gc=False):
    """None of the records that are not confirmed, up to this number, is in the log, and none will be."""

    number: int
    reason: str


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """Records of the log that were asked for, in order, and whether there are more after them."""

    reader: str
    records: list[EventsStored]
    position: Position  # all events up to this one have been read
    is_end: bool
    lost_before: Position = -1  # events up to here are no longer in the log


class TimerDue(msgspec.Struct, frozen=True, gc=False):
    """The time of a timer has come."""

    key: str


class Called(msgspec.Struct, frozen=True, gc=False):
    """A webhook has been called. Without a failure it took the events."""

    handle: int
    position: Position  # of the last event
    failure: str | None = None
    is_permanent: bool = False  # it would fail again: do not retry
    retry_after_seconds: float | None = None  # as the endpoint asked


class PipelineMatched(msgspec.Struct, frozen=True, gc=False):
    """A batch that the Spark pipeline committed: events of a topic, and for each the subscriptions it satisfies."""

    tenant: str
    topic: str
    batch: int
    events: list[MatchedEvent]


class MatchedEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event, the pipeline's way."""

    id: str
    publisher: str | None
    at: float
    event: Raw
    subscriptions: list[str]


class HandedOver(msgspec.Struct, frozen=True, gc=False):
    """The pipeline's event log, or its store of subscriptions, has what it was given; or it has not, and why."""

    number: int
    failure: str | None = None


Input: TypeAlias = (
    Started
    | Opened
    | Received
    | Closed
    | Stored
    | NotStored
    | Fetched
    | TimerDue
    | Called
    | PipelineMatched
    | HandedOver
)


# What a node asks of its host.


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a frame. To a connection that is gone, nothing happens."""

    connection: str
    frame: EdgeFrame


class Close(msgspec.Struct, frozen=True, gc=False):
    """Close a connection."""

    connection: str
    reason: str


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append a record to the log; answered by Stored or NotStored. Numbers grow by one."""

    number: int
    record: Record
    is_durable: bool = True  # False: it is enough that it is written; a crash of the machine may take it


class Fetch(msgspec.Struct, frozen=True, gc=False):
    """Read the log after a position; answered by Fetched. A reader asks for one piece at a time."""

    reader: str
    tenant: str
    topic: str
    after: Position


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Tell me at this time, once. The same key again moves the timer."""

    key: str
    at: float


class Call(msgspec.Struct, frozen=True, gc=False):
    """Call a webhook; answered by Called."""

    handle: int
    subscription: str
    url: str
    topic: str
    position: Position
    events: list[Raw]  # each a Delivery


class HandEvents(msgspec.Struct, frozen=True, gc=False):
    """Append events to the log that the pipeline reads; answered by HandedOver."""

    number: int
    tenant: str
    topic: str
    at: float
    publisher: str | None
    ids: list[str]
    events: list[Raw]


class HandSubscription(msgspec.Struct, frozen=True, gc=False):
    """Add a subscription to the pipeline's store, or with no condition remove it; answered by HandedOver."""

    number: int
    tenant: str
    topic: str
    subscription: str
    condition: str | None


Effect: TypeAlias = Send | Close | Append | Fetch | SetTimer | Call | HandEvents | HandSubscription


# What the log holds.


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
    matching: Literal["edge", "spark"]


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


Record: TypeAlias = (
    EventsStored
    | SubscriptionStored
    | SubscriptionRemoved
    | TopicStored
    | CursorsMoved
    | DeadLetter
    | PublishersMoved
    | Reached
)


class Node(Protocol):
    """Anything that a host can run."""

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        ...

    def recover(self, record: Record) -> None:
        """Take up a record of the checkpoint or the log, in order, before the first message."""
        ...

    def checkpoint(self) -> Sequence[Record]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        ...
