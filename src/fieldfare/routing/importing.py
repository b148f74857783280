"""An edge as a receiver: events that were published at other edges come into its own log.

It owns the cursors. A range is taken only where it continues what is here (see `origin`), stored together with the
position that it reaches in its log, and confirmed when that is flushed. So whatever carries the ranges, and however
often, each event is here once, and what is confirmed survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from fieldfare.messages import (
    Confirm,
    Delivery,
    Earlier,
    EventsStored,
    ExportedEvent,
    Follows,
    LogId,
    OriginsMoved,
    Position,
    Ranges,
    Resume,
    Send,
    Share,
    Taken,
    TopicKey,
    Version,
    all_attributes,
    edge_of,
)
from fieldfare.routing.handing import Handing
from fieldfare.routing.lifespans import lifespan_step
from fieldfare.routing.origin import Arrival, Origin
from fieldfare.routing.ports import START, Asking, Emit, LogPort, Positions
from fieldfare.routing.publication import ImportedEvents
from fieldfare.routing.publishing import Publishing
from fieldfare.routing.topic import Topic

_ASK_SECONDS = 1.0  # how long a Resume is waited for before it is sent again
_LOST = "left its log, whose limit of size was reached"
_EXPIRED = "expired"
_encode = msgspec.json.Encoder().encode
_delivery = msgspec.json.Decoder(Delivery)


@dataclass(frozen=True, slots=True)
class ImportingPorts:
    """What importing needs of its broker."""

    emit: Emit
    log: LogPort
    positions: Positions
    publishing: Publishing
    pipeline: Asking
    send_join: Callable[[str, Topic], None]  # tells the other end of a link what this edge wants
    tell_lost: Callable[[Origin, str], None]  # events of an origin are gone, and why
    arrived: Callable[[Topic, Sequence[ExportedEvent], float], None]  # events came
    cursor_moved: Callable[[], None]  # more of some origin's events are here
    is_gone: Callable[[LogId, str], bool]  # whether an edge, by its name, will never come back with a log
    is_early_for_replays: Callable[[TopicKey, Follows], bool]  # whether what comes before is still being read for some


class Imports:
    """The origins of all topics."""

    def __init__(self, ports: ImportingPorts) -> None:
        self.log_id: LogId = ""
        self.event_count = self.refused_count = 0
        self._emit, self._log, self._positions = ports.emit, ports.log, ports.positions
        self._publishing, self._send_join, self._tell_lost = ports.publishing, ports.send_join, ports.tell_lost
        self._arrived, self._tell_moved = ports.arrived, ports.cursor_moved
        self._is_early_for_replays, self.is_gone = ports.is_early_for_replays, ports.is_gone
        self.handing = Handing(ports.pipeline, self._handed, self._go_back)
        self._origins: dict[TopicKey, dict[LogId, Origin]] = {}
        self._moved: list[Origin] = []  # whose cursors are to be written
        self._asked: dict[Origin, None] = {}  # who were told where to go on, and may not have answered
        self._untold: list[Origin] = []  # who are to be told that something was taken
        self._held: dict[Origin, None] = {}  # whose next events come after those of other logs

    def get(self, topic: TopicKey, log: LogId) -> Origin | None:
        """An origin of a topic, if it is known."""
        return self._origins.get(topic, {}).get(log)

    def cursors_of(self, topic: TopicKey) -> dict[str, Position]:
        """Up to where the events of each origin have been dealt with."""
        origins = self._origins.get(topic, {})
        return {log: origin.cursor for log, origin in origins.items() if origin.cursor is not None}

    def of_topic(self, topic: TopicKey) -> list[Origin]:
        """The origins of a topic that are known."""
        return list(self._origins.get(topic, {}).values())

    def __iter__(self) -> Iterator[Origin]:
        return (origin for origins in self._origins.values() for origin in origins.values())

    # Who they are

    def meet(self, link: str, topic: Topic, log: LogId, required: Version | None) -> Origin:
        """An edge can be reached over a link.

        `required` is the version that acknowledged subscriptions need; None: there are none. What a new origin
        accepted since they were acknowledged is owed to them, so of such an origin all that lives is taken.
        """
        origins = self._origins.setdefault(topic.key, {})
        origin = origins.get(log)
        if origin is None:
            origin = origins[log] = Origin(log, topic)
            if required is not None:
                origin.begin(START)
                origin.require(required)
                self._cursor_moved(origin)
        if link in origin.links:
            origin.links.remove(link)
        origin.links.append(link)
        return origin

    def part(self, link: str, topic: TopicKey, log: LogId, now: float) -> None:
        """An edge can no longer be reached over a link; if there is another way, go on there."""
        origin = self._origins.get(topic, {}).get(log)
        if origin is None or link not in origin.links:
            return
        origin.links.remove(link)
        if origin.resumed_link == link:
            origin.resumed_link = origin.asked_at = None
            if origin.links and origin.cursor is not None:
                self._ask(origin, origin.links[-1], now)

    def recover(self, topic: Topic, log: LogId, cursor: Position) -> None:
        """The log says up to where the events of another log are here."""
        origins = self._origins.setdefault(topic.key, {})
        origin = origins.setdefault(log, Origin(log, topic))
        if origin.cursor is None or cursor > origin.cursor:
            origin.begin(cursor)

    def require(self, topic: TopicKey, version: Version) -> None:
        """A subscription is being acknowledged that needs this version.

        An origin that has not said yet where it begins may have accepted events meanwhile: all that live there are
        taken.
        """
        for origin in self._origins.get(topic, {}).values():
            if origin.cursor is None:
                origin.begin(START)
                self._cursor_moved(origin)
            origin.require(version)

    def confirmed(self, link: str, frame: Confirm, now: float) -> Origin | None:
        """An origin matches with a version of the interest; if it has not been told where to go on, tell it."""
        origin = self._origins.get(frame.topic, {}).get(frame.origin)
        if origin is None:
            return None
        if origin.cursor is None:
            origin.begin(frame.position)
            self._cursor_moved(origin)
        origin.confirm(frame.version, frame.position)
        if origin.resumed_link != link and link in origin.links:
            self._ask(origin, link, now)
        return origin

    def _ask(self, origin: Origin, link: str, now: float) -> None:
        """Have an origin go on after what is here, or on its way into this log."""
        origin.resumed_link, origin.asked_at = link, now
        self._asked[origin] = None
        position, version = origin.taking, origin.required_version
        self._emit(Send(link, Resume(origin.topic.key, origin.log, self.log_id, position, version)))

    def _ask_again(self, origin: Origin, link: str, now: float) -> None:
        """Something came that cannot be taken; what is under way already may be as wrong, and is not asked for."""
        self.refused_count += 1
        if origin.asked_at is None or now - origin.asked_at > _ASK_SECONDS:
            self._ask(origin, link, now)

    # Ranges

    def ranges(self, link: str, frame: Ranges, share: Share, now: float) -> None:
        """A range came; take it if it continues what is here."""
        origin = self._origins.get(frame.topic, {}).get(frame.origin)
        if origin is None or origin.cursor is None:
            return
        if frame.upto <= origin.cursor:
            self._tell_soon(origin)  # the origin seems not to know
        if frame.upto < origin.taking or origin.held is not None:
            return  # what is held is asked for again when it may come
        if share.after > origin.taking and origin.topic.offered.is_kept:  # else there is nothing to ask for
            self._ask_again(origin, link, now)
        elif not origin.accepts(frame.upto, share.version):
            self._send_join(link, origin.topic)
            self._ask_again(origin, link, now)
        else:
            origin.asked_at = None
            if frame.upto > origin.taking:
                self._take(origin, frame, share, now)

    def _take(self, origin: Origin, frame: Ranges, share: Share, now: float) -> None:
        for gone_upto, why in ((share.lost_upto, _LOST), (share.expired_upto, _EXPIRED)):
            if gone_upto > origin.taking:
                self._tell_lost(origin, why)
        new = [event for event in frame.events if event.position > origin.taking]
        events = [event for event in new if event.seconds_left > 0]
        if len(events) < len(new):
            self._tell_lost(origin, _EXPIRED)
        upto = frame.upto
        held = next((event for event in events if event.follows and self._must_wait(origin.topic, event.follows)), None)
        if held is not None:
            upto, events = held.position - 1, [event for event in events if event.position < held.position]
            origin.held = held.follows
            self._held[origin] = None
            if upto <= origin.taking:
                return
        self.event_count += len(events)
        self._arrived(origin.topic, events, now)
        if origin.topic.matching == "spark":
            events = [event for event in events if event.subscriptions is None or self._names_in(origin.topic, event)]
            if events and origin.topic.is_home and events[0].subscriptions is None:
                self._hand(origin, events, upto, now)
                return
        parts = [list(part) for _, part in groupby(events, _alike)]
        for number, part in enumerate(parts, 1):
            self._store(origin, part, upto if number == len(parts) else part[-1].position, now)
        if not parts:
            origin.arrive(Arrival(origin, upto, None, is_safe=True))
            self._settle(origin)

    # Events that come after those of another log

    def has_passed(self, topic: TopicKey, log: LogId, earlier: Earlier) -> bool:
        """Whether all that is wanted of a log's events of a topic, up to a position, is here, or will never come."""
        if log == self.log_id or self.is_gone(log, earlier.edge):
            return True
        origin = self.get(topic, log)
        return origin is not None and origin.has_got(earlier.position)

    def is_early(self, topic: Topic, follows: Follows) -> bool:
        """Whether an event has to wait. Best effort does not wait for whom nobody can reach."""
        return any(
            not self.has_passed(topic.key, log, earlier) and (topic.offered.is_kept or self._is_reachable(topic, log))
            for log, earlier in follows.items()
        )

    def _must_wait(self, topic: Topic, follows: Follows) -> bool:
        return self.is_early(topic, follows) or self._is_early_for_replays(topic.key, follows)

    def _is_reachable(self, topic: Topic, log: LogId) -> bool:
        origin = self.get(topic.key, log)
        return origin is not None and origin.is_reachable

    def release(self, now: float) -> None:
        """Have those origins go on whose next events need no longer wait."""
        for origin in list(self._held):
            if origin.held is not None and self._must_wait(origin.topic, origin.held):
                continue
            del self._held[origin]
            origin.held = None
            if origin.links and origin.cursor is not None:
                self._ask(origin, origin.links[-1], now)

    def _store(self, origin: Origin, events: Sequence[ExportedEvent], upto: Position, now: float) -> None:
        """Store events with the position that they reach in their own log: one record, so both or neither is here."""
        first = self._positions.take(len(events))
        rows, deliveries = stored_again(events, first)
        topic = origin.topic
        is_matched = events[0].subscriptions is not None
        record = EventsStored(
            first,
            *topic.key,
            now,
            now + min(event.seconds_left for event in events),
            deliveries,
            subscriptions=[self._names_in(topic, event) for event in events] if is_matched else None,
            origin=origin.log,
            origin_positions=[event.position for event in events],
            origin_upto=upto,
        )
        arrival = Arrival(origin, upto, ImportedEvents(topic, record, rows))
        origin.arrive(arrival)
        if arrival.imported is not None and not self._publishing.take_import(arrival.imported, arrival):
            self.stored(arrival, now)

    def _names_in(self, topic: Topic, event: ExportedEvent) -> list[str]:
        """The subscriptions of this edge that an event is for, where the pipeline of another one matched it."""
        own = [remote.partition("/")[2] for remote in event.subscriptions or () if edge_of(remote) == self.log_id]
        return [name for name in own if topic.taker_of(name) is not None]

    def _hand(self, origin: Origin, events: Sequence[ExportedEvent], upto: Position, now: float) -> None:
        """Have this edge's pipeline match events."""
        arrival = Arrival(origin, upto, None)
        origin.arrive(arrival)
        self.handing.add(arrival, events, now)

    def _handed(self, arrival: Arrival) -> None:
        arrival.is_safe = True
        if arrival in arrival.origin.arrivals:
            self._settle(arrival.origin)

    def stored(self, arrival: Arrival, now: float) -> None:
        """It is in this log."""
        if arrival.imported is not None:
            self._publishing.import_stored(arrival.imported, now)
        arrival.is_safe = True
        if arrival in arrival.origin.arrivals:
            self._settle(arrival.origin)

    def not_stored(self, arrival: Arrival) -> None:
        """It is not: it is asked for again when `tidy` is called."""
        if arrival.imported is not None:
            self._publishing.import_not_stored(arrival.imported)
        self._go_back(arrival)

    def _go_back(self, arrival: Arrival) -> None:
        arrival.origin.go_back()
        arrival.origin.asked_at = 0.0
        self._asked[arrival.origin] = None

    def _settle(self, origin: Origin) -> None:
        if origin.settle():
            self._cursor_moved(origin)
            self._tell_soon(origin)

    def _tell_soon(self, origin: Origin) -> None:
        if not origin.is_taken_untold:
            origin.is_taken_untold = True
            self._untold.append(origin)

    def _cursor_moved(self, origin: Origin) -> None:
        self._tell_moved()
        if not origin.is_cursor_unwritten:
            origin.is_cursor_unwritten = True
            self._moved.append(origin)

    # Now and then

    def tell_taken(self) -> None:
        """Tell origins how far their events are here: once for all that was stored together."""
        untold, self._untold = self._untold, []
        for origin in untold:
            origin.is_taken_untold = False
            if origin.resumed_link is not None and origin.cursor is not None:
                taken = Taken(origin.topic.key, origin.log, self.log_id, origin.cursor)
                self._emit(Send(origin.resumed_link, taken))

    def tidy(self, now: float) -> None:
        """Write the cursors that moved, tell of what was taken, and ask origins again that did not answer."""
        self.tell_taken()
        self.release(now)
        moved: dict[TopicKey, dict[str, Position]] = {}
        for origin in self._moved:
            origin.is_cursor_unwritten = False
            if origin.cursor is not None:
                moved.setdefault(origin.topic.key, {})[origin.log] = origin.cursor
        self._moved = []
        for key, positions in moved.items():
            self._log.append_lazily(OriginsMoved(*key, positions))
        asked, self._asked = self._asked, {}
        for origin in asked:
            if origin.asked_at is None or not origin.links:
                continue
            self._asked[origin] = None
            if now - origin.asked_at > _ASK_SECONDS:
                self._send_join(origin.links[-1], origin.topic)
                self._ask(origin, origin.links[-1], now)

    def state(self) -> Iterator[OriginsMoved]:
        """The cursors, for a checkpoint."""
        for key in self._origins:
            if cursors := self.cursors_of(key):
                yield OriginsMoved(*key, cursors)


def _alike(event: ExportedEvent) -> tuple[int, bool]:
    """Events for which this is the same share a record."""
    return lifespan_step(event.seconds_left), event.subscriptions is None


def stored_again(events: Sequence[ExportedEvent], first: Position) -> tuple[list[dict[str, Any]], list[bytes]]:
    """The attributes of events, and the events as they are stored here, from a position on."""
    rows, deliveries = [], []
    for position, event in enumerate(events, first):
        made = _delivery.decode(event.delivery)
        deliveries.append(_encode(msgspec.structs.replace(made, position=position)))
        rows.append(all_attributes(bytes(made.event), made.envelope, made.at))
    return rows, deliveries


def accepted_at(event: ExportedEvent) -> float:
    """When an event was accepted, by the clock of its origin."""
    return _delivery.decode(event.delivery).at
