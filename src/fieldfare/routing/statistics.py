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
class Statistics:
    """Counts since the start."""

    published: int
    repeated: int
    refused: dict[str, int]
    matched: int
    delivered: int
    acknowledged: int
    dropped: int
    calls: int
    calls_failed: int
    dead_letters: int
    connections: int
    topics: int
    subscriptions: int
    position: int
    per_subscription: Iterator[SubscriptionCounts]  # made as it is read, there may be many


def statistics(edge: Edge) -> Statistics:
    """The counts of an edge."""
    counts = edge.deliveries.counts
    return Statistics(
        published=edge.publishing.accepted_count,
        repeated=edge.publishing.repeated_count,
        refused=dict(edge.refused_counts),
        matched=counts.matched,
        delivered=counts.delivered,
        acknowledged=counts.acknowledged,
        dropped=counts.dropped,
        calls=counts.calls,
        calls_failed=counts.calls_failed,
        dead_letters=counts.dead_letters,
        connections=len(edge.connections),
        topics=len(edge.topics),
        subscriptions=len(edge.subscriptions),
        position=edge.position,
        per_subscription=_per_subscription(edge),
    )


def _per_subscription(edge: Edge) -> Iterator[SubscriptionCounts]:
    for topic in edge.topics.values():
        for outbox in topic.outboxes.values():
            rejected = max(0, topic.event_count - outbox.first_count - outbox.matched_count)
            counts = outbox.matched_count, rejected, len(outbox.waiting)
            yield SubscriptionCounts(*topic.key, outbox.subscription.id, *counts)
