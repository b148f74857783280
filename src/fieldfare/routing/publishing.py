"""Publications: checked, stored or handed to the pipeline, then matched and offered.

All publications that became durable together are matched in one batch for each topic. A publication is answered when
it is durable, if its topic is reliable; what follows can no longer be lost. Within a topic publications are matched in
the order of their positions, also where one that needs the log is followed by one that does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from fieldfare.events import UnreadableError, event_attributes
from fieldfare.messages import (
    EVENT_BYTES_MAX,
    Accepted,
    Delivery,
    EventsStored,
    HandEvents,
    Identity,
    MatchedEvent,
    PipelineMatched,
    Publish,
    PublishersMoved,
)
from fieldfare.qos import broken
from fieldfare.routing.continuing import Else
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.topic import Topic, entries_of

if TYPE_CHECKING:
    from fieldfare.routing.edge import Edge

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, eq=False)
class _Publication:
    """Events that were checked and are new."""

    topic: Topic
    connection: str
    frame: Publish
    rows: list[dict[str, Any]]
    record: EventsStored
    events: list[Raw]
    names: list[str]
    ids: list[str]  # the names, where the publisher gave them
    sequence: int | None  # of the first event
    is_ready: bool = False  # to be matched, when those before it are

    @property
    def size(self) -> int:
        return sum(map(len, self.record.deliveries))

    @property
    def last_numbers(self) -> dict[str, int]:
        """The last number of its publisher, if it numbers its events."""
        if self.sequence is None or self.frame.publisher is None:
            return {}
        return {self.frame.publisher: self.sequence + len(self.rows) - 1}


class Publishing:
    """The publications of an edge."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._unstored_bytes = 0
        self._under_way: dict[Topic, deque[_Publication]] = {}  # in the order of their positions
        self._handing: dict[tuple[Topic, str], deque[_Publication]] = {}  # to the pipeline
        self.accepted_count = self.repeated_count = 0

    def publish(self, connection: str, identity: Identity, frame: Publish, now: float) -> None:
        """Check a publication, and begin to make it durable."""
        require(identity, "publish", frame.topic)
        topic = self._edge.topic(identity.tenant, frame.topic)
        if reason := broken(topic.offered, frame.qos):
            raise Refusal("qos", reason)
        if frame.ids is not None and len(frame.ids) != len(frame.events):
            raise Refusal("invalid", f"there are {len(frame.ids)} ids for {len(frame.events)} events")
        if frame.sequence is not None and frame.publisher is None:
            raise Refusal("invalid", "a sequence number needs a publisher")
        if self._unstored_bytes > self._edge.options.unstored_bytes_max:
            raise Refusal("busy", "more is published than can be stored: try again in a second")
        keep = _unrepeated(topic, frame)
        if len(keep) < len(frame.events) and topic.handed_count:
            raise Refusal("busy", "what it repeats is still on its way to the pipeline: try again in a second")
        if keep:
            self._begin(self._new(topic, connection, frame, keep, now), now)
        else:
            self._repeated(connection, frame, now)

    def _begin(self, publication: _Publication, now: float) -> None:
        self._remember(publication)
        self._unstored_bytes += publication.size
        if publication.topic.matching == "spark":
            publication.topic.handed_count += 1
            self._edge.note_gaps(lambda _: self._hand_in_order(publication), self._not_handed(publication), now)
            return
        self._under_way.setdefault(publication.topic, deque()).append(publication)
        if publication.topic.offered.is_kept:
            self._store(publication)
        else:
            self._edge.note_gaps(lambda _: self._ready(publication), self._taking_back(publication), now)
            self._edge.step_soon(now)

    def _new(self, topic: Topic, connection: str, frame: Publish, keep: Sequence[int], now: float) -> _Publication:
        """The part of a publication that did not come before."""
        rows = [_checked(number, frame.events[number]) for number in keep]
        position = self._edge.position + 1
        self._edge.position += len(keep)
        sequence = None if frame.sequence is None else frame.sequence + keep[0]
        ids = [] if frame.ids is None else [frame.ids[number] for number in keep]
        if sequence is None:
            names = ids or [f"{self._edge.name}.{number}" for number in range(position, position + len(keep))]
        else:  # so that a repetition is known by its name as well
            names = ids or [f"{frame.publisher}:{number}" for number in range(sequence, sequence + len(keep))]
        events = [frame.events[number] for number in keep]
        deliveries = [
            _encode(Delivery(place, name, now, event, frame.publisher))
            for place, name, event in zip(range(position, position + len(keep)), names, events, strict=True)
        ]
        lifespan = min(frame.qos.lifespan_seconds or topic.offered.lifespan_seconds, topic.offered.lifespan_seconds)
        record = EventsStored(
            position,
            topic.tenant,
            topic.name,
            now,
            now + lifespan,
            deliveries,
            frame.publisher,
            sequence,
            has_ids=bool(ids),
        )
        return _Publication(topic, connection, frame, rows, record, events, names, ids, sequence)

    def _repeated(self, connection: str, frame: Publish, now: float) -> None:
        """All of it came before: it is accepted when the earlier one is, which may be under way."""
        count = len(frame.events)
        self.repeated_count += count
        answer = Accepted(frame.ref, count, count)
        self._edge.when_stored(
            lambda _: self._edge.send(connection, answer), self._edge.refusing(connection, frame.ref), now
        )

    def _remember(self, publication: _Publication) -> None:
        topic = publication.topic
        for publisher, last in publication.last_numbers.items():
            topic.publishers.remember(publisher, last)
        topic.published_ids.remember(publication.frame.publisher, publication.ids)

    def _confirm(self, publication: _Publication) -> None:
        topic = publication.topic
        for publisher, last in publication.last_numbers.items():
            topic.publishers.confirm(publisher, last)
        topic.published_ids.confirm(publication.frame.publisher, publication.ids)

    def _taking_back(self, publication: _Publication) -> Else:
        def take_back(reason: str) -> None:
            self._unstored_bytes -= publication.size
            topic, frame = publication.topic, publication.frame
            under_way = self._under_way.get(topic)
            if under_way and publication in under_way:
                under_way.remove(publication)
            if publication.sequence is not None and frame.publisher is not None:
                topic.publishers.take_back(frame.publisher, publication.sequence)
            topic.published_ids.take_back(frame.publisher, publication.ids)
            self._edge.refuse(publication.connection, frame.ref, Refusal("storage", reason))

        return take_back

    def _ready(self, publication: _Publication) -> None:
        self._unstored_bytes -= publication.size
        publication.is_ready = True

    def _store(self, publication: _Publication) -> None:
        topic, record = publication.topic, publication.record

        def stored(_: float) -> None:
            self._confirm(publication)
            topic.stored = record.position + len(record.deliveries) - 1
            self._ready(publication)

        is_durable = topic.offered.reliability == "reliable"
        self._edge.append(record, stored, self._taking_back(publication), is_durable=is_durable)

    def _hand_in_order(self, publication: _Publication) -> None:
        """Hand a publisher's next events over when the pipeline has its last: if those fail, these may not overtake."""
        queue = self._handing.setdefault(_line(publication), deque())
        queue.append(publication)
        if len(queue) == 1:
            self._hand(publication)

    def _hand_next(self, publication: _Publication) -> None:
        queue = self._handing[_line(publication)]
        queue.popleft()
        if queue:
            self._hand(queue[0])
        else:
            del self._handing[_line(publication)]

    def _hand(self, publication: _Publication) -> None:
        """Give the events to the pipeline; it tells later who wants them."""
        topic, frame, record = publication.topic, publication.frame, publication.record

        def handed(_: float) -> None:
            topic.handed_count -= 1
            self._unstored_bytes -= publication.size
            self._confirm(publication)
            topic.event_count += len(publication.events)
            self._note(publication)
            self._hand_next(publication)

        def failed(reason: str) -> None:
            for following in self._handing.pop(_line(publication)):
                self._not_handed(following)(reason)

        self._edge.hand(
            lambda number: HandEvents(
                number,
                topic.tenant,
                topic.name,
                record.at,
                frame.publisher,
                publication.names,
                publication.events,
            ),
            handed,
            failed,
        )

    def _note(self, publication: _Publication) -> None:
        """Accept what the pipeline has, once it is noted by which a repetition is known: no record holds the events."""
        frame, numbers = publication.frame, publication.last_numbers
        if not numbers and not publication.ids:
            self._accept(publication)
            return
        ids = [(frame.publisher, name) for name in publication.ids]
        record = PublishersMoved(*publication.topic.key, numbers, ids)
        refusing = self._edge.refusing(publication.connection, frame.ref)
        self._edge.append(record, lambda _: self._accept(publication), refusing)

    def _not_handed(self, publication: _Publication) -> Else:
        def failed(reason: str) -> None:
            publication.topic.handed_count -= 1
            self._taking_back(publication)(reason)

        return failed

    def _accept(self, publication: _Publication) -> None:
        count, new = len(publication.frame.events), len(publication.rows)
        self.accepted_count += new
        self.repeated_count += count - new
        self._edge.send(publication.connection, Accepted(publication.frame.ref, count, count - new))

    def match_ready(self, now: float) -> None:
        """Match all publications that may be delivered, a topic at a time."""
        for topic, under_way in list(self._under_way.items()):
            publications = []
            while under_way and under_way[0].is_ready:
                publications.append(under_way.popleft())
            if not under_way:
                del self._under_way[topic]
            if not publications:
                continue
            entries = [entry for publication in publications for entry in entries_of(publication.record)]
            rows = [row for publication in publications for row in publication.rows]
            topic.event_count += len(rows)
            self._edge.deliveries.offer(topic, topic.matches(entries, rows), entries[-1].position, now)
            for publication in publications:
                self._accept(publication)
            self._edge.tidy_soon(now)

    def matched_elsewhere(self, message: PipelineMatched, now: float) -> None:
        """Store what the pipeline matched, each of its batches once, and then deliver it."""
        topic = self._edge.topic(message.tenant, message.topic)
        if message.batch <= topic.batch:
            return
        topic.batch = message.batch
        wanted = [event for event in message.events if any(name in topic.by_id for name in event.subscriptions)]
        wanted = _untaken(topic, wanted)
        position = self._edge.position + 1
        self._edge.position += len(wanted)
        deliveries = [
            _encode(Delivery(place, event.id, event.at, event.event, event.publisher))
            for place, event in enumerate(wanted, position)
        ]
        names = [[name for name in event.subscriptions if name in topic.by_id] for event in wanted]
        oldest = min((event.at for event in wanted), default=now)
        record = EventsStored(
            position,
            topic.tenant,
            topic.name,
            now,
            oldest + topic.offered.lifespan_seconds,
            deliveries,
            subscriptions=names,
            batch=message.batch,
        )

        def stored(now: float) -> None:
            topic.stored_batch = message.batch
            if wanted:
                topic.stored = position + len(wanted) - 1
            self._edge.deliveries.offer(topic, topic.stored_matches([record]), position + len(wanted) - 1, now)
            self._edge.tidy_soon(now)

        def failed(_: str) -> None:
            topic.batch = min(topic.batch, message.batch - 1)  # the host gives it again
            for event in wanted:
                topic.matched_ids.take_back(event.publisher, [event.id])

        self._edge.append(record, stored, failed)


