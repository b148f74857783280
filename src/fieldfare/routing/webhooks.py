"""Webhooks: one call at a time for each, so that events arrive in order; retries, and dead letters for what fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.messages import CallWebhook, DeadLetter, Position, WebhookCalled
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.ports import Emit, LogPort, Timers
from fieldfare.routing.taker import Taker

_ONE_BY_ONE = frozenset({"structured", "binary"})  # forms in which a call has one event


@dataclass(frozen=True, slots=True)
class RetryTimer:
    """Timer key: the wait after a failed call is over."""

    tenant: str
    subscription: str
    handle: int


@dataclass(slots=True)
class PendingCall:
    """A webhook's call that is under way, or that is to be tried again."""

    effect: CallWebhook
    attempts: int = 1


@dataclass(slots=True)
class CallCounts:
    """What has been called since the start."""

    calls: int = 0
    failed: int = 0
    events: int = 0  # that were taken
    dead_letters: int = 0


class WebhookCalls:
    """Calls for all takers that have a webhook. `acknowledge` is called when events have been dealt with."""

    def __init__(
        self,
        options: EdgeOptions,
        rng: random.Random,
        emit: Emit,
        log: LogPort,
        timers: Timers,
        acknowledge: Callable[[Taker, Position, float], None],
    ) -> None:
        self.counts = CallCounts()
        self.dead_letters: dict[tuple[str, str], list[DeadLetter]] = {}
        self._acknowledge = acknowledge
        self._options, self._rng, self._emit, self._log, self._timers = options, rng, emit, log, timers

    def call(self, taker: Taker, now: float) -> None:
        """Call with what waits, unless a call is under way."""
        if taker.call is not None:
            return
        made = taker.subscription
        count_max = 1 if made.webhook_form in _ONE_BY_ONE else self._options.webhook_events_max
        events = taker.take(now, count_max, self._options.frame_bytes_max)
        if events and made.webhook is not None:
            position = taker.in_flight[-1]
            effect = CallWebhook(taker.handle, *made.key, made.webhook, made.topic, position, events, made.webhook_form)
            taker.call = PendingCall(effect)
            self.counts.calls += 1
            self._emit(effect)

    def called(self, taker: Taker, result: WebhookCalled, now: float) -> None:
        """A webhook answered, or did not: go on, try again later, or give these events up."""
        call = taker.call
        if call is None or call.effect.position != result.position:
            return
        if result.failure is None:
            self.counts.events += len(call.effect.events)
            self._done(taker, call, now)
            return
        self.counts.failed += 1
        if result.is_permanent or call.attempts >= self._options.webhook_attempts_max:
            self._bury(taker, call, result.failure, now)
            self._done(taker, call, now)
            return
        backoff = self._options.webhook_backoff_seconds * 2 ** (call.attempts - 1)
        wait = min(backoff, self._options.webhook_backoff_seconds_max) * self._rng.uniform(0.75, 1.25)
        call.attempts += 1
        key = RetryTimer(*taker.subscription.key, taker.handle)
        self._timers.set(key, now + max(wait, result.retry_after_seconds or 0))

    def call_again(self, taker: Taker) -> None:
        """The wait after a failed call is over."""
        if taker.call is not None:
            self.counts.calls += 1
            self._emit(taker.call.effect)

    def forget(self, key: tuple[str, str]) -> None:
        """A subscription has ended."""
        self.dead_letters.pop(key, None)

    def _done(self, taker: Taker, call: PendingCall, now: float) -> None:
        taker.call = None
        self._acknowledge(taker, call.effect.position, now)

    def _bury(self, taker: Taker, call: PendingCall, reason: str, now: float) -> None:
        letter = DeadLetter(*taker.subscription.key, now, reason, [bytes(event) for event in call.effect.events])
        self.counts.dead_letters += len(letter.deliveries)
        self.keep_letter(letter)
        self._log.append_lazily(letter)

    def keep_letter(self, letter: DeadLetter) -> None:
        """Keep events that could not be delivered, and of many the latest. It is no harm to be told twice."""
        letters = self.dead_letters.setdefault((letter.tenant, letter.subscription), [])
        if letter not in letters:
            letters.append(letter)
        del letters[: -self._options.dead_letters_max]
        while len(letters) > 1 and sum(map(_size_bytes, letters)) > self._options.dead_letter_bytes_max:
            del letters[0]


def _size_bytes(letter: DeadLetter) -> int:
    return sum(map(len, letter.deliveries))
