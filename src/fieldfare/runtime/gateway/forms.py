"""What the bodies, queries and headers of HTTP requests hold, and what the answers do.

These types are all there is: requests are decoded by them, and the OpenAPI document is made of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.messages import (
    TRACEPARENT,
    ConditionText,
    Delivery,
    Name,
    Notice,
    Position,
    PositionLog,
    Start,
    Text,
    WebhookForm,
    WebhookUrl,
)
from fieldfare.messages.consuming_frames import REASON_CHARACTERS_MAX, Delay, LetterIds, Positions
from fieldfare.qos import Consuming, Durability, Matching, Offered, Published, Reliability, Requested, Seconds
from fieldfare.runtime.gateway.tickets import TICKET_SECONDS, TICKET_SECONDS_MAX

TRIAL_EVENTS_MAX = 1_000

# A position, and after it perhaps the id of the log to which it belongs: 17, or 17@0123456789abcdef.
Place: TypeAlias = Annotated[str, Meta(pattern=r"^(-1|[0-9]{1,19})(@[0-9A-Za-z._-]{1,64})?$(?!\n)")]
PageSize: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
EventAttributes: TypeAlias = dict[str, Any]
EventForm: TypeAlias = Literal["fieldfare", "cloudevents"]  # how events are given: each a Delivery, or a CloudEvent


TicketText: TypeAlias = Annotated[str, Meta(max_length=128)]


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a client may say."""


class PublishQuery(Form, frozen=True):
    """The quality of a publication; what is left out is as the topic offers."""

    reliability: Reliability | None = None
    durability: Durability | None = None
    lifespan_seconds: Seconds | None = None

    @property
    def qos(self) -> Published:
        """The same, as the broker has it."""
        return Published(self.reliability, self.durability, self.lifespan_seconds)


class PublishHeaders(
    msgspec.Struct,
    frozen=True,
    rename={
        "publisher": "fieldfare-publisher",
        "sequence": "fieldfare-sequence",
        "event_id": "idempotency-key",
        "event": "fieldfare-event",
        "trace": TRACEPARENT,
    },
):
    """How a publication may be sent again without being delivered twice: by number, or one event by its id."""

    publisher: Text | None = None
    sequence: Annotated[int, Meta(ge=0)] | None = None
    event_id: Text | None = None
    event: str | None = None  # the attributes, as JSON, where the body is a payload
    trace: str | None = None


_JSON_TYPE = r"^\s*([Aa][Pp][Pp][Ll][Ii][Cc][Aa][Tt][Ii][Oo][Nn]/|[^;]*\+)[Jj][Ss][Oo][Nn]\s*(;|$)"  # as is_json
CloudEvent: TypeAlias = Annotated[
    dict[str, Any],
    Meta(
        title="CloudEvent",
        description=(
            "An event in the structured form of CloudEvents 1.0. It may have no data. Data that are a JSON object are "
            "the event's attributes; any other data are its payload. Further members are extensions."
        ),
        extra_json_schema={
            "required": ["specversion", "id", "source", "type"],
            "properties": {
                "specversion": {"const": "1.0"},
                "id": {"type": "string", "minLength": 1, "maxLength": 256},
                "source": {"type": "string", "minLength": 1, "maxLength": 256},
                "type": {"type": "string", "minLength": 1},
                "subject": {"type": ["string", "null"]},
                "time": {"type": ["string", "null"], "format": "date-time"},
                "dataschema": {"type": ["string", "null"]},
                "datacontenttype": {"type": ["string", "null"]},
                "traceparent": {"type": ["string", "null"]},
                "data": {"type": ["object", "array", "string", "number", "boolean", "null"]},
                "data_base64": {"type": "string", "contentEncoding": "base64", "format": "byte"},
            },
            "propertyNames": {"pattern": "^([a-z0-9]{1,64}|data_base64)$"},
            "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
            "not": {"required": ["data", "data_base64"]},
            "anyOf": [  # data that are not JSON are a string
                {"properties": {"datacontenttype": {"pattern": _JSON_TYPE}}},
                {"properties": {"data": {"type": ["string", "null"]}}},
            ],
        },
    ),
]


