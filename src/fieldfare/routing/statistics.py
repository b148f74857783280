"""What an edge has done, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
    overlay: OverlayStatistics | None  # None: it is not among others
    per_subscription: Iterator[SubscriptionCounts]  # made as it is read, there may be many


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
        overlay=None if edge.overlay is None else edge.overlay.statistics(),
        per_subscription=_per_subscription(edge),
    )


def _per_subscription(edge: Edge) -> Iterator[SubscriptionCounts]:
    for topic in edge.topics:
        for taker in topic.takers.values():
            rejected = max(0, topic.event_count - taker.first_count - taker.matched_count)
            counts = taker.matched_count, rejected, len(taker.waiting)
            yield SubscriptionCounts(*topic.key, taker.subscription.id, *counts)
