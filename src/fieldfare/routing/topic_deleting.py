"""Deleting topics. The events of one stay in the log until they expire, but nobody gets them any more.

A topic of the same name that is made later begins after them. It knows the last numbers of the publishers, so that one
that never noticed goes on as if nothing had happened.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldfare.messages import DeleteTopic, Done, Identity, TopicRemoved
from fieldfare.routing.delivery import Deliveries
from fieldfare.routing.ports import LogPort, Positions, Replies
from fieldfare.routing.publishing import Publishing
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.subscribing import Subscribing
from fieldfare.routing.topic import Topic, Topics

_AMONG_OTHERS = (
    "a topic that several brokers share cannot be deleted: others would make it again. End its subscriptions, and let "
    "its events expire"
)
_SPARK = (
    "a topic that Spark matches cannot be deleted: end its subscriptions, and declare it with matching 'edge' first"
)


@dataclass(frozen=True, slots=True)
class EndingTopic:
    """A topic whose end is on its way to the log."""

    topic: Topic
    link: str
    frame: DeleteTopic
    record: TopicRemoved


@dataclass(frozen=True, slots=True)
class DeletingPorts:
    """What deleting needs of its broker."""

    topics: Topics
    replies: Replies
    log: LogPort
    positions: Positions
    subscribing: Subscribing
    publishing: Publishing
    deliveries: Deliveries


class TopicDeleting:
    """Deletes topics of a broker that is alone."""

    def __init__(self, ports: DeletingPorts, *, is_among_others: bool) -> None:
        self._ports, self._is_among_others = ports, is_among_others

    def delete(self, link: str, identity: Identity, frame: DeleteTopic, _: float) -> None:
        """Check that a topic may be deleted, and have the log told."""
        require(identity, "manage", frame.topic)
        key = (identity.tenant, frame.topic)
        if key not in self._ports.topics:
            raise Refusal("unknown", f"there is no topic {frame.topic!r}")
        topic = self._ports.topics[key]
        self._check(topic, frame)
        topic.is_ending = True
        record = TopicRemoved(*key, self._ports.positions.last, topic.publishers.stored)
        self._ports.log.append(record, EndingTopic(topic, link, frame, record))

    def _check(self, topic: Topic, frame: DeleteTopic) -> None:
        if self._is_among_others:
            raise Refusal("invalid", _AMONG_OTHERS)
        if topic.matching == "spark":
            raise Refusal("invalid", _SPARK)
        if topic.is_ending or topic.change_count or self._ports.publishing.has_under_way(topic):
            raise Refusal("busy", f"the topic {topic.name!r} is just being changed, or published to: try again")
        count = len(list(self._ports.subscribing.of_topic(topic)))
        if count > len(topic.takers):
            raise Refusal("busy", f"somebody is just subscribing to the topic {topic.name!r}: try again")
        if count and not frame.is_forced:
            number = "a subscription" if count == 1 else f"{count:,} subscriptions"
            raise Refusal("qos", f"the topic {topic.name!r} has {number}: end them first, or delete it by force")

    def deleted(self, ending: EndingTopic) -> None:
        """The log knows. Subscribers are told."""
        for taker in list(ending.topic.takers.values()):
            self._ports.deliveries.tell_detached(taker, "the topic has been deleted")
            self._ports.subscribing.forget(*taker.subscription.key)
        self._remove(ending.record)
        self._ports.replies.send(ending.link, Done(ending.frame.ref))

    def not_deleted(self, ending: EndingTopic, reason: str) -> None:
        """The log could not be told: the topic stays."""
        ending.topic.is_ending = False
        self._ports.replies.refuse(ending.link, ending.frame.ref, Refusal("storage", reason))

    def recover(self, record: TopicRemoved) -> None:
        """The log says that a topic was deleted."""
        key = (record.tenant, record.topic)
        if key in self._ports.topics:
            for taker in list(self._ports.topics[key].takers.values()):
                self._ports.subscribing.forget(*taker.subscription.key)
        self._remove(record)

    def _remove(self, record: TopicRemoved) -> None:
        key = (record.tenant, record.topic)
        if key in self._ports.topics:
            self._ports.deliveries.counting.forget(self._ports.topics[key])
        self._ports.topics.remove(key, record.position, record.sequences)
