"""What clients asked for, what they were told, and what they and webhooks got: enough to judge a run afterwards.

Nothing here is about simulation: whoever runs real clients can write the same history, and have it judged. Of a world
with one edge, what names edges and disks can be left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fieldfare.errors import FieldfareError
from fieldfare.messages import Attach, Delivery, Notice, Subscribe
from fieldfare.qos import Offered

TENANT = "simulated"  # where nothing else is said
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
    tenant: str = TENANT
    client: str = ""  # the name of the publisher's client in all its lives
    edge: str | None = ""  # where it was accepted, or sent; None: it is not known which of several edges has it
    is_sent_once: bool = False  # its client knows that it did not send it again: nobody may get it twice


@dataclass(frozen=True)
class Restart:
    """The log behind a subscription became another one: its edge lost its disk, or its client went to another edge.

    What comes after is judged apart from what came before, but a client that goes from edge to edge by itself gets
    nothing again.
    """

    at: float
    events_before: int
    is_remembered: bool = False  # the client knows the events that came before


@dataclass(eq=False)
class Reception:
    """A subscription during one life of its client, and what it got."""

    client: str
    request: Subscribe | Attach
    subscription: str | None = None  # its id, of an unnamed one the first
    confirmed_at: float | None = None
    ended_at: float | None = None
    unsubscription: Outcome | None = None  # what became of the request to end it; None: there was none
    events: list[Delivery] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    error: FieldfareError | None = None
    tenant: str = TENANT
    edge: str = ""  # whose client it is
    gaps_told_at: list[float] = field(default_factory=list)  # when it was told that events are missing
    untaken_count: int = 0  # events that came, and that its application has not got yet
    restarts: list[Restart] = field(default_factory=list)
    confirmed_again_at: float | None = None  # after the last restart

    def restart(self, at: float, *, is_remembered: bool = False) -> None:
        """Note that the log behind it is another one from now on."""
        self.restarts.append(Restart(at, len(self.events) + self.untaken_count, is_remembered))
        self.confirmed_again_at = None

    @property
    def name(self) -> str | None:
        """By which a durable subscription is known in all lives of its client."""
        return self.request.name if isinstance(self.request, Subscribe) else self.request.subscription


@dataclass(frozen=True)
class Standing:
    """A subscription that an edge says it has."""

    tenant: str
    topic: str
    subscription: str  # its id
    is_durable: bool


@dataclass(frozen=True)
class Crash:
    """An edge stopped without warning."""

    edge: str
    at: float


@dataclass(frozen=True)
class LostDisk:
    """An edge came back without what it had stored between two moments."""

    edge: str
    since: float  # minus infinity: all of it
    at: float


@dataclass(frozen=True)
class Removal:
    """Living events of a topic left the log of an edge, because it had become too large."""

    edge: str
    tenant: str
    topic: str
    at: float


@dataclass(eq=False)
class History:
    """All that happened at the clients and webhooks of a world, in order."""

    publications: list[Publication] = field(default_factory=list)
    receptions: list[Reception] = field(default_factory=list)
    offered: dict[tuple[str, str], Offered] = field(default_factory=dict)  # by tenant and topic, as declared last
    spark_topics: set[tuple[str, str]] = field(default_factory=set)  # tenant and topic of those that Spark matches
    called: dict[str, list[Delivery]] = field(default_factory=dict)  # what webhooks took, by their URLs
    refused: dict[str, list[Delivery]] = field(default_factory=dict)  # what webhooks refused for good, by their URLs
    crashes: list[Crash] = field(default_factory=list)  # of edges
    lost_disks: list[LostDisk] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    # What was asked at the end, if it was: the subscriptions that there are, and the dead letters by tenant and name.
    standing: list[Standing] | None = None
    dead_letters: dict[tuple[str, str], list[Delivery]] | None = None
