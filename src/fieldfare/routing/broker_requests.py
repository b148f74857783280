"""What other brokers say to an edge, and the part of the overlay that deals with each of their frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fieldfare.messages import (
    BrokerFrame,
    Close,
    Confirm,
    DialBack,
    Find,
    Found,
    Join,
    Joined,
    Leave,
    LogId,
    Ranges,
    Received,
    Register,
    Resume,
    Taken,
    TopicKey,
)
from fieldfare.routing.broker_links import BrokerLinks
from fieldfare.routing.confirming import Confirming
from fieldfare.routing.exported_interest import ExportedInterest
from fieldfare.routing.exporting import Exports
from fieldfare.routing.home_conditions import HomeConditions
from fieldfare.routing.home_search import HomeSearches
from fieldfare.routing.importing import Imports
from fieldfare.routing.ports import Emit
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.registrations import Registrations
from fieldfare.routing.replaying import Replays
from fieldfare.routing.second_paths import SecondPaths
from fieldfare.routing.topic import Topic, Topics
from fieldfare.routing.topic_homes import TopicHomes
from fieldfare.routing.topic_offers import TopicOffers


@dataclass(frozen=True, slots=True)
class BrokerRequestPorts:
    """The parts that frames of other brokers are for."""

    topics: Topics
    emit: Emit
    links: BrokerLinks
    wanted: ExportedInterest
    registrations: Registrations
    home_conditions: HomeConditions
    exports: Exports
    imports: Imports
    paths: SecondPaths
    searches: HomeSearches
    replays: Replays
    confirming: Confirming
    offers: TopicOffers
    homes: TopicHomes


class BrokerRequests:
    """Takes the frames of other brokers."""

    def __init__(self, ports: BrokerRequestPorts) -> None:
        self.log_id: LogId = ""  # set when it is known
        self._ports = ports
        self._frames: dict[type[BrokerFrame], Callable[[str, Any, float], None]] = {
            Join: self._join,
            Joined: self._joined,
            Leave: self._leave,
            Confirm: self._confirmed,
            Resume: self._resume,
            Taken: self._taken,
            Ranges: self._ranges,
            Find: lambda link, frame, _: ports.searches.find(link, frame),
            Found: lambda _, frame, now: ports.searches.found(frame, now),
            Register: self._register,
            DialBack: lambda _, frame, __: ports.paths.dial_back(frame),
        }

    def received(self, message: Received, now: float) -> None:
        """A frame of another broker came."""
        self._frames[type(message.frame)](message.link, message.frame, now)

    def _topic(self, frame: BrokerFrame) -> Topic | None:
        """The topic of a frame; None if there is no place for it here."""
        try:
            return self._ports.topics.get_or_make(*frame.topic)
        except Refusal:
            return None

    def _join(self, link: str, frame: Join, now: float) -> None:
        topic = self._topic(frame)
        if topic is None or frame.edge.partition("#")[0] == self.log_id:
            return
        self._ports.offers.learn(topic, frame.offer)
        name = self._ports.links.name_at(link)
        member = self._ports.links.members.get(name)
        is_direct = member is not None and member.log == frame.edge
        if is_direct and (reason := self._ports.paths.lend(link, name)) is not None:
            self._ports.emit(Close(link, reason))
            return
        if frame.is_origin and not is_direct:
            origin = self._ports.imports.meet(link, topic, frame.edge, self._ports.wanted.of(topic).acknowledged)
            self._ports.paths.met(origin)
            if topic.is_matched_elsewhere and origin is self._ports.homes.home_of(topic):
                self._ports.registrations.met(topic)
        registered = self._ports.home_conditions.version_of(topic, frame.edge) if topic.is_home else None
        self._ports.exports.get_or_make(topic).join(link, frame, now, is_direct=is_direct, registered=registered)

    def _joined(self, link: str, frame: Joined, now: float) -> None:
        self._ports.links.joined(link, frame.topic)
        self._ports.searches.ask_in(frame.topic, now)
        self._ports.replays.joined(frame.topic)
        if (topic := self._topic(frame)) is not None:
            self._ports.confirming.check(self._ports.wanted.of(topic), now)

    def _leave(self, link: str, frame: Leave, now: float) -> None:
        self._ports.exports.leave(link, frame, now)
        self._ports.imports.part(link, frame.topic, frame.edge, now)
        if (topic := self._topic(frame)) is not None:
            self._ports.confirming.check(self._ports.wanted.of(topic), now)

    def left(self, link: str, topic: TopicKey, now: float) -> None:
        """A topic is no longer joined over a link, so nobody is reached over it for that topic."""
        for origin in self._ports.imports.of_topic(topic):
            self._ports.imports.part(link, topic, origin.log, now)
        if exports := self._ports.exports.get(topic):
            for receiver in list(exports.takers):
                exports.leave(link, receiver, now)

    def _confirmed(self, link: str, frame: Confirm, now: float) -> None:
        if frame.receiver in self._ports.replays:
            self._ports.replays.confirmed(link, frame)
        elif frame.receiver == self.log_id:
            origin = self._ports.imports.confirmed(link, frame, now)
            if origin is None:
                return
            self._ports.imports.release(now)
            if origin.topic.is_matched_elsewhere and origin is self._ports.homes.home_of(origin.topic):
                self._ports.registrations.confirmed(origin.topic, frame.version)
            self._ports.confirming.check(self._ports.wanted.of(origin.topic), now)

    def _resume(self, link: str, frame: Resume, now: float) -> None:
        if frame.origin == self.log_id and (exports := self._ports.exports.get(frame.topic)):
            if frame.position > exports.topic.matched:
                self._ports.homes.skip_to(exports.topic, frame.position)
            exports.resume(link, frame, now)

    def _taken(self, _: str, frame: Taken, now: float) -> None:
        if frame.origin == self.log_id and (exports := self._ports.exports.get(frame.topic)):
            exports.taken(frame, now)

    def _ranges(self, link: str, frame: Ranges, now: float) -> None:
        for share in frame.shares:
            if share.receiver == self.log_id:
                self._ports.imports.ranges(link, frame.of(share), share, now)
            elif share.receiver in self._ports.replays:
                self._ports.replays.ranges(link, frame.of(share), share, now)
        self._ports.imports.tell_taken()  # what needs no log is taken already
        self._ports.imports.release(now)

    def _register(self, _: str, frame: Register, now: float) -> None:
        topic = self._topic(frame)
        if topic is not None and topic.is_home and frame.origin == self.log_id:
            self._ports.home_conditions.register(topic, frame, now)
