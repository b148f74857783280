"""What a host tells a node: what has happened to it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec
from msgspec import Raw

from fieldfare.messages.beside import Beside
from fieldfare.messages.frames import Position
from fieldfare.messages.identities import LinkIdentity


class Input(msgspec.Struct, frozen=True, gc=False):
    """Something that happened."""


# For every node


class Started(Input, frozen=True):
    """What the log holds, if there is one, has been recovered: begin."""


class Withdraw(Input, frozen=True):
    """The process is to end soon: hand over to others what can be handed over, and serve on meanwhile."""


class Opened(Input, frozen=True):
    """A link is open: somebody dialled this node, or this node dialled. Both ends have proved who they are."""

    link: str
    identity: LinkIdentity  # of the other end


class Unreachable(Input, frozen=True):
    """A link that was to be dialled could not be opened."""

    link: str
    reason: str


class Received(Input, frozen=True):
    """A frame came over a link."""

    link: str
    frame: Any


class Closed(Input, frozen=True):
    """A link is gone."""

    link: str


class DatagramReceived(Input, frozen=True):
    """A datagram came."""

    address: str  # of its sender
    message: Any


class TimerDue(Input, frozen=True):
    """The time of a timer has come."""

    key: Hashable


class Stored(Input, frozen=True):
    """All records up to this number are in the log, and durable where they had to be."""

    number: int
    kept_from: Position = 0  # events before this position have left the log


class NotStored(Input, frozen=True):
    """None of the records that are not confirmed, up to this number, is in the log, and none will be."""

    number: int
    reason: str


class Fetched(Input, frozen=True):
    """Records of a stream that were asked for, in order."""

    reader: Hashable
    records: list[Any]
    position: Position  # all events up to this one have been read
    lost_before: Position = -1  # events up to here left the log while they were alive: it was too large
    expired_before: Position = -1  # events up to here left the log when they had expired


# Conditions


class ConditionsCompiled(Input, frozen=True):
    """Conditions that were to be compiled, those that are not sound among them."""

    number: int
    compiled: Any  # a routing.interest.CompiledConditions


class InterestMerged(Input, frozen=True):
    """An index of conditions in a faster form."""

    number: int
    merged: Any  # a routing.interest.Merged


class InterestSummarised(Input, frozen=True):
    """Conditions that were to be covered with few boxes are."""

    number: int
    covering: Any  # an overlay.covering.Covering


# Webhooks


class WebhookChecked(Input, frozen=True):
    """Whether a webhook may be called: without a failure it may."""

    number: int
    failure: str | None = None
    is_busy: bool = False  # too many are being checked: it was not looked at


class WebhookCalled(Input, frozen=True):
    """A webhook has been called. Without a failure it took the events."""

    handle: int
    tenant: str
    subscription: str
    position: Position  # of the last event
    failure: str | None = None
    is_permanent: bool = False  # it would fail again: do not retry
    retry_after_seconds: float | None = None  # as the endpoint asked
    refused: tuple[tuple[Position, str], ...] = ()  # without a failure: single events that it did not take, and why


# The Spark pipeline


class MatchedEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event that the pipeline matched."""

    id: str
    publisher: str | None
    at: float
    event: Raw
    subscriptions: list[str]
    beside: Beside | None = None


class PipelineMatched(Input, frozen=True):
    """A batch that the Spark pipeline committed: events of a topic, and for each the subscriptions it satisfies."""

    tenant: str
    topic: str
    batch: int
    events: list[MatchedEvent]


class HandedOver(Input, frozen=True):
    """The pipeline's event log, or its store of subscriptions, has what it was given; or it has not, and why."""

    number: int
    failure: str | None = None
