"""How many endpoints of each topic an edge has, as coordination is told.

They are counted a few times a second, where something may have changed. One change cannot wait: the first durable
subscription to a topic is acknowledged only when coordination has the record that this edge is owed the topic's
events. Otherwise, if this edge failed right after, another edge would make the same subscription once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.messages import CountEndpoints, TopicKey
from fieldfare.routing.broker_links import BrokerLinks
from fieldfare.routing.ports import Emit
from fieldfare.routing.topic import Topic


@dataclass(frozen=True, slots=True)
class CountPorts:
    """What counting needs of the overlay."""

    emit: Emit
    links: BrokerLinks
    being_made: Callable[[TopicKey], int]  # subscriptions to a topic that are asked for, and not yet in force
    durable_being_made: Callable[[TopicKey], int]  # those of them that are durable, but for those looked for elsewhere


class EndpointCounting:
    """The counts of one edge, by its name among the brokers."""

    def __init__(self, name: str, ports: CountPorts) -> None:
        self._name, self._ports = name, ports
        self._counted: dict[TopicKey, CountEndpoints] = {}
        self._changed: dict[Topic, None] = {}

    def use(self, topic: Topic) -> None:
        """A topic has endpoints here, or may have: connect it."""
        if topic.key not in self._ports.links.routes:
            self._ports.links.connect(topic.key)
            self.count(topic)
        else:
            self.changed(topic)

    def use_to_publish(self, topic: Topic) -> None:
        """A topic has events here."""
        counted = self._counted.get(topic.key)
        if counted is None or not counted.publishers:
            self.use(topic)

    def changed(self, topic: Topic) -> None:
        """The endpoints of a topic may be more or fewer than those that were counted last."""
        self._changed[topic] = None

    def count_changed(self) -> None:
        """Count the endpoints of the topics in which something may have changed."""
        changed, self._changed = self._changed, {}
        for topic in changed:
            self.count(topic)

    def count(self, topic: Topic) -> None:
        """Tell coordination of a topic's endpoints, if they are not those that it was told last."""
        subscribers = len(topic.takers) + self._ports.being_made(topic.key)
        publishers = 1 if topic.event_count or topic.stored >= 0 or topic.is_home or topic.has_publisher else 0
        is_owed = bool(topic.durable_count or topic.is_home or self._ports.durable_being_made(topic.key))
        counted = CountEndpoints(topic.key, publishers, subscribers, is_owed=is_owed)
        if self._counted.get(topic.key) != counted:
            self._counted[topic.key] = counted
            self._ports.emit(counted)

    def is_owed(self, topic: Topic) -> bool:
        """Whether coordination has the record that this edge is owed the events of a topic."""
        route = self._ports.links.routes.get(topic.key)
        return route is not None and self._name in route.owed
