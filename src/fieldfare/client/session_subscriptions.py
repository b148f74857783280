"""The subscriptions of a session: confirmed on each connection anew, acknowledged a little later, until they end.

What came already is known by its position, so an event that is sent again after a broken connection comes once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator

from fieldfare.client import wire
from fieldfare.client.awaited_answers import AwaitedAnswers
from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import (
    Completed,
    Delivered,
    Failed,
    Key,
    LogChanged,
    Moved,
    Noticed,
    Output,
    Transmit,
    Withdrawn,
)
from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.client.session_windows import SessionWindows
from fieldfare.errors import DetachedError, MovedError, RefusedError
from fieldfare.messages import (
    REASON_CHARACTERS_MAX,
    Attach,
    Delivery,
    Detach,
    Nack,
    Notice,
    Position,
    Subscribe,
    Subscribed,
    Unsubscribe,
)


class SessionSubscriptions:
    """All subscriptions of a session. Those of a session that may move remember which events came, for other edges.

    `request` asks the edge for something else.
    """

    def __init__(
        self,
        options: SessionOptions,
        answers: AwaitedAnswers,
        windows: SessionWindows,
        request: Callable[[Key, Unsubscribe, float], list[Output]],
        *,
        may_move: bool,
    ) -> None:
        self.ack_at = math.inf  # when to call `acknowledge_all`
        self._options, self._answers, self._windows, self._request = options, answers, windows, request
        self._may_move = may_move
        self._is_connected = False
        self._knows_logs = False  # whether the edge that is connected now does
        self._subscriptions: dict[Key, SessionSubscription] = {}
        self._by_id: dict[str, SessionSubscription] = {}  # those that are confirmed on this connection
        self._unacknowledged: dict[SessionSubscription, None] = {}  # the application took events of these

    def is_in_force(self, key: Key) -> bool:
        """Whether the edge has confirmed a subscription on this connection."""
        return key in self._subscriptions and self._subscriptions[key].id is not None

    # Commands

    def subscribe(self, key: Key, frame: Subscribe | Attach, now: float, *, is_manual: bool) -> list[Output]:
        """Subscribe, or attach to a durable subscription; the key names it from now on."""
        if (error := self._windows.check()) is not None:
            return [Failed(key, error)]
        subscription = SessionSubscription(key, frame)
        subscription.in_hand.is_manual = is_manual
        if self._may_move:
            subscription.recent = deque(maxlen=self._options.remembered_events_max)
        return self.adopt(subscription, now)

    def adopt(self, subscription: SessionSubscription, now: float) -> list[Output]:
        """Go on with a subscription of another session, which has let it go: its home is the edge of this one."""
        self._subscriptions[subscription.key] = subscription
        subscription.knows_logs = self._knows_logs
        self._windows.open(subscription)
        return [self._answers.send(subscription, now)] if self._is_connected and subscription.has_window else []

    def ack(self, key: Key, position: Position, now: float) -> list[Output]:
        """The application is done with all events of a subscription up to a position."""
        subscription = self._subscriptions.get(key)
        if subscription is None:
            return []
        if subscription.in_hand.is_single(position):
            return self.ack_each(key, position, now)
        if not subscription.take(position):
            return []
        self._windows.took(subscription, position)
        return self._acknowledge_soon(subscription, now)

    def ack_each(self, key: Key, position: Position, now: float) -> list[Output]:
        """The application is done with one event of a subscription."""
        subscription = self._subscriptions.get(key)
        if subscription is None:
            return []
        subscription.settle(position)
        self._windows.took_one(subscription)
        return self._acknowledge_soon(subscription, now)

    def nack(self, key: Key, event: Delivery, reason: str, delay_seconds: float | None) -> list[Output]:
        """The application could not deal with an event: it comes again later, or becomes a dead letter.

        While there is no connection, the edge has the event as one that nobody has dealt with.
        """
        subscription = self._subscriptions.get(key)
        if subscription is None:
            return []
        self._windows.took_one(subscription)
        if subscription.id is None:
            subscription.in_hand.refuse(event.position, comes_again=True, is_told=False)
            return []
        subscription.refuse(event.position, event.attempt)
        frame = Nack(subscription.id, event.position, reason[:REASON_CHARACTERS_MAX], delay_seconds, event.attempt)
        return [*_acknowledge(subscription), Transmit(frame)]

    def _acknowledge_soon(self, subscription: SessionSubscription, now: float) -> list[Output]:
        if subscription.in_hand.acks_each and subscription.in_hand.is_prompt:
            return _acknowledge(subscription)
        if subscription.events_taken >= subscription.ack_events:
            return _acknowledge(subscription)
        self._unacknowledged[subscription] = None
        if self.ack_at == math.inf:
            self.ack_at = now + self._options.ack_delay_seconds
        return []

    def detach(self, key: Key) -> list[Output]:
        """Deliver no more of a subscription here; a durable one waits for the next client that attaches."""
        subscription = self._forget(key)
        if subscription is None or subscription.id is None:
            return []
        return [*_acknowledge(subscription), Transmit(Detach(subscription.id))]

    def unsubscribe(self, key: Key, subscription: Key, now: float) -> list[Output]:
        """End a subscription of this session; the key names this request, `subscription` what is to end."""
        ending = self._subscriptions.get(subscription)
        if ending is None or not (ending.is_durable or self._is_connected):  # it ended with its connection
            self._forget(subscription)
            return [Completed(key)]
        if ending.id is None:
            ending.ending = key
            return []
        self._forget(subscription)
        return self._request(key, Unsubscribe(0, ending.id), now)

    def close(self) -> list[Output]:
        """The last call: acknowledge what the application took."""
        outputs = [output for subscription in self._unacknowledged for output in _acknowledge(subscription)]
        for subscription in self._subscriptions.values():
            self._windows.close(subscription)
        return outputs

    def keys(self) -> Iterator[Key]:
        """Whom to tell that the session is closed: of each subscription, or of the request to end it."""
        return (each.key if each.ending is None else each.ending for each in self._subscriptions.values())

    # What happened

    def connected(self, *, knows_logs: bool) -> list[SessionSubscription]:
        """There is a connection. Returns what to ask for on it."""
        self._is_connected, self._knows_logs = True, knows_logs
        asked = [each for each in self._subscriptions.values() if each.has_window]
        for each in asked:
            each.knows_logs = knows_logs
        return asked

    def disconnected(self) -> list[Output]:
        """The connection is gone.

        Where events come out of order, those that were not taken may be another consumer's from now on.
        """
        each = [one for one in self._subscriptions.values() if one.id is not None and one.in_hand.acks_each]
        self._is_connected = False
        self._by_id.clear()
        self._unacknowledged.clear()
        self.ack_at = math.inf
        for subscription in self._subscriptions.values():
            subscription.disconnect()
        self._windows.disconnected()
        for subscription in each:
            self._windows.left_log(subscription)
        return [Withdrawn(subscription.key) for subscription in each]

    def acknowledge_all(self) -> list[Output]:
        """Tell the edge of all events that the application took."""
        outputs = [output for subscription in self._unacknowledged for output in _acknowledge(subscription)]
        self._unacknowledged.clear()
        self.ack_at = math.inf
        return outputs

    def delivered(self, frame: wire.DecodedDeliver) -> list[Output]:
        """Events came."""
        subscription = self._by_id.get(frame.subscription)
        if subscription is None:
            return []
        fresh = subscription.fresh(frame.events)
        outputs: list[Output] = []
        if fresh:
            outputs.append(Delivered(subscription.key, fresh))
            self._windows.came(subscription, len(fresh), len(fresh[0].event))
        if len(fresh) < len(frame.events):  # some were sent again: perhaps the acknowledgement was lost
            outputs += _acknowledge(subscription)
        return outputs

    def noticed(self, notice: Notice, now: float) -> list[Output]:
        """The edge says something about a subscription."""
        subscription = self._by_id.get(notice.subscription)
        if subscription is None:
            return []
        outputs: list[Output] = [Noticed(subscription.key, notice)]
        if notice.kind == "seek" and notice.position is not None:
            del self._by_id[notice.subscription]
            subscription.id = None
            subscription.begin_after(notice.position)
            self._unacknowledged.pop(subscription, None)
            self._windows.left_log(subscription)
            outputs += [Withdrawn(subscription.key), self._answers.send(subscription, now)]
        if notice.kind == "detached":
            self._forget(subscription.key)
            outputs.append(Failed(subscription.key, DetachedError(notice.subscription, notice.detail)))
        return outputs

    def confirmed(self, subscription: SessionSubscription, answer: Subscribed, now: float) -> list[Output]:
        """The edge has confirmed a subscription."""
        if self._subscriptions.get(subscription.key) is not subscription:
            return [Transmit(Detach(answer.subscription))]
        is_first = not subscription.is_confirmed
        has_other_log = subscription.confirm(answer)
        if subscription.ending is not None:
            self._forget(subscription.key)
            return self._request(subscription.ending, Unsubscribe(0, answer.subscription), now)
        self._by_id[answer.subscription] = subscription
        self._windows.confirmed(subscription)
        if has_other_log:
            self._windows.left_log(subscription)
        if is_first:
            return [Completed(subscription.key, answer)]
        changed: list[Output] = [LogChanged(subscription.key, answer.log)] if has_other_log else []
        return [*changed, *_acknowledge(subscription)]

    def refused(
        self, subscription: SessionSubscription, error: RefusedError, now: float, *, is_busy: bool
    ) -> list[Output]:
        """The edge has refused a subscription; if it is only busy, it is asked again later."""
        if self._subscriptions.get(subscription.key) is not subscription:
            return []  # nobody wants it any more
        if is_busy:
            self._answers.retry_later(subscription, now)
            return []
        self._forget(subscription.key)
        if isinstance(error, MovedError) and subscription.ending is None:
            return [Moved(subscription.key, error, subscription)]
        if subscription.ending is None:
            return [Failed(subscription.key, error)]
        is_there = isinstance(error, MovedError)  # at another edge
        return [Failed(subscription.ending, error) if is_there else Completed(subscription.ending)]

    def _forget(self, key: Key) -> SessionSubscription | None:
        subscription = self._subscriptions.pop(key, None)
        if subscription is not None:
            self._by_id.pop(subscription.id or "", None)
            self._answers.cancel(subscription)
            self._unacknowledged.pop(subscription, None)
            self._windows.close(subscription)
        return subscription


def _acknowledge(subscription: SessionSubscription) -> list[Output]:
    return [Transmit(frame) for frame in subscription.acknowledgements()]
