"""The routing broker: connects the edges of the topics that it was given.

It is a switch. It remembers who has joined each topic, tells those that come later, and passes every other frame on to
the edge that it names. It needs no disk and keeps no cursors: when it is gone, another one takes over as soon as edges
join there, and two at once do no harm. If it leads, it also gives topics to routing brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from fieldfare.coordination.leading import Leading
from fieldfare.messages import (
    Announce,
    BrokerFrame,
    BrokerIdentity,
    Close,
    Closed,
    Confirm,
    DialBack,
    Effect,
    Find,
    Found,
    Input,
    Join,
    Joined,
    Leave,
    Member,
    Opened,
    Ranges,
    Received,
    Register,
    Resume,
    Send,
    SetTimer,
    Started,
    Taken,
    TimerDue,
    TopicKey,
    Withdraw,
)

ANNOUNCE_SECONDS = 5.0


class RoutingTimer(Enum):
    """Timer keys of a routing broker."""

    ANNOUNCE = auto()


@dataclass(slots=True)
class _JoinedEdge:
    """An edge that has joined a topic over a link."""

    link: str
    join: Join


@dataclass(slots=True)
class RoutingCounts:
    """What a routing broker has passed on since its start."""

    frames: int = 0
    events: int = 0  # each counted for every edge that it was passed on to
    strays: int = 0  # frames for edges that are not here


@dataclass(slots=True)
class _Link:
    name: str  # of the broker at its other end
    joined: set[tuple[TopicKey, str]] = field(default_factory=set)  # topics, each with the edge's log


class RoutingBroker:
    """A routing broker. `load` measures how busy it is, from 0 to 1; the leader may assign topics by that."""

    def __init__(self, member: Member, leading: Leading, load: Callable[[], float] = lambda: 0.0) -> None:
        self.name = member.name
        self.counts = RoutingCounts()
        self._member, self._leading, self._load = member, leading, load
        self._announced: Member | None = None
        self._is_withdrawn = False  # it wants to be rid of its topics
        self._topics: dict[TopicKey, dict[str, _JoinedEdge]] = {}  # by the log of the edge
        self._links: dict[str, _Link] = {}
        self._effects: list[Effect] = []
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            Started: self._started,
            Withdraw: self._withdraw,
            Opened: self._opened,
            Closed: self._closed,
            Received: self._received,
            TimerDue: self._due,
        }
        self._frames: dict[type[BrokerFrame], Callable[[str, Any], None]] = {
            Join: self._join,
            Leave: self._leave,
            Ranges: self._pass_ranges,
            Confirm: lambda _, frame: self._pass_on(frame, frame.receiver),
            Resume: lambda _, frame: self._pass_on(frame, frame.origin),
            Taken: lambda _, frame: self._pass_on(frame, frame.origin),
            Find: lambda _, frame: self._pass_to_others(frame),
            Found: lambda _, frame: self._pass_on(frame, frame.asker),
            DialBack: lambda _, frame: self._pass_on(frame, frame.origin),
            Register: lambda _, frame: self._pass_on(frame, frame.origin),
        }

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        handler = self._handlers.get(type(message))
        if handler is not None:
            handler(message, now)
        else:
            self._effects += self._leading.handle(message, now)
        effects, self._effects = self._effects, []
        return effects

    @property
    def topics(self) -> dict[TopicKey, int]:
        """How many edges have joined each topic."""
        return {topic: len(edges) for topic, edges in self._topics.items()}

    @property
    def can_withdraw(self) -> bool:
        """Whether another routing broker could take its topics."""
        return any(member.name != self.name for member in self._leading.able)

    # Living

    def _started(self, _: Started, now: float) -> None:
        self._announce(now)

    def _withdraw(self, _: Withdraw, now: float) -> None:
        """Without an address it is given no topics, and its own move: edges join elsewhere, and then leave here."""
        self._is_withdrawn = True
        self._announce(now)

    def _due(self, message: TimerDue, now: float) -> None:
        if message.key is RoutingTimer.ANNOUNCE:
            self._announce(now)
        else:
            self._effects += self._leading.handle(message, now)

    def _announce(self, now: float) -> None:
        member = Member(
            self.name,
            "routing",
            "" if self._is_withdrawn else self._member.address,
            network=self._member.network,
            load=round(self._load(), 2),
            topic_count=len(self._topics),
        )
        if member != self._announced:
            self._announced = member
            self._effects.append(Announce(member))
        self._effects.append(SetTimer(RoutingTimer.ANNOUNCE, now + ANNOUNCE_SECONDS))

    # Links

    def _opened(self, message: Opened, _: float) -> None:
        if isinstance(message.identity, BrokerIdentity):
            self._links[message.link] = _Link(message.identity.name)
        else:
            self._effects.append(Close(message.link, "a routing broker serves brokers: connect to an edge"))

    def _closed(self, message: Closed, _: float) -> None:
        link = self._links.pop(message.link, None)
        for topic, edge in sorted(link.joined) if link is not None else ():
            self._remove(message.link, topic, edge)

    def _received(self, message: Received, _: float) -> None:
        if message.link in self._links:
            self._frames[type(message.frame)](message.link, message.frame)

    # Topics

    def _join(self, link: str, frame: Join) -> None:
        """Tell the edges of a topic of each other: each is an origin for the others."""
        known = self._topics.get(frame.topic, {}).get(frame.edge)
        is_new = known is None or known.link != link
        if known is not None:
            if is_new:  # it may have restarted: the others have to tell it anew where to go on
                self._remove(known.link, frame.topic, frame.edge)
            elif known.join.version > frame.version:
                return
        edges = self._topics.setdefault(frame.topic, {})
        edges[frame.edge] = _JoinedEdge(link, frame)
        self._links[link].joined.add((frame.topic, frame.edge))
        others = {log: other for log, other in edges.items() if log != frame.edge}
        self._effects += [Send(other.link, frame) for other in others.values()]
        if is_new:
            self._effects += [Send(link, other.join) for other in others.values()]
            self._effects.append(Send(link, Joined(frame.topic, list(others))))

    def _leave(self, link: str, frame: Leave) -> None:
        self._links[link].joined.discard((frame.topic, frame.edge))
        self._remove(link, frame.topic, frame.edge)

    def _remove(self, link: str, topic: TopicKey, edge: str) -> None:
        """An edge is no longer reached over a link; it may have joined over another one meanwhile."""
        edges = self._topics.get(topic, {})
        if (joined := edges.get(edge)) is None or joined.link != link:
            return
        del edges[edge]
        if not edges:
            self._topics.pop(topic, None)
        self._effects += [Send(other.link, Leave(topic, edge)) for other in edges.values()]

    # What is passed on

    def _pass_on(self, frame: BrokerFrame, edge: str) -> None:
        joined = self._topics.get(frame.topic, {}).get(edge)
        if joined is None:
            self.counts.strays += 1
        else:
            self.counts.frames += 1
            self._effects.append(Send(joined.link, frame))

    def _pass_to_others(self, frame: Find) -> None:
        """To all edges of the topic but the one that asks."""
        for edge in self._topics.get(frame.topic, {}):
            if edge != frame.asker:
                self._pass_on(frame, edge)

    def _pass_ranges(self, _: str, frame: Ranges) -> None:
        """To each receiver its own range, with the events that it wants."""
        edges = self._topics.get(frame.topic, {})
        for share in frame.shares:
            joined = edges.get(share.receiver)
            if joined is None:
                self.counts.strays += 1
                continue
            own = frame.of(share)
            self.counts.frames += 1
            self.counts.events += len(own.events)
            self._effects.append(Send(joined.link, own))
