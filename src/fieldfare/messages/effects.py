"""What a node asks of its host."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from fieldfare.messages.frames import EdgeFrame, Position
from fieldfare.messages.records import Record


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
