"""A broker of the tree: an edge, and around it a node that relays between its neighbours, and stands for them.

To the edge it is its coordination and its one routing broker; the edge is the same as in a star. What the edge asks of
those never reaches the host; what neighbours say never reaches the edge but as a routing broker would say it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from fieldfare.messages import (
    Absent,
    Advertisement,
    AdvertisementEnded,
    AdvertisementKnown,
    Announce,
    BrokerFrame,
    BrokerIdentity,
    Close,
    Closed,
    Dial,
    Drained,
    Echo,
    Effect,
    Input,
    Join,
    List,
    LogId,
    Member,
    MemberGone,
    MemberSeen,
    Opened,
    PassOn,
    Present,
    Received,
    RingFound,
    Sealed,
    Send,
    Started,
    Stream,
    TimerDue,
    TopicKey,
    TreeFrame,
    Unreachable,
    Version,
    Want,
    WantMet,
    Warn,
)
from fieldfare.overlay.covering import Covering
from fieldfare.placement.placement_frames import AnyArrivalFrame, AnyPlacementFrame, ArrivalAnswer, ArrivalRequest
from fieldfare.routing.edge import Edge
from fieldfare.routing.ports import Timers
from fieldfare.routing.tree.advertisements import LOCAL, Advertised, AdvertisementPorts, TreeAdvertisements
from fieldfare.routing.tree.local_edge import TREE_NAME, LocalEdge, LocalPorts
from fieldfare.routing.tree.neighbours import BridgeDue, NeighbourPorts, Neighbours, RedialNeighbour
from fieldfare.routing.tree.presence import Presence, PresencePorts
from fieldfare.routing.tree.publisher_clients import ClientPorts, PublisherClients
from fieldfare.routing.tree.publisher_placement import PlacementPorts, PublisherPlacement
from fieldfare.routing.tree.streams import OriginStream, StreamPorts, TopicStreams
from fieldfare.routing.tree.tree_coordination import TreeCoordination
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.routing.tree.wants import TopicWants, WantPorts


class TreeTimer(Enum):
    """Timer keys of a tree broker."""

    TIDY = auto()


@dataclass(slots=True, eq=False)
class TreeTopic:
    """What passes this broker of one topic."""

    wants: TopicWants
    streams: TopicStreams


class TreeBroker:
    """A broker of a tree around an edge, `inner`. `busy_share` measures how busy it is, from 0 to 1."""

    def __init__(
        self,
        name: str,
        inner: Edge,
        options: TreeOptions,
        rng: random.Random,
        busy_share: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.name, self.inner, self._options = name, inner, options
        self.log_id: LogId = ""
        self.relayed_count = 0  # events that came from neighbours, be they wanted here or not
        self._now = 0.0
        self._effects: list[Effect] = []
        self._told: deque[Input] = deque()  # what the edge is to be told in this round
        self._edge_link: str | None = None  # the edge's link to the tree, by the name that it chose
        self._timers = Timers(self._effects.append)
        self.neighbours = self._make_neighbours(rng)
        self.presence = self._make_presence()
        self.advertisements = self._make_advertisements()
        self.topics: dict[TopicKey, TreeTopic] = {}
        self.local = self._make_local()
        self.coordination = TreeCoordination(
            name, self.presence, self.advertisements, self.local.serves, self._told.append
        )
        self.clients = PublisherClients(
            inner,
            ClientPorts(
                self._effects.append,
                self.presence,
                lambda session, seconds: self.placement.measured(session, seconds, self._now),
                lambda tenant: self.placement.listed(tenant),  # noqa: PLW0108 - placement is made below
            ),
        )
        self.placement = self._make_placement(rng, busy_share)
        self._measure_at = 0.0
        self._coordination: dict[type[Effect], Callable[[Any], None]] = {
            Announce: self._announce,
            **self.coordination.handlers,
        }
        self._frames: dict[type[TreeFrame], Callable[[str, Any], None]] = {
            Present: self.presence.received,
            Absent: self.presence.absent,
            RingFound: lambda link, frame: self._refuse_ring(link, frame.ring),
            Advertisement: self.advertisements.received,
            AdvertisementKnown: self.advertisements.known,
            AdvertisementEnded: self.advertisements.ended,
            Want: self._want,
            WantMet: lambda link, frame: self._topic(frame.topic).wants.met(link, frame),
            Stream: self._stream,
            Drained: self.neighbours.drained,
            Echo: lambda link, frame: self.neighbours.echo(link, frame, self._now),
            PassOn: self._passed_on,
        }

    # Making

    def _make_neighbours(self, rng: random.Random) -> Neighbours:
        return Neighbours(
            self.name,
            self._options.neighbours,
            self._options.window_bytes,
            self._options.bridge_seconds,
            rng,
            NeighbourPorts(self._effects.append, self._timers, lambda other: self.presence.get(other) is not None),
        )

    def _make_presence(self) -> Presence:
        return Presence(
            self.name,
            PresencePorts(
                self._send,
                lambda: self.neighbours,
                lambda member: self._told.append(MemberSeen(member)),
                self._gone,
                self._refuse_ring,
            ),
        )

    def _make_advertisements(self) -> TreeAdvertisements:
        return TreeAdvertisements(
            AdvertisementPorts(
                self._send,
                lambda: self.neighbours,
                self._grown,
                self._shrunk,
                self._met,
                self._lost,
                lambda topic, origin, link: self._topic(topic).streams.opened(origin, link),
                lambda topic: self.coordination.known(topic),  # noqa: PLW0108 - it is made later
            )
        )

    def _make_local(self) -> LocalEdge:
        return LocalEdge(
            LocalPorts(
                self._tell,
                self._pass_on,
                self._edge_joined,
                self._own_events,
                lambda topic: list(self.advertisements.of_topic(topic).values()),
                lambda topic, origin: self._topic(topic).streams.get(origin),
                lambda topic: self._topic(topic).wants.met_of(LOCAL),
                lambda topic, log: self.coordination.is_home(topic, log),  # noqa: PLW0108 - it is made later
            )
        )

    def _make_placement(self, rng: random.Random, busy_share: Callable[[], float]) -> PublisherPlacement:
        return PublisherPlacement(
            self.name,
            self._options.placement,
            rng,
            PlacementPorts(
                self._send_to_neighbour,
                self._pass_on_to,
                self.neighbours.name_at,
                self.neighbours.hop_seconds,
                busy_share,
                self.inner.count_matches,
                self.clients.measure,
                self.clients.can_move,
                self.clients.move,
            ),
        )

    # The contract with the host

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        self._now = now
        if not self._is_of_tree(message):
            self._told.append(message)
        while self._told:
            self._from_edge(self.inner.handle(self._told.popleft(), now))
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def recover(self, record: Any) -> None:
        """Take up a record of the checkpoint or the log. The tree keeps nothing there."""
        self.inner.recover(record)

    def checkpoint(self) -> Sequence[Any]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        return self.inner.checkpoint()

    def waits(self) -> list[str]:
        """What the edge waits for, for people who look at a failed run."""
        return list(getattr(self.inner, "waits", list)())

    def _is_of_tree(self, message: Input) -> bool:
        """Deal with what is not for the edge."""
        match message:
            case Opened(link, BrokerIdentity(name)):
                self._opened(link, name)
            case Closed(link) if link in self.neighbours or self.neighbours.is_dialled(link):
                self._closed(link)
            case Unreachable(link, reason) if self.neighbours.is_dialled(link):
                self.neighbours.unreachable(link, reason)
                self._closed(link)
            case Received(link, frame) if link in self.neighbours:
                handler = self._frames.get(type(frame))
                if handler is not None:
                    handler(link, frame)
                else:
                    self.placement.received(self.neighbours.name_at(link), frame, self._now)
            case Received(link, List(what="placement") as frame):
                self.clients.list_publishers(link, frame)
            case TimerDue(TreeTimer.TIDY):
                self._tidy()
            case TimerDue(RedialNeighbour(address)):
                self.neighbours.redial(address, self._now)
            case TimerDue(BridgeDue(name)):
                self.neighbours.bridge_due(name, self._now)
            case Started():
                self._told.append(MemberSeen(Member(TREE_NAME, "routing", TREE_NAME)))
                self._timers.set(TreeTimer.TIDY, self._now + self._options.tidy_seconds)
                self._told.appendleft(message)
            case _:
                return False
        return True

    def _tidy(self) -> None:
        for topic in self.topics.values():
            topic.wants.tidy(self._now)
            topic.streams.tidy()
        self.neighbours.tidy()
        self.presence.tidy(self._now)
        if self.placement.is_on and self._now >= self._measure_at:
            self._measure_at = self._now + self._options.measure_seconds
            self.placement.tidy(self._now)
            if self.placement.needs_delays:
                self.neighbours.measure(self._now)
        self._settle()
        self._timers.set(TreeTimer.TIDY, self._now + self._options.tidy_seconds)

    # The edge

    def _from_edge(self, effects: Sequence[Effect]) -> None:
        """Do what the edge asks of the tree; the rest is for the host."""
        for effect in effects:
            match effect:
                case Send(link, frame) if link == self._edge_link:
                    self.local.said(frame)
                case Dial(link, address) if address == TREE_NAME:
                    self._edge_link = link
                    self._told.append(Opened(link, BrokerIdentity(TREE_NAME)))
                case Close(link) if link == self._edge_link:
                    self._told.append(Closed(link))
                case Send(link, Sealed(sealed=sealed)):
                    self._effects.append(effect)
                    if (name := self.clients.name_of(link, sealed.publisher)) is not None:
                        self.placement.left(name, self._now)
                case _ if type(effect) in self._coordination:
                    self._coordination[type(effect)](effect)
                case _:
                    self._effects.append(effect)

    def _tell(self, frame: BrokerFrame) -> None:
        if self._edge_link is not None:
            self._told.append(Received(self._edge_link, frame))

    def _announce(self, effect: Announce) -> None:
        is_first, self.log_id = not self.log_id, effect.member.log
        self.advertisements.log_id = self.local.log_id = self.log_id
        self.presence.announce(effect.member, self._now)
        if is_first:
            self.neighbours.start(self._now)

    def _edge_joined(self, frame: Join) -> None:
        """The edge wants this of a topic."""
        self.coordination.joined(frame)
        topic = self._topic(frame.topic)
        topic.wants.want(LOCAL, frame.version, Covering.decode(frame.wanted), self._now)
        self._settle()

    def _settle(self) -> None:
        if not self.neighbours.is_settling:
            self.local.tell_joined()

    def _own_events(self, frame: Stream) -> None:
        self.coordination.publishes(frame)
        self._topic(frame.topic).streams.receive(LOCAL, frame)

    # Neighbours

    def _send(self, link: str, frame: object) -> None:
        self._effects.append(Send(link, frame))

    def _opened(self, link: str, name: str) -> None:
        reason = self.neighbours.opened(link, name)
        if reason is not None:
            self._effects.append(Close(link, reason))
            return
        for former in self.neighbours.former(link):
            self._closed(former)
            self.neighbours.give_up(former, f"there is another link to {name}")
        self.presence.opened(link)
        self.advertisements.opened(link)
        self._settle()

    def _closed(self, link: str) -> None:
        self.neighbours.failed(link, self._now)
        self.presence.closed(link)
        self.advertisements.closed(link)
        for topic in self.topics.values():
            topic.streams.closed(link)
            topic.wants.closed(link, self._now)
        self._settle()

    def _refuse_ring(self, link: str, ring: tuple[str, ...]) -> None:
        """Close a link with which these brokers would be linked in a ring, and let both ends say so."""
        other, way = self.neighbours.name_at(link), " - ".join(ring)
        self._send(link, RingFound(ring))
        self.neighbours.wait_longer(link)
        self._closed(link)
        self._effects.append(Close(link, f"it would make a ring: {way}"))
        self._effects.append(
            Warn(
                f"The link to {other} is closed: with it brokers would be linked in a ring, {way}. Events go the other "
                "way; leave one of these links out of the settings"
            )
        )

    def _gone(self, member: Member) -> None:
        self._told.append(MemberGone(member.name))
        self.local.gone(member.log)

    # Frames for one broker

    def _pass_on(self, to: LogId, frame: BrokerFrame | AnyArrivalFrame) -> None:
        link = self.presence.link_to(to)
        if link:
            self._send(link, PassOn(to, frame))  # type: ignore[arg-type]  # it is one of them

    def _passed_on(self, link: str, frame: PassOn) -> None:
        if frame.to == self.log_id:
            match frame.frame:
                case ArrivalRequest():
                    self.placement.asked(frame.frame, self._now)
                case ArrivalAnswer():
                    self.placement.answered(frame.frame, self._now)
                case _:
                    self.local.hear(frame.frame)
        else:
            way = self.presence.link_to(frame.to)
            if way and way != link:
                self._send(way, frame)

    # Placement of publishers

    def _send_to_neighbour(self, name: str, frame: AnyPlacementFrame) -> None:
        if (link := self.neighbours.link_to(name)) is not None:
            self._send(link, frame)

    def _pass_on_to(self, name: str, frame: AnyArrivalFrame) -> None:
        if (broker := self.presence.get(name)) is not None:
            self._pass_on(broker.member.log, frame)

    # Topics

    def _topic(self, key: TopicKey) -> TreeTopic:
        topic = self.topics.get(key)
        if topic is None:
            wants = TopicWants(
                key,
                self._options.boxes_max,
                self._options.shrink_seconds,
                WantPorts(
                    self._send,
                    lambda: self.neighbours,
                    lambda side: self.advertisements.from_side(key, side),
                    lambda side: self._settle_streams(key, side),
                    lambda version: self._met_here(key, version),
                ),
            )
            ports = StreamPorts(
                self._send_stream,
                lambda origin, side: self.advertisements.may_pass(key, origin, side),
                lambda stream: self._begun(key, stream),
                lambda passing: self.placement.traced(passing, self._now),
                lambda: self.placement.passed(self._now),
            )
            topic = self.topics[key] = TreeTopic(wants, TopicStreams(key, wants, ports))
        return topic

    def _settle_streams(self, topic: TopicKey, side: str) -> None:
        streams = self._topic(topic).streams
        streams.settle(side)
        streams.announce(side)

    def _want(self, link: str, frame: Want) -> None:
        self._topic(frame.topic).wants.want(link, frame.version, Covering.decode(frame.wanted), self._now)

    def _stream(self, link: str, frame: Stream) -> None:
        self.relayed_count += len(frame.events)
        self._topic(frame.topic).streams.receive(link, frame)
        self.neighbours.received_stream(link, frame)

    def _send_stream(self, side: str, frame: Stream) -> bool:
        if side == LOCAL:
            self.local.take(frame)
            return True
        return self.neighbours.send_stream(side, frame)

    def _begun(self, topic: TopicKey, stream: OriginStream) -> None:
        self._topic(topic).streams.announce_stream(stream)
        self.local.confirm(topic, stream)

    def _met_here(self, topic: TopicKey, _: Version) -> None:
        """What the edge wants is met: events of all origins from where their streams are."""
        streams = self._topic(topic).streams
        for origin in list(self.advertisements.of_topic(topic)):
            if (stream := streams.get(origin)) is not None:
                self.local.confirm(topic, stream)

    # Advertisements

    def _grown(self, topic: TopicKey, advertised: Advertised) -> None:
        self._topic(topic).streams.begin(advertised.frame.origin, advertised.side)
        if advertised.side != LOCAL:
            self._topic(topic).wants.advertised(advertised.side)

    def _shrunk(self, topic: TopicKey, side: str) -> None:
        self._topic(topic).wants.shrunk(side, self._now)

    def _met(self, topic: TopicKey, advertised: Advertised) -> None:
        self.local.met(topic, advertised)
        self.coordination.others_changed(topic)

    def _lost(self, topic: TopicKey, advertised: Advertised) -> None:
        self._topic(topic).streams.end(advertised.frame.origin)
        self.local.lost(topic, advertised)