def _line(publication: _Publication) -> tuple[Topic, str]:
    """Those that may not overtake each other; who has no name has no order, and stands in no line."""
    return publication.topic, publication.frame.publisher or f"{publication.record.position}"


def _untaken(topic: Topic, events: Sequence[MatchedEvent]) -> list[MatchedEvent]:
    """Those that did not come before: a publisher sends again what an edge handed over and crashed."""
    new = []
    for event in events:
        if event.publisher is None or not topic.matched_ids.repeated(event.publisher, [event.id])[0]:
            new.append(event)
            topic.matched_ids.remember(event.publisher, [event.id])
    return new


def _unrepeated(topic: Topic, frame: Publish) -> Sequence[int]:
    """The numbers of the events that did not come before."""
    count = len(frame.events)
    if frame.sequence is not None and frame.publisher is not None:
        return range(topic.publishers.repeated(frame.publisher, frame.sequence, count), count)
    if frame.ids is not None:
        repeated = topic.published_ids.repeated(frame.publisher, frame.ids)
        return [number for number in range(count) if not repeated[number]]
    return range(count)


def _checked(number: int, event: Raw) -> dict[str, Any]:
    """The attributes of an event; refused where it is not one."""
    text = bytes(event)
    if len(text) > EVENT_BYTES_MAX:
        raise Refusal("invalid", f"event {number} is longer than {EVENT_BYTES_MAX:,} bytes")
    try:
        return event_attributes(text)
    except UnreadableError as error:
        raise Refusal("invalid", f"event {number}: {error}") from error
