"""Webhooks: one call at a time for each, so that events arrive in order; retries, and dead letters for what fails.

An endpoint that takes a call may refuse single events of it, which then come again as any consumer's do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from fieldfare.messages import REASON_CHARACTERS_MAX, CallWebhook, Nack, Position, WebhookCalled
from fieldfare.qos import Consuming
from fieldfare.routing.consuming import Consumption
from fieldfare.routing.dead_letters import DeadLetters
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.ports import Emit, Timers
from fieldfare.routing.taker import WEBHOOK, Taker


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
    positions: list[Position]  # of its events
    attempts: int = 1


@dataclass(slots=True)
class CallCounts:
    """What has been called since the start."""

    calls: int = 0
    failed: int = 0
    events: int = 0  # that were taken


class Settling(Protocol):
    """What is told what became of the events of a call."""

    def acknowledge(self, taker: Taker, position: Position, now: float, *, is_final: bool) -> None:
        """All up to a position was taken."""

    def acknowledge_each(self, taker: Taker, positions: Sequence[Position], now: float) -> None:
        """Single events were taken."""

    def refuse(self, taker: Taker, refusals: Sequence[Nack], now: float) -> None:
        """Single events were refused."""

    def give_up(self, taker: Taker, positions: Sequence[Position], now: float) -> None:
        """Events are dead letters now."""


class WebhookCalls:
    """Calls for all takers that have a webhook. `settling` has to be set before the first."""

    settling: Settling

    def __init__(
        self,
        options: EdgeOptions,
        rng: random.Random,
        emit: Emit,
        timers: Timers,
        consumption: Consumption,
        letters: DeadLetters,
    ) -> None:
        self.counts = CallCounts()
        self._options, self._rng, self._emit, self._timers = options, rng, emit, timers
        self._consumption, self._letters = consumption, letters

    def call(self, taker: Taker, now: float) -> None:
        """Call with what waits, unless a call is under way."""
        if taker.call is not None:
            return
        made, count_max = taker.subscription, self._options.webhook_events_max
        if taker.outstanding is not None:
            events = self._consumption.take(taker, taker.outstanding, WEBHOOK, now, count_max)
        else:
            events = taker.take(now, count_max, self._options.frame_bytes_max)
        if events and made.webhook is not None:
            if taker.outstanding is None:
                positions, attempt = taker.in_flight.copy(), 1
            else:
                sent = [_sent.decode(event) for event in events]
                positions, attempt = [each.position for each in sent], max(each.attempt for each in sent)
            effect = CallWebhook(taker.handle, *made.key, made.webhook, made.topic, positions[-1], events, attempt)
            taker.call = PendingCall(effect, positions)
            self.counts.calls += 1
            self._emit(effect)

    def called(self, taker: Taker, result: WebhookCalled, now: float) -> None:
        """A webhook answered, or did not: go on, try again later, or give these events up."""
        call = taker.call
        if call is None or call.effect.position != result.position:
            return
        if result.failure is None:
            self._took(taker, call, result, now)
            return
        self.counts.failed += 1
        taker.last_error = now, result.failure
        attempts_max, backoff = self._patience(taker.subscription.consuming, call.attempts)
        if result.is_permanent or call.attempts >= attempts_max:
            self._bury(taker, call, result.failure, now)
            taker.call = None
            self.settling.give_up(taker, call.positions, now)
            return
        wait = backoff * self._rng.uniform(0.75, 1.25)
        call.attempts += 1
        key = RetryTimer(*taker.subscription.key, taker.handle)
        self._timers.set(key, now + max(wait, result.retry_after_seconds or 0))

    def _patience(self, consuming: Consuming, attempts: int) -> tuple[int, float]:
        """After how many attempts a call is given up, and how long it waits now: the service's, unless one asked."""
        if consuming != Consuming():
            return consuming.attempts_max, consuming.backoff(attempts)
        backoff = self._options.webhook_backoff_seconds * 2 ** (attempts - 1)
        return self._options.webhook_attempts_max, min(backoff, self._options.webhook_backoff_seconds_max)

    def _took(self, taker: Taker, call: PendingCall, result: WebhookCalled, now: float) -> None:
        """An endpoint took the events, or some of them."""
        taker.call = None
        refused = {position: reason for position, reason in result.refused if position in call.positions}
        self.counts.events += len(call.positions) - len(refused)
        if not refused and taker.outstanding is None:
            self.settling.acknowledge(taker, call.effect.position, now, is_final=True)
            return
        if refused:
            nacks = [Nack(taker.id, position, reason[:REASON_CHARACTERS_MAX]) for position, reason in refused.items()]
            self.settling.refuse(taker, nacks, now)
        if taken := [position for position in call.positions if position not in refused]:
            self.settling.acknowledge_each(taker, taken, now)

    def abandon(self, taker: Taker) -> None:
        """What the call that is under way was about does not matter any more."""
        taker.call = None

    def call_again(self, taker: Taker) -> None:
        """The wait after a failed call is over."""
        if taker.call is not None:
            self.counts.calls += 1
            self._emit(taker.call.effect)

    def _bury(self, taker: Taker, call: PendingCall, reason: str, now: float) -> None:
        known = [] if taker.outstanding is None else list(map(taker.outstanding.get, call.positions))
        events = [event.delivery for event in known if event is not None and event.delivery is not None]
        deliveries = [bytes(event) for event in events or call.effect.events]
        self._letters.bury(taker.subscription.key, deliveries, reason, call.attempts, now)


class _Sent(msgspec.Struct):
    position: Position
    attempt: int = 1


_sent = msgspec.json.Decoder(_Sent)
