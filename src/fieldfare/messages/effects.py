"""What a node asks of its host.

The first group is for every node: links, datagrams, timers, and a log where the node keeps one. The others are
services that only some nodes ask for; a host performs those for which it was given a capability.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from fieldfare.messages.frames import Position


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Something that a host is to do."""


# For every node


class Send(Effect, frozen=True):
    """Send a frame over a link; the link's wire protocol makes bytes of it. Over a link that is gone, nothing goes."""

    link: str
    frame: Any


class Close(Effect, frozen=True):
    """Close a link; answered by Closed."""

    link: str
    reason: str


class Dial(Effect, frozen=True):
    """Open a link to another node, under a name that the node chooses; answered by Opened or Unreachable."""

    link: str
    address: str


class Warn(Effect, frozen=True):
    """Tell whoever runs this node of something that is wrong around it, and that the node cannot mend."""

    text: str


class Audit(Effect, frozen=True):
    """Note who changed what, for those who look after it later. Never holds what an event or a condition says."""

    at: float
    tenant: str
    token: str | None  # the id of the token; None: nobody had to have one
    action: str
    kind: str
    name: str
    topic: str | None = None  # of a subscription


class SendDatagram(Effect, frozen=True):
    """Send a message that may be lost, doubled or overtaken. Nothing tells whether it arrives."""

    address: str
    message: Any


class SetTimer(Effect, frozen=True):
    """Tell me at this time, once. The same key again moves the timer."""

    key: Hashable
    at: float


class Append(Effect, frozen=True):
    """Append a record to the log; answered by Stored or NotStored. Numbers grow by one."""

    number: int
    record: Any
    is_durable: bool = True  # False: it is enough that it is written; a crash of the machine may take it


class Fetch(Effect, frozen=True):
    """Read a stream of the log after a position; answered by Fetched. A reader asks for one piece at a time."""

    reader: Hashable
    stream: str
    after: Position
    part: str = ""  # of the stream, if only the losses of that part are to be told


# Conditions


class CompileConditions(Effect, frozen=True):
    """Compile conditions, beside other work if that takes long; answered by ConditionsCompiled."""

    number: int
    handles: Sequence[int]
    conditions: Sequence[str]


class MergeInterest(Effect, frozen=True):
    """Bring an index of conditions into a faster form, beside other work; answered by InterestMerged."""

    number: int
    merge: Any  # a routing.interest.Merge


class SummariseInterest(Effect, frozen=True):
    """Cover conditions with few boxes, beside other work; answered by InterestSummarised."""

    number: int
    conditions: Sequence[str]
    boxes_max: int


# Webhooks


class CheckWebhook(Effect, frozen=True):
    """Find out whether a webhook's address may be called; answered by WebhookChecked."""

    number: int
    url: str


class CallWebhook(Effect, frozen=True):
    """Call a webhook; answered by WebhookCalled."""

    handle: int
    tenant: str
    subscription: str
    url: str
    topic: str
    position: Position  # of the last event
    events: list[Raw]  # each a Delivery
    attempt: int = 1  # 2 and more: with events that were refused by themselves before


# The Spark pipeline


class UsePipeline(Effect, frozen=True):
    """At the start of a node: a topic that Spark matches, the last of its batches in the log, and who subscribes."""

    tenant: str
    topic: str
    batch: int  # -1: none
    conditions: dict[str, str]  # by the ids of the subscriptions


class HandEvents(Effect, frozen=True):
    """Append events to the files that the pipeline reads; answered by HandedOver."""

    number: int
    tenant: str
    topic: str
    at: float
    publisher: str | None
    ids: list[str]
    events: list[Raw]


class HandSubscription(Effect, frozen=True):
    """Add a subscription to the pipeline's store, or with no condition remove it; answered by HandedOver."""

    number: int
    tenant: str
    topic: str
    subscription: str
    condition: str | None


class BatchStored(Effect, frozen=True):
    """A batch of the pipeline is in the log: it need not be given again. Not answered."""

    tenant: str
    topic: str
    batch: int
