"""Declaring topics: what one offers, and where it is matched. All edges that share a topic offer the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.messages import DeclareTopic, Done, Identity, OfferAnswered
from fieldfare.qos import unmet
from fieldfare.routing.overlay import EdgeOverlay
from fieldfare.routing.ports import LogPort, Replies
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.subscribing import Subscribing
from fieldfare.routing.topic import Topic, TopicChange, Topics

_NO_PIPELINE = "this service has no Spark pipeline: start it with --spark, or match at the edge"


@dataclass(frozen=True, slots=True)
class DeclaringPorts:
    """What declaring needs of its broker. `overlay` gives None where the broker is alone."""

    topics: Topics
    replies: Replies
    log: LogPort
    subscribing: Subscribing
    overlay: Callable[[], EdgeOverlay | None]


class TopicDeclaring:
    """Declares topics: first to coordination, where there are other brokers, then to the log."""

    def __init__(self, ports: DeclaringPorts, *, has_pipeline: bool) -> None:
        self._ports, self._has_pipeline = ports, has_pipeline

    def declare(self, link: str, identity: Identity, frame: DeclareTopic, now: float) -> None:
        """Check that a topic may offer this, and have the others and the log told."""
        require(identity, "manage", frame.topic)
        overlay = self._ports.overlay()
        topic = self._ports.topics.get_or_make(identity.tenant, frame.topic)
        self._check(topic, frame, overlay)
        change = TopicChange(topic, link, frame)
        topic.change_count += 1
        if overlay is None:
            self._ports.log.append(change.record, change)
        else:
            overlay.counts.use(topic)
            overlay.offers.offer(change, now)

    def _check(self, topic: Topic, frame: DeclareTopic, overlay: EdgeOverlay | None) -> None:
        if topic.is_ending:
            raise Refusal("busy", f"the topic {topic.name!r} is just being deleted: try again")
        if frame.matching == "spark" and not self._has_pipeline and not topic.is_matched_elsewhere:
            if overlay is not None and overlay.is_unknown(topic):
                raise Refusal("busy", "it is not known yet whether the pipeline of another edge matches it: try again")
            raise Refusal("invalid", _NO_PIPELINE)
        for subscription in self._ports.subscribing.of_topic(topic):
            if frame.matching != topic.matching:
                raise Refusal("invalid", "a topic that has subscriptions is matched where it is: end them first")
            if reason := unmet(frame.offered, subscription.qos):
                raise Refusal("qos", f"the subscription {subscription.id!r} needs more: {reason}")
        if overlay is not None:
            overlay.offers.check_none_late(topic)

    def offered(self, message: OfferAnswered, _: float) -> None:
        """All edges offer the same now; or they do not, and why."""
        overlay = self._ports.overlay()
        if overlay is None or (change := overlay.offers.answered(message)) is None:
            return
        if message.failure is None:
            self._ports.log.append(change.record, change)
        else:
            self.not_offered(change, message.failure)

    def not_offered(self, change: TopicChange, reason: str) -> None:
        """The others could not be told: the topic stays as it is."""
        self._refuse(change, Refusal("busy", reason))

    def declared(self, change: TopicChange) -> None:
        """The log knows: from now on the topic offers this."""
        topic, frame = change.topic, change.frame
        topic.change_count -= 1
        before = topic.matching
        topic.offered, topic.matching, topic.home = frame.offered, frame.matching, change.home
        if (overlay := self._ports.overlay()) is not None and topic.matching != before:
            overlay.homes.matching_changed(topic)
        self._ports.replies.send(change.link, Done(frame.ref))

    def not_declared(self, change: TopicChange, reason: str) -> None:
        """The log could not be told: the topic stays as it is."""
        self._refuse(change, Refusal("storage", reason))

    def _refuse(self, change: TopicChange, refusal: Refusal) -> None:
        change.topic.change_count -= 1
        self._ports.replies.refuse(change.link, change.frame.ref, refusal)
