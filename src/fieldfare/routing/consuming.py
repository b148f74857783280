"""Consuming events one by one: who of several consumers gets which, refusals and what follows them, and dead letters.

Only subscriptions whose events are known one by one come here (see `outstanding`); all others are served by
`delivery` alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Raw

from fieldfare.messages import Deliver, Nack, Position, Send
from fieldfare.routing.dead_letters import DeadLetters
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.outstanding import EventState, KeyOf, Outstanding, OutstandingEvent
from fieldfare.routing.ports import Emit, Timers
from fieldfare.routing.taker import Taker

_OVERDUE = "it was not dealt with in {:g} s"


@dataclass(frozen=True, slots=True)
class ConsumingTimer:
    """Timer key: an event that was refused may come again, or a consumer had one for too long."""

    tenant: str
    subscription: str
    handle: int


@dataclass(slots=True)
class ConsumingCounts:
    """What consumers did since the start."""

    acknowledged: int = 0
    refused: int = 0
    overdue: int = 0
    dropped: int = 0  # refused, and not kept anywhere


class Consumption:
    """The consumers of all subscriptions of an edge whose events are known one by one."""

    def __init__(self, options: EdgeOptions, emit: Emit, timers: Timers, letters: DeadLetters) -> None:
        self.counts = ConsumingCounts()
        self._options, self._emit, self._timers, self._letters = options, emit, timers, letters

    # Sending

    def send(self, taker: Taker, outstanding: Outstanding, now: float) -> int:
        """Send what may be sent to those that have room. Returns how many events that were."""
        sent: dict[str, list[Raw]] = {}
        made = taker.subscription.consuming
        until = now + made.take_seconds if made.is_shared else math.inf
        while (consumer := outstanding.consumers.next()) is not None:
            event = self._next(taker, outstanding, now)
            if event is None:
                break
            outstanding.hand(event, consumer, until)
            sent.setdefault(consumer.link, []).append(_numbered(event))
        for link, deliveries in sent.items():
            for part in _parts(deliveries, self._options.frame_bytes_max):
                self._emit(Send(link, Deliver(taker.id, part)))
        self.wake_in_time(taker, outstanding)
        return sum(map(len, sent.values()))

    def take(self, taker: Taker, outstanding: Outstanding, link: str, now: float, count_max: int) -> list[Raw]:
        """The same for one consumer that is given what it gets: a webhook."""
        taken: list[Raw] = []
        size = 0
        consumer = outstanding.consumers.get(link)
        while consumer is not None and len(taken) < count_max and size < self._options.frame_bytes_max:
            event = self._next(taker, outstanding, now)
            if event is None:
                break
            outstanding.hand(event, consumer, math.inf)
            taken.append(_numbered(event))
            size += len(taken[-1])
        self.wake_in_time(taker, outstanding)
        return taken

    def _next(self, taker: Taker, outstanding: Outstanding, now: float) -> OutstandingEvent | None:
        """The next event that may be sent: one that was refused before new ones."""
        is_collecting = taker.subscription.qos.keep_last is not None and taker.is_behind
        key_of = KeyOf(taker.subscription.consuming.key)
        while True:
            event = outstanding.next_ready()
            if event is None:
                if not taker.waiting or is_collecting or self._is_full(outstanding):
                    return None
                entry = taker.waiting.pop(0)
                outstanding.track(entry, key_of(entry))
            elif event.refusals >= taker.subscription.consuming.attempts_max:
                self._bury(taker, outstanding, event, now)
            elif event.expires_at <= now:
                outstanding.settle(event)
                taker.expire(1)
                taker.follow_outstanding()
            else:
                return event

    def _is_full(self, outstanding: Outstanding) -> bool:
        options = self._options
        return len(outstanding) >= options.outstanding_max or outstanding.size_bytes >= options.outstanding_bytes_max

    def wake_in_time(self, taker: Taker, outstanding: Outstanding) -> None:
        """Have `due` called when it is time."""
        at = outstanding.next_time
        if at is not None and at < outstanding.wake_at:
            outstanding.wake_at = at
            self._timers.set(ConsumingTimer(*taker.subscription.key, taker.handle), at)

    def due(self, taker: Taker, now: float) -> None:
        """Events may come again, or were not dealt with in time."""
        outstanding = taker.outstanding
        if outstanding is None:
            return
        outstanding.wake_at = math.inf
        for event in outstanding.wake(now):
            self.counts.overdue += 1
            self._refuse(taker, outstanding, event, _OVERDUE.format(taker.subscription.consuming.take_seconds), 0, now)

    # What consumers say

    def acknowledge(self, taker: Taker, link: str, position: Position, *, is_final: bool) -> None:
        """A consumer is done with all that it got in order up to a position; if not final, it only has room again."""
        outstanding = taker.outstanding
        consumer = None if outstanding is None else outstanding.consumers.get(link)
        if outstanding is None:
            return
        if consumer is None:  # nobody takes events, and somebody says that those up to there are dealt with
            if not taker.is_attached:
                outstanding.pass_over(position)
                taker.follow_outstanding()
        elif is_final:
            self._settle(taker, outstanding, outstanding.acknowledged_by(consumer, position))
        else:
            outstanding.let_more(consumer, position)

    def acknowledge_each(self, taker: Taker, positions: Iterable[Position]) -> None:
        """Single events are done with, whoever has them now."""
        outstanding = taker.track()
        events = (outstanding.get(position) for position in positions)
        self._settle(taker, outstanding, [event for event in events if event is not None])

    def _settle(self, taker: Taker, outstanding: Outstanding, events: Iterable[OutstandingEvent]) -> None:
        for event in events:
            self.counts.acknowledged += 1
            outstanding.settle(event)
            if event.is_redriven:
                self._letters.settled(taker.subscription.key, event.position)
        taker.follow_outstanding()

    def refuse(self, taker: Taker, nack: Nack, link: str | None, now: float) -> bool:
        """A consumer could not deal with an event. Returns whether the event has to be read from the log.

        One that lost the event meanwhile, and does not know it yet, has no say in it any more.
        """
        outstanding = taker.track()
        event = outstanding.get(nack.position)
        if event is None or _is_stale(outstanding, event, nack, link):
            taker.follow_outstanding()
            return False
        self.counts.refused += 1
        reason = nack.reason or "no reason was given"
        return self._refuse(taker, outstanding, event, reason, nack.delay_seconds, now)

    def _refuse(
        self,
        taker: Taker,
        outstanding: Outstanding,
        event: OutstandingEvent,
        reason: str,
        delay_seconds: float | None,
        now: float,
    ) -> bool:
        consuming = taker.subscription.consuming
        event.attempts += 1
        event.refusals += 1
        event.reason = reason
        if event.delivery is None and not taker.reads_log:
            outstanding.settle(event)
            taker.follow_outstanding()
            taker.drop(1)
            self.counts.dropped += 1
            return False
        if event.refusals >= consuming.attempts_max and event.delivery is not None:
            self._bury(taker, outstanding, event, now)
            return False
        is_last = event.refusals >= consuming.attempts_max
        delay = consuming.backoff(event.refusals) if delay_seconds is None else delay_seconds
        outstanding.postpone(event, now if is_last else now + delay)
        self.wake_in_time(taker, outstanding)
        return event.delivery is None

    def _bury(self, taker: Taker, outstanding: Outstanding, event: OutstandingEvent, now: float) -> None:
        outstanding.settle(event)
        self._letters.bury(taker.subscription.key, [bytes(event.delivery or b"{}")], event.reason, event.attempts, now)
        taker.follow_outstanding()

    # Dead letters

    def forget(self, taker: Taker) -> None:
        """A subscription has ended."""
        self._letters.forget(taker.subscription.key)

    def recovered(self, taker: Taker) -> None:
        """All that the log holds is known: go on sending dead letters again."""
        if positions := self._letters.positions(taker.subscription.key):
            taker.recover_buried(positions)
        self.redrive(taker, [letter.position for letter in self._letters.redriven(taker.subscription.key)])

    def redrive(self, taker: Taker, positions: Iterable[Position]) -> None:
        """Send dead letters again."""
        letters = self._letters.redrive(taker.subscription.key, list(positions))
        if not letters:
            return
        outstanding = taker.track()
        key_of = KeyOf(taker.subscription.consuming.key)
        for letter in letters:
            entry = letter.position, math.inf, Raw(letter.delivery)
            event = OutstandingEvent(*entry, key_of(entry), attempts=max(1, letter.attempts), reason=letter.reason)
            outstanding.redrive(event)


def _is_stale(outstanding: Outstanding, event: OutstandingEvent, nack: Nack, link: str | None) -> bool:
    """Whether a refusal is about an earlier sending of an event."""
    if nack.attempt is not None and nack.attempt <= event.attempts:
        return True
    is_another_consumer = link is not None and link in outstanding.consumers and event.consumer != link
    return is_another_consumer and event.state is not EventState.READY


def _numbered(event: OutstandingEvent) -> Raw:
    """The delivery of an event; one that was sent before says the how manieth sending this is."""
    delivery = event.delivery or Raw(b"{}")  # what is ready has its delivery
    if not event.attempts:
        return delivery
    return Raw(b'{"attempt":%d,' % (event.attempts + 1) + bytes(delivery)[1:])


def _parts(deliveries: list[Raw], bytes_max: int) -> Iterable[list[Raw]]:
    part: list[Raw] = []
    size = 0
    for delivery in deliveries:
        part.append(delivery)
        size += len(delivery)
        if size >= bytes_max:
            yield part
            part, size = [], 0
    if part:
        yield part
