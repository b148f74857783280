"""What the parts of an edge ask of its overlay, and what the answer is where there is none.

The parts are made before the overlay, which needs them; so they are given this, and the overlay is put in later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fieldfare.messages import EventsStored, Follows, Identity, Position, Subscribe
from fieldfare.routing.home_search import NamedRequest
from fieldfare.routing.interest import CompiledConditions
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.overlay import EdgeOverlay
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.taker import Taker
from fieldfare.routing.topic import Topic, Topics


class OtherEdges:
    """The overlay, if there is one; an edge that is alone has nothing to tell and nobody to ask."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.overlay: EdgeOverlay | None = None

    # Events

    def export(
        self,
        topic: Topic,
        entries: Sequence[EventEntry],
        rows: Sequence[dict[str, Any]],
        follows: Mapping[Position, Follows],
        now: float,
    ) -> None:
        """Send events that were accepted here to the edges that want them."""
        if self.overlay is not None:
            self.overlay.export(topic, entries, rows, follows, now)

    def export_matched(self, topic: Topic, record: EventsStored, now: float) -> None:
        """Send events that the pipeline matched here to the edges whose subscriptions it found."""
        if self.overlay is not None:
            self.overlay.homes.export_matched(topic, record, now)

    def pass_over(self, topic: Topic, now: float) -> None:
        """Tell the others that they want nothing of this topic up to its end."""
        if self.overlay is not None:
            self.overlay.pass_over(topic, now)

    def cursors_of(self, topic: Topic) -> dict[str, Position]:
        """Up to where the events of each other log are dealt with."""
        return {} if self.overlay is None else self.overlay.imports.cursors_of(topic.key)

    def is_early(self, topic: Topic, follows: Follows) -> bool:
        """Whether an event waits for others of its publisher, which are still on their way from another edge."""
        return self.overlay is not None and self.overlay.imports.is_early(topic, follows)

    # Publishers

    def use_to_publish(self, topic: Topic) -> None:
        """Note that somebody here publishes to a topic."""
        topic.has_publisher = True
        if self.overlay is not None:
            self.overlay.counts.use_to_publish(topic)

    def advertised_changed(self, topic: Topic) -> None:
        """What publishers here say they will publish has changed."""
        if self.overlay is not None:
            self.overlay.advertised.changed(topic)

    # Subscriptions

    def want(self, topic: Topic, compiled: CompiledConditions) -> None:
        """Want what new conditions ask for of the other edges, too."""
        if self.overlay is not None:
            self.overlay.want(topic, compiled)

    def unwant(self, taker: Taker) -> None:
        """Want it no longer."""
        if self.overlay is not None:
            self.overlay.unwant(self._topics.of(taker), taker.subscription)

    def settled(self, topic: Topic) -> None:
        """The number of endpoints of a topic may have changed."""
        if self.overlay is not None:
            self.overlay.counts.changed(topic)

    def search(self, link: str, identity: Identity, frame: NamedRequest, now: float) -> bool:
        """Look for a durable subscription at the other edges; False: there is nobody to ask."""
        return self.overlay is not None and self.overlay.search(link, identity, frame, now)

    def adopt(self, link: str, tenant: str, frame: Subscribe) -> PendingSubscription | None:
        """The subscription that a client began before its connection broke, if it is being read for."""
        return None if self.overlay is None else self.overlay.replays.adopt(link, tenant, frame)

    def is_remote(self, topic: Topic, subscription_id: str) -> bool:
        """Whether a subscription that the pipeline here matches lives at another edge."""
        return self.overlay is not None and self.overlay.home_conditions.has(topic, subscription_id)

    def unregister(self, topic: Topic, subscription_id: str) -> None:
        """Have another edge's pipeline match a subscription no longer."""
        if self.overlay is not None:
            self.overlay.registrations.remove(topic, subscription_id)
