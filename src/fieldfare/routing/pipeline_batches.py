"""Batches that the Spark pipeline has matched: stored, each once, and then delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from fieldfare.messages import BatchStored, Delivery, EventsStored, MatchedEvent, PipelineMatched, Position
from fieldfare.routing.delivery import Deliveries
from fieldfare.routing.ports import Emit, LogPort, Positions
from fieldfare.routing.quotas import Quotas
from fieldfare.routing.topic import Topic, Topics

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """A batch on its way to the log."""

    topic: Topic
    number: int
    events: Sequence[MatchedEvent]  # those that nobody wanted included
    record: EventsStored


@dataclass(frozen=True, slots=True)
class BatchPorts:
    """What batches need of their broker."""

    topics: Topics
    log: LogPort
    positions: Positions
    quotas: Quotas
    deliveries: Deliveries
    emit: Emit
    cursors_of: Callable[[Topic], dict[str, Position]]  # up to where the pipeline has the events of other logs
    is_remote: Callable[[Topic, str], bool]  # whether an id is that of a subscription at another edge
    export: Callable[[Topic, EventsStored, float], None]  # sends events to such edges


class PipelineBatches:
    """Takes what the pipeline matched."""

    def __init__(self, ports: BatchPorts) -> None:
        self._topics, self._log, self._positions, self._quotas = ports.topics, ports.log, ports.positions, ports.quotas
        self._deliveries, self._emit = ports.deliveries, ports.emit
        self._cursors_of, self._is_remote, self._export = ports.cursors_of, ports.is_remote, ports.export

    def matched(self, message: PipelineMatched, now: float) -> None:
        """Store a batch, unless it came before."""
        topic = self._topics.get_or_make(message.tenant, message.topic)
        if message.batch <= topic.stored_batch:
            self._emit(BatchStored(*topic.key, topic.stored_batch))
            return
        if topic.batch > topic.stored_batch:
            return  # one at a time, or one that could not be stored would be overtaken; the host gives it again
        topic.batch = message.batch
        new = _new(topic, message.events)
        wanted = [event for event in new if self._known_ids(topic, event)]
        first = self._positions.take(len(wanted))
        deliveries = [
            _encode(Delivery(position, event.id, event.at, event.event, event.publisher))
            for position, event in enumerate(wanted, first)
        ]
        names = [self._known_ids(topic, event) for event in wanted]
        newest = max((event.at for event in wanted), default=now)  # some may have waited long at another edge
        expires_at = newest + topic.offered.lifespan_seconds
        record = EventsStored(
            first,
            *topic.key,
            now,
            expires_at,
            deliveries,
            subscriptions=names,
            batch=message.batch,
            cursors=self._cursors_of(topic),  # with the batch: what it had and nobody wanted is not handed over again
        )
        self._log.append(record, PendingBatch(topic, message.batch, new, record))

    def _known_ids(self, topic: Topic, event: MatchedEvent) -> list[str]:
        return [each for each in event.subscriptions if topic.taker_of(each) or self._is_remote(topic, each)]

    def stored(self, batch: PendingBatch, now: float) -> None:
        """Deliver a batch that is in the log."""
        topic, last = batch.topic, batch.record.position + len(batch.record.deliveries) - 1
        topic.stored_batch = batch.number
        for event in batch.events:
            topic.matched_ids.confirm(event.publisher, [event.id])
        if batch.record.deliveries:
            topic.stored = last
            size_bytes = sum(map(len, batch.record.deliveries))
            topic.times.note(batch.record.position, len(batch.record.deliveries), size_bytes, batch.record.at)
            self._quotas.keep(topic.tenant, size_bytes, batch.record.expires_at)
        self._emit(BatchStored(*topic.key, batch.number))
        self._deliveries.offer(topic, topic.stored_matches([batch.record]), last, now)
        self._export(topic, batch.record, now)

    def not_stored(self, batch: PendingBatch) -> None:
        """Forget it: the host gives it again."""
        batch.topic.batch = min(batch.topic.batch, batch.number - 1)
        for event in batch.events:
            batch.topic.matched_ids.take_back(event.publisher, [event.id])


def _new(topic: Topic, events: Sequence[MatchedEvent]) -> list[MatchedEvent]:
    """The events that did not come before. What was handed over may be handed over again, later than others.

    Also what nobody wanted is remembered: meanwhile somebody may want it, who would get it after later events.
    """
    new = []
    for event in events:
        if not topic.matched_ids.repeated(event.publisher, [event.id])[0]:
            new.append(event)
            topic.matched_ids.remember(event.publisher, [event.id])
    return new
