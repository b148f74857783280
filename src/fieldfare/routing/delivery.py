"""From matches to subscribers: offering events to outboxes, sending what their windows allow, calling webhooks.

Whatever takes events (a WebSocket, a stream, a poll, a callback, a webhook) is the same here: it is attached to one
subscription, it may have `window` events unacknowledged, and acknowledging lets more through.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from fieldfare.messages import (
    Call,
    Called,
    DeadLetter,
    Deliver,
    Effect,
    Fetched,
    Notice,
    Position,
    Record,
    Send,
    SetTimer,
)
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.outbox import Outbox
from fieldfare.routing.topic import Matches, Topic

_MANY = 1 << 62


@dataclass(slots=True)
class _Calling:
    """A webhook's call that is under way, or that is to be tried again."""

    call: Call
    attempts: int = 1


@dataclass(slots=True)
class Counts:
    """What has been delivered since the start."""

    matched: int = 0
    delivered: int = 0
    acknowledged: int = 0
    dropped: int = 0
    calls: int = 0
    calls_failed: int = 0
    dead_letters: int = 0


@dataclass(slots=True)
class Deliveries:
    """The delivery of all subscriptions of an edge."""

    options: EdgeOptions
    rng: random.Random
    emit: Callable[[Effect], None]
    store: Callable[[Record], None]
    counts: Counts = field(default_factory=Counts)
    moved: dict[int, Outbox] = field(default_factory=dict)  # durable ones whose cursor is to be written
    dead_letters: dict[tuple[str, str], list[DeadLetter]] = field(default_factory=dict)
    _slow: dict[int, Outbox] = field(default_factory=dict)  # those with events waiting
    _calling: dict[int, _Calling] = field(default_factory=dict)

    def offer(self, topic: Topic, matches: Matches, last: Position, now: float) -> None:
        """New events of a topic, up to a position, for those who want them."""
        for outbox, entries in matches:
            outbox.matched_count += len(entries)
            outbox.last_matched_at = now
            self.counts.matched += len(entries)
            outbox.offer(entries)
            self.pump(topic, outbox, now)
        topic.matched = max(topic.matched, last)

    def pump(self, topic: Topic, outbox: Outbox, now: float) -> None:
        """Send what may be sent, and read the log for more if there is room."""
        if outbox.subscription.webhook is not None:
            self._call(topic, outbox, now)
        elif outbox.connection is not None:
            while deliveries := outbox.take(now, _MANY, self.options.frame_bytes_max):
                if outbox.dropped_count:
                    self._tell_dropped(outbox)
                self.counts.delivered += len(deliveries)
                self.emit(Send(outbox.connection, Deliver(outbox.subscription.id, deliveries)))
        if outbox.waiting:
            self.counts.dropped += outbox.trim(self.options.waiting_max)
            self._slow[outbox.handle] = outbox
        elif self._slow:
            self._slow.pop(outbox.handle, None)
        is_roomy = len(outbox.waiting) <= self.options.waiting_max // 2
        if outbox.behind_after is not None and outbox.is_attached and is_roomy:
            for fetch in topic.read_for(outbox):
                self.emit(fetch)

    def attach(
        self, topic: Topic, outbox: Outbox, connection: str | None, window: int, after: Position | None, now: float
    ) -> None:
        """Deliver on a connection from now on; whoever had it before is told."""
        if outbox.connection != connection:
            self.tell_detached(outbox, "the subscription is delivered on another connection now")
        topic.leave(outbox)
        outbox.attach(connection, window, after, topic.matched)
        if after is not None:
            self._moved(outbox)
        self.pump(topic, outbox, now)

    def tell_detached(self, outbox: Outbox, detail: str) -> None:
        """Whoever is served by a subscription is no longer."""
        self._notice(outbox, "detached", detail)

    def detach(self, topic: Topic, outbox: Outbox) -> None:
        """Nobody takes events of a subscription any more."""
        topic.leave(outbox)
        outbox.detach(topic.matched)
        self._moved(outbox)
        self._slow.pop(outbox.handle, None)

    def forget(self, outbox: Outbox) -> None:
        """A subscription has ended."""
        for table in (self.moved, self._slow, self._calling):
            table.pop(outbox.handle, None)
        self.dead_letters.pop(outbox.key, None)

    def acknowledge(self, topic: Topic, outbox: Outbox, position: Position, now: float, *, is_final: bool) -> None:
        """A subscriber has got all up to a position."""
        before = len(outbox.in_flight)
        outbox.acknowledge(position, topic.matched, is_final=is_final)
        self.counts.acknowledged += before - len(outbox.in_flight)
        self._moved(outbox)
        self.pump(topic, outbox, now)

    def _moved(self, outbox: Outbox) -> None:
        if outbox.subscription.is_durable:
            self.moved[outbox.handle] = outbox

    def fetched(self, topic: Topic, piece: Fetched, now: float) -> None:
        """A piece of the log came, for those who are behind."""
        if piece.lost_before >= 0:
            self._tell_lost(topic, piece.lost_before)
        readers, fetches = topic.taken(piece, self.options.waiting_max)
        for fetch in fetches:
            self.emit(fetch)
        for outbox in readers:
            self.pump(topic, outbox, now)

    def _tell_lost(self, topic: Topic, lost_before: Position) -> None:
        for outbox in topic.behind_before(lost_before):
            self._notice(
                outbox, "gap", "older events are no longer in the log: its limit of size was reached", lost_before
            )

    def _notice(self, outbox: Outbox, kind: str, detail: str, position: Position | None = None) -> None:
        if outbox.connection is not None:
            self.emit(Send(outbox.connection, Notice(outbox.subscription.id, kind, detail, position)))  # type: ignore[arg-type]

    def _tell_dropped(self, outbox: Outbox) -> None:
        """Ahead of the events that it did not lose: who takes nothing is told nothing, and cannot be swamped."""
        if outbox.subscription.qos.keep_last is None:
            self._notice(outbox, "gap", f"{outbox.dropped_count} events were dropped: the subscriber is too slow")
        outbox.dropped_count = 0

    def tidy(self) -> None:
        """Now and then: free the memory of the slowest if there is too little."""
        sizes = {handle: sum(len(e.delivery) for e in outbox.waiting) for handle, outbox in self._slow.items()}
        excess = sum(sizes.values()) - self.options.waiting_bytes_max
        for handle in sorted(sizes, key=lambda handle: -sizes[handle]):
            if excess <= 0:
                break
            excess -= sizes[handle]
            self.counts.dropped += self._slow.pop(handle).fall_behind()

    def check_deadline(self, outbox: Outbox, now: float) -> None:
        """Tell the subscriber if no event came for too long, and look again in time."""
        period = outbox.subscription.qos.deadline_seconds
        if period is None:
            return
        due_at = outbox.last_matched_at + period
        if due_at <= now:
            self._notice(outbox, "deadline", f"no event came for {period:g} s")
            due_at = now + period
        self.emit(SetTimer(f"deadline:{outbox.handle}", due_at))

    # Webhooks: one call at a time for each, so that events arrive in order.

    def _call(self, topic: Topic, outbox: Outbox, now: float) -> None:
        if outbox.handle in self._calling:
            return
        events = outbox.take(now, self.options.webhook_events_max, self.options.frame_bytes_max)
        if not events:
            return
        subscription = outbox.subscription
        assert subscription.webhook is not None  # noqa: S101 - or this would not be called
        call = Call(outbox.handle, subscription.id, subscription.webhook, topic.name, outbox.in_flight[-1], events)
        self._calling[outbox.handle] = _Calling(call)
        self.counts.calls += 1
        self.emit(call)

    def called(self, topic: Topic, outbox: Outbox, result: Called, now: float) -> None:
        """A webhook answered, or did not: go on, try again later, or give these events up."""
        calling = self._calling.get(outbox.handle)
        if calling is None or calling.call.position != result.position:
            return
        if result.failure is None:
            self.counts.delivered += len(calling.call.events)
            self._done(topic, outbox, calling, now)
            return
        self.counts.calls_failed += 1
        if result.is_permanent or calling.attempts >= self.options.webhook_attempts_max:
            self._bury(outbox, calling, result.failure, now)
            self._done(topic, outbox, calling, now)
            return
        backoff = self.options.webhook_backoff_seconds * 2 ** (calling.attempts - 1)
        wait = min(backoff, self.options.webhook_backoff_seconds_max) * self.rng.uniform(0.75, 1.25)
        calling.attempts += 1
        self.emit(SetTimer(f"webhook:{outbox.handle}", now + max(wait, result.retry_after_seconds or 0)))

    def call_again(self, outbox: Outbox) -> None:
        """The wait after a failed call is over."""
        calling = self._calling.get(outbox.handle)
        if calling is not None:
            self.counts.calls += 1
            self.emit(calling.call)

    def _done(self, topic: Topic, outbox: Outbox, calling: _Calling, now: float) -> None:
        del self._calling[outbox.handle]
        self.acknowledge(topic, outbox, calling.call.position, now, is_final=True)

    def _bury(self, outbox: Outbox, calling: _Calling, reason: str, now: float) -> None:
        letter = DeadLetter(*outbox.key, now, reason, [bytes(event) for event in calling.call.events])
        self.counts.dead_letters += len(letter.deliveries)
        self.keep_letter(letter)
        self.store(letter)

    def keep_letter(self, letter: DeadLetter) -> None:
        """Keep events that could not be delivered, and of many the latest. It is no harm to be told twice."""
        letters = self.dead_letters.setdefault((letter.tenant, letter.subscription), [])
        if letter not in letters:
            letters.append(letter)
        del letters[: -self.options.dead_letters_max]
        while len(letters) > 1 and sum(map(_size_bytes, letters)) > self.options.dead_letter_bytes_max:
            del letters[0]


def _size_bytes(letter: DeadLetter) -> int:
    return sum(map(len, letter.deliveries))
