"""Batches that the Spark pipeline has matched: stored, each once, and then delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fieldfare.messages import BatchStored, Delivery, EventsStored, MatchedEvent, PipelineMatched
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
    events: Sequence[MatchedEvent]
    record: EventsStored


class PipelineBatches:
    """Takes what the pipeline matched."""

    def __init__(
        self,
        topics: Topics,
        log: LogPort,
        positions: Positions,
        quotas: Quotas,
        deliveries: Deliveries,
        emit: Emit,
    ) -> None:
        self._topics, self._log, self._positions, self._quotas = topics, log, positions, quotas
        self._deliveries, self._emit = deliveries, emit

    def matched(self, message: PipelineMatched, now: float) -> None:
        """Store a batch, unless it came before."""
        topic = self._topics.get_or_make(message.tenant, message.topic)
        if message.batch <= topic.batch:
            if message.batch <= topic.stored_batch:
                self._emit(BatchStored(*topic.key, topic.stored_batch))
            return
        topic.batch = message.batch
        wanted = _new(topic, [event for event in message.events if any(map(topic.taker_of, event.subscriptions))])
        first = self._positions.take(len(wanted))
        deliveries = [
            _encode(Delivery(position, event.id, event.at, event.event, event.publisher))
            for position, event in enumerate(wanted, first)
        ]
        names = [[name for name in event.subscriptions if topic.taker_of(name)] for event in wanted]
        oldest = min((event.at for event in wanted), default=now)
        expires_at = oldest + topic.offered.lifespan_seconds
        record = EventsStored(first, *topic.key, now, expires_at, deliveries, subscriptions=names, batch=message.batch)
        self._log.append(record, PendingBatch(topic, message.batch, wanted, record))

    def stored(self, batch: PendingBatch, now: float) -> None:
        """Deliver a batch that is in the log."""
        topic, last = batch.topic, batch.record.position + len(batch.events) - 1
        topic.stored_batch = batch.number
        if batch.events:
            topic.stored = last
            self._quotas.keep(topic.tenant, sum(map(len, batch.record.deliveries)), batch.record.expires_at)
        self._emit(BatchStored(*topic.key, batch.number))
        self._deliveries.offer(topic, topic.stored_matches([batch.record]), last, now)

    def not_stored(self, batch: PendingBatch) -> None:
        """Forget it: the host gives it again."""
        batch.topic.batch = min(batch.topic.batch, batch.number - 1)
        for event in batch.events:
            batch.topic.matched_ids.take_back(event.publisher, [event.id])


def _new(topic: Topic, events: Sequence[MatchedEvent]) -> list[MatchedEvent]:
    """The events that did not come before: a publisher sends again what an edge handed over before it crashed."""
    new = []
    for event in events:
        if event.publisher is None or not topic.matched_ids.repeated(event.publisher, [event.id])[0]:
            new.append(event)
            topic.matched_ids.remember(event.publisher, [event.id])
    return new
