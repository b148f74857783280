"""What a client and its edge send to each other: JSON, a frame on each line, versioned by the protocol's name.

The frames by which a publisher moves to another edge are in `move_frames`; `protocol` puts all of them together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw

from fieldfare.messages.beside import Envelope, Trace, WebhookForm
from fieldfare.qos import Consuming, Matching, Offered, Published, Requested

PROTOCOL = "fieldfare.v1"  # the WebSocket subprotocol; a change that old clients cannot read gets a new name
FRAME_BYTES_MAX = 4 * 1024 * 1024
EVENTS_MAX = 10_000  # in one publication
EVENT_BYTES_MAX = 256 * 1024
CONDITION_CHARACTERS_MAX = 16_384  # compiling holds up everybody at an edge: longer ones are for the pipeline

# Of an event at one edge: they only grow, within one topic in the order of delivery. -1 is before the first.
Position: TypeAlias = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
Ref: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # a client's number for a request, which the answer repeats
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$(?!\n)"  # a `$` alone would let a line break follow
Name: TypeAlias = Annotated[str, Meta(pattern=NAME_PATTERN)]  # of a topic, a subscription
ConditionText: TypeAlias = Annotated[
    str,
    Meta(
        max_length=CONDITION_CHARACTERS_MAX,
        extra_json_schema={"format": "fieldfare-condition"},  # docs/conditions.md says what it may be
    ),
]
WebhookUrl: TypeAlias = Annotated[str, Meta(max_length=2048, extra_json_schema={"format": "fieldfare-webhook"})]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]  # an id that others made
Window: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
# The id of an edge's log. Positions belong to one; empty: the client has none yet.
PositionLog: TypeAlias = Annotated[str, Meta(max_length=64)]


class Frame(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    """A line of the protocol."""


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a subscription begins: exactly one of a position, a time, and the beginning of what is kept.

    Times mean the same at every edge. A position belongs to one log, and another edge has another one.
    """

    position: Position | None = None  # deliver what came after it
    log: PositionLog = ""  # to which the position belongs; empty: to that of this edge
    time: Annotated[float, Meta(ge=0)] | None = None  # deliver what was accepted then or later, in seconds since 1970
    beginning: bool = False

    def __post_init__(self) -> None:
        if (self.position is not None) + (self.time is not None) + self.beginning != 1:
            raise ValueError("a start is one of `position`, `time` and `beginning`: give exactly one")


# What a client sends. Every request is answered by a frame with its ref: the one named, or Refused.


class Publish(Frame, frozen=True, tag="publish"):
    """Events for a topic; answered by Accepted, for all of them or for none.

    A publisher that numbers its events, from `sequence` on without gaps, may send them again when no answer came: what
    was accepted already is accepted again, but delivered once. Without numbers the ids, if given, do the same for a
    while.

    A publisher that reads another log, such as a partition of Kafka, numbers by the places in that log, and says with
    `upto` where to go on: the numbers from `sequence` up to there are dealt with, whether they are events or not. That
    is stored with the events, and never forgotten; a publication that does not begin where the last one ended is
    refused. It may be without events; if it has some, it gives their ids.
    """

    ref: Ref
    topic: Name
    events: Annotated[list[Raw], Meta(max_length=EVENTS_MAX)]
    publisher: Text | None = None
    sequence: Annotated[int, Meta(ge=0)] | None = None  # of the first of these events
    ids: list[Text] | None = None  # one for each event
    qos: Published = Published()
    payloads: list[bytes | None] | None = None  # one for each event, in base64: bytes that only the receiver reads
    envelopes: list[Envelope | None] | None = None  # one for each event: the attributes of the CloudEvent that it is
    trace: Trace | None = None  # to which these events belong
    upto: Annotated[int, Meta(ge=1)] | None = None  # the number to go on with, of a publisher that reads another log


class Subscribe(Frame, frozen=True, tag="subscribe"):
    """A new subscription, delivered on this connection; answered by Subscribed.

    Without a name it lives as long as the connection; a client that comes back, be it after a crash of the edge,
    subscribes again with `after`, and misses nothing that a reliable topic accepted. With a name it is durable: it
    lives, and its events wait, until Unsubscribe; subscribing again by the same name goes on where it was.

    A client that says in `log` to which log its position belongs, be it to none, is told the edge's own. If that is
    another one, it is told of a gap, and begins where it would without `after`. Of several edges one is the home of a
    durable subscription; such a client is told where that is.
    """

    ref: Ref
    topic: Name
    condition: ConditionText
    qos: Requested = Requested()
    name: Name | None = None
    after: Position | None = None  # deliver what came after this position; None: from now on, or as durability says
    window: Window = 1024  # so many events may be on their way without an acknowledgement
    webhook: WebhookUrl | None = None  # deliver by POST to this URL; needs a name
    wants_mark: bool = False  # send a notice `caught_up` when all that was there has been sent
    log: PositionLog | None = None
    is_name_new: bool = False  # the name was made up for this request: other edges need not be asked for it
    previous: Text | None = None  # with `after`: the id of the unnamed subscription that this one goes on with
    consuming: Consuming = Consuming()
    start: Start | None = None  # where a new one begins, in place of `after`; one that exists goes on where it was
    webhook_form: WebhookForm = "fieldfare"  # what the webhook is called with


