"""To its edge the tree is the coordination: endpoints are counted, offers kept, and advertised for all brokers to know.

A tree has no server that knows who is owed events: only brokers that are seen are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fieldfare.messages import (
    AdvertiseTopic,
    AssignTopic,
    CountEndpoints,
    Effect,
    Input,
    Join,
    LogId,
    OfferAnswered,
    OfferTopic,
    Stream,
    TopicAdvertised,
    TopicKey,
    TopicOffer,
    TopicSeen,
)
from fieldfare.overlay.covering import Covering
from fieldfare.routing.tree.advertisements import TreeAdvertisements
from fieldfare.routing.tree.local_edge import TREE_NAME
from fieldfare.routing.tree.presence import Presence
from fieldfare.routing.tree.published_here import NOTHING, PublishedHere


class TreeCoordination:
    """What the edge of a broker, by its name, tells its coordination and is told. Inputs of the edge go to `tell`."""

    def __init__(
        self,
        name: str,
        presence: Presence,
        advertisements: TreeAdvertisements,
        serves: Callable[[TopicKey], bool],
        tell: Callable[[Input], None],
    ) -> None:
        self._name, self._presence, self._advertisements = name, presence, advertisements
        self._serves, self._tell = serves, tell
        self._counts: dict[TopicKey, CountEndpoints] = {}
        self._offers: dict[TopicKey, TopicOffer] = {}
        self._published: dict[TopicKey, PublishedHere] = {}
        self.handlers: dict[type[Effect], Callable[[Any], None]] = {
            CountEndpoints: self.count,
            OfferTopic: self.offer,
            AssignTopic: lambda _: None,  # topics have no owners here
            AdvertiseTopic: self.advertise_topic,
        }

    def count(self, effect: CountEndpoints) -> None:
        """The edge says how many endpoints of a topic it has."""
        self._counts[effect.topic] = effect
        if self._serves(effect.topic):
            self.advertise(effect.topic)
        self.tell_topic(effect.topic)

    def tell_topic(self, topic: TopicKey) -> None:
        """Tell the edge what a topic offers, and who is owed its events."""
        serving = self._advertisements.of_topic(topic).items()
        owed = {self._presence.name_of(log) for log, advertised in serving if advertised.frame.is_owed}
        if topic in self._counts and self._counts[topic].is_owed:
            owed.add(self._name)
        names = tuple(sorted(name for name in owed if name is not None))
        self._tell(TopicSeen(topic, TREE_NAME, 1, self._offer_of(topic), names))

    def _offer_of(self, topic: TopicKey) -> TopicOffer | None:
        """The latest offer of a topic."""
        known = (self._offers.get(topic), self._advertisements.offer_of(topic))
        return max((offer for offer in known if offer is not None), key=lambda offer: offer.version, default=None)

    def offer(self, effect: OfferTopic) -> None:
        """The edge changes what a topic offers."""
        known = self._offer_of(effect.topic)
        if effect.offer.version != (0 if known is None else known.version + 1):
            reason = "somebody else has changed what the topic offers: look, and try again"
            self._tell(OfferAnswered(effect.number, reason))
            return
        self._offers[effect.topic] = effect.offer
        self._tell(OfferAnswered(effect.number))
        if self._serves(effect.topic):
            self.advertise(effect.topic)

    def advertise(self, topic: TopicKey) -> None:
        """Tell all brokers that this one serves a topic, and whether events are published here."""
        counts, published = self._counts.get(topic), self._published.get(topic)
        self._advertisements.advertise(
            topic,
            NOTHING if published is None else published.covering,
            self._offers.get(topic),
            is_owed=counts is not None and counts.is_owed,
        )

    def advertise_topic(self, effect: AdvertiseTopic) -> None:
        """Publishers here say what they publish. Where one publishes without saying, anything may still come."""
        published = self._published.setdefault(effect.topic, PublishedHere())
        published.waiting.append(effect.number)
        if published.is_advertised:
            published.restrict(Covering.decode(effect.advertised))
        if self._serves(effect.topic):
            self.advertise(effect.topic)

    def known(self, topic: TopicKey) -> None:
        """All brokers know what may be published here."""
        if (published := self._published.get(topic)) is not None:
            waiting, published.waiting = published.waiting, []
            for number in waiting:
                self._tell(TopicAdvertised(number))

    def is_home(self, topic: TopicKey, log: LogId) -> bool:
        """Whether the pipeline of that edge matches the topic."""
        offer = self._offer_of(topic)
        return offer is not None and offer.matching == "spark" and self._presence.name_of(log) == offer.home

    def joined(self, frame: Join) -> None:
        """The edge joins a topic, and may know a later offer of it."""
        offer = self._offers.get(frame.topic)
        if frame.offer is not None and (offer is None or offer.version < frame.offer.version):
            self._offers[frame.topic] = frame.offer
        self.advertise(frame.topic)

    def publishes(self, frame: Stream) -> None:
        """A range of the edge's own events: what was not advertised is advertised before it goes anywhere."""
        if frame.events:
            published = self._published.setdefault(frame.topic, PublishedHere())
            if not published.holds(frame.events):
                published.widen()
                self.advertise(frame.topic)

    def others_changed(self, topic: TopicKey) -> None:
        """What other brokers say of a topic has changed: the edge is told, if it uses the topic."""
        if topic in self._counts:
            self.tell_topic(topic)
