"""An edge's ways to other edges: links to routing brokers, and what is joined over each.

For every topic with endpoints here the edge joins at the routing broker that owns it, as coordination says. When the
owner changes, it joins at the new one first and leaves the old one a little later: two at once do no harm, and nothing
pauses. An owner of an epoch below the highest that was seen is not followed. A link that breaks is dialled again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count

from fieldfare.messages import Close, Dial, Leave, LogId, Member, Send, TopicKey, TopicSeen
from fieldfare.routing.ports import Emit, Timers

_REDIAL_SECONDS = 0.1
_REDIAL_SECONDS_MAX = 5.0


class LinkState(Enum):
    """What is known of the way to another broker."""

    DIALLING = auto()
    OPEN = auto()
    BROKEN = auto()  # it is dialled again in a while


@dataclass(frozen=True, slots=True)
class RedialTimer:
    """Timer key: dial a broker again."""

    name: str


@dataclass(frozen=True, slots=True)
class HandoverTimer:
    """Timer key: leave a topic's former routing brokers."""

    topic: TopicKey


@dataclass(slots=True)
class BrokerLink:
    """A link to another broker; this edge dialled it, or the other one did."""

    link: str
    name: str  # of the other broker
    is_dialled: bool
    state: LinkState = LinkState.DIALLING
    attempts: int = 0


@dataclass(slots=True)
class TopicRoute:
    """How a topic is connected."""

    owner: str = ""
    epoch: int = -1
    joined: dict[str, bool] = field(default_factory=dict)  # by link, whether it has said who else is there
    has_failed: bool = False  # the owner could not be reached, or there was none in time
    is_seen: bool = False  # coordination has said something of it
    owed: tuple[str, ...] = ()  # edges with durable subscriptions, by name


