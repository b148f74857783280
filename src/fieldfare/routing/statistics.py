"""What an edge has done, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fieldfare.routing.lag import Kept, Lag, kept_of, lag_of

if TYPE_CHECKING:
    from fieldfare.routing.edge_parts import EdgeParts


class SubscriptionCounts(NamedTuple):
    """Of one subscription: events that satisfied it, that did not, and that wait in memory for its subscriber."""

    tenant: str
    topic: str
    subscription: str
    accepted: int
    rejected: int
    waiting: int


@dataclass(frozen=True, slots=True)
class OverlayStatistics:
    """An edge among others: counts since the start, and how things are now."""

    exported: int  # events sent to other edges, each counted for every edge
    imported: int  # events that came from other edges
    refused_ranges: int  # that came again, because they did not continue what was here
    links: int
    second_paths: int
    missed_budgets: int  # events that came later than a latency budget allows
    behind: dict[str, int]  # by edge: positions that it has not taken yet, at most


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts since the start."""

    published: int
    repeated: int
    refused: dict[str, int]
    matched: int
    delivered: int
    acknowledged: int
    refused_events: int  # by consumers
    overdue: int  # events that a consumer of a shared subscription did not deal with in time
    dropped: int
    expired: int
    calls: int
    calls_failed: int
    dead_letters: int
    connections: int
    topics: int
    subscriptions: int
    position: int
    started_at: float
    overlay: OverlayStatistics | None  # None: it is not among others
    per_subscription: Iterator[SubscriptionCounts]  # made as it is read, there may be many


class SubscriptionLag(NamedTuple):
    """How far a subscription is behind."""

    topic: str
    subscription: str
    is_taken: bool
    lag: Lag


class TopicLoad(NamedTuple):
    """What goes on in a topic."""

    topic: str
    events: int  # since the start
    events_per_second: float
    kept: Kept


def lags(parts: EdgeParts, tenant: str, now: float) -> Iterator[SubscriptionLag]:
    """How far a tenant's subscriptions are behind, of those that are."""
    for topic in parts.topics:
        for taker in topic.takers.values() if topic.tenant == tenant else ():
            lag = lag_of(topic, taker, parts.topics.kept_from, now)
            if lag.events:
                is_taken = taker.is_attached and not taker.subscription.is_paused
                yield SubscriptionLag(topic.name, taker.id, is_taken, lag)


def topic_loads(parts: EdgeParts, tenant: str, now: float) -> Iterator[TopicLoad]:
    """What goes on in a tenant's topics."""
    for topic in parts.topics:
        if topic.tenant == tenant:
            rate, kept = topic.times.events_per_second(now), kept_of(topic, parts.topics.kept_from, now)
            yield TopicLoad(topic.name, topic.event_count, rate, kept)


def statistics(parts: EdgeParts) -> Statistics:
    """The counts of an parts."""
    counts, calls, consuming = parts.deliveries.counts, parts.webhooks.counts, parts.consumption.counts
    return Statistics(
        published=parts.publishing.accepted_count,
        repeated=parts.publishing.repeated_count,
        refused=dict(parts.replies.refused_counts),
        matched=counts.matched,
        delivered=counts.delivered + calls.events,
        acknowledged=counts.acknowledged + consuming.acknowledged,
        refused_events=consuming.refused,
        overdue=consuming.overdue,
        dropped=counts.dropped + consuming.dropped,
        expired=counts.expired,
        calls=calls.calls,
        calls_failed=calls.failed,
        dead_letters=parts.dead_letters.buried_count,
        connections=len(parts.links),
        topics=len(parts.topics),
        subscriptions=len(parts.takers),
        position=parts.positions.last,
        started_at=parts.started_at,
        overlay=None if parts.overlay is None else parts.overlay.statistics(),
        per_subscription=_per_subscription(parts),
    )


def _per_subscription(parts: EdgeParts) -> Iterator[SubscriptionCounts]:
    for topic in parts.topics:
        for taker in topic.takers.values():
            rejected = max(0, topic.event_count - taker.first_count - taker.matched_count)
            counts = taker.matched_count, rejected, len(taker.waiting)
            yield SubscriptionCounts(*topic.key, taker.subscription.id, *counts)