class Attach(Frame, frozen=True, tag="attach"):
    """Deliver a durable subscription on this connection, and no longer on another; answered by Subscribed."""

    ref: Ref
    subscription: str
    after: Position | None = None  # acknowledges up to there; None goes on after what was acknowledged last
    window: Window = 1024
    wants_mark: bool = False  # as in Subscribe
    log: PositionLog | None = None  # as in Subscribe
    topic: Name | None = None  # where other edges are to be asked for it; None: in all topics that this edge uses


class Ack(Frame, frozen=True, tag="ack"):
    """All events of a subscription up to a position have been received and dealt with. Not answered.

    But for those that were refused before, or whose delivery says that they came again: AckEach is for these. Of a
    shared subscription this consumer's events are meant.
    """

    subscription: str
    position: Position
    is_final: bool = True  # False: they have left this connection, send more, but keep them for the next


class SetWindow(Frame, frozen=True, tag="set_window"):
    """Have another number of events on their way without an acknowledgement; answered by Done.

    Deliveries that were sent before the answer may go beyond a window that became smaller.
    """

    ref: Ref
    subscription: str
    window: Window


class Detach(Frame, frozen=True, tag="detach"):
    """Deliver no more of a subscription here; a durable one waits for the next Attach. Not answered."""

    subscription: str
    keeps_events: bool = False  # the client will acknowledge or refuse what it has got; of a shared one, in its time


class Unsubscribe(Frame, frozen=True, tag="unsubscribe"):
    """End a subscription; answered by Unsubscribed."""

    ref: Ref
    subscription: str
    log: PositionLog | None = None  # of a client that can be told of its home at another edge; empty, or any log
    topic: Name | None = None  # as in Attach


class DeclareTopic(Frame, frozen=True, tag="declare_topic"):
    """Create a topic, or change what it offers to those that subscribe from now on; answered by Done."""

    ref: Ref
    topic: Name
    offered: Offered = Offered()
    matching: Matching = "edge"


class DeleteTopic(Frame, frozen=True, tag="delete_topic"):
    """Delete a topic with all its events; answered by Done. One that has subscriptions is deleted only by force."""

    ref: Ref
    topic: Name
    is_forced: bool = False  # its subscriptions end with it


class List(Frame, frozen=True, tag="list"):
    """Ask for the topics, the subscriptions, or the dead letters of one; answered by Listed, page by page.

    Or for the edges of this edge's network, those with most room first; or, at a broker of a tree, for its publishers
    and what is known of where they should be. A subscription that is named is looked for at
    other edges too, and whoever asks is told where its home is.
    """

    ref: Ref
    what: Literal["topics", "subscriptions", "dead_letters", "edges", "placement"]
    after: str = ""  # the last name of the page before
    count_max: Annotated[int, Meta(ge=1, le=1000)] = 100
    subscription: str | None = None
    log: PositionLog | None = None  # as in Unsubscribe
    topic: Name | None = None  # of the subscription that is named: as in Attach; or the only topic to be listed


# What an edge sends.


class Accepted(Frame, frozen=True, tag="accepted"):
    """A publication is accepted, and if its topic is reliable, it will survive."""

    ref: Ref
    count: int
    duplicates: int = 0  # so many of them had been accepted before


class Subscribed(Frame, frozen=True, tag="subscribed"):
    """A subscription is in force: every matching event that is published from now on is delivered."""

    ref: Ref
    subscription: str
    position: Position  # it begins after this one
    is_new: bool = True
    log: PositionLog = ""  # to which its positions belong, if the request says that its client knows of logs
    acks_each: bool = False  # events may come out of order: acknowledge each by itself, with AckEach


class Deliver(Frame, frozen=True, tag="deliver"):
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
    payload: bytes | None = None  # in base64
    envelope: Envelope | None = None  # of a CloudEvent: all but its data, which are the event or the payload
    trace: Trace | None = None  # the context of the trace to which it belongs, as W3C's traceparent has it
    attempt: int = 1  # 2 and more: it was refused, or not dealt with in time, and comes again


NoticeKind: TypeAlias = Literal[
    "gap",
    "deadline",
    "detached",
    "caught_up",  # only for who asked for it
    "latency_budget",  # why there is no second path
    "seek",  # it goes on after `position`, and is detached: attach again, and forget what came
]


class Notice(Frame, frozen=True, tag="notice"):
    """Something that a subscriber has to know."""

    subscription: str
    kind: NoticeKind
    detail: str
    position: Position | None = None  # of a gap: events up to here were dropped


class Unsubscribed(Frame, frozen=True, tag="unsubscribed"):
    """A subscription has ended."""

    ref: Ref
    subscription: str


class Done(Frame, frozen=True, tag="done"):
    """A request has been carried out."""

    ref: Ref
    count: int | None = None  # of dead letters: so many were meant


class Listed(Frame, frozen=True, tag="listed"):
    """A page of a list."""

    ref: Ref
    items: list[dict[str, Any]]
    next: str | None = None  # the `after` of the next page


class Refused(Frame, frozen=True, tag="refused"):
    """A request has not been carried out, and nothing of it has happened."""

    ref: Ref | None
    code: RefusalCode
    reason: str
    expected: int | None = None  # of a gap in a publisher's numbers: the one that is missing
    home: str | None = None  # of what has moved: the URL of the edge that has it, if it has one
    edges: tuple[str, ...] = ()  # of an edge that is full: the URLs of others that may have room


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
    # Another edge has it: ask there. Only for clients that say of which log their positions are, and for publishers
    # that have sealed what they published here.
    "moved",
    "full",  # this edge has no place for another client: connect to another one
    "unadvertised",  # an event is not among those that its publisher advertised
]
