"""The windows of a session's subscriptions: asked for when they begin, and changed as the client's budget says.

Changes are sent by the session's timer, which is due at once: the budget may change windows in the midst of anything,
and those of another session that has the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fieldfare.client.awaited_answers import AwaitedAnswers, RepeatableRequest
from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Output
from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.client.window_budget import WindowBudget, WindowShare
from fieldfare.errors import RefusedError
from fieldfare.messages import Position, SetWindow


class SessionWindows:
    """Gives windows to the subscriptions of a session. `on_change` is called when there is something to send."""

    def __init__(self, budget: WindowBudget, options: SessionOptions, answers: AwaitedAnswers) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._budget, self._options, self._answers = budget, options, answers
        self._subscriptions: dict[WindowShare, SessionSubscription] = {}
        self._changed: dict[WindowShare, None] = {}

    @property
    def next_time(self) -> float:
        """When to call `send_changes`: at once, or never."""
        return 0.0 if self._changed else math.inf

    def check(self) -> RefusedError | None:
        """Why there can be no further subscription, if there cannot."""
        if not self._budget.is_given_out:
            return None
        count = self._budget.events_max
        reason = f"this client has {count:,} subscriptions, and room for {count:,} events in all"
        return RefusedError("limit", f"{reason}: end some, or give it more by ClientOptions(buffered_events_max=...)")

    # Subscriptions

    def open(self, subscription: SessionSubscription) -> None:
        """A subscription begins; it has no window while there is no room for it."""
        outstanding = 0 if subscription.share is None else subscription.share.outstanding
        share = WindowShare(subscription.request.window, self._change, outstanding=outstanding)
        subscription.share = share
        self._subscriptions[share] = subscription
        self._budget.join(share)
        self._set_ack_events(share)

    def close(self, subscription: SessionSubscription) -> None:
        """It is no more."""
        if (share := subscription.share) is not None and self._subscriptions.pop(share, None) is not None:
            self._changed.pop(share, None)
            self._budget.leave(share)

    def came(self, subscription: SessionSubscription, count: int, bytes_each: int) -> None:
        """Events came, and are given to the application."""
        if subscription.share is not None:
            self._budget.came(subscription.share, count, bytes_each)

    def took(self, subscription: SessionSubscription, position: Position) -> None:
        """The application is done with all up to a position; only of the last is it known how many that are."""
        if (share := subscription.share) is not None:
            self._budget.took(share, share.outstanding if position >= subscription.given else 1)

    def took_one(self, subscription: SessionSubscription) -> None:
        """The application is done with one event, or has refused it."""
        if subscription.share is not None:
            self._budget.took(subscription.share, 1)

    def left_log(self, subscription: SessionSubscription) -> None:
        """What came before is not counted any more: there is nobody to whom it could be acknowledged."""
        if subscription.share is not None:
            self._budget.took(subscription.share, subscription.share.outstanding)

    # Changes

    def _change(self, share: WindowShare) -> None:
        self._set_ack_events(share)
        self._changed[share] = None
        self.on_change()

    def _set_ack_events(self, share: WindowShare) -> None:
        subscription = self._subscriptions.get(share)
        if subscription is not None:
            subscription.ack_events = max(1, min(self._options.ack_events, share.window // 4))

    def send_changes(self, now: float, *, is_connected: bool) -> list[Output]:
        """Tell the edge of windows that have changed, and of subscriptions for which there is room at last."""
        changed, self._changed = self._changed, {}
        outputs: list[Output] = []
        for share in changed if is_connected else ():
            subscription = self._subscriptions.get(share)
            if subscription is None or share.window == subscription.window_sent:
                self.in_effect(share)
            elif subscription.window_sent is None:
                outputs.append(self._answers.send(subscription, now))
            elif subscription.id is not None:  # else it is told when the subscription is confirmed
                outputs.append(self._send(subscription, share, now))
        if not is_connected:
            for share in changed:
                self.in_effect(share)
        return outputs

    def _send(self, subscription: SessionSubscription, share: WindowShare, now: float) -> Output:
        subscription.window_sent = share.window
        request = RepeatableRequest(share, SetWindow(0, subscription.id or "", share.window))
        return self._answers.send(request, now)

    def confirmed(self, subscription: SessionSubscription) -> None:
        """It is in force on this connection; its window may have changed meanwhile."""
        if (share := subscription.share) is not None and share.is_changing:
            self._change(share)

    def in_effect(self, share: WindowShare) -> None:
        """The edge knows a window, or has ended the subscription."""
        self._budget.in_effect(share)

    def disconnected(self) -> None:
        """Nothing is on its way any more. The next connection is told of the windows as they are then."""
        for share, subscription in list(self._subscriptions.items()):
            subscription.window_sent = None
            if share.is_changing:
                self.in_effect(share)
