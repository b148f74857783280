"""What of an edge survives: its state from records of the log, and records that stand for its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from fieldfare.messages import (
    BehindCounted,
    CursorsMoved,
    DeadLetter,
    DeadLettersDropped,
    DeadLettersRedriven,
    EdgeRegistered,
    EventsMissed,
    EventsOutstanding,
    EventsStored,
    InterestExported,
    KeptBytes,
    LogBegun,
    LogId,
    OriginsMoved,
    Position,
    PublisherAdopted,
    PublisherSealed,
    PublishersMoved,
    Reached,
    Record,
    SubscriptionRemoved,
    SubscriptionReplayed,
    SubscriptionStored,
    TimesKept,
    TopicRemoved,
    TopicStored,
)
from fieldfare.routing import lag
from fieldfare.routing.delivery import outstanding_form
from fieldfare.routing.pending import stored_form
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.topic import OWN_LOG

if TYPE_CHECKING:
    from fieldfare.routing.edge_parts import EdgeParts
    from fieldfare.routing.topic import Topic


class _Identified(msgspec.Struct):
    id: str
    publisher: str | None = None


_identified = msgspec.json.Decoder(_Identified)


def recover(parts: EdgeParts, record: Record) -> None:
    """Take up a record. Records that a checkpoint covers as well may come again: the later one holds."""
    match record:
        case EventsStored():
            _recover_events(parts, record)
        case SubscriptionStored():
            _recover_subscription(parts, record)
        case SubscriptionRemoved():
            parts.subscribing.forget(record.tenant, record.subscription)
        case TopicStored() | TopicRemoved():
            _recover_topic(parts, record)
        case CursorsMoved() | EventsOutstanding() | BehindCounted():
            _recover_cursors(parts, record)
        case DeadLetter() | DeadLettersRedriven() | DeadLettersDropped():
            _recover_letters(parts, record)
        case PublishersMoved() | PublisherSealed() | PublisherAdopted():
            _recover_publishers(parts, record)
        case KeptBytes():
            parts.quotas.recover(record)
        case (
            LogBegun()
            | InterestExported()
            | OriginsMoved()
            | EventsMissed()
            | SubscriptionReplayed()
            | EdgeRegistered()
        ):
            _recover_overlay(parts, record)
        case Reached() | TimesKept():
            _recover_positions(parts, record)


def _recover_topic(parts: EdgeParts, record: TopicStored | TopicRemoved) -> None:
    if isinstance(record, TopicRemoved):
        parts.deleting.recover(record)
        return
    topic = parts.topics.get_or_make(record.tenant, record.topic)
    topic.offered, topic.matching = record.offered, record.matching
    topic.offer_version, topic.home = record.version, record.home


def _recover_positions(parts: EdgeParts, record: Reached | TimesKept) -> None:
    if isinstance(record, TimesKept):
        parts.topics.get_or_make(record.tenant, record.topic).times.recover(record)
        return
    parts.positions.raise_to(record.position)
    for tenant, name, matched, batch in record.topics:
        topic = parts.topics.get_or_make(tenant, name)
        topic.matched = topic.stored = max(topic.matched, matched)
        topic.batch = topic.stored_batch = max(topic.batch, batch)


def _recover_overlay(
    parts: EdgeParts,
    record: LogBegun | InterestExported | OriginsMoved | EventsMissed | SubscriptionReplayed | EdgeRegistered,
) -> None:
    """An edge that is no longer in an overlay forgets what it was owed there."""
    if isinstance(record, LogBegun):
        parts.log_id = parts.moves.log_id = record.log
        return
    if parts.overlay is None:
        return
    topic = parts.topics.get_or_make(record.tenant, record.topic)
    if isinstance(record, EventsMissed):
        parts.positions.raise_to(record.position)
        if record not in topic.missed:
            topic.missed.append(record)
    elif isinstance(record, SubscriptionReplayed):
        topic.remember_replay(record)
        _recover_replayed(parts, topic, record.replayed)
    elif isinstance(record, InterestExported):
        parts.overlay.wanted.recover(topic, record)
    elif isinstance(record, EdgeRegistered):
        parts.overlay.home_conditions.recover(topic, record)
    else:
        for log, position in record.positions.items():
            parts.overlay.imports.recover(topic, log, position)


def _recover_events(parts: EdgeParts, record: EventsStored) -> None:
    topic = parts.topics.get_or_make(record.tenant, record.topic)
    last = record.position + len(record.deliveries) - 1
    parts.positions.raise_to(last)
    if record.deliveries:
        size_bytes = sum(map(len, record.deliveries))
        parts.quotas.keep(record.tenant, size_bytes, record.expires_at)
        topic.times.note(record.position, len(record.deliveries), size_bytes, record.at)
        topic.matched = topic.stored = max(topic.matched, last)
    if record.origin is not None and record.origin_upto >= 0 and parts.overlay is not None:
        parts.overlay.imports.recover(topic, record.origin, record.origin_upto)
    if record.batch is not None:
        topic.batch = topic.stored_batch = max(topic.batch, record.batch)
        for log, cursor in record.cursors.items():
            if parts.overlay is not None:
                parts.overlay.imports.recover(topic, log, cursor)
        for delivery in record.deliveries:
            identified = _identified.decode(delivery)
            topic.matched_ids.remember(identified.publisher, [identified.id])
            topic.matched_ids.confirm(identified.publisher, [identified.id])
    if record.sequence is not None and record.publisher is not None:
        if record.upto is not None:
            topic.publishers.keep(record.publisher)
        topic.publishers.recover(record.publisher, (record.upto or record.sequence + len(record.deliveries)) - 1)
    if record.has_ids:
        ids = [_identified.decode(delivery).id for delivery in record.deliveries]
        topic.published_ids.remember(record.publisher, ids)
        topic.published_ids.confirm(record.publisher, ids)


def _recover_publishers(parts: EdgeParts, record: PublishersMoved | PublisherSealed | PublisherAdopted) -> None:
    if not isinstance(record, PublishersMoved):
        parts.moves.recover(record)
        return
    topic = parts.topics.get_or_make(record.tenant, record.topic)
    for publisher in record.readers:
        topic.publishers.keep(publisher)
    for publisher, last in record.sequences.items():
        topic.publishers.recover(publisher, last)
    for source, identity in record.ids:
        topic.published_ids.remember(source, [identity])
        topic.published_ids.confirm(source, [identity])
    for source, identity in record.matched_ids:
        topic.matched_ids.remember(source, [identity])
        topic.matched_ids.confirm(source, [identity])


def _recover_letters(parts: EdgeParts, record: DeadLetter | DeadLettersRedriven | DeadLettersDropped) -> None:
    key = record.tenant, record.subscription
    if parts.takers.get(*key) is None:
        return
    if isinstance(record, DeadLetter):
        parts.dead_letters.keep(record)
    elif isinstance(record, DeadLettersRedriven):
        parts.dead_letters.redrive(key, record.positions)
    else:
        parts.dead_letters.drop(key, record.positions)


def _recover_cursors(parts: EdgeParts, record: CursorsMoved | EventsOutstanding | BehindCounted) -> None:
    if isinstance(record, BehindCounted):
        lag.recover(parts.topics.get_or_make(record.tenant, record.topic), record)
        return
    if isinstance(record, EventsOutstanding):
        if taker := parts.takers.get(record.tenant, record.subscription):
            taker.recover_outstanding(record)
        return
    for subscription_id, position in record.positions.items():
        if taker := parts.takers.get(record.tenant, subscription_id):
            taker.recover_cursor(position)


def _recover_subscription(parts: EdgeParts, record: SubscriptionStored) -> None:
    topic = parts.topics.get_or_make(record.tenant, record.topic)
    parts.positions.raise_to(record.position)  # or what comes would lie before it
    subscription = Subscription(
        record.subscription,
        record.tenant,
        record.topic,
        record.condition,
        record.qos,
        is_durable=True,
        webhook=record.webhook,
        replay=record.replay,
        replayed=record.replayed,
        consuming=record.consuming,
        since=record.since,
        is_paused=record.is_paused,
        webhook_form=record.webhook_form,
    )
    taker = parts.takers.get(*subscription.key)
    if taker is None or taker.subscription.topic != record.topic:
        parts.subscribing.forget(record.tenant, record.subscription)
        parts.subscribing.restore(topic, subscription, record.position)
    else:  # it was changed, or a checkpoint covers this record as well
        if taker.subscription.condition != record.condition:
            taker.unread, taker.counted_upto = None, taker.cursor  # what was counted matched another condition
        taker.update(subscription, reads_log=topic.can_be_read_by(subscription.qos))
        if record.is_moved:
            taker.recover_cursor(record.position)
    _recover_replayed(parts, topic, record.replayed)


def _recover_replayed(parts: EdgeParts, topic: Topic, replayed: Mapping[LogId, Position]) -> None:
    """Other logs were read for a subscription, up to where this edge had come by then: it takes no event from before.

    A cursor is written some time after it moved. Without this, an event that was read for the subscription could come
    once more, for all, and be delivered to it a second time.
    """
    if parts.overlay is not None:
        for log, position in replayed.items():
            if log != OWN_LOG:
                parts.overlay.imports.recover(topic, log, position)


def checkpoint(parts: EdgeParts) -> list[Record]:
    """The state as records. An edge with this state and one that recovers them go on alike."""
    return list(_state(parts))


def _state(parts: EdgeParts) -> Iterator[Record]:
    topics = list(parts.topics)
    if parts.log_id:
        yield LogBegun(parts.log_id)
    yield from parts.topics.removed()  # first: there may be topics of the same names again
    yield Reached(parts.positions.last, [(*topic.key, topic.stored, topic.stored_batch) for topic in topics])
    for topic in topics:
        yield TopicStored(*topic.key, topic.offered, topic.matching, topic.offer_version, topic.home)
        sequences, ids = topic.publishers.stored, topic.published_ids.stored
        if sequences or ids or topic.matched_ids.stored:
            yield PublishersMoved(*topic.key, sequences, ids, topic.matched_ids.stored, topic.publishers.readers)
        if len(topic.times):
            yield topic.times.state(topic.key)
        yield from topic.missed
        yield from topic.replayed.values()
    for taker in parts.takers:
        if taker.subscription.is_durable:
            taker.settle(parts.topics.of(taker).matched)
            yield stored_form(taker.subscription, taker.cursor)
            if taker.outstanding:
                yield outstanding_form(taker, taker.outstanding)
    for topic in topics:
        if topic.durable_count:
            takers = (taker for taker in topic.takers.values() if taker.subscription.is_durable)
            yield lag.counted(topic, takers, is_complete=True)
    yield from parts.moves.state()
    yield from parts.quotas.state()
    if parts.overlay is not None:
        yield from parts.overlay.wanted.state()
        yield from parts.overlay.imports.state()
        yield from parts.overlay.home_conditions.state()
    yield from parts.dead_letters.state()
