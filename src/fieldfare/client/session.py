"""A client's side of the protocol as a state machine: what happened goes in, what is to be done comes out.

It has no sockets, clocks or randomness; `fieldfare.client.aio` runs it for real, `fieldfare.simulation` under a virtual
clock. Every request is remembered until it is answered, and sent again over a new connection. Numbers on publications
and positions on deliveries make sure that what is sent twice happens once.
"""

from __future__ import annotations

import math

from fieldfare.client import wire
from fieldfare.client.awaited_answers import Awaited, AwaitedAnswers, Repeatable, RepeatableRequest
from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import (
    Completed,
    Failed,
    GoElsewhere,
    Key,
    MoveAsked,
    Output,
    PingsAsked,
    Reconnect,
    Transmit,
)
from fieldfare.client.session_publications import SessionPublications
from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.client.session_subscriptions import SessionSubscriptions
from fieldfare.client.session_windows import SessionWindows
from fieldfare.client.unanswered_publications import UnansweredPublication, UnansweredPublications
from fieldfare.client.window_budget import WindowBudget, WindowShare
from fieldfare.errors import FieldfareError, MovedError, NotConnectedError, RefusedError, refusal
from fieldfare.messages import (
    Accepted,
    Adopt,
    Advertise,
    Attach,
    Deliver,
    Delivery,
    EdgeFrame,
    EdgesPinged,
    MovePublisher,
    Notice,
    PingEdges,
    Position,
    Publish,
    Refused,
    Seal,
    SealedPublisher,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unsubscribe,
)


