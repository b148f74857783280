"""The edge of the same process, which cannot tell the tree from a routing broker with which it has one link.

the edge joins a topic                it is advertised in the tree, and what the edge wants is wanted of it
the edge's own events                 a taker that wants everything gets them, and they become a stream
a broker's advertisement              the edge meets an origin; where its stream is, is confirmed to the edge
a stream                              the edge gets ranges of what it wants
the edge asks to resume               if the stream goes on there, it does; else the origin reads its log for this edge
what else edges say to each other     is passed on to the broker that it names
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fieldfare.messages import (
    BrokerFrame,
    Confirm,
    DialBack,
    Find,
    Found,
    Join,
    Joined,
    Leave,
    LogId,
    Position,
    Ranges,
    Register,
    Resume,
    Share,
    Stream,
    Taken,
    TopicKey,
    Version,
)
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.routing.tree.advertisements import LOCAL, Advertised
from fieldfare.routing.tree.streams import OriginStream

TREE_NAME = "~tree"  # as which the edge knows the tree
_TAKER = "~"  # the receiver that takes the edge's own events into the tree
_CATCHING_UP = "#~"  # ends the name under which an edge is read for at an origin until it has caught up
_NOTHING = Covering().encode()
_EVERYTHING = EVERYTHING.encode()


@dataclass(slots=True, eq=False)
class ServedTopic:
    """A topic that the edge has joined."""

    join: Join
    is_told: bool = False  # the edge was told who else is there
    replays: dict[LogId, Join] = field(default_factory=dict)  # subscriptions here that read what is alive
    catching_up: set[LogId] = field(default_factory=set)  # origins that read their logs for this edge


@dataclass(frozen=True, slots=True)
class LocalPorts:
    """What the local edge needs of the tree broker."""

    tell: Callable[[BrokerFrame], None]  # gives the edge a frame
    pass_on: Callable[[LogId, BrokerFrame], None]  # to another edge
    joined: Callable[[Join], None]  # the edge wants this of a topic
    own_events: Callable[[Stream], None]  # a range of the edge's own events
    advertised: Callable[[TopicKey], Iterable[Advertised]]  # who serves a topic
    stream: Callable[[TopicKey, LogId], OriginStream | None]
    met: Callable[[TopicKey], Version]  # the version of the edge's want that is met; -1: none
    is_home: Callable[[TopicKey, LogId], bool]  # whether the pipeline of that edge matches the topic


class LocalEdge:
    """Stands between an edge and the tree."""

    def __init__(self, ports: LocalPorts) -> None:
        self.log_id: LogId = ""  # set when it is known
        self._ports = ports
        self._topics: dict[TopicKey, ServedTopic] = {}
        self._readers: dict[LogId, set[tuple[TopicKey, LogId]]] = {}  # by edge: for whom this edge reads its log
        self._handlers: dict[type[BrokerFrame], Callable[[Any], None]] = {
            Join: self._join,
            Leave: self._leave,
            Confirm: self._confirm,
            Resume: self._resume,
            Taken: self._taken,
            Ranges: self._ranges,
            Find: self._find,
            Found: lambda frame: self._ports.pass_on(frame.asker, frame),
            Register: lambda frame: self._ports.pass_on(frame.origin, frame),
            DialBack: lambda _: None,  # there are no second paths in a tree
        }

    def serves(self, topic: TopicKey) -> bool:
        """Whether the edge has joined a topic."""
        return topic in self._topics

    def said(self, frame: BrokerFrame) -> None:
        """The edge has sent a frame."""
        self._handlers[type(frame)](frame)

    # What the edge wants

    def _join(self, frame: Join) -> None:
        if frame.edge != self.log_id:  # one of its subscriptions reads what is alive
            if (served := self._topics.get(frame.topic)) is not None:
                served.replays[frame.edge] = frame
                self._pass_to_others(frame)
            return
        served = self._topics.get(frame.topic)
        if served is None:
            served = self._topics[frame.topic] = ServedTopic(frame)
            self._ports.tell(Join(frame.topic, _TAKER, 1, _EVERYTHING, is_origin=False))
            for advertised in self._ports.advertised(frame.topic):
                self.met(frame.topic, advertised)
        served.join = frame
        for advertised in self._ports.advertised(frame.topic):
            if self._ports.is_home(frame.topic, advertised.frame.origin):
                self._ports.pass_on(advertised.frame.origin, frame)
        self._ports.joined(frame)

    def tell_joined(self) -> None:
        """Whoever can be reached at first has been: the edge need not wait for more."""
        for topic, served in self._topics.items():
            if not served.is_told:
                served.is_told = True
                others = [each.frame.origin for each in self._ports.advertised(topic)]
                self._ports.tell(Joined(topic, [log for log in others if log != self.log_id]))

    def _leave(self, frame: Leave) -> None:
        served = self._topics.get(frame.topic)
        if served is not None and served.replays.pop(frame.edge, None) is not None:
            self._pass_to_others(frame)

    def _find(self, frame: Find) -> None:
        self._pass_to_others(frame)

    def _pass_to_others(self, frame: BrokerFrame) -> None:
        for advertised in self._ports.advertised(frame.topic):
            if advertised.frame.origin != self.log_id:
                self._ports.pass_on(advertised.frame.origin, frame)

    # The edge as a receiver

    def met(self, topic: TopicKey, advertised: Advertised) -> None:
        """A broker serves a topic, or says something new of it."""
        origin, served = advertised.frame.origin, self._topics.get(topic)
        if served is None or origin == self.log_id:
            return
        self._ports.tell(Join(topic, origin, 0, _NOTHING, offer=advertised.frame.offer))
        if self._ports.is_home(topic, origin):
            self._ports.pass_on(origin, served.join)
        for replay in served.replays.values():
            self._ports.pass_on(origin, replay)
        if (stream := self._ports.stream(topic, origin)) is not None:
            self.confirm(topic, stream)

    def lost(self, topic: TopicKey, advertised: Advertised) -> None:
        """A broker no longer serves a topic, or is out of reach."""
        if (served := self._topics.get(topic)) is not None:
            served.catching_up.discard(advertised.frame.origin)
            self._ports.tell(Leave(topic, advertised.frame.origin))

    def confirm(self, topic: TopicKey, stream: OriginStream) -> None:
        """Tell the edge from where on a stream is matched with what it wants, if it is."""
        version = self._ports.met(topic)
        if version < 0 or stream.seen is None or stream.side == LOCAL or self._ports.is_home(topic, stream.origin):
            return
        self._ports.tell(Confirm(topic, stream.origin, self.log_id, version, stream.seen))

    def take(self, frame: Stream) -> None:
        """Give the edge a range of what it wants."""
        if not self._ports.is_home(frame.topic, frame.origin):
            share = Share(self.log_id, frame.after, frame.version, None, frame.lost_upto, frame.expired_upto)
            self._ports.tell(Ranges(frame.topic, frame.origin, frame.upto, frame.events, [share]))

    def _resume(self, frame: Resume) -> None:
        served = self._topics.get(frame.topic)
        if frame.receiver != self.log_id or served is None or self._ports.is_home(frame.topic, frame.origin):
            self._ports.pass_on(frame.origin, frame)
            return
        upto = self._passed(frame.topic, frame.origin)
        if upto is not None and frame.position == upto and frame.version <= self._ports.met(frame.topic):
            version = self._ports.met(frame.topic)
            share = Share(self.log_id, frame.position, version)
            self._ports.tell(Ranges(frame.topic, frame.origin, frame.position, [], [share]))  # it heard of all so far
            return
        served.catching_up.add(frame.origin)
        join, name = served.join, self.log_id + _CATCHING_UP
        self._ports.pass_on(frame.origin, Join(join.topic, name, join.version, join.wanted, is_origin=False))
        self._ports.pass_on(frame.origin, Resume(frame.topic, frame.origin, name, frame.position, frame.version))

    def _passed(self, topic: TopicKey, origin: LogId) -> Position | None:
        """Up to where the stream of an origin was passed on to the edge."""
        stream = self._ports.stream(topic, origin)
        passed = None if stream is None else stream.passed.get(LOCAL)
        return None if passed is None else passed.upto

    def _taken(self, frame: Taken) -> None:
        served = self._topics.get(frame.topic)
        if frame.receiver != self.log_id or self._ports.is_home(frame.topic, frame.origin):
            self._ports.pass_on(frame.origin, frame)
        elif served is not None and frame.origin in served.catching_up:
            name, upto = self.log_id + _CATCHING_UP, self._passed(frame.topic, frame.origin)
            self._ports.pass_on(frame.origin, Taken(frame.topic, frame.origin, name, frame.position))
            if upto is not None and frame.position >= upto:  # it goes on with the stream
                served.catching_up.discard(frame.origin)
                self._ports.pass_on(frame.origin, Leave(frame.topic, name))

    # The edge as an origin

    def _confirm(self, frame: Confirm) -> None:
        if frame.receiver == _TAKER:
            self._ports.tell(Resume(frame.topic, self.log_id, _TAKER, frame.position, 1))
            self._ports.own_events(Stream(frame.topic, self.log_id, frame.position, frame.position, 1, []))
        elif not frame.receiver.endswith(_CATCHING_UP) and (
            "#" in frame.receiver or self._ports.is_home(frame.topic, self.log_id)
        ):
            self._ports.pass_on(_edge(frame.receiver), frame)

    def _ranges(self, frame: Ranges) -> None:
        """The edge's own events: for the tree, and for edges that it reads its log for."""
        for share in sorted(frame.shares, key=lambda share: share.receiver != _TAKER):
            one, receiver = frame.of(share), share.receiver
            if receiver == _TAKER:
                range_ = Stream(
                    one.topic, one.origin, share.after, one.upto, 1, one.events, share.lost_upto, share.expired_upto
                )
                self._ports.own_events(range_)
                self._ports.tell(Taken(one.topic, self.log_id, _TAKER, one.upto))
            elif receiver.endswith(_CATCHING_UP):
                self._pass_read(one, share)
            else:
                self._ports.pass_on(_edge(receiver), one)

    def _pass_read(self, frame: Ranges, share: Share) -> None:
        """What was read for an edge. If it has come to where the stream is, it goes on with the stream."""
        edge = _edge(share.receiver)
        own = Share(edge, share.after, share.version, None, share.lost_upto, share.expired_upto)
        self._ports.pass_on(edge, Ranges(frame.topic, frame.origin, frame.upto, frame.events, [own]))
        stream = self._ports.stream(frame.topic, self.log_id)
        if stream is not None and stream.seen is not None and frame.upto >= stream.seen:
            self._readers.get(edge, set()).discard((frame.topic, share.receiver))
            self._ports.tell(Leave(frame.topic, share.receiver))

    # What other edges say to this one

    def hear(self, frame: BrokerFrame) -> None:
        """A frame of another edge came for this one."""
        if isinstance(frame, Join | Leave) and "#" in frame.edge:
            readers = self._readers.setdefault(_edge(frame.edge), set())
            (readers.add if isinstance(frame, Join) else readers.discard)((frame.topic, frame.edge))
        self._ports.tell(frame)

    def gone(self, log: LogId) -> None:
        """An edge is out of reach: nothing is read for it."""
        for topic, receiver in sorted(self._readers.pop(log, ())):
            self._ports.tell(Leave(topic, receiver))


def _edge(receiver: LogId) -> LogId:
    """The edge that a receiver belongs to."""
    return receiver.partition("#")[0]
