"""Quality of service, as in DDS: what a topic offers, what a subscription requests, and whether the offer covers it.

A topic's offer is a promise about every publication in it. A subscription that requests more than is promised, and a
publication that keeps less than is promised, are refused with the reason, rather than served worse than they believe.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

Reliability: TypeAlias = Literal["best_effort", "reliable"]
Durability: TypeAlias = Literal["volatile", "transient"]
Order: TypeAlias = Literal["none", "publisher"]
Matching: TypeAlias = Literal["edge", "spark"]  # where a topic's events are matched: at once, or by the pipeline
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=10 * 366 * 86_400)]
Deadline: TypeAlias = Annotated[float, Meta(ge=0.1, le=10 * 366 * 86_400)]  # shorter ones only keep a broker busy
Depth: TypeAlias = Annotated[int, Meta(ge=1, le=10_000)]
AttributeName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
Attempts: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Backoff: TypeAlias = Annotated[float, Meta(ge=0, le=86_400)]
TakeSeconds: TypeAlias = Annotated[float, Meta(ge=0.1, le=86_400)]  # shorter ones only keep a broker busy

LIFESPAN_SECONDS = 7 * 86_400.0  # a subscriber may be away for a week; the log's limit of size bounds it all


class Offered(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a topic promises about its publications."""

    reliability: Reliability = "reliable"  # acknowledged only when it survives a crash of the broker
    durability: Durability = "transient"  # kept, while it is alive, for subscribers that come later
    lifespan_seconds: Seconds = LIFESPAN_SECONDS  # after that an event is not delivered any more
    deadline_seconds: Deadline | None = None  # there is a new event at least this often
    order: Order = "publisher"  # the events of a publisher arrive in its order

    @property
    def is_kept(self) -> bool:
        """Whether events go through the log, which is what survives and what late joiners read."""
        return self.reliability == "reliable" or self.durability == "transient"


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one publication says of itself; what it leaves open is as the topic offers."""

    reliability: Reliability | None = None
    durability: Durability | None = None
    lifespan_seconds: Seconds | None = None


class Requested(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a subscription asks for."""

    reliability: Reliability = "reliable"
    durability: Durability = "volatile"  # transient: begin with what is still alive
    keep_last: Depth | None = None  # of what waits for the subscriber, keep the latest only; None keeps all
    deadline_seconds: Deadline | None = None  # tell me when no event came for so long
    order: Order = "publisher"
    latency_budget_seconds: Deadline | None = None  # from its publication on; critical flows get a second path


class Consuming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the events of a subscription are shared among its consumers, and what becomes of those that are refused."""

    is_shared: bool = False  # several consumers, each event to one of them; needs a name
    key: AttributeName | None = None  # events with the same value of this attribute are dealt with one after another
    attempts_max: Attempts = 5  # an event that was refused so often becomes a dead letter
    backoff_seconds: Backoff = 1.0  # before an event that was refused comes again; twice as long each time
    backoff_seconds_max: Backoff = 60.0
    take_seconds: TakeSeconds = 30.0  # shared only: who has not dealt with an event by then loses it to another

    @property
    def is_tracked(self) -> bool:
        """Whether every event has to be known by itself from the beginning, and not only once one is refused."""
        return self.is_shared or self.key is not None

    def backoff(self, attempts: int) -> float:
        """How long an event waits that was refused so often."""
        return min(self.backoff_seconds * 2.0 ** min(attempts - 1, 64), self.backoff_seconds_max)


_RANK = {"best_effort": 0, "reliable": 1, "volatile": 0, "transient": 1, "none": 0, "publisher": 1}


def unmet(offered: Offered, requested: Requested) -> str | None:
    """Why a topic cannot serve a subscription; None if it can."""
    for name in ("reliability", "durability", "order"):
        wants, has = getattr(requested, name), getattr(offered, name)
        if _RANK[wants] > _RANK[has]:
            return f"it requests {name} {wants!r}, but the topic offers {has!r}: request {has!r}, or change the topic"
    wanted_seconds, offered_seconds = requested.deadline_seconds, offered.deadline_seconds
    if wanted_seconds is not None and offered_seconds is not None and offered_seconds > wanted_seconds:
        return (
            f"it requests an event every {wanted_seconds:g} s, but the topic offers one every {offered_seconds:g} s: "
            f"request {offered_seconds:g} s or more"
        )
    return None


def broken(offered: Offered, published: Published) -> str | None:
    """Which promise of its topic a publication would break; None if it keeps them all."""
    for name in ("reliability", "durability"):
        has, promised = getattr(published, name), getattr(offered, name)
        if has is not None and _RANK[has] < _RANK[promised]:
            return f"it offers {name} {has!r}, but the topic promises {promised!r}: offer that, or leave it out"
        if has is not None and _RANK[has] > _RANK[promised]:
            return f"it offers {name} {has!r}, but the topic keeps only {promised!r}: declare the topic with {has!r}"
    if published.lifespan_seconds is not None and published.lifespan_seconds > offered.lifespan_seconds:
        return (
            f"it offers a lifespan of {published.lifespan_seconds:g} s, but the topic keeps events for "
            f"{offered.lifespan_seconds:g} s: offer at most that"
        )
    return None
