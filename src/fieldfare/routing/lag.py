"""Lag: how far subscriptions are behind, in events and in seconds, and what topics keep.

Events behind are those that match a subscription and that nobody has acknowledged, be they on their way, in memory or
only in the log. They are counted when they are matched (see `unread`), and the counts are logged beside the cursors. So
after a restart only what was stored since has to be counted: the log is read for that once, in the background, and
until then the count is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fieldfare.messages import BehindCounted, Fetch, Fetched, Position, TopicKey, stream_of
from fieldfare.routing.matches import Matches
from fieldfare.routing.ports import Emit
from fieldfare.routing.taker import Taker, TakerState
from fieldfare.routing.topic import Topic
from fieldfare.routing.unread import Uncounted, Unread

_COUNTED_LATER_MAX = 50_000  # events that are counted for a subscription which begins before them; more are guessed
_COUNTED_AT_START_MAX = 1_000_000


class Lag(NamedTuple):
    """How far a subscription is behind."""

    events: int
    seconds: float  # since the first of them was accepted
    in_flight: int  # of the events: those that were sent
    is_exact: bool  # False: it may be fewer events


_UP_TO_DATE = Lag(0, 0.0, 0, is_exact=True)


class Kept(NamedTuple):
    """What a topic keeps for those who are behind."""

    events: int
    size_bytes: int
    oldest_seconds: float | None  # since the oldest was accepted; None: there is none


def first_kept(topic: Topic, kept_from: Position, now: float) -> Position:
    """All before this position is gone: it has expired, or the log, which has events from `kept_from` on, is full."""
    return max(kept_from, topic.times.before(now - topic.offered.lifespan_seconds) + 1)


def lag_of(topic: Topic, taker: Taker, kept_from: Position, now: float) -> Lag:
    """How far a subscription is behind now."""
    if not (taker.in_flight or taker.waiting or taker.unread or taker.unconfirmed or taker.outstanding):
        return _UP_TO_DATE
    gone = first_kept(topic, kept_from, now) - 1
    sent = len(taker.in_flight) + (0 if taker.unconfirmed is None else taker.unconfirmed.count)
    events, is_exact = sent + len(taker.waiting), True
    if taker.outstanding is not None:
        sent += taker.outstanding.in_hand_count
        events += len(taker.outstanding)
    for part in (taker.unconfirmed, taker.unread):
        is_exact &= part is None or part.is_exact
    if taker.unread is not None:
        events += taker.unread.count_after(gone, lambda last: topic.times.events_between(gone, last))
        is_exact &= (taker.unread.first or 0) > gone
        if (range_ := taker.unread.uncounted) is not None:
            events += topic.times.events_between(max(range_.after, gone), range_.upto)
    if not events:
        return _UP_TO_DATE
    since = topic.times.time_after(max(_first_of(taker) - 1, gone))
    return Lag(events, 0.0 if since is None else max(0.0, now - since), sent, is_exact)


def _first_of(taker: Taker) -> Position:
    """The position of the first event that is not acknowledged, or a little before it."""
    firsts = [*taker.in_flight[:1], *(entry[0] for entry in taker.waiting[:1])]
    firsts += [part.first for part in (taker.unconfirmed, taker.unread) if part is not None and part.first is not None]
    if taker.outstanding is not None:
        firsts += [next(iter(events)) for events in (taker.outstanding.events, taker.outstanding.redriven) if events]
    return min(firsts, default=taker.cursor + 1)


def kept_of(topic: Topic, kept_from: Position, now: float) -> Kept:
    """What a topic keeps now."""
    before = first_kept(topic, kept_from, now) - 1
    since = topic.times.time_after(before)
    if since is None or not topic.offered.is_kept:
        return Kept(0, 0, None)
    return Kept(*topic.times.totals_after(before), max(0.0, now - since))


# In the log


def counted(topic: Topic, takers: Iterable[Taker], *, is_complete: bool = False) -> BehindCounted:
    """What the log is told of subscriptions of a topic."""
    counts = {}
    for taker in takers:
        count = len(taker.in_flight) + len(taker.waiting)
        upto, is_whole = topic.matched, True
        if taker.unconfirmed is not None:
            count += taker.unconfirmed.count
            is_whole = taker.unconfirmed.is_whole
        if (unread := taker.unread) is not None:
            is_whole &= unread.is_whole
            if unread.uncounted is not None:
                upto = unread.uncounted.after
            count += unread.count_upto(upto)
        if taker.reads_log and (count or upto < topic.matched):
            counts[taker.id] = count, _first_of(taker), upto, is_whole
    return BehindCounted(*topic.key, topic.matched, counts, is_complete)


def recover(topic: Topic, record: BehindCounted) -> None:
    """The log says how many events subscriptions have not acknowledged."""
    for subscription_id, (count, first, upto, is_whole) in record.counts.items():
        if taker := topic.taker_of(subscription_id):
            _recover_taker(taker, count, first, upto)
            if taker.unread is not None:
                taker.unread.is_whole = is_whole
    if record.is_complete:
        for taker in topic.takers.values():
            if taker.id not in record.counts:
                _recover_taker(taker, 0, record.upto, record.upto)


def _recover_taker(taker: Taker, count: int, first: Position, upto: Position) -> None:
    taker.unread = Unread()
    if count:
        taker.unread.add(max(first, taker.taken_upto + 1), upto, count)
    taker.counted_upto = upto


# What nobody has counted


@dataclass(frozen=True, slots=True)
class CountingKey:
    """The key by which the log of a topic is read to count."""

    topic: TopicKey


@dataclass(slots=True)
class _Pass:
    """One reading of the log, for some subscriptions; what each of them has there."""

    topic: Topic
    upto: Position
    takers: dict[int, tuple[Taker, Uncounted]]
    found: dict[int, Unread] = field(default_factory=dict)


class LagCounting:
    """Counts, by reading the log, what was stored before a subscription could be counted for."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._passes: dict[TopicKey, _Pass] = {}

    def started(self, topics: Iterable[Topic]) -> None:
        """All of the log is known: count what lies after the counts in it."""
        for topic in topics:
            for taker in topic.takers.values():
                if taker.has_buried:  # they may have been counted before they became dead letters
                    taker.not_counted(taker.taken_upto, topic.stored)
                elif taker.state is TakerState.DETACHED:
                    taker.not_counted(max(taker.counted_upto, taker.taken_upto), topic.stored)
            self._begin(topic, list(topic.takers.values()), _COUNTED_AT_START_MAX)

    def count(self, topic: Topic, taker: Taker) -> None:
        """A subscription that nobody takes has events that are not counted: count them, if that is not too much."""
        is_resting = taker.state is TakerState.DETACHED and topic.key not in self._passes
        if is_resting and taker.unread is not None and taker.unread.uncounted is not None:
            self._begin(topic, [taker], _COUNTED_LATER_MAX)

    def forget(self, topic: Topic) -> None:
        """A topic is no more."""
        self._passes.pop(topic.key, None)

    def _begin(self, topic: Topic, takers: Iterable[Taker], events_max: int) -> None:
        chosen = {}
        for taker in takers:
            range_ = None if taker.unread is None else taker.unread.uncounted
            if range_ is not None and topic.times.events_between(range_.after, topic.stored) <= events_max:
                chosen[taker.handle] = taker, range_
        if chosen:
            upto = max(range_.upto for _, range_ in chosen.values())
            self._passes[topic.key] = _Pass(topic, upto, chosen)
            self._fetch(topic, min(range_.after for _, range_ in chosen.values()))

    def _fetch(self, topic: Topic, after: Position) -> None:
        self._emit(Fetch(CountingKey(topic.key), stream_of(*topic.key), after))

    def fetched(self, piece: Fetched) -> None:
        """A piece of the log came."""
        key = piece.reader
        if not isinstance(key, CountingKey) or (reading := self._passes.get(key.topic)) is None:
            return
        self._look(reading, reading.topic.stored_matches(piece.records))
        if piece.position < reading.upto:
            self._fetch(reading.topic, piece.position)
            return
        del self._passes[key.topic]
        for handle, (taker, range_) in reading.takers.items():
            self._end(reading.topic, taker, range_, reading.found.get(handle) or Unread())

    def _look(self, reading: _Pass, matches: Matches) -> None:
        for taker, entries in matches:
            if taker.handle in reading.takers:
                range_ = reading.takers[taker.handle][1]
                within = [entry[0] for entry in taker.new_in(entries) if range_.after < entry[0] <= range_.upto]
                if within:
                    found = reading.found.setdefault(taker.handle, Unread())
                    found.add(within[0], within[-1], len(within))

    def _end(self, topic: Topic, taker: Taker, range_: Uncounted, found: Unread) -> None:
        """Take over a count, unless the subscription has gone elsewhere meanwhile: then it is counted when it rests."""
        unread = taker.unread
        if topic.takers.get(taker.index_handle) is not taker or unread is None or unread.uncounted is None:
            return
        left = unread.uncounted
        if range_.after <= left.after and left.upto == range_.upto:
            found.drop_upto(left.after)
            unread.insert(found)
