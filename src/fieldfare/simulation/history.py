"""What clients asked for, what they were told, and what they and webhooks got: enough to judge a run afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fieldfare.errors import FieldfareError
from fieldfare.messages import Attach, Delivery, Notice, Subscribe
from fieldfare.qos import Offered

Outcome: TypeAlias = Literal["waiting", "accepted", "refused", "unknown"]  # unknown: the client did not live to hear it


@dataclass(eq=False)
class Publication:
    """Events that a client published together, and what became of them."""

    publisher: str  # as the edge knows it; a client that crashed comes back as another
    topic: str
    events: tuple[bytes, ...]
    published_at: float
    outcome: Outcome = "waiting"
    answered_at: float | None = None
    error: FieldfareError | None = None


@dataclass(eq=False)
class Reception:
    """A subscription during one life of its client, and what it got."""

    client: str
    request: Subscribe | Attach
    subscription: str | None = None  # its id, of an unnamed one the first
    confirmed_at: float | None = None
    ended_at: float | None = None
    events: list[Delivery] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    error: FieldfareError | None = None

    @property
    def name(self) -> str | None:
        """By which a durable subscription is known in all lives of its client."""
        return self.request.name if isinstance(self.request, Subscribe) else self.request.subscription


@dataclass(eq=False)
class History:
    """All that happened at the clients and webhooks of a world, in order."""

    publications: list[Publication] = field(default_factory=list)
    receptions: list[Reception] = field(default_factory=list)
    offered: dict[str, Offered] = field(default_factory=dict)  # by topics, as they were declared last
    called: dict[str, list[Delivery]] = field(default_factory=dict)  # what webhooks took, by their URLs