class ClientSession:
    """What one client has open: publications (see `session_publications`), subscriptions, and other requests.

    `publisher` is a name that no other session has or had: under it the publications are numbered from 0 on. At every
    further log it gets another ending. Every method returns what is to be done now, in order; `timer` is to be called
    at `next_timer`, which each call may change. A command may come at any time, connected or not. A session that may
    move to other edges remembers which events came, so that they do not come again from there.
    """

    def __init__(
        self,
        publisher: str,
        options: SessionOptions = SessionOptions(),  # noqa: B008 - it is frozen
        *,
        may_move: bool = False,
        budget: WindowBudget | None = None,
    ) -> None:
        self.options = options
        self.is_connected = False
        self._knows_logs = False  # whether the edge that is connected now does
        self._log: str | None = None  # that of the edge that was connected last and knew it
        self._answers = AwaitedAnswers(options)
        self.windows = SessionWindows(budget or WindowBudget(), options, self._answers)
        self._publications = SessionPublications(publisher, options, self._answers)
        self.subscriptions = SessionSubscriptions(options, self._answers, self.windows, self.request, may_move=may_move)
        self._requests: dict[RepeatableRequest, None] = {}

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
    def is_in_doubt(self) -> bool:
        """Whether publications may be in the log of the edge that was connected last: try to connect there again."""
        return self._publications.are_in_doubt

    @property
    def has_room(self) -> bool:
        """Whether one more publication may wait for its answer; if not, wait until one is completed."""
        return self._publications.has_room

    def is_in_force(self, subscription: Key) -> bool:
        """Whether the edge has confirmed a subscription on this connection."""
        return self.subscriptions.is_in_force(subscription)

    @property
    def next_timer(self) -> float | None:
        """When to call `timer`."""
        at = min(self.subscriptions.ack_at, self._answers.next_time, self.windows.next_time)
        return None if at == math.inf else at

    def publish(self, key: Key, frame: Publish, now: float) -> list[Output]:
        """Publish events; the frame's ref, publisher and sequence are filled in here."""
        if not self.has_room:
            return [Failed(key, RefusedError("limit", "too many publications wait for an answer: wait for one"))]
        if (failed := _check(key, frame)) is not None:
            return [failed]
        return self._publications.publish(key, frame, now, is_connected=self.is_connected)

    def subscribe(self, key: Key, frame: Subscribe | Attach, now: float, *, is_manual: bool = False) -> list[Output]:
        """Subscribe, or attach to a durable subscription; the key names it from now on.

        `is_manual`: the application acknowledges its events by `ack_each`, in any order.
        """
        if (failed := _check(key, frame)) is not None:
            return [failed]
        return self.subscriptions.subscribe(key, frame, now, is_manual=is_manual)

    def adopt(self, subscription: SessionSubscription, now: float) -> list[Output]:
        """Go on with a subscription of another session, which has let it go: its home is the edge of this one."""
        return self.subscriptions.adopt(subscription, now)

    def ack(self, key: Key, position: Position, now: float) -> list[Output]:
        """The application is done with all events of a subscription up to a position."""
        return self.subscriptions.ack(key, position, now)

    def ack_each(self, key: Key, position: Position, now: float) -> list[Output]:
        """The application is done with one event of a subscription."""
        return self.subscriptions.ack_each(key, position, now)

    def nack(self, key: Key, event: Delivery, reason: str, delay_seconds: float | None) -> list[Output]:
        """The application could not deal with an event: it comes again later, or becomes a dead letter.

        While there is no connection, the edge has the event as one that nobody has dealt with.
        """
        return self.subscriptions.nack(key, event, reason, delay_seconds)

    def detach(self, key: Key) -> list[Output]:
        """Deliver no more of a subscription here; a durable one waits for the next client that attaches."""
        return self.subscriptions.detach(key)

    def unsubscribe(self, key: Key, subscription: Key, now: float) -> list[Output]:
        """End a subscription of this session; the key names this request, `subscription` what is to end."""
        return self.subscriptions.unsubscribe(key, subscription, now)

    def request(self, key: Key, frame: Repeatable, now: float) -> list[Output]:
        """Any other request; also a publication without a number, of which a repetition is known by its ids."""
        if (failed := _check(key, frame)) is not None:
            return [failed]
        request = RepeatableRequest(key, frame, knows_logs=self._knows_logs)
        self._requests[request] = None
        return [self._answers.send(request, now)] if self.is_connected else []

    # Moving to another edge: see `publisher_move`

    @property
    def generation(self) -> int:
        """How often this session's publisher has moved."""
        return self._publications.generation

    def advertise(self, key: Key, topic: str, condition: str | None, now: float) -> list[Output]:
        """Say what will be published in a topic: to the edge that is connected now, and to every further one."""
        frame = Advertise(0, topic, self.publisher, condition, self.generation)
        if (failed := _check(key, frame)) is not None:
            return [failed]
        self._publications.advertised[topic] = condition
        return self.request(key, frame, now)

    def unadvertise(self, key: Key, topic: str, now: float) -> list[Output]:
        """Take that back: anything may be published."""
        self._publications.advertised.pop(topic, None)
        return self.request(key, Unadvertise(0, topic, self.publisher), now)

    def next_advertisements(self) -> list[Advertise]:
        """What the edge is told that its publisher moves to: what was advertised, and every topic in use."""
        publications = self._publications
        return [publications.advertisement(topic, self.generation + 1) for topic in publications.topics]

    @property
    def advertised_topics(self) -> list[str]:
        """The topics in which something is advertised."""
        return list(self._publications.advertised)

    def hold_publications(self) -> None:
        """Let publications wait, until `resume_publications` or `sealed`. Those that were sent are answered."""
        self._publications.is_moving = True

    def resume_publications(self, now: float) -> list[Output]:
        """Send what waits."""
        return self._publications.go_on(now, is_connected=self.is_connected)

    def sealed(self, sealed: SealedPublisher) -> list[Output]:
        """The edge has sealed the publisher: what it has is accepted, the rest is to be taken from here."""
        return self._publications.sealed(sealed)

    def take_publications(self, source: ClientSession) -> None:
        """Have the publications of another session, which begins anew under another name."""
        taken, own = source._publications, self._publications
        self._publications, source._publications = taken, own
        taken.go_to(self._answers)
        own.go_to(source._answers)

    def begin_anew(self) -> list[Output]:
        """Publish under another name: no edge has what waits here, and under this name none would take it."""
        return self._publications.leave_log()

    def answer_pings(self, number: int, round_trip_seconds: list[float | None]) -> list[Output]:
        """Tell the edge how far other edges are."""
        return [Transmit(EdgesPinged(number, round_trip_seconds))] if self.is_connected else []

    def close(self, error: FieldfareError) -> list[Output]:
        """The last call: acknowledge what the application took, and fail whatever is open."""
        keys = [
            *self._publications.keys(),
            *self.subscriptions.keys(),
            *(request.key for request in self._requests),
        ]
        return [*self.subscriptions.close(), *(Failed(key, error) for key in keys)]

    # What happened

    def connected(self, now: float, log: str | None = None) -> list[Output]:
        """There is a connection: send it all that is open, subscriptions first, so that they see what is published.

        `log` is the id of the edge's log, if the edge says it. If it is another one than before, what is in doubt there
        fails with an UnknownOutcomeError.
        """
        withdrawn = self.disconnected(now)
        self.is_connected, self._knows_logs = True, log is not None
        lost = [] if log is None or self._log in (None, log) else self._leave_log()
        self._log = log or self._log
        subscriptions = self.subscriptions.connected(knows_logs=self._knows_logs)
        for request in self._requests:
            request.knows_logs = self._knows_logs
        return [
            *withdrawn,
            *lost,
            *(self._answers.send(each, now) for each in subscriptions),
            *(self._answers.send(each, now) for each in self._requests),
            *self._publications.connected(now),
        ]

    def _leave_log(self) -> list[Output]:
        """The next edge knows nothing of what was asked, and is neither source nor target of a move."""
        outputs = self._publications.leave_log()
        for request in list(self._requests):
            request.times_sent = 0
            if isinstance(request.frame, (Seal, Adopt)):
                del self._requests[request]
                outputs.append(Failed(request.key, NotConnectedError("an edge of the move cannot be reached")))
        return outputs

    def disconnected(self, now: float) -> list[Output]:  # noqa: ARG002 - all that happens is told in the same way
        """The connection is gone, and with it every answer that was on its way."""
        self.is_connected = False
        self._answers.clear()
        withdrawn = self.subscriptions.disconnected()
        self._publications.disconnected()
        return withdrawn

    def received(self, frame: EdgeFrame | wire.DecodedEdgeFrame, now: float) -> list[Output]:
        """A frame came."""
        if isinstance(frame, wire.DecodedDeliver):
            return self.subscriptions.delivered(frame)
        if isinstance(frame, Deliver):
            return self.subscriptions.delivered(wire.decoded(frame))
        if isinstance(frame, Notice):
            return self.subscriptions.noticed(frame, now)
        if isinstance(frame, MovePublisher):
            is_meant = (frame.publisher, frame.generation) == (self.publisher, self.generation + 1)
            return [MoveAsked(frame.target, frame.url)] if is_meant else []
        if isinstance(frame, PingEdges):
            return [PingsAsked(frame.number, tuple(each.url for each in frame.candidates))]
        awaited = self._answers.answered(frame.ref)
        if isinstance(frame, Refused):
            return self._refused(awaited, frame, now)
        if isinstance(awaited, UnansweredPublication) and isinstance(frame, Accepted):
            return self._publications.accepted(awaited, frame, now)
        if isinstance(awaited, SessionSubscription) and isinstance(frame, Subscribed):
            return self.subscriptions.confirmed(awaited, frame, now)
        if isinstance(awaited, RepeatableRequest):
            self._requests.pop(awaited, None)
            if isinstance(awaited.key, WindowShare):
                self.windows.in_effect(awaited.key)
                return []
            return [Completed(awaited.key, frame)]
        return []  # an answer to a request that was sent again since, or that nobody waits for

    def timer(self, now: float) -> list[Output]:
        """It is `next_timer`, or later."""
        if self._answers.is_overdue(now):
            self.disconnected(now)
            return [Reconnect(f"a request had no answer for {self.options.answer_timeout_seconds:g} s")]
        outputs = self.subscriptions.acknowledge_all() if self.subscriptions.ack_at <= now else []
        outputs += self.windows.send_changes(now, is_connected=self.is_connected)
        for retried in self._answers.due(now):
            if isinstance(retried, UnansweredPublications):
                outputs += self._publications.send_unsent(retried, now)
            else:
                outputs.append(self._answers.send(retried, now))
        return outputs

    # Refusals

    def _refused(self, awaited: Awaited | None, refused: Refused, now: float) -> list[Output]:
        error = _error(refused)
        is_busy = refused.code in ("busy", "storage")
        if refused.code == "full" and refused.ref is None:
            self._publications.turned_away()
            return [GoElsewhere(refused.edges, refused.reason)]
        if awaited is None:
            return [Failed(None, error)] if refused.ref is None else []
        if isinstance(awaited, UnansweredPublication):
            if is_busy:
                return self._publications.postponed(awaited, now)
            if refused.code == "sequence" and refused.expected is not None:
                return self._publications.misnumbered(awaited, refused.expected, now)
            return self._publications.refused(awaited, error, now)
        if isinstance(awaited, SessionSubscription):
            return self.subscriptions.refused(awaited, error, now, is_busy=is_busy)
        if is_busy:
            self._answers.retry_later(awaited, now)
            return []
        self._requests.pop(awaited, None)
        if isinstance(awaited.key, WindowShare):
            self.windows.in_effect(awaited.key)
            return []
        if refused.code == "unknown" and isinstance(awaited.frame, Unsubscribe) and awaited.times_sent > 1:
            return [Completed(awaited.key)]  # the first time it was carried out, but the answer was lost
        return [Failed(awaited.key, error)]


def _error(refused: Refused) -> RefusedError:
    if refused.code == "moved":
        return MovedError(refused.reason, refused.home)
    return refusal(refused.code, refused.reason)


def _check(key: Key, frame: Subscribe | Attach | Repeatable) -> Failed | None:
    try:
        wire.check(frame)
    except RefusedError as error:
        return Failed(key, error)
    return None
