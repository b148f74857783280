"""What a host tells a node: what has happened to it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from fieldfare.messages.frames import ClientFrame, Identity, Position
from fieldfare.messages.records import EventsStored


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
