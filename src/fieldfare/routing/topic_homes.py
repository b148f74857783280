"""Topics that Spark matches at one edge, their home. Other edges register their conditions there and get the matches.

At the home a topic's log holds what the pipeline has matched, also of other logs; where something of another log was
lost, a place in the home's log stands for it, so that ranges which go over it tell the other edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.messages import EventsStored, LogId, Position, Reached, Version
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.routing.broker_links import BrokerLinks
from fieldfare.routing.confirming import Confirming
from fieldfare.routing.endpoint_counts import EndpointCounting
from fieldfare.routing.exported_interest import ExportedInterest
from fieldfare.routing.exporting import Exports
from fieldfare.routing.handing import HandedPart
from fieldfare.routing.importing import Imports
from fieldfare.routing.interest import covering_of
from fieldfare.routing.origin import Origin
from fieldfare.routing.ports import LogPort, Positions
from fieldfare.routing.registrations import Registrations
from fieldfare.routing.topic import Topic


@dataclass(frozen=True, slots=True)
class GapAtHome:
    """A place in this log for events that never came here, where this edge's pipeline matches their topic."""

    topic: Topic
    position: Position


@dataclass(frozen=True, slots=True)
class HomePorts:
    """What homes need of the overlay."""

    log: LogPort
    positions: Positions
    links: BrokerLinks
    wanted: ExportedInterest
    registrations: Registrations
    exports: Exports
    imports: Imports
    confirming: Confirming
    counts: EndpointCounting
    tell_missed: Callable[[Topic, Position, str], None]  # tells the subscribers of a topic that events are gone


class TopicHomes:
    """What changes for an edge with the home of a topic. A covering has at most `boxes_max` boxes."""

    def __init__(self, boxes_max: int, ports: HomePorts) -> None:
        self._boxes_max, self._ports = boxes_max, ports

    def matching_changed(self, topic: Topic) -> None:
        """Another edge matches a topic, or it is known now which one: change what this edge wants of other logs."""
        wanted = self._ports.wanted.of(topic)
        if topic.is_home:
            if not wanted.builder.covering.is_everything:
                self._ports.wanted.renew(topic, EVERYTHING)
            topic.matched = max((topic.matched, *(each.position for each in topic.missed)))
            wanted.acknowledged = wanted.version
            self._ports.imports.require(topic.key, wanted.version)
        elif topic.is_matched_elsewhere:
            wanted.builder.replace(Covering())
            self._ports.registrations.begin(topic)
        else:
            conditions = [taker.subscription.condition for taker in topic.takers.values()]
            self._ports.wanted.renew(topic, covering_of(conditions, self._boxes_max))
        why = "where the topic is matched has just become known, or has changed: try again"
        self._ports.confirming.deny_all(topic, why)
        self._ports.counts.changed(topic)

    def home_of(self, topic: Topic) -> Origin | None:
        """The edge whose pipeline matches a topic, as an origin."""
        member = self._ports.links.members.get(topic.home)
        return None if member is None else self._ports.imports.get(topic.key, member.log)

    def handed(self, part: HandedPart, failure: str | None) -> None:
        """The pipeline of this edge has events of another log, or could not take them."""
        self._ports.imports.handing.handed(part, failure)
        self._ports.imports.tell_taken()

    def export_matched(self, topic: Topic, record: EventsStored, now: float) -> None:
        """The pipeline of this edge has matched events, and they are in the log."""
        if exports := self._ports.exports.get(topic.key):
            exports.is_active = True
            if record.deliveries:
                exports.offer_matched(record, now)

    def registered(self, topic: Topic, edge: LogId, version: Version, now: float) -> None:
        """The pipeline here matches another edge's conditions now, those up to a version."""
        if exports := self._ports.exports.get(topic.key):
            exports.registered(edge, version, now)

    # Places in the log for events that are not there

    def skip_to(self, topic: Topic, position: Position) -> None:
        """Another edge has events that this log has lost: they were not flushed, or the disk is an older one.

        Their positions are not used again, and the log counts as read up to there: others may wait for that.
        """
        self._ports.positions.raise_to(position)
        self._ports.log.append_lazily(Reached(position), GapAtHome(topic, position))

    def tell_lost(self, origin: Origin, why: str) -> None:
        """Events of another log are gone before they came here."""
        detail = f"events of the log {origin.log} {why} before they came here: some may have matched"
        topic, position = origin.topic, self._ports.positions.last
        if topic.is_home:  # other edges are told too, with the ranges that go over this place in the log
            position = self._ports.positions.take(1)
        self._ports.tell_missed(topic, position, detail)
        if topic.is_home:
            self._ports.log.append_lazily(Reached(position), GapAtHome(topic, position))

    def gap_known(self, gap: GapAtHome) -> None:
        """All that lies before a gap in this log has been matched: ranges may go over it."""
        gap.topic.matched = max(gap.topic.matched, gap.position)
        if exports := self._ports.exports.get(gap.topic.key):
            exports.is_active = True
