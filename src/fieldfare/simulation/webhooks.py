"""Webhook endpoints that are functions: they take events, refuse them, or never answer.

The call and its answer travel over the network, so either may be lost in a partition; for the edge both look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from fieldfare.messages import CallWebhook, CheckWebhook, Delivery, WebhookCalled, WebhookChecked
from fieldfare.simulation.history import History
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.network import Network


@dataclass(frozen=True)
class Failure:
    """An endpoint did not take the events."""

    reason: str
    is_permanent: bool = False
    retry_after_seconds: float | None = None


class Hang:
    """An endpoint never answers."""


Endpoint: TypeAlias = Callable[[Sequence[Delivery]], Failure | Hang | None]

_delivery = msgspec.json.Decoder(Delivery)


class Webhooks:
    """The endpoints of a world, by URL. Each is a place on the network whose name is its URL."""

    def __init__(self, network: Network, history: History, timeout_seconds: float = 10.0) -> None:
        self.check_seconds = 0.0  # how much longer it takes now to look a URL up
        self.is_busy = False  # too many URLs are being looked up: no other is
        self._network = network
        self._history = history
        self._timeout_seconds = timeout_seconds
        self._endpoints: dict[str, Endpoint] = {}
        self._forbidden: dict[str, str] = {}

    def add(self, url: str, endpoint: Endpoint) -> None:
        """From now on calls to this URL are answered so."""
        self._endpoints[url] = endpoint

    @property
    def urls(self) -> list[str]:
        """Those that are answered."""
        return list(self._endpoints)

    def forbid(self, url: str, reason: str) -> None:
        """From now on no new subscription may name this URL."""
        self._forbidden[url] = reason

    def allow(self, url: str) -> None:
        """From now on subscriptions may name this URL again."""
        self._forbidden.pop(url, None)

    def serve(self, host: SimulatedHost) -> None:
        """Perform the checks and calls of a host's node."""
        host.perform_with(CheckWebhook, lambda check: self._check(host, check))
        host.perform_with(CallWebhook, lambda call: self._call(host, call))

    def _check(self, host: SimulatedHost, check: CheckWebhook) -> None:
        """Looking a name up takes a way to somewhere and back."""
        if self.is_busy:
            answer = WebhookChecked(check.number, "many webhooks are being looked at", is_busy=True)
            host.later(0.0, lambda: host.tell(answer))
            return
        seconds = 2 * self._network.delay(host.name, check.url) + self.check_seconds
        host.later(seconds, lambda: host.tell(WebhookChecked(check.number, self._forbidden.get(check.url))))

    def _call(self, host: SimulatedHost, call: CallWebhook) -> None:
        clock = self._network.clock
        is_answered = False

        def answer(failure: Failure | None) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                host.tell(_called(call, failure))

        def reach() -> None:
            if self._network.is_cut(host.name, call.url):
                return
            endpoint = self._endpoints.get(call.url, _nobody)
            events = [_delivery.decode(event) for event in call.events]
            outcome = endpoint(events)
            if outcome is None:
                self._history.called.setdefault(call.url, []).extend(events)
            elif isinstance(outcome, Failure) and outcome.is_permanent:
                self._history.refused.setdefault(call.url, []).extend(events)
            if not isinstance(outcome, Hang):
                clock.after(self._network.delay(call.url, host.name), lambda: come_back(outcome))

        def come_back(outcome: Failure | None) -> None:
            if not self._network.is_cut(call.url, host.name):
                answer_in_this_life(outcome)

        answer_in_this_life = host.in_this_life(answer)
        host.later(self._timeout_seconds, lambda: answer(Failure("no answer in time")))
        clock.after(self._network.delay(host.name, call.url), reach)


def _called(call: CallWebhook, failure: Failure | None) -> WebhookCalled:
    if failure is None:
        return WebhookCalled(call.handle, call.tenant, call.subscription, call.position)
    return WebhookCalled(
        call.handle,
        call.tenant,
        call.subscription,
        call.position,
        failure.reason,
        is_permanent=failure.is_permanent,
        retry_after_seconds=failure.retry_after_seconds,
    )


def _nobody(_: Sequence[Delivery]) -> Failure:
    return Failure("nobody listens there")
