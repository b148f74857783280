"""What a subscriber asked for; `taker` is the delivery of its events."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fieldfare.messages import Position, WebhookForm
from fieldfare.qos import Consuming, Requested


class Subscription(msgspec.Struct, frozen=True):
    """What a subscriber asked for. Durable ones outlive their link; unnamed ones do not."""

    id: str
    tenant: str
    topic: str
    condition: str
    qos: Requested
    is_durable: bool
    webhook: str | None = None
    replay: str = ""  # the name under which events of other logs are here for it only
    replayed: Mapping[str, Position] = {}  # of each such log up to where
    consuming: Consuming = Consuming()
    since: float = 0.0  # events that were accepted before this time are not for it
    is_paused: bool = False
    webhook_form: WebhookForm = "fieldfare"

    @property
    def key(self) -> tuple[str, str]:
        """The tenant and the id, which is unique among that tenant's."""
        return self.tenant, self.id


class UnconfirmedGap(msgspec.Struct, frozen=True):
    """A notice of missing events that may be lost with its connection: an event after this position proves it told."""

    position: Position
    detail: str
    is_in_log: bool  # who reads the log from before the position is told of it in any case
