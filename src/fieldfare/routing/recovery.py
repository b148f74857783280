"""What of an edge survives: its state from records of the log, and records that stand for its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from fieldfare.messages import (
    CursorsMoved,
    DeadLetter,
    EventsStored,
    KeptBytes,
    PublishersMoved,
    Reached,
    Record,
    SubscriptionRemoved,
    SubscriptionStored,
    TopicStored,
)
from fieldfare.routing.pending import stored_form
from fieldfare.routing.taker import Subscription

if TYPE_CHECKING:
    from fieldfare.routing.edge import Edge


class _Identified(msgspec.Struct):
    id: str
    publisher: str | None = None


_identified = msgspec.json.Decoder(_Identified)


def recover(edge: Edge, record: Record) -> None:
    """Take up a record. Records that a checkpoint covers as well may come again: the later one holds."""
    match record:
        case EventsStored():
            _recover_events(edge, record)
        case SubscriptionStored():
            _recover_subscription(edge, record)
        case SubscriptionRemoved():
            edge.subscribing.forget(record.tenant, record.subscription)
        case TopicStored():
            topic = edge.topics.get_or_make(record.tenant, record.topic)
            topic.offered, topic.matching = record.offered, record.matching
        case CursorsMoved():
            _recover_cursors(edge, record)
        case DeadLetter():
            if edge.takers.get(record.tenant, record.subscription):
                edge.webhooks.keep_letter(record)
        case PublishersMoved():
            _recover_publishers(edge, record)
        case KeptBytes():
            edge.quotas.recover(record)
        case Reached():
            edge.positions.raise_to(record.position)
            for tenant, name, matched, batch in record.topics:
                topic = edge.topics.get_or_make(tenant, name)
                topic.matched = topic.stored = max(topic.matched, matched)
                topic.batch = topic.stored_batch = max(topic.batch, batch)


def _recover_events(edge: Edge, record: EventsStored) -> None:
    topic = edge.topics.get_or_make(record.tenant, record.topic)
    last = record.position + len(record.deliveries) - 1
    edge.positions.raise_to(last)
    if record.deliveries:
        edge.quotas.keep(record.tenant, sum(map(len, record.deliveries)), record.expires_at)
        topic.matched = topic.stored = max(topic.matched, last)
    if record.batch is not None:
        topic.batch = topic.stored_batch = max(topic.batch, record.batch)
        for delivery in record.deliveries:
            identified = _identified.decode(delivery)
            topic.matched_ids.remember(identified.publisher, [identified.id])
    if record.sequence is not None and record.publisher is not None:
        topic.publishers.recover(record.publisher, record.sequence + len(record.deliveries) - 1)
    if record.has_ids:
        ids = [_identified.decode(delivery).id for delivery in record.deliveries]
        topic.published_ids.remember(record.publisher, ids)
        topic.published_ids.confirm(record.publisher, ids)


def _recover_publishers(edge: Edge, record: PublishersMoved) -> None:
    topic = edge.topics.get_or_make(record.tenant, record.topic)
    for publisher, last in record.sequences.items():
        topic.publishers.recover(publisher, last)
    for source, identity in record.ids:
        topic.published_ids.remember(source, [identity])
        topic.published_ids.confirm(source, [identity])


def _recover_cursors(edge: Edge, record: CursorsMoved) -> None:
    for subscription_id, position in record.positions.items():
        if taker := edge.takers.get(record.tenant, subscription_id):
            taker.recover_cursor(position)


def _recover_subscription(edge: Edge, record: SubscriptionStored) -> None:
    topic = edge.topics.get_or_make(record.tenant, record.topic)
    edge.positions.raise_to(record.position)  # or what comes would lie before it
    edge.subscribing.forget(record.tenant, record.subscription)
    subscription = Subscription(
        record.subscription,
        record.tenant,
        record.topic,
        record.condition,
        record.qos,
        is_durable=True,
        webhook=record.webhook,
    )
    edge.subscribing.restore(topic, subscription, record.position)


def checkpoint(edge: Edge) -> list[Record]:
    """The state as records. An edge with this state and one that recovers them go on alike."""
    return list(_state(edge))


def _state(edge: Edge) -> Iterator[Record]:
    topics = list(edge.topics)
    yield Reached(edge.positions.last, [(*topic.key, topic.stored, topic.stored_batch) for topic in topics])
    for topic in topics:
        yield TopicStored(*topic.key, topic.offered, topic.matching)
        sequences, ids = topic.publishers.stored, topic.published_ids.stored
        if sequences or ids:
            yield PublishersMoved(*topic.key, sequences, ids)
    for taker in edge.takers:
        if taker.subscription.is_durable:
            taker.settle(edge.topics.of(taker).matched)
            yield stored_form(taker.subscription, taker.cursor)
    yield from edge.quotas.state()
    for letters in edge.webhooks.dead_letters.values():
        yield from letters
