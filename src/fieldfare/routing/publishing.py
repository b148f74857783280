"""Publications: checked, stored or handed to the pipeline, then matched and offered.

All publications that became durable together are matched in one batch for each topic. A publication is answered when
it is durable, if its topic is reliable; what follows can no longer be lost. Within a topic publications are matched in
the order of their positions, also where one that needs the log is followed by one that does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fieldfare.messages import (
    Accepted,
    EventsStored,
    Follows,
    HandEvents,
    Identity,
    LogId,
    Position,
    Publish,
    PublishersMoved,
)
from fieldfare.qos import broken
from fieldfare.routing.matches import entries_of, follows_of
from fieldfare.routing.moved_publisher import PublisherKey
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.ports import Asking, LogPort, Positions, Replies
from fieldfare.routing.publication import (
    NOT_SAFE,
    ImportedEvents,
    PassedNumbers,
    Publication,
    PublicationState,
    Repetition,
)
from fieldfare.routing.published_events import beside_of, check_counts, checked_rows, deliveries
from fieldfare.routing.publisher_advertisements import PublisherAdvertisements
from fieldfare.routing.publisher_moves import PublisherMoves
from fieldfare.routing.quotas import Quotas
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.topic import Topic, Topics
from fieldfare.routing.tracing import TraceSteps


@dataclass(frozen=True, slots=True)
class PublishingPorts:
    """What publishing needs of its broker."""

    topics: Topics
    replies: Replies
    log: LogPort
    positions: Positions
    quotas: Quotas
    pipeline: Asking
    deliver: Callable[
        [Topic, Sequence[EventEntry], Sequence[dict[str, Any]], float], None
    ]  # events that are new and safe
    deliver_matched: Callable[[Topic, Sequence[EventsStored], float], None]  # the same where Spark matches the topic
    # Those that were published here, if there are any, and after which events of other logs some of them come.
    export: Callable[[Topic, Sequence[EventEntry], Sequence[dict[str, Any]], Mapping[Position, Follows], float], None]
    moves: PublisherMoves
    advertisements: PublisherAdvertisements
    step_soon: Callable[[float], None]  # has `match_ready` called at the end of the host's round
    traces: TraceSteps | None = None  # None: nobody keeps traces


class Publishing:
    """The publications of a broker, whose name is part of the ids that it gives to events."""

    def __init__(self, name: str, unstored_bytes_max: int, ports: PublishingPorts) -> None:
        self.log_id = ""  # set when it is known
        self._name, self._unstored_bytes_max = name, unstored_bytes_max
        self._id_prefix = ""  # of the ids of numbered events
        self._topics, self._replies, self._log = ports.topics, ports.replies, ports.log
        self._positions, self._pipeline = ports.positions, ports.pipeline
        self._deliver, self._deliver_matched = ports.deliver, ports.deliver_matched
        self._step_soon, self._quotas, self._export = ports.step_soon, ports.quotas, ports.export
        self._moves, self._advertisements = ports.moves, ports.advertisements
        self._traces = ports.traces
        self._unstored_bytes = 0
        # What is matched here, in the order of positions.
        self._under_way: dict[Topic, deque[Publication | ImportedEvents]] = {}
        self._handing: dict[tuple[Topic, str], deque[Publication]] = {}  # the first of each is with the pipeline
        self.accepted_count = self.repeated_count = 0

    def name_by_log(self, log: LogId) -> None:
        """Give ids to events that no other log gives: a publisher may use the same numbers there."""
        self._name, self._id_prefix = log, f"{log}:"

    # Checked

    def publish(self, link: str, identity: Identity, frame: Publish, now: float) -> None:
        """Check a publication, and begin to make it durable."""
        require(identity, "publish", frame.topic)
        topic = self._topics.used_by(identity, frame.topic)
        if reason := broken(topic.offered, frame.qos):
            raise Refusal("qos", reason)
        check_counts(frame)
        if frame.sequence is not None and frame.publisher is None:
            raise Refusal("invalid", "a sequence number needs a publisher")
        if frame.upto is not None:
            _check_range(frame)
        if self._moves:
            self._moves.check(topic, frame.publisher)
        if self._unstored_bytes > self._unstored_bytes_max:
            raise Refusal("busy", "more is published than can be stored: try again in a second")
        keep = _unrepeated(topic, frame)
        if len(keep) < len(frame.events) and topic.handed_count:
            raise Refusal("busy", "what it repeats is still on its way to the pipeline: try again in a second")
        if keep:
            self._quotas.check_events(topic.tenant, len(keep), now)
            self._begin(self._new(topic, link, frame, keep, now), now)
        elif _is_passing(topic, frame):
            self._pass(topic, link, frame)
        else:
            self._repeat(topic, Repetition(link, frame))

    def _pass(self, topic: Topic, link: str, frame: Publish) -> None:
        """Note up to where a publisher has read another log, without events."""
        publisher, sequence, last = frame.publisher or "", frame.sequence or 0, (frame.upto or 0) - 1
        topic.publishers.keep(publisher)
        topic.publishers.remember(publisher, last)
        self._log.append(_marks(topic, frame), PassedNumbers(topic, link, frame, publisher, sequence, last))

    def passed_stored(self, passed: PassedNumbers) -> None:
        """The numbers are stored."""
        passed.topic.publishers.confirm(passed.publisher, passed.last)
        self._replies.send(passed.link, Accepted(passed.frame.ref, 0))

    def passed_failed(self, passed: PassedNumbers, reason: str) -> None:
        """They are not, and will not be."""
        passed.topic.publishers.take_back(passed.publisher, passed.sequence)
        self._replies.refuse(passed.link, passed.frame.ref, Refusal("storage", reason))

    def _new(self, topic: Topic, link: str, frame: Publish, keep: Sequence[int], now: float) -> Publication:
        """The part of a publication that did not come before."""
        rows = checked_rows(frame, keep, now)
        if self._advertisements:
            self._advertisements.check(topic, frame.publisher, rows)
        first = self._positions.take(len(keep))
        positions = range(first, first + len(keep))
        sequence = None if frame.sequence is None else frame.sequence + keep[0]
        ids = [] if frame.ids is None else [frame.ids[number] for number in keep]
        if sequence is None:
            prefix = self.log_id if topic.is_matched_elsewhere else self._name  # like no other there
            names = ids or [f"{prefix}.{position}" for position in positions]
        else:  # so that a repetition is known by its name as well
            publisher = f"{self._id_prefix}{frame.publisher}"
            names = ids or [f"{publisher}:{number}" for number in range(sequence, sequence + len(keep))]
        events = [frame.events[number] for number in keep]
        carried = beside_of(frame, keep)
        made = deliveries(frame, events, names, carried, first, now)
        lifespan = min(frame.qos.lifespan_seconds or topic.offered.lifespan_seconds, topic.offered.lifespan_seconds)
        record = EventsStored(
            first, topic.tenant, topic.name, now, now + lifespan, made, frame.publisher, sequence, bool(ids)
        )
        if frame.upto is not None:
            record, ids = msgspec.structs.replace(record, has_ids=False, upto=frame.upto), []
        if self._moves and (follows := self._moves.follows(topic, frame.publisher, now)):
            record = msgspec.structs.replace(record, follows=follows)
        is_stored = topic.offered.is_kept and not topic.is_home
        state = PublicationState.STORING if is_stored else PublicationState.RESERVING
        return Publication(topic, link, frame, rows, record, events, names, ids, sequence, state, carried)

    def _repeat(self, topic: Topic, repetition: Repetition) -> None:
        frame = repetition.frame
        self.repeated_count += len(frame.events)
        if topic.is_home:  # the pipeline has the events, but storing their numbers and ids may have failed
            self._log.append(_marks(topic, frame), repetition)
        elif not self._log.wait_for_all(repetition):
            self.repetition_stored(repetition)

    def repetition_stored(self, repetition: Repetition) -> None:
        """What it repeats is stored."""
        count = len(repetition.frame.events)
        self._replies.send(repetition.link, Accepted(repetition.frame.ref, count, count))

    def repetition_failed(self, repetition: Repetition, reason: str) -> None:
        """Something that is under way was not stored: it may be what this one repeats."""
        self._replies.refuse(repetition.link, repetition.frame.ref, Refusal("storage", reason))

    # Made safe

    def _begin(self, publication: Publication, now: float) -> None:
        topic = publication.topic
        for publisher, last in publication.last_numbers.items():
            if publication.frame.upto is not None:
                topic.publishers.keep(publisher)
            topic.publishers.remember(publisher, last)
        topic.published_ids.remember(publication.frame.publisher, publication.ids)
        self._unstored_bytes += publication.size_bytes
        if publication.is_for_pipeline:
            topic.handed_count += 1
        else:
            self._under_way.setdefault(topic, deque()).append(publication)
        if publication.state is PublicationState.STORING:
            is_durable = topic.offered.reliability == "reliable"
            (self._log.append if is_durable else self._log.append_lazily)(publication.record, publication)
        elif self._positions.reserve(publication):
            self._reserved(publication, now)

    def stored(self, publication: Publication, now: float) -> None:
        """What it waited for is in the log."""
        match publication.state:
            case PublicationState.STORING:
                self._confirm(publication)
                if self._traces is not None:
                    self._traces.stored(publication)
                publication.topic.stored = publication.record.position + len(publication.rows) - 1
                self._quotas.keep(publication.topic.tenant, publication.size_bytes, publication.record.expires_at)
                self._move(publication, PublicationState.READY)
            case PublicationState.RESERVING:
                self._positions.reserved(is_stored=True)
                self._reserved(publication, now)
            case _:  # REMEMBERING
                self._accept(publication)

    def not_stored(self, publication: Publication, reason: str) -> None:
        """What it waited for is not in the log, and will not be."""
        if publication.state is PublicationState.RESERVING:
            self._positions.reserved(is_stored=False)
        is_with_pipeline = publication.state is PublicationState.REMEMBERING
        self._refuse(publication, reason, is_free_again=not is_with_pipeline)

    def _reserved(self, publication: Publication, now: float) -> None:
        if publication.is_for_pipeline:
            self._move(publication, PublicationState.QUEUED)
            self._queue(publication)
        else:
            self._move(publication, PublicationState.READY)
            self._step_soon(now)

    def _confirm(self, publication: Publication) -> None:
        topic = publication.topic
        for publisher, last in publication.last_numbers.items():
            topic.publishers.confirm(publisher, last)
        topic.published_ids.confirm(publication.frame.publisher, publication.ids)

    def _refuse(self, publication: Publication, reason: str, *, is_free_again: bool) -> None:
        """Answer that it could not be stored; its numbers and ids may be free to be used again."""
        topic, frame = publication.topic, publication.frame
        self._move(publication, PublicationState.REFUSED)
        if is_free_again:
            under_way = self._under_way.get(topic)
            if under_way and publication in under_way:
                under_way.remove(publication)
            if publication.sequence is not None and frame.publisher is not None:
                topic.publishers.take_back(frame.publisher, publication.sequence)
            topic.published_ids.take_back(frame.publisher, publication.ids)
        self._replies.refuse(publication.link, frame.ref, Refusal("storage", reason))

    def _move(self, publication: Publication, state: PublicationState) -> None:
        """The one place where a publication's state changes, and what is counted by states with it."""
        was_safe = publication.state not in NOT_SAFE
        publication.move(state)
        if not was_safe and state not in NOT_SAFE:
            self._unstored_bytes -= publication.size_bytes
            if publication.is_for_pipeline:
                publication.topic.handed_count -= 1

    # Handed to the pipeline

    def _queue(self, publication: Publication) -> None:
        """Hand a publisher's next events over when the pipeline has its last: if those fail, these may not overtake."""
        queue = self._handing.setdefault(publication.queue, deque())
        queue.append(publication)
        if len(queue) == 1:
            self._hand(publication)

    def _hand(self, publication: Publication) -> None:
        """Give the events to the pipeline; it tells later who wants them."""
        self._move(publication, PublicationState.HANDING)
        key, at, publisher = publication.topic.key, publication.record.at, publication.frame.publisher
        names, events, carried = publication.names, publication.events, publication.carried
        self._pipeline.ask(lambda number: HandEvents(number, *key, at, publisher, names, events, carried), publication)

    def handed(self, publication: Publication) -> None:
        """The pipeline has it. Log the numbers and ids first, then accept: they detect repeats after a crash."""
        topic = publication.topic
        self._move(publication, PublicationState.REMEMBERING)
        self._confirm(publication)
        topic.event_count += len(publication.events)
        marks = _marks(topic, publication.frame)
        if marks.sequences or marks.ids:
            self._log.append(marks, publication)
        else:
            self._accept(publication)
        queue = self._handing[publication.queue]
        queue.popleft()
        if queue:
            self._hand(queue[0])
        else:
            del self._handing[publication.queue]

    def not_handed(self, publication: Publication, reason: str) -> None:
        """The pipeline has not got it, so its publisher's later ones may not go there either."""
        for following in self._handing.pop(publication.queue):
            self._refuse(following, reason, is_free_again=True)

    def has_under_way(self, topic: Topic) -> bool:
        """Whether publications of a topic are on their way."""
        return topic in self._under_way or topic.handed_count > 0

    def is_handing(self, publisher: PublisherKey) -> bool:
        """Whether events of a publisher are on their way to the pipeline."""
        return any((topic.tenant, name) == publisher for topic, name in self._handing)

    # From other logs

    def take_import(self, imported: ImportedEvents, waiter: Any) -> bool:
        """Make events of another log safe here, if their topic is kept. False: they are; True: `waiter` is told."""
        self._under_way.setdefault(imported.topic, deque()).append(imported)
        offered = imported.topic.offered
        if not offered.is_kept:
            imported.is_reserving = not self._positions.reserve(waiter)
            return imported.is_reserving
        (self._log.append if offered.reliability == "reliable" else self._log.append_lazily)(imported.record, waiter)
        return True

    def import_stored(self, imported: ImportedEvents, now: float) -> None:
        """They are safe: they are matched in their turn."""
        imported.state = PublicationState.READY
        if imported.is_reserving:
            self._positions.reserved(is_stored=True)
        record, topic = imported.record, imported.topic
        if topic.offered.is_kept:
            topic.stored = record.position + len(record.deliveries) - 1
            self._quotas.keep(topic.tenant, imported.size_bytes, record.expires_at)
        self._step_soon(now)

    def import_not_stored(self, imported: ImportedEvents) -> None:
        """They are not in this log; the other log still has them."""
        imported.state = PublicationState.REFUSED
        if imported.is_reserving:
            self._positions.reserved(is_stored=False)
        if (under_way := self._under_way.get(imported.topic)) and imported in under_way:
            under_way.remove(imported)

    # Matched

    def match_ready(self, now: float) -> None:
        """Match all publications that may be delivered, a topic at a time."""
        for topic, under_way in list(self._under_way.items()):
            publications = []
            while under_way and under_way[0].state is PublicationState.READY:
                publications.append(under_way.popleft())
            if not under_way:
                del self._under_way[topic]
            if not publications:
                continue
            self._match(topic, publications, now)

    def _match(self, topic: Topic, publications: Sequence[Publication | ImportedEvents], now: float) -> None:
        new = [each for each in publications if isinstance(each, Publication) or not each.is_replayed]
        entries = [entry for publication in new for entry in entries_of(publication.record)]
        rows = [row for publication in new for row in publication.rows]
        for publication in publications:
            record = publication.record
            topic.times.note(record.position, len(record.deliveries), publication.size_bytes, record.at)
        delivered_before = 0 if self._traces is None else self._traces.delivered()
        if rows:
            topic.event_count += len(rows)
            if topic.matching == "spark":
                self._deliver_matched(topic, [publication.record for publication in new], now)
            else:
                self._deliver(topic, entries, rows, now)
        if len(new) < len(publications):
            topic.matched = max(topic.matched, topic.stored)
        own = [publication for publication in new if isinstance(publication, Publication)]
        if self._traces is not None:
            self._traces.matched(own, delivered_before, now)
        if len(own) < len(new):
            entries = [entry for publication in own for entry in entries_of(publication.record)]
            rows = [row for publication in own for row in publication.rows]
        self._export(topic, entries, rows, follows_of(publication.record for publication in own), now)
        for publication in publications:
            if isinstance(publication, Publication):
                self._accept(publication)
            else:
                publication.state = PublicationState.ACCEPTED

    def _accept(self, publication: Publication) -> None:
        self._move(publication, PublicationState.ACCEPTED)
        count, new = len(publication.frame.events), len(publication.rows)
        self.accepted_count += new
        self.repeated_count += count - new
        self._replies.send(publication.link, Accepted(publication.frame.ref, count, count - new))


