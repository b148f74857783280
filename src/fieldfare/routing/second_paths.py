"""Second paths: for flows with a latency budget, a direct link to each origin beside the way by the routing broker.

The same ranges travel on both, and whichever continues the cursor first is taken. A path costs both edges a connection
and its bytes a second time, so there are few: each edge admits a number of them, and says why it refuses more. Either
edge may dial; where neither can be dialled, both being behind address translation, there is no path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fieldfare.messages import Close, DialBack, Leave, LogId, Member, Send, TopicKey
from fieldfare.routing.broker_links import BrokerLinks
from fieldfare.routing.importing import Imports
from fieldfare.routing.origin import Origin
from fieldfare.routing.ports import Emit
from fieldfare.routing.topic import Topic


@dataclass(slots=True)
class _Path:
    """A direct link to an origin, or one that is being made."""

    member: Member
    topics: set[TopicKey] = field(default_factory=set)
    link: str | None = None  # when it is open


@dataclass(frozen=True, slots=True)
class PathPorts:
    """What second paths need of the overlay."""

    emit: Emit
    links: BrokerLinks
    imports: Imports
    join: Callable[[str, TopicKey], None]
    tell: Callable[[Topic, str], None]  # tells subscribers with a budget what became of it


class SecondPaths:
    """The direct links of an edge."""

    def __init__(self, member: Member, paths_max: int, ports: PathPorts) -> None:
        self.log_id: LogId = ""
        self.missed_count = 0  # events that came later than their subscription's budget
        self._name, self._can_be_dialled, self._paths_max = member.name, bool(member.address), paths_max
        self._is_in_tree = member.role == "tree"
        self._ports = ports
        self._budgets: dict[TopicKey, dict[str, float]] = {}  # seconds of each subscription, by its id
        self._paths: dict[str, _Path] = {}  # that this edge wants, by the name of the other edge
        self._lent: dict[str, str] = {}  # links that other edges want, by link: the name of the other edge
        self._refused: set[tuple[TopicKey, str]] = set()  # so that each refusal is told once

    def __len__(self) -> int:
        return len(self._paths) + len(self._lent)

    def budget_of(self, topic: TopicKey) -> float | None:
        """The smallest budget of a topic's subscriptions."""
        return min(self._budgets.get(topic, {}).values(), default=None)

    # Who needs one

    def want(self, topic: Topic, subscription: str, seconds: float) -> None:
        """A subscription has a latency budget."""
        self._budgets.setdefault(topic.key, {})[subscription] = seconds
        for origin in self._ports.imports.of_topic(topic.key):
            self.met(origin)

    def unwant(self, topic: Topic, subscription: str) -> None:
        """A subscription with a latency budget has ended."""
        budgets = self._budgets.get(topic.key, {})
        budgets.pop(subscription, None)
        if not budgets and self._budgets.pop(topic.key, None) is not None:
            for path in list(self._paths.values()):
                self._release(path, topic.key)

    def met(self, origin: Origin) -> None:
        """An origin can be reached: if a subscription of its topic has a budget, open a path to it."""
        topic = origin.topic
        member = self._member_of(origin.log)
        if topic.key not in self._budgets or member is None:
            return
        path = self._paths.get(member.name)
        if path is None:
            if (reason := self._why_not(member)) is not None:
                self._refuse(topic, member.name, reason)
                return
            path = self._paths[member.name] = _Path(member)
            self._open(path, origin)
        path.topics.add(topic.key)
        if path.link is not None:
            self._join(path, topic.key)

    def _member_of(self, log: LogId) -> Member | None:
        return next((member for member in self._ports.links.members.values() if member.log == log), None)

    def _why_not(self, member: Member) -> str | None:
        if self._is_in_tree:
            return "in a tree there is one way between two brokers"
        if len(self) >= self._paths_max:
            return f"this edge has {self._paths_max} second paths already, which is all that it admits"
        if not member.address and not self._can_be_dialled:
            return "neither edge can be dialled: both seem to be behind address translation"
        return None

    def _refuse(self, topic: Topic, name: str, reason: str) -> None:
        if (topic.key, name) not in self._refused:
            self._refused.add((topic.key, name))
            self._ports.tell(topic, f"there is no second path to {name}: {reason}")

    def _open(self, path: _Path, origin: Origin) -> None:
        """Dial the other edge, or have it dial this one."""
        if path.member.address:
            self._ports.links.dial(path.member.name)
        elif origin.links:
            frame = DialBack(origin.topic.key, origin.log, self.log_id, self._name)
            self._ports.emit(Send(origin.links[-1], frame))

    # Links

    def opened(self, link: str, name: str) -> None:
        """A link to another edge is open."""
        path = self._paths.get(name)
        if path is not None and path.link is None:
            path.link = link
            for topic in sorted(path.topics):
                self._join(path, topic)

    def lend(self, link: str, name: str) -> str | None:
        """Another edge wants a path to this one. Why it is not admitted; None: it is."""
        if link in self._lent or name in self._paths:
            return None
        if len(self) >= self._paths_max:
            return f"{self._name} has {self._paths_max} second paths already, which is all that it admits"
        self._lent[link] = name
        return None

    def closed(self, link: str) -> None:
        """A link is gone. A path that this edge dialled is dialled again like any link."""
        self._lent.pop(link, None)
        for path in self._paths.values():
            if path.link == link:
                path.link = None

    def dial_back(self, frame: DialBack) -> None:
        """An edge that cannot dial this one, or is not meant to, asks to be dialled."""
        if len(self) < self._paths_max:
            self._ports.links.dial(frame.name)

    def _join(self, path: _Path, topic: TopicKey) -> None:
        if path.link is None:
            return
        self._ports.join(path.link, topic)
        for origin in self._ports.imports.of_topic(topic):
            if origin.log == path.member.log and path.link not in origin.links:
                origin.links.insert(0, path.link)  # events come over it; what is asked goes by the routing broker

    def _release(self, path: _Path, topic: TopicKey) -> None:
        path.topics.discard(topic)
        if path.link is not None:
            self._ports.emit(Send(path.link, Leave(topic, self.log_id)))
        if not path.topics:
            del self._paths[path.member.name]
            self._ports.links.hang_up(path.member.name)
            if path.link is not None:
                self._ports.emit(Close(path.link, "the second path is no longer needed"))

    def links_of(self, topic: TopicKey) -> list[str]:
        """The open paths for a topic."""
        return [path.link for path in self._paths.values() if topic in path.topics and path.link is not None]

    # What is seen of them

    def state(self) -> Iterator[tuple[str, bool]]:
        """The edges to which this one wants a path, and whether it is open."""
        return ((name, path.link is not None) for name, path in self._paths.items())
