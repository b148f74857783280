"""What the publishers that are connected here say that they will publish.

An advertisement holds as long as its connection. An event outside it is refused: other brokers may have relied on it.
A publisher that advertises nothing may publish anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fieldfare.errors import ConditionError
from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.messages import Advertise, Done, Identity, TopicKey, Unadvertise
from fieldfare.model import Condition
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.routing.interest import Interest, compiled_condition
from fieldfare.routing.moved_publisher import PublisherKey
from fieldfare.routing.ports import Replies
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.topic import Topic, Topics

_ADVERTISEMENTS_MAX = 10_000  # of one connection
_HANDLE = 1
_Key: TypeAlias = tuple[TopicKey, str]  # the topic and the publisher


@dataclass(frozen=True, slots=True, eq=False)
class PublisherAdvertisement:
    """What one publisher will publish in one topic."""

    topic: Topic
    frame: Advertise
    link: str
    condition: Condition | None  # None: anything
    interest: Interest | None

    @property
    def key(self) -> _Key:
        """By which it is known."""
        return self.topic.key, self.frame.publisher


@dataclass(frozen=True, slots=True)
class AdvertisingPorts:
    """What advertisements need of their broker."""

    topics: Topics
    replies: Replies
    tell: Callable[[PublisherAdvertisement, float], None]  # has the overlay know of one; then `known` is called
    changed: Callable[[Topic], None]  # more or less than before may be published in a topic


class PublisherAdvertisements:
    """All that are in force at an edge."""

    def __init__(self, ports: AdvertisingPorts) -> None:
        self._ports = ports
        self.is_watching = False  # the overlay has to know of all publishers, also of those that advertise nothing
        self._open: set[TopicKey] = set()  # topics in which such ones have published
        self._known: dict[_Key, PublisherAdvertisement] = {}
        self._by_link: dict[str, dict[_Key, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._known) or self.is_watching

    def advertise(self, link: str, identity: Identity, frame: Advertise, now: float) -> None:
        """A publisher says what it will publish."""
        require(identity, "publish", frame.topic)
        topic = self._ports.topics.used_by(identity, frame.topic)
        condition, interest = None, None
        if frame.condition is not None:
            try:
                condition = compile(frame.condition)
            except ConditionError as error:
                raise Refusal("condition", str(error)) from error
            interest = Interest()
            interest.add(compiled_condition(_HANDLE, condition))
        advertisement = PublisherAdvertisement(topic, frame, link, condition, interest)
        of_link = self._by_link.setdefault(link, {})
        if len(of_link) >= _ADVERTISEMENTS_MAX and advertisement.key not in of_link:
            raise Refusal("limit", f"a connection has {_ADVERTISEMENTS_MAX:,} advertisements at most")
        if (former := self._known.get(advertisement.key)) is not None:
            self._by_link[former.link].pop(former.key, None)
        self._known[advertisement.key] = advertisement
        of_link[advertisement.key] = None
        self._ports.tell(advertisement, now)

    def known(self, advertisement: PublisherAdvertisement) -> None:
        """The overlay knows of it."""
        self._ports.replies.send(advertisement.link, Done(advertisement.frame.ref))

    def unadvertise(self, link: str, identity: Identity, frame: Unadvertise, _: float) -> None:
        """A publisher takes back what it advertised."""
        key = (identity.tenant, frame.topic), frame.publisher
        if (advertisement := self._known.get(key)) is not None:
            self._remove(advertisement)
        self._ports.replies.send(link, Done(frame.ref))

    def closed(self, link: str) -> None:
        """A connection has ended."""
        for key in list(self._by_link.get(link, ())):
            self._remove(self._known[key])
        self._by_link.pop(link, None)

    def _remove(self, advertisement: PublisherAdvertisement) -> None:
        del self._known[advertisement.key]
        self._by_link[advertisement.link].pop(advertisement.key, None)
        self._ports.changed(advertisement.topic)

    # What it means

    def check(self, topic: Topic, publisher: str | None, rows: Sequence[Mapping[str, Any]]) -> None:
        """Refuse events that their publisher did not advertise."""
        advertisement = self._known.get((topic.key, publisher or ""))
        if advertisement is None:
            self.open(topic)
            return
        if advertisement.interest is None:
            return
        inside = {number for _, numbers in advertisement.interest.match(rows) for number in numbers}
        outside = next((number for number in range(len(rows)) if number not in inside), None)
        if outside is not None:
            condition = advertisement.frame.condition
            reason = f"event {outside} is not what was advertised ({condition}): advertise it before"
            raise Refusal("unadvertised", reason)

    def open(self, topic: Topic) -> None:
        """Anything may be published in a topic."""
        if self.is_watching and topic.key not in self._open:
            self._open.add(topic.key)
            self._ports.changed(topic)

    def link_of(self, publisher: PublisherKey) -> str | None:
        """The connection of a publisher that advertises something, the latest."""
        tenant, name = publisher
        links = [each.link for (topic, source), each in self._known.items() if (topic[0], source) == (tenant, name)]
        return links[-1] if links else None

    def covering_of(self, topic: Topic) -> Covering:
        """All that is advertised in a topic."""
        if topic.key in self._open:
            return EVERYTHING
        conditions = [each.condition for each in self._known.values() if each.topic is topic]
        sound = [condition for condition in conditions if condition is not None]
        return EVERYTHING if len(sound) < len(conditions) else Covering.of(sound)