def _marks(topic: Topic, frame: Publish) -> PublishersMoved:
    """By what a repetition of a publication is found: its last number, and its ids, those that it repeats included."""
    if frame.publisher is None or frame.sequence is None:
        return PublishersMoved(*topic.key, {}, [(frame.publisher, name) for name in frame.ids or ()])
    if frame.upto is not None:
        return PublishersMoved(*topic.key, {frame.publisher: frame.upto - 1}, readers=[frame.publisher])
    last = frame.sequence + len(frame.events) - 1
    return PublishersMoved(*topic.key, {frame.publisher: last}, [(frame.publisher, name) for name in frame.ids or ()])


def _check_range(frame: Publish) -> None:
    if frame.sequence is None or (frame.events and frame.ids is None):
        raise Refusal("invalid", "`upto` needs a publisher, a sequence number, and ids of the events")
    if (frame.upto or 0) < frame.sequence + max(1, len(frame.events)):
        raise Refusal("invalid", "`upto` is the number after those of all the events")


def _is_passing(topic: Topic, frame: Publish) -> bool:
    """Whether a publication without events that were not there is one of a publisher that goes on further on."""
    return frame.upto is not None and topic.publishers.last(frame.publisher or "") < frame.upto - 1


def _unrepeated(topic: Topic, frame: Publish) -> Sequence[int]:
    """The numbers of the events that did not come before."""
    count = len(frame.events)
    if frame.upto is not None:
        is_repeated = topic.publishers.is_repeated_range(frame.publisher or "", frame.sequence or 0, frame.upto)
        return range(0 if is_repeated else count)
    if frame.sequence is not None and frame.publisher is not None:
        return range(topic.publishers.repeated(frame.publisher, frame.sequence, count), count)
    if frame.ids is not None:
        repeated = topic.published_ids.repeated(frame.publisher, frame.ids)
        return [number for number in range(count) if not repeated[number]]
    return range(count)
