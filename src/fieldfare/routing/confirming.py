"""When a subscription may be acknowledged: other edges have to know what it wants, within a bound.

All edges of the topic that can be reached have to confirm a version of what this edge wants that covers it. For a topic
that Spark matches elsewhere it is the home that counts, which must have its condition. What is durable also waits until
coordination has the record that this edge is owed the topic's events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.routing.broker_links import BrokerLinks
from fieldfare.routing.endpoint_counts import EndpointCounting
from fieldfare.routing.exported_interest import ExportedInterest, ExportedVersion, TopicWanted, Unconfirmed
from fieldfare.routing.importing import Imports
from fieldfare.routing.origin import Origin
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.registrations import Registrations
from fieldfare.routing.topic import Topic


@dataclass(frozen=True, slots=True)
class ConfirmingPorts:
    """What confirming needs of the overlay."""

    links: BrokerLinks
    counts: EndpointCounting
    wanted: ExportedInterest
    imports: Imports
    registrations: Registrations
    home_of: Callable[[Topic], Origin | None]  # the edge whose pipeline matches a topic
    confirmed: Callable[[PendingSubscription, float], None]
    deny: Callable[[PendingSubscription, str], None]


class Confirming:
    """The subscriptions of an edge that wait for others. The seconds say how long; for a home it may be longer."""

    def __init__(self, seconds_max: float, home_seconds_max: float, ports: ConfirmingPorts) -> None:
        self._seconds_max, self._home_seconds_max = seconds_max, home_seconds_max
        self._links, self._counts = ports.links, ports.counts
        self._wanted, self._imports, self._registrations = ports.wanted, ports.imports, ports.registrations
        self._home_of, self._confirmed, self._deny = ports.home_of, ports.confirmed, ports.deny

    def begin(self, pending: PendingSubscription, now: float) -> None:
        """A subscription may be put in force when other edges know what it wants."""
        wanted, seconds_max = self._wanted.of(pending.topic), self._seconds_max
        if pending.topic.is_matched_elsewhere:
            self._registrations.add(pending.topic, pending.subscription)
            seconds_max = self._home_seconds_max
        wanted.unconfirmed.append(Unconfirmed(pending, wanted.version, now + seconds_max))
        self._counts.use(pending.topic)
        if pending.subscription.is_durable:
            self._counts.count(pending.topic)
        self.check(wanted, now)

    def stored(self, exported: ExportedVersion, now: float) -> None:
        """A version of what this edge wants is in the log; where there is nobody to confirm it, that is all."""
        self._wanted.stored(exported)
        self.check(exported.wanted, now)

    def tidy(self, now: float) -> None:
        """Some may have waited long enough."""
        for wanted in self._wanted:
            if wanted.unconfirmed:
                self.check(wanted, now)

    def deny_all(self, topic: Topic, reason: str) -> None:
        """What waits in a topic has to be asked for again."""
        unconfirmed = self._wanted.of(topic).unconfirmed
        while unconfirmed:
            self._deny(unconfirmed.popleft().pending, reason)

    def check(self, wanted: TopicWanted, now: float) -> None:
        """Let pass what all edges that can be reached have confirmed, and what has waited long enough."""
        while wanted.unconfirmed:
            first = wanted.unconfirmed[0]
            if wanted.stored_version < first.version and wanted.topic.matching != "spark":
                if not wanted.is_unstored:
                    return  # a crash must not take what is acknowledged
                wanted.unconfirmed.popleft()
                self._deny(first.pending, "what it wants could not be stored: try again")
                continue
            is_confirmed = self._is_confirmed(wanted.topic, first)
            if not is_confirmed and first.until > now:
                return
            wanted.unconfirmed.popleft()
            reason = None if is_confirmed else self._why_not_without(wanted.topic, first)
            if reason is not None:
                self._deny(first.pending, reason)
            else:
                self._pass(wanted, first, now)

    def _pass(self, wanted: TopicWanted, unconfirmed: Unconfirmed, now: float) -> None:
        topic = wanted.topic
        if unconfirmed.until <= now and topic.key in self._links.routes:
            self._links.routes[topic.key].has_failed |= self._links.is_settling(topic.key)
        wanted.acknowledged = max(wanted.acknowledged or 0, unconfirmed.version)
        self._imports.require(topic.key, unconfirmed.version)
        self._confirmed(unconfirmed.pending, now)

    def _why_not_without(self, topic: Topic, unconfirmed: Unconfirmed) -> str | None:
        """Why a subscription that has waited long enough cannot do without what it waited for; None: it can."""
        if topic.is_matched_elsewhere:
            return f"{topic.home}, whose Spark pipeline matches this topic, did not answer: try again later"
        if self._lacks_record(topic, unconfirmed):
            return "it could not be recorded that this edge has durable subscriptions to the topic: try again"
        return None

    def _is_confirmed(self, topic: Topic, unconfirmed: Unconfirmed) -> bool:
        if self._lacks_record(topic, unconfirmed):
            return False
        if topic.is_matched_elsewhere:
            home = self._home_of(topic)
            return home is not None and home.has_confirmed(unconfirmed.version)
        if topic.is_home:
            return True  # whatever comes is handed to its pipeline, which has the condition
        if self._links.is_settling(topic.key):
            return False
        origins = self._imports.of_topic(topic.key)
        return all(origin.has_confirmed(unconfirmed.version) for origin in origins if origin.is_reachable)

    def _lacks_record(self, topic: Topic, unconfirmed: Unconfirmed) -> bool:
        return unconfirmed.pending.subscription.is_durable and not self._counts.is_owed(topic)