class BrokerLinks:
    """All links of an edge to other brokers. `join` sends what is wanted of a topic over a link."""

    def __init__(
        self,
        rng: random.Random,
        handover_seconds: float,
        emit: Emit,
        timers: Timers,
        join: Callable[[str, TopicKey], None],
    ) -> None:
        self.log_id: LogId = ""
        self.members: dict[str, Member] = {}
        self.routes: dict[TopicKey, TopicRoute] = {}
        self._rng, self._handover_seconds = rng, handover_seconds
        self._emit, self._timers, self._join = emit, timers, join
        self._dialled: dict[str, BrokerLink] = {}  # by the name of the broker
        self._links: dict[str, BrokerLink] = {}  # those that are open, by link
        self._abandoned: set[str] = set()  # that are being dialled, and are not needed any more
        self._numbers = count(1)

    def __contains__(self, link: str) -> bool:
        return link in self._links

    def name_at(self, link: str) -> str:
        """Which broker is at the other end."""
        return self._links[link].name

    def open_links(self) -> Iterator[BrokerLink]:
        """Those that are open."""
        return iter(self._links.values())

    # Who is there

    def seen(self, member: Member) -> None:
        """A broker is there; if it is one that is wanted, dial it."""
        self.members[member.name] = member
        link = self._dialled.get(member.name)
        if link is not None and link.state is LinkState.BROKEN:
            self._dial(link)
        elif link is None and any(route.owner == member.name for route in self.routes.values()):
            self.dial(member.name)

    def gone(self, name: str) -> None:
        """A broker seems to be gone. Its link tells when it is."""
        self.members.pop(name, None)

    def dial(self, name: str) -> None:
        """Have a link to a broker, now or as soon as it can be reached."""
        if name not in self._dialled and name in self.members:
            number = next(self._numbers)  # a link of the same name may not be closed yet
            link = self._dialled[name] = BrokerLink(f"to:{name}.{number}", name, is_dialled=True)
            self._dial(link)

    def _dial(self, link: BrokerLink) -> None:
        member = self.members.get(link.name)
        if member is None or not member.address:
            link.state = LinkState.BROKEN  # until it is seen
            return
        link.state = LinkState.DIALLING
        self._emit(Dial(link.link, member.address))

    def redial(self, name: str) -> None:
        """The pause after a failure is over."""
        link = self._dialled.get(name)
        if link is not None and link.state is LinkState.BROKEN:
            self._dial(link)

    def hang_up(self, name: str) -> None:
        """The link to a broker is not needed any more."""
        link = self._dialled.pop(name, None)
        if link is not None and link.state is LinkState.DIALLING:
            self._abandoned.add(link.link)

    # Links

    def opened(self, link: str, name: str) -> None:
        """A link is open: join what belongs to it."""
        if link in self._abandoned:
            self._abandoned.discard(link)
            self._emit(Close(link, "it is no longer needed"))
            return
        known = next((dialled for dialled in self._dialled.values() if dialled.link == link), None)
        if known is None:
            known = BrokerLink(link, name, is_dialled=False)
        known.state, known.attempts = LinkState.OPEN, 0
        self._links[link] = known
        for topic, route in self.routes.items():
            if known.is_dialled and route.owner == known.name:
                self._join_at(link, topic, route)

    def failed(self, link: str, now: float) -> None:
        """A link could not be opened, or has broken."""
        self._abandoned.discard(link)
        known = self._links.pop(link, None) or next((one for one in self._dialled.values() if one.link == link), None)
        for route in self.routes.values():
            route.joined.pop(link, None)
            route.has_failed |= known is not None and route.owner == known.name
        if known is not None and known.is_dialled and self._dialled.get(known.name) is known:
            known.state = LinkState.BROKEN
            pause = min(_REDIAL_SECONDS_MAX, _REDIAL_SECONDS * 2**known.attempts) * (0.5 + self._rng.random())
            known.attempts = min(known.attempts + 1, 10)
            self._timers.set(RedialTimer(known.name), now + pause)

    # Topics

    def connect(self, topic: TopicKey) -> TopicRoute:
        """A topic has endpoints here."""
        return self.routes.setdefault(topic, TopicRoute())

    def assigned(self, seen: TopicSeen, now: float) -> None:
        """Coordination says who owns a topic."""
        route = self.routes.get(seen.topic)
        if route is not None:
            route.is_seen, route.owed = True, seen.owed
        if route is None or not seen.owner or (seen.epoch, seen.owner) <= (route.epoch, route.owner):
            return
        route.epoch = seen.epoch
        if seen.owner == route.owner:
            return
        route.owner, route.has_failed = seen.owner, False
        self.dial(seen.owner)
        link = self._dialled.get(seen.owner)
        if link is not None and link.state is LinkState.OPEN:
            self._join_at(link.link, seen.topic, route)
        if any(link is None or joined != link.link for joined in route.joined):
            self._timers.set(HandoverTimer(seen.topic), now + self._handover_seconds)

    def _join_at(self, link: str, topic: TopicKey, route: TopicRoute) -> None:
        route.joined.setdefault(link, False)
        self._join(link, topic)

    def joined(self, link: str, topic: TopicKey) -> None:
        """A routing broker has said who else has joined."""
        route = self.routes.get(topic)
        if route is not None and link in route.joined:
            route.joined[link], route.has_failed = True, False

    def hand_over(self, topic: TopicKey, now: float) -> list[str]:
        """Leave the former owners of a topic, if the new one is there. Returns the links over which it was left."""
        route = self.routes[topic]
        current = self._dialled.get(route.owner)
        if current is None or not route.joined.get(current.link):
            self._timers.set(HandoverTimer(topic), now + self._handover_seconds)
            return []
        former = [link for link in route.joined if link != current.link]
        for link in former:
            del route.joined[link]
            self._emit(Send(link, Leave(topic, self.log_id)))
        return former

    def is_settling(self, topic: TopicKey) -> bool:
        """Whether it is not known yet which other edges serve a topic, and it may soon be."""
        route = self.routes.get(topic)
        return route is not None and not route.has_failed and not any(route.joined.values())
