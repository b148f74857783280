"""Whether edges keep the rules of moving events between logs, looked at whenever one of them has done something.

A history shows that an event was lost when its subscriber should have had it, long after the mistake. This looks into
the edges, and says at the step where a rule is broken which one it was:

    unstored    a receiver's cursor moved over an event that an acknowledged subscription wants, and its log, as far
                as it is flushed, does not have the event
    unflushed   a publisher or subscriber was told what the log of its edge did not have flushed by then
    uncovered   what an edge exports as its interest does not cover a subscription that was acknowledged

An edge changes only in its rounds, so each is looked at after every round of its own. Topics that Spark matches go
other ways and are left out, and so is what best effort may lose.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from fieldfare.errors import BrokenPromiseError
from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.messages import Delivery, EventsStored, LogId, Position, SubscriptionStored, TopicKey, stream_of
from fieldfare.model import Box
from fieldfare.overlay.covering import Covering
from fieldfare.qos import Offered
from fieldfare.routing.edge import Edge
from fieldfare.routing.exported_interest import TopicWanted
from fieldfare.routing.overlay import EdgeOverlay
from fieldfare.routing.ports import START
from fieldfare.routing.topic import Topic
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.promised import holds

_RETURN_SHARE = 0.9  # of the time to come back: an edge measures it with a clock that may run too fast
_delivery = msgspec.json.Decoder(Delivery)


class _OwnEvent(NamedTuple):
    """An event that was published at an edge, and is in its log."""

    position: Position
    stored_at: float
    delivery: bytes

    @property
    def event(self) -> bytes:
        return bytes(_delivery.decode(self.delivery).event)


@dataclass(slots=True)
class _Acknowledged:
    """A subscription that was acknowledged. After its end its client may come back for what it missed."""

    condition: str
    at: float
    ended_at: float = math.inf


@dataclass(slots=True, eq=False)
class _WatchedEdge:
    """What is known of one edge, through all its lives."""

    host: SimulatedHost
    node: Edge | None = None  # of the present life
    log: LogId = ""
    lost_disks: int = 0  # that are taken into account
    unflushed: list[EventsStored | SubscriptionStored] = field(default_factory=list)
    imported: dict[tuple[TopicKey, LogId], set[Position]] = field(default_factory=dict)  # what its log has
    subscriptions: dict[TopicKey, dict[str, _Acknowledged]] = field(default_factory=dict)
    cursors: dict[tuple[TopicKey, LogId], Position] = field(default_factory=dict)
    covered: dict[TopicKey, tuple[Any, ...]] = field(default_factory=dict)  # what was found covered, not to look twice
    flushed_at: dict[bytes | str, float] = field(default_factory=dict)  # events, and names of durable subscriptions


class OverlayChecker:
    """Looks at the edges of a deployment from when `watch` is called; call that before time passes."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment, self._world = deployment, deployment.world
        self._edges: dict[str, _WatchedEdge] = {}
        self._own: dict[tuple[LogId, TopicKey], list[_OwnEvent]] = {}
        self._names: dict[LogId, str] = {}  # of the edges, by log

    def watch(self, host: SimulatedHost) -> None:
        """Look at an edge after each of its rounds."""
        edge = self._edges[host.name] = _WatchedEdge(host)
        host.on_round = functools.partial(self._look, edge)
        host.log.on_written = functools.partial(self._written, edge)

    # What logs have

    def _written(self, edge: _WatchedEdge, records: Sequence[Any], is_flushed: bool) -> None:  # noqa: FBT001 - a callback
        edge.unflushed += [each for each in records if isinstance(each, EventsStored | SubscriptionStored)]
        if is_flushed:
            for record in edge.unflushed:
                self._survives(edge, record)
            edge.unflushed.clear()

    def _survives(self, edge: _WatchedEdge, record: EventsStored | SubscriptionStored) -> None:
        now = self._world.clock.now
        if isinstance(record, SubscriptionStored):
            edge.flushed_at.setdefault(record.subscription, now)
            return
        key = record.tenant, record.topic
        if record.origin is None and record.subscriptions is None:
            own = self._own.setdefault((edge.log, key), [])
            for position, delivery in enumerate(record.deliveries, record.position):
                if not own or position > own[-1].position:
                    own.append(_OwnEvent(position, now, delivery))
                    edge.flushed_at.setdefault(own[-1].event, now)
        elif record.origin is not None and record.origin_upto > START:  # else it is for one subscription only
            edge.imported.setdefault((key, record.origin), set()).update(record.origin_positions)

    def _begin_life(self, edge: _WatchedEdge, node: Edge) -> None:
        """An edge has started: what was not flushed may be in its log nevertheless, or be gone."""
        edge.node, edge.log = node, node.log_id
        self._names[node.log_id] = edge.host.name
        edge.unflushed.clear()
        edge.cursors.clear()
        edge.covered.clear()
        lost = [lost for lost in self._world.history.lost_disks if lost.edge == edge.host.name]
        if len(lost) > edge.lost_disks:
            self._forget_lost(node.log_id, min(each.since for each in lost[edge.lost_disks :]))
            edge.lost_disks = len(lost)
            edge.imported.clear()
            edge.subscriptions.clear()
        for topic in node.parts.topics:
            for record in self._stored_of(edge.host, topic.key):
                self._survives(edge, record)
            for taker in topic.takers.values():  # of durable subscriptions: there are no others yet
                edge.flushed_at.setdefault(taker.id, self._world.clock.now)

    def _forget_lost(self, log: LogId, since: float) -> None:
        """What a log held is gone, and its positions may be used again."""
        for (of, _), own in self._own.items():
            if of == log:
                own[:] = [event for event in own if event.stored_at <= since]

    def _stored_of(self, host: SimulatedHost, topic: TopicKey) -> Iterator[EventsStored]:
        after = START
        while (piece := host.log.fetch("checker", stream_of(*topic), after)).records:
            yield from piece.records
            after = piece.position

    # What edges do

    def _look(self, edge: _WatchedEdge) -> None:
        node = self._deployment.nodes.get(edge.host.name)
        if not edge.host.is_up or not isinstance(node, Edge) or node.parts.overlay is None or not node.log_id:
            return
        if node is not edge.node:
            self._begin_life(edge, node)
        for topic in node.parts.topics:
            if topic.matching != "spark":
                self._look_at_subscriptions(edge, topic, _RETURN_SHARE * node.parts.overlay.return_seconds)
                self._check_covered(edge, node.parts.overlay, topic)
        for origin in node.parts.overlay.imports:
            key = origin.topic.key, origin.log
            if origin.cursor is not None and origin.cursor != (before := edge.cursors.get(key, START)):
                edge.cursors[key] = origin.cursor
                self._check_stored(edge, origin.topic, origin.log, before, origin.cursor)

    def _look_at_subscriptions(self, edge: _WatchedEdge, topic: Topic, return_seconds: float) -> None:
        """Note which subscriptions are in force, and which have ended."""
        known = edge.subscriptions.get(topic.key)
        if known is None:
            if not topic.takers:
                return
            known = edge.subscriptions[topic.key] = {}
        now = self._world.clock.now
        for taker in topic.takers.values():
            if taker.id not in known or known[taker.id].ended_at < math.inf:
                known[taker.id] = _Acknowledged(taker.subscription.condition, now)
        if len(known) > len(topic.takers):
            here = {taker.id for taker in topic.takers.values()}
            for name in [name for name in known if name not in here]:
                known[name].ended_at = min(known[name].ended_at, now)
                if now > known[name].ended_at + return_seconds:
                    del known[name]

    def _check_covered(self, edge: _WatchedEdge, overlay: EdgeOverlay, topic: Topic) -> None:
        known = edge.subscriptions.get(topic.key)
        if not known:
            return
        wanted: TopicWanted = overlay.wanted.of(topic)
        looked_at = wanted.stored_version, *known
        if edge.covered.get(topic.key) == looked_at:
            return
        edge.covered[topic.key] = looked_at
        covering = Covering.decode(wanted.encoded)
        for name, acknowledged in known.items():
            if not all(map(covering.covers, _boxes(acknowledged.condition))):
                detail = f"version {wanted.stored_version} of {topic.key} does not cover {acknowledged.condition!r}"
                raise BrokenPromiseError("uncovered", edge.host.name, f"{detail} of the subscription {name!r}")

    def _check_stored(self, edge: _WatchedEdge, topic: Topic, log: LogId, after: Position, upto: Position) -> None:
        """A cursor moved: what lies between is in this log, if it is wanted."""
        own, known = self._own.get((log, topic.key), []), edge.subscriptions.get(topic.key, {})
        if not own or not known or not self._is_reliable(topic.key) or not topic.offered.is_kept:
            return
        imported = edge.imported.get((topic.key, log), set())
        for event in own[bisect_right(own, after, key=_position) : bisect_right(own, upto, key=_position)]:
            if event.position in imported or self._may_be_gone(event, log, topic):
                continue
            for name, acknowledged in known.items():
                if acknowledged.at < event.stored_at and holds(acknowledged.condition, event.event):
                    detail = f"{event.event!r} at {event.position} of {self._names[log]!r} is wanted by {name!r}"
                    raise BrokenPromiseError("unstored", edge.host.name, f"{detail}; the cursor moved to {upto}")

    def _is_reliable(self, topic: TopicKey) -> bool:
        is_for_spark = topic in self._world.history.spark_topics
        return self._world.history.offered.get(topic, Offered()).reliability == "reliable" and not is_for_spark

    def _may_be_gone(self, event: _OwnEvent, log: LogId, topic: Topic) -> bool:
        """Whether it may have expired, or left the log of its edge: then its receivers are told of a gap."""
        history, now, edge = self._world.history, self._world.clock.now, self._names[log]
        age_max = now - event.stored_at + self._world.clock_error_seconds + 1.0  # it is a little older than its record
        return (
            age_max >= topic.offered.lifespan_seconds
            or any(lost.edge == edge and lost.at >= event.stored_at for lost in history.lost_disks)
            or any(
                removal.edge == edge and (removal.tenant, removal.topic) == topic.key and removal.at >= event.stored_at
                for removal in history.removals
            )
        )

    # What clients were told

    def check(self) -> None:
        """Raise if something was acknowledged that was not flushed by then. Call it now and then."""
        history = self._world.history
        for publication in history.publications:
            edge = self._edges.get(publication.edge or "")
            topic = publication.tenant, publication.topic
            if edge is None or publication.outcome != "accepted" or not self._is_reliable(topic):
                continue
            for event in publication.events:
                self._check_flushed(edge, event, publication.answered_at)
        for reception in history.receptions:
            edge = self._edges.get(reception.edge)
            if edge is not None and reception.confirmed_at is not None and reception.name is not None:
                self._check_flushed(edge, reception.name, reception.confirmed_at)

    def _check_flushed(self, edge: _WatchedEdge, what: bytes | str, told_at: float | None) -> None:
        if told_at is not None and edge.flushed_at.get(what, math.inf) > told_at:
            raise BrokenPromiseError("unflushed", edge.host.name, f"{what!r} was acknowledged at {told_at}")


def _position(event: _OwnEvent) -> Position:
    return event.position


@functools.lru_cache(maxsize=1024)
def _boxes(condition: str) -> Sequence[Box]:
    return compile(condition).boxes