class Publication(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events have been accepted."""

    count: int
    duplicates: int = 0  # so many of them had been accepted before


class NewSubscription(Form, frozen=True):
    """A subscription. It lives until it is deleted; its events wait to be polled, streamed or attached to."""

    topic: Name
    condition: ConditionText
    qos: Requested = Requested()
    name: Name | None = None  # subscribing again by the same name goes on where it was; without one, a name is made
    after: Position | None = None
    webhook: WebhookUrl | None = None
    webhook_form: WebhookForm = "fieldfare"  # what it is called with
    log: PositionLog = ""  # to which the position `after` belongs; empty: to that of this edge
    consuming: Consuming = Consuming()
    start: Start | None = None  # where a new one begins, in place of `after`


class SubscriptionMade(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subscription is in force."""

    subscription: str
    position: Position
    is_new: bool
    log: str = ""  # to which its positions belong


class HomeQuery(Form, frozen=True):
    """Where other edges are to be asked for a subscription that this one does not have."""

    topic: Name | None = None  # None: in all topics that this edge uses


class PageQuery(Form, frozen=True):
    """Which page of a list."""

    after: str = ""
    limit: PageSize = 100


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of a list."""

    items: list[dict[str, Any]]
    next: str | None = None  # the `after` of the next page


class PollQuery(Form, frozen=True):
    """How much to take, and how long to wait for it."""

    after: Place | None = None  # acknowledges up to there
    limit: PageSize = 100
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    topic: Name | None = None  # as in HomeQuery
    form: EventForm = "fieldfare"


class Polled(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events of a subscription. They come again until they are acknowledged."""

    events: list[Delivery]
    position: Position  # of the last: the `after` of the next poll
    notices: list[Notice] = []
    log: str = ""  # to which the positions belong


class StreamQuery(Form, frozen=True):
    """Where a stream begins, unless a Last-Event-ID says it."""

    after: Place | None = None
    topic: Name | None = None  # as in HomeQuery
    form: EventForm = "fieldfare"
    ticket: TicketText | None = None  # in place of a token in a header, which a browser's EventSource cannot send


class WebhookBody(msgspec.Struct, frozen=True):
    """What a webhook is called with, unless it is CloudEvents."""

    subscription: str
    topic: str
    events: list[Delivery]


class TicketQuery(Form, frozen=True):
    """Who asks, where that is a web page."""

    ticket: TicketText | None = None


class PageHomeQuery(HomeQuery, frozen=True):
    """The same of who may be a web page."""

    ticket: TicketText | None = None


class NewTicket(Form, frozen=True):
    """A ticket for one subscription."""

    subscription: Text
    lifetime_seconds: Annotated[float, Meta(ge=1, le=TICKET_SECONDS_MAX)] = TICKET_SECONDS


class TicketMade(msgspec.Struct, frozen=True):
    """A ticket, and the URLs in which a page may use it, again and again until it expires."""

    ticket: str
    expires_at: float  # in seconds since 1970
    stream: str  # for an EventSource, beside the address of this service
    websocket: str  # for a WebSocket with the subprotocol fieldfare.v1, which then attaches to the subscription


TAKEN_OVER = ";taken-over"  # ends the id of a stream's last event: its reader is not to come again
StreamPlace: TypeAlias = Annotated[
    str, Meta(pattern=rf"^(-1|[0-9]{{1,19}})(@[0-9A-Za-z._-]{{1,64}})?({TAKEN_OVER})?$(?!\n)")
]


class StreamHeaders(msgspec.Struct, frozen=True, rename={"last_event_id": "last-event-id"}):
    """Where a stream goes on: it acknowledges up to there."""

    last_event_id: StreamPlace | None = None


class Acknowledgement(Form, frozen=True):
    """All events up to this position have been dealt with; or single ones, by their positions."""

    position: Position | None = None
    positions: Positions | None = None  # of a shared subscription, or one with a key, only these
    log: PositionLog = ""  # to which it belongs; empty: to that of this edge

    def __post_init__(self) -> None:
        if (self.position is None) == (self.positions is None):
            raise ValueError("give either `position` or `positions`")


class RefusedEvent(Form, frozen=True):
    """An event could not be dealt with."""

    position: Position
    reason: Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)] = ""
    delay_seconds: Delay | None = None  # before it comes again; None: as the subscription's backoff says
    attempt: Annotated[int, Meta(ge=1)] | None = None  # as its delivery said: of a later one this says nothing
    log: PositionLog = ""  # to which the position belongs; empty: to that of this edge


class NewStart(Form, frozen=True):
    """Where a subscription goes on."""

    start: Start


class SubscriptionChange(Form, frozen=True):
    """What a subscription asks for from now on; what is left out stays as it is."""

    condition: ConditionText | None = None
    qos: Requested | None = None
    consuming: Consuming | None = None
    webhook: Annotated[str, Meta(max_length=2048)] | None = None


class ChosenLetters(Form, frozen=True):
    """Which dead letters are meant."""

    ids: LetterIds | None = None  # as the list has them; None: all


class LetterCount(msgspec.Struct, frozen=True):
    """So many dead letters were meant."""

    count: int


class DeleteQuery(Form, frozen=True):
    """How a topic is deleted."""

    force: bool = False  # its subscriptions end with it


class Pipelines(msgspec.Struct, frozen=True):
    """How far pipelines are behind, each as its topic is called."""

    pipelines: list[dict[str, Any]]


class KafkaLinks(msgspec.Struct, frozen=True):
    """How the links between topics and Kafka are."""

    links: list[dict[str, Any]]


class TopicSettings(Form, frozen=True):
    """What a topic is."""

    offered: Offered = Offered()
    matching: Matching = "edge"


class Trial(Form, frozen=True):
    """A condition to try on sample events."""

    condition: ConditionText
    events: Annotated[list[EventAttributes], Meta(max_length=TRIAL_EVENTS_MAX)]
    topic: Name | None = None  # if given, the right to subscribe to it is checked as well


class FailedPart(msgspec.Struct, frozen=True):
    """A part of a condition that does not hold."""

    part: str
    position: int  # in the condition, counting characters from 0
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    """Whether an event satisfies a condition, and if not, what stands against it: the first 20 parts that do."""

    matches: bool
    why: list[FailedPart]


class Verdicts(msgspec.Struct, frozen=True):
    """One verdict for each event."""

    verdicts: list[Verdict]
