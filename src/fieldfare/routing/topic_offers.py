"""What topics offer, at every edge the same: changes are agreed upon through coordination, and edges learn of them.

Every Join also says what a topic offers, as its edge knows: coordination may be slower than a subscription. And it may
be away for long. A client is not kept waiting for it: after a while its change is refused as busy, though it may still
take place. If it does, this edge learns of it as of a change that another edge has made.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.messages import OfferAnswered, OfferTopic, TopicKey, TopicOffer, TopicStored, Version
from fieldfare.routing.ports import Asking, Emit, LogPort
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.topic import Topic, TopicChange

_UNANSWERED = (
    "what finds the other brokers, ZooKeeper or gossip, does not answer: the change may still take place when it does. "
    "Look what the topic offers then, and try again if it has not changed"
)


@dataclass(slots=True, eq=False)
class _OpenOffer:
    """A change that coordination was asked for."""

    change: TopicChange
    version: Version
    until: float
    is_over: bool = False  # it is answered, or its client was told to try again


@dataclass(frozen=True, slots=True)
class OfferPorts:
    """What offering needs of the overlay."""

    emit: Emit
    log: LogPort
    matching_changed: Callable[[Topic], None]  # who matches a topic has changed, or is known now
    refuse: Callable[[TopicChange, str], None]


class TopicOffers:
    """The offers of all topics, as one edge knows them, by its name among the brokers."""

    def __init__(self, name: str, seconds_max: float, ports: OfferPorts) -> None:
        self._name, self._seconds_max = name, seconds_max
        self._log, self._matching_changed, self._refuse = ports.log, ports.matching_changed, ports.refuse
        self._asking = Asking(ports.emit)
        self._open: deque[_OpenOffer] = deque()  # the oldest first; some of them are over
        self._late: Counter[TopicKey] = Counter()  # changes of each topic that were refused, and may still take place

    # Changes that are asked for here

    def check_none_late(self, topic: Topic) -> None:
        """Refuse another change of a topic while nobody knows what becomes of an earlier one."""
        if self._late[topic.key]:
            raise Refusal("busy", _UNANSWERED)

    def offer(self, change: TopicChange, now: float) -> None:
        """Have a topic offer the same at all edges; answered by OfferAnswered."""
        topic, frame = change.topic, change.frame
        home = change.home or (self._name if frame.matching == "spark" else "")
        offer = TopicOffer(frame.offered, frame.matching, home, topic.offer_version + 1)
        asked = _OpenOffer(change, offer.version, now + self._seconds_max)
        self._open.append(asked)
        self._asking.ask(lambda number: OfferTopic(number, topic.key, offer), asked)

    def answered(self, message: OfferAnswered) -> TopicChange | None:
        """The change that was answered; None: its client does not wait for it any more.

        What such a late change has done is told by TopicSeen, as that of another edge is.
        """
        asked: _OpenOffer = self._asking.answered(message.number)
        if asked.is_over:
            self._late -= Counter([asked.change.topic.key])
            return None
        asked.is_over = True
        if message.failure is None:
            asked.change.topic.offer_version = max(asked.change.topic.offer_version, asked.version)
        return asked.change

    def tidy(self, now: float) -> None:
        """Let the clients go that have waited too long."""
        while self._open and (self._open[0].is_over or self._open[0].until <= now):
            asked = self._open.popleft()
            if not asked.is_over:
                asked.is_over = True
                self._late[asked.change.topic.key] += 1
                self._refuse(asked.change, _UNANSWERED)

    def waits(self) -> list[str]:
        """Who waits for which answer, for people who look at a failed run."""
        return self._asking.waits()

    # What is known

    def learn(self, topic: Topic, offer: TopicOffer | None) -> None:
        """Coordination, or another edge, says what a topic offers."""
        if offer is None or offer.version <= topic.offer_version:
            return
        before = topic.matching, topic.home
        topic.offered, topic.matching, topic.offer_version = offer.offered, offer.matching, offer.version
        topic.home = "" if offer.home == self._name else offer.home
        if (topic.matching, topic.home) != before:
            self._matching_changed(topic)
        self._log.append_lazily(TopicStored(*topic.key, offer.offered, offer.matching, offer.version, topic.home))

    def of(self, topic: Topic) -> TopicOffer | None:
        """What was agreed upon; None: nothing."""
        if topic.offer_version < 0:
            return None
        home = self._name if topic.is_home else topic.home
        return TopicOffer(topic.offered, topic.matching, home, topic.offer_version)
