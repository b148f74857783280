"""A client's side of the protocol as a state machine: what happened goes in, what is to be done comes out.

It has no sockets, clocks or randomness; `fieldfare.client.aio` runs it for real, `fieldfare.simulation` under a virtual
clock. Every request is remembered until it is answered, and sent again over a new connection. Numbers on publications
and positions on deliveries make sure that what is sent twice happens once.
"""

from __future__ import annotations

import math

from fieldfare.client import wire
from fieldfare.client.awaited_answers import Awaited, AwaitedAnswers, RepeatableRequest
from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Completed, Delivered, Failed, Key, Noticed, Output, Reconnect, Transmit
from fieldfare.client.session_publications import SessionPublications
from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.client.unanswered_publications import UnansweredPublication, UnansweredPublications
from fieldfare.errors import DetachedError, FieldfareError, RefusedError, refusal
from fieldfare.messages import (
    Accepted,
    Attach,
    DeclareTopic,
    Deliver,
    Detach,
    EdgeFrame,
    List,
    Notice,
    Position,
    Publish,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
)


class ClientSession:
    """What one client has open: publications (see `session_publications`), subscriptions, and other requests.

    `publisher` is a name that no other session has or had: under it the publications are numbered from 0 on. Every
    method returns what is to be done now, in order; `timer` is to be called at `next_timer`, which each call may
    change. A command may come at any time, connected or not.
    """

    def __init__(self, publisher: str, options: SessionOptions = SessionOptions()) -> None:  # noqa: B008 - it is frozen
        self.options = options
        self.is_connected = False
        self._answers = AwaitedAnswers(options)
        self._publications = SessionPublications(publisher, options, self._answers)
        self._subscriptions: dict[Key, SessionSubscription] = {}
        self._by_id: dict[str, SessionSubscription] = {}  # those that are confirmed on this connection
        self._requests: dict[RepeatableRequest, None] = {}
        self._unacknowledged: dict[SessionSubscription, None] = {}  # the application took events of these,
        self.ack_at = math.inf  # which are acknowledged at this time

    # Commands

    @property
    def publisher(self) -> str:
        """The name under which this session publishes."""
        return self._publications.publisher

    @property
    def unanswered(self) -> int:
        """How many publications have no answer yet."""
        return self._publications.unanswered

    @property
    def has_room(self) -> bool:
        """Whether one more publication may wait for its answer; if not, wait until one is completed."""
        return self._publications.has_room

    @property
    def next_timer(self) -> float | None:
        """When to call `timer`."""
        at = min(self.ack_at, self._answers.next_time)
        return None if at == math.inf else at

    def publish(self, key: Key, frame: Publish, now: float) -> list[Output]:
        """Publish events; the frame's ref, publisher and sequence are filled in here."""
        if not self.has_room:
            return [Failed(key, RefusedError("limit", "too many publications wait for an answer: wait for one"))]
        if (failed := _check(key, frame)) is not None:
            return [failed]
        return self._publications.publish(key, frame, now, is_connected=self.is_connected)

    def subscribe(self, key: Key, frame: Subscribe | Attach, now: float) -> list[Output]:
        """Subscribe, or attach to a durable subscription; the key names it from now on."""
        if (failed := _check(key, frame)) is not None:
            return [failed]
        ack_events = max(1, min(self.options.ack_events, frame.window // 4))
        subscription = self._subscriptions[key] = SessionSubscription(key, frame, ack_events)
        return [self._answers.send(subscription, now)] if self.is_connected else []

    def ack(self, key: Key, position: Position, now: float) -> list[Output]:
        """The application is done with all events of a subscription up to a position."""
        subscription = self._subscriptions.get(key)
        if subscription is None or not subscription.take(position):
            return []
        if subscription.events_taken >= subscription.ack_events:
            return _acknowledge(subscription)
        self._unacknowledged[subscription] = None
        if self.ack_at == math.inf:
            self.ack_at = now + self.options.ack_delay_seconds
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
        if ending is None or not (ending.is_durable or self.is_connected):  # it ended with its connection
            self._forget(subscription)
            return [Completed(key)]
        if ending.id is None:
            ending.ending = key
            return []
        self._forget(subscription)
        return self.request(key, Unsubscribe(0, ending.id), now)

    def request(self, key: Key, frame: DeclareTopic | List | Unsubscribe, now: float) -> list[Output]:
        """Any other request."""
        if (failed := _check(key, frame)) is not None:
            return [failed]
        request = RepeatableRequest(key, frame)
        self._requests[request] = None
        return [self._answers.send(request, now)] if self.is_connected else []

    def close(self, error: FieldfareError) -> list[Output]:
        """The last call: acknowledge what the application took, and fail whatever is open."""
        outputs = [output for subscription in self._unacknowledged for output in _acknowledge(subscription)]
        keys = [
            *self._publications.keys(),
            *(each.key if each.ending is None else each.ending for each in self._subscriptions.values()),
            *(request.key for request in self._requests),
        ]
        return [*outputs, *(Failed(key, error) for key in keys)]

    # What happened

    def connected(self, now: float) -> list[Output]:
        """There is a connection: send it all that is open, subscriptions first, so that they see what is published."""
        self.disconnected(now)
        self.is_connected = True
        awaited: list[Awaited] = [*self._subscriptions.values(), *self._requests]
        return [*(self._answers.send(each, now) for each in awaited), *self._publications.connected(now)]

    def disconnected(self, now: float) -> list[Output]:  # noqa: ARG002 - all that happens is told in the same way
        """The connection is gone, and with it every answer that was on its way."""
        self.is_connected = False
        self._answers.clear()
        self._by_id.clear()
        self._unacknowledged.clear()
        self.ack_at = math.inf
        for subscription in self._subscriptions.values():
            subscription.id = None
        self._publications.disconnected()
        return []

    def received(self, frame: EdgeFrame | wire.DecodedEdgeFrame, now: float) -> list[Output]:
        """A frame came."""
        if isinstance(frame, wire.DecodedDeliver):
            return self._delivered(frame)
        if isinstance(frame, Deliver):
            return self._delivered(wire.decoded(frame))
        if isinstance(frame, Notice):
            return self._noticed(frame)
        awaited = self._answers.answered(frame.ref)
        if isinstance(frame, Refused):
            return self._refused(awaited, frame, now)
        if isinstance(awaited, UnansweredPublication) and isinstance(frame, Accepted):
            return self._publications.accepted(awaited, frame, now)
        if isinstance(awaited, SessionSubscription) and isinstance(frame, Subscribed):
            return self._confirmed(awaited, frame, now)
        if isinstance(awaited, RepeatableRequest):
            del self._requests[awaited]
            return [Completed(awaited.key, frame)]
        return []  # an answer to a request that was sent again since, or that nobody waits for

    def timer(self, now: float) -> list[Output]:
        """It is `next_timer`, or later."""
        if self._answers.is_overdue(now):
            self.disconnected(now)
            return [Reconnect(f"a request had no answer for {self.options.answer_timeout_seconds:g} s")]
        outputs: list[Output] = []
        if self.ack_at <= now:
            for subscription in self._unacknowledged:
                outputs += _acknowledge(subscription)
            self._unacknowledged.clear()
            self.ack_at = math.inf
        for retried in self._answers.due(now):
            if isinstance(retried, UnansweredPublications):
                outputs += self._publications.send_unsent(retried, now)
            else:
                outputs.append(self._answers.send(retried, now))
        return outputs

    # Subscriptions

    def _delivered(self, frame: wire.DecodedDeliver) -> list[Output]:
        subscription = self._by_id.get(frame.subscription)
        if subscription is None:
            return []
        fresh = subscription.fresh(frame.events)
        outputs: list[Output] = [Delivered(subscription.key, fresh)] if fresh else []
        if len(fresh) < len(frame.events):  # some were sent again: perhaps the acknowledgement was lost
            outputs += _acknowledge(subscription)
        return outputs

    def _noticed(self, notice: Notice) -> list[Output]:
        subscription = self._by_id.get(notice.subscription)
        if subscription is None:
            return []
        outputs: list[Output] = [Noticed(subscription.key, notice)]
        if notice.kind == "detached":
            self._forget(subscription.key)
            outputs.append(Failed(subscription.key, DetachedError(notice.subscription, notice.detail)))
        return outputs

    def _confirmed(self, subscription: SessionSubscription, answer: Subscribed, now: float) -> list[Output]:
        if self._subscriptions.get(subscription.key) is not subscription:
            return [Transmit(Detach(answer.subscription))]
        is_first = not subscription.is_confirmed
        subscription.confirm(answer)
        if subscription.ending is not None:
            self._forget(subscription.key)
            return self.request(subscription.ending, Unsubscribe(0, answer.subscription), now)
        self._by_id[answer.subscription] = subscription
        return [Completed(subscription.key, answer)] if is_first else _acknowledge(subscription)

    def _forget(self, key: Key) -> SessionSubscription | None:
        subscription = self._subscriptions.pop(key, None)
        if subscription is not None:
            self._by_id.pop(subscription.id or "", None)
            self._answers.cancel(subscription)
            self._unacknowledged.pop(subscription, None)
        return subscription

    # Refusals

    def _refused(self, awaited: Awaited | None, refused: Refused, now: float) -> list[Output]:
        error = refusal(refused.code, refused.reason)
        is_busy = refused.code in ("busy", "storage")
        if awaited is None:
            return [Failed(None, error)] if refused.ref is None else []
        if isinstance(awaited, UnansweredPublication):
            if is_busy:
                return self._publications.postponed(awaited, now)
            if refused.code == "sequence" and refused.expected is not None:
                return self._publications.misnumbered(awaited, refused.expected, now)
            return self._publications.refused(awaited, error, now)
        if isinstance(awaited, SessionSubscription) and self._subscriptions.get(awaited.key) is not awaited:
            return []  # nobody wants it any more
        if is_busy:
            self._answers.retry_later(awaited, now)
            return []
        if isinstance(awaited, SessionSubscription):
            self._forget(awaited.key)
            return [Completed(awaited.ending)] if awaited.ending is not None else [Failed(awaited.key, error)]
        del self._requests[awaited]
        if refused.code == "unknown" and isinstance(awaited.frame, Unsubscribe) and awaited.times_sent > 1:
            return [Completed(awaited.key)]  # the first time it was carried out, but the answer was lost
        return [Failed(awaited.key, error)]


def _acknowledge(subscription: SessionSubscription) -> list[Output]:
    ack = subscription.acknowledgement()
    return [] if ack is None else [Transmit(ack)]


def _check(key: Key, frame: Publish | Subscribe | Attach | DeclareTopic | List | Unsubscribe) -> Failed | None:
    try:
        wire.check(frame)
    except RefusedError as error:
        return Failed(key, error)
    return None
