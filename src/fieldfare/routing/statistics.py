"""What an edge has done, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fieldfare.routing.lag import Kept, Lag, kept_of, lag_of

if TYPE_CHECKING:
    from fieldfare.routing.edge import Edge


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


def lags(edge: Edge, tenant: str, now: float) -> Iterator[SubscriptionLag]:
    """How far a tenant's subscriptions are behind, of those that are."""
    for topic in edge.topics:
        for taker in topic.takers.values() if topic.tenant == tenant else ():
            lag = lag_of(topic, taker, edge.topics.kept_from, now)
            if lag.events:
                is_taken = taker.is_attached and not taker.subscription.is_paused
                yield SubscriptionLag(topic.name, taker.id, is_taken, lag)


def topic_loads(edge: Edge, tenant: str, now: float) -> Iterator[TopicLoad]:
    """What goes on in a tenant's topics."""
    for topic in edge.topics:
        if topic.tenant == tenant:
            rate, kept = topic.times.events_per_second(now), kept_of(topic, edge.topics.kept_from, now)
            yield TopicLoad(topic.name, topic.event_count, rate, kept)


def statistics(edge: Edge) -> Statistics:
    """The counts of an edge."""
    counts, calls, consuming = edge.deliveries.counts, edge.webhooks.counts, edge.consumption.counts
    return Statistics(
        published=edge.publishing.accepted_count,
        repeated=edge.publishing.repeated_count,
        refused=dict(edge.replies.refused_counts),
        matched=counts.matched,
        delivered=counts.delivered + calls.events,
        acknowledged=counts.acknowledged + consuming.acknowledged,
        refused_events=consuming.refused,
        overdue=consuming.overdue,
        dropped=counts.dropped + consuming.dropped,
        expired=counts.expired,
        calls=calls.calls,
        calls_failed=calls.failed,
        dead_letters=edge.dead_letters.buried_count,
        connections=len(edge.links),
        topics=len(edge.topics),
        subscriptions=len(edge.takers),
        position=edge.positions.last,
        started_at=edge.started_at,
        overlay=None if edge.overlay is None else edge.overlay.statistics(),
        per_subscription=_per_subscription(edge),
    )


def _per_subscription(edge: Edge) -> Iterator[SubscriptionCounts]:
    for topic in edge.topics:
        for taker in topic.takers.values():
            rejected = max(0, topic.event_count - taker.first_count - taker.matched_count)
            counts = taker.matched_count, rejected, len(taker.waiting)
            yield SubscriptionCounts(*topic.key, taker.subscription.id, *counts)
