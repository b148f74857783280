"""A client's side of the protocol as a state machine: what happened goes in, what is to be done comes out.

It has no sockets, clocks or randomness; `fieldfare.client.aio` runs it for real, `fieldfare.simulation` under a virtual
clock. One idea carries it: whatever is open is remembered until it is answered, so that a new connection can be told
all of it again. Numbers on publications and positions on deliveries make what is told twice happen once.
"""

from __future__ import annotations

import math

from fieldfare.client import wire
from fieldfare.client.flight import Flight, Item, Request
from fieldfare.client.incoming import Incoming
from fieldfare.client.outbox import Outbox, Publication
from fieldfare.client.outputs import (
    Completed,
    Delivered,
    Failed,
    Key,
    Noticed,
    Output,
    Reconnect,
    SessionOptions,
    Transmit,
)
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
    """What one client has open.

    `publisher` is a name that no other session has or had: under it the publications are numbered from 0 on. Every
    method returns what is to be done now, in order; `timer` is to be called at `next_timer`, which each call may
    change. A command may come at any time, connected or not.
    """

    def __init__(self, publisher: str, options: SessionOptions = SessionOptions()) -> None:  # noqa: B008 - it is frozen
        self.publisher = publisher
        self.options = options
        self.is_connected = False
        self._flight = Flight(options)
        self._outboxes: dict[str, Outbox] = {}
        self.unanswered = 0  # publications
        self._unanswered_bytes = 0
        self._incoming: dict[Key, Incoming] = {}
        self._by_id: dict[str, Incoming] = {}
        self._requests: dict[Request, None] = {}
        self._taken: dict[Incoming, None] = {}  # those with something to acknowledge,
        self.ack_at = math.inf  # at this time

    # What the owner asks.

    @property
    def has_room(self) -> bool:
        """Whether one more publication may wait for its answer; if not, wait until one is completed."""
        return (
            self.unanswered < self.options.unanswered_publications_max
            and self._unanswered_bytes < self.options.unanswered_bytes_max
        )

    @property
    def next_timer(self) -> float | None:
        """When to call `timer`."""
        at = min(self.ack_at, self._flight.next_time)
        return None if at == math.inf else at

    def publish(self, key: Key, frame: Publish, now: float) -> list[Output]:
        """Publish events; the frame's ref, publisher and sequence are filled in here."""
        if not self.has_room:
            return [Failed(key, RefusedError("limit", "too many publications wait for an answer: wait for one"))]
        if (failed := _check(key, frame)) is not None:
            return [failed]
        outbox = self._outboxes.get(frame.topic)
        if outbox is None:
            outbox = self._outboxes[frame.topic] = Outbox(self.publisher)
        publication = outbox.add(key, frame)
        self.unanswered += 1
        self._unanswered_bytes += publication.nbytes
        if self.is_connected and not outbox.is_held:
            return [self._flight.send(publication, now)]
        return []

    def subscribe(self, key: Key, frame: Subscribe | Attach, now: float) -> list[Output]:
        """Subscribe, or attach to a durable subscription; the key names it from now on."""
        if (failed := _check(key, frame)) is not None:
            return [failed]
        ack_events = max(1, min(self.options.ack_events, frame.window // 4))
        incoming = self._incoming[key] = Incoming(key, frame, ack_events)
        return [self._flight.send(incoming, now)] if self.is_connected else []

    def ack(self, key: Key, position: Position, now: float) -> list[Output]:
        """The application is done with all events of a subscription up to a position."""
        incoming = self._incoming.get(key)
        if incoming is None or not incoming.take(position):
            return []
        if incoming.events_taken >= incoming.ack_events:
            return _acknowledge(incoming)
        self._taken[incoming] = None
        if self.ack_at == math.inf:
            self.ack_at = now + self.options.ack_delay_seconds
        return []

    def detach(self, key: Key) -> list[Output]:
        """Deliver no more of a subscription here; a durable one waits for the next who attaches."""
        incoming = self._forget(key)
        if incoming is None or incoming.id is None:
            return []
        return [*_acknowledge(incoming), Transmit(Detach(incoming.id))]

    def unsubscribe(self, key: Key, subscription: Key, now: float) -> list[Output]:
        """End a subscription of this session."""
        incoming = self._incoming.get(subscription)
        if incoming is None or not (incoming.is_durable or self.is_connected):  # it ended with its connection
            self._forget(subscription)
            return [Completed(key)]
        if incoming.id is None:
            incoming.ending = key
            return []
        self._forget(subscription)
        return self.request(key, Unsubscribe(0, incoming.id), now)

    def request(self, key: Key, frame: DeclareTopic | List | Unsubscribe, now: float) -> list[Output]:
        """Any other request."""
        if (failed := _check(key, frame)) is not None:
            return [failed]
        request = Request(key, frame)
        self._requests[request] = None
        return [self._flight.send(request, now)] if self.is_connected else []

    def close(self, error: FieldfareError) -> list[Output]:
        """The last call: acknowledge what was taken, and fail whatever is open."""
        outputs = [output for incoming in self._taken for output in _acknowledge(incoming)]
        keys = [publication.key for outbox in self._outboxes.values() for publication in outbox]
        keys += [incoming.key if incoming.ending is None else incoming.ending for incoming in self._incoming.values()]
        keys += [request.key for request in self._requests]
        return [*outputs, *(Failed(key, error) for key in keys)]

    # What happened.

    def connected(self, now: float) -> list[Output]:
        """There is a connection: tell it all that is open. Subscriptions come first, to see what is published next."""
        self.disconnected(now)
        self.is_connected = True
        items: list[Item] = [*self._incoming.values(), *self._requests]
        outputs: list[Output] = [self._flight.send(item, now) for item in items]
        for outbox in self._outboxes.values():
            outputs += self._push(outbox, now)
        return outputs

    def disconnected(self, now: float) -> list[Output]:  # noqa: ARG002 - all that happens is told in the same way
        """The connection is gone, and with it every answer that was on its way."""
        self.is_connected = False
        self._flight.clear()
        self._by_id.clear()
        self._taken.clear()
        self.ack_at = math.inf
        for incoming in self._incoming.values():
            incoming.id = None
        for outbox in self._outboxes.values():
            outbox.recall()
        return []

    def received(self, frame: EdgeFrame | wire.Deliveries, now: float) -> list[Output]:
        """A frame came."""
        if isinstance(frame, wire.Deliveries):
            return self._delivered(frame)
        if isinstance(frame, Deliver):
            return self._delivered(wire.decoded(frame))
        if isinstance(frame, Notice):
            return self._noticed(frame)
        item = self._flight.answered(frame.ref)
        if isinstance(frame, Refused):
            return self._refused(item, frame, now)
        if isinstance(item, Publication) and isinstance(frame, Accepted):
            return [Completed(item.key, frame), *self._settle(item, now)]
        if isinstance(item, Incoming) and isinstance(frame, Subscribed):
            return self._confirmed(item, frame, now)
        if isinstance(item, Request):
            del self._requests[item]
            return [Completed(item.key, frame)]
        return []  # an answer to what was sent again since

    def timer(self, now: float) -> list[Output]:
        """It is `next_timer`, or later."""
        if self._flight.is_overdue(now):
            self.disconnected(now)
            return [Reconnect(f"a request had no answer for {self.options.answer_timeout_seconds:g} s")]
        outputs: list[Output] = []
        if self.ack_at <= now:
            for incoming in self._taken:
                outputs += _acknowledge(incoming)
            self._taken.clear()
            self.ack_at = math.inf
        for retried in self._flight.due(now):
            outputs += self._push(retried, now) if isinstance(retried, Outbox) else [self._flight.send(retried, now)]
        return outputs

    # How it is done.

    def _push(self, outbox: Outbox, now: float) -> list[Output]:
        """Send what is not in flight, unless the edge is busy."""
        if outbox in self._flight:
            return []
        outbox.is_held = False
        return [self._flight.send(publication, now) for publication in outbox.unsent()]

    def _delivered(self, frame: wire.Deliveries) -> list[Output]:
        incoming = self._by_id.get(frame.subscription)
        if incoming is None:
            return []
        fresh = incoming.fresh(frame.events)
        outputs: list[Output] = [Delivered(incoming.key, fresh)] if fresh else []
        if len(fresh) < len(frame.events):  # it was sent again: perhaps the acknowledgement was lost
            outputs += _acknowledge(incoming)
        return outputs

    def _noticed(self, notice: Notice) -> list[Output]:
        incoming = self._by_id.get(notice.subscription)
        if incoming is None:
            return []
        outputs: list[Output] = [Noticed(incoming.key, notice)]
        if notice.kind == "detached":
            self._forget(incoming.key)
            outputs.append(Failed(incoming.key, DetachedError(notice.subscription, notice.detail)))
        return outputs

    def _confirmed(self, incoming: Incoming, answer: Subscribed, now: float) -> list[Output]:
        if self._incoming.get(incoming.key) is not incoming:
            return [Transmit(Detach(answer.subscription))]
        is_first = not incoming.is_confirmed
        incoming.confirm(answer)
        if incoming.ending is not None:
            self._forget(incoming.key)
            return self.request(incoming.ending, Unsubscribe(0, answer.subscription), now)
        self._by_id[answer.subscription] = incoming
        return [Completed(incoming.key, answer)] if is_first else _acknowledge(incoming)

    def _refused(self, item: Item | None, refused: Refused, now: float) -> list[Output]:
        error = refusal(refused.code, refused.reason)
        if item is None:
            return [Failed(None, error)] if refused.ref is None else []
        if isinstance(item, Incoming) and self._incoming.get(item.key) is not item:
            return []  # nobody wants it any more
        if refused.code in ("busy", "storage"):
            return self._retry_later(item, now)
        if isinstance(item, Publication):
            if refused.code == "sequence" and refused.expected is not None:
                return self._misnumbered(item, refused.expected, now)
            return [Failed(item.key, error), *self._settle(item, now, is_accepted=False)]
        if isinstance(item, Incoming):
            self._forget(item.key)
            return [Completed(item.ending)] if item.ending is not None else [Failed(item.key, error)]
        del self._requests[item]
        if refused.code == "unknown" and isinstance(item.frame, Unsubscribe) and item.times_sent > 1:
            return [Completed(item.key)]  # the first time it was carried out, but the answer was lost
        return [Failed(item.key, error)]

    def _retry_later(self, item: Item, now: float) -> list[Output]:
        if isinstance(item, Publication):
            item.hold()
        self._flight.retry_later(item.outbox if isinstance(item, Publication) else item, now)
        return []

    def _misnumbered(self, publication: Publication, expected: int, now: float) -> list[Output]:
        """The edge lacks what comes before: wait until that is sent; or if there is nothing, the number is wrong."""
        outbox = publication.outbox
        publication.hold()
        if not outbox.is_first(publication):
            return []
        if publication.first == expected:
            return self._retry_later(publication, now)
        self._flight.recall(outbox.recall())
        outbox.renumber(expected)
        return self._push(outbox, now)

    def _settle(self, publication: Publication, now: float, *, is_accepted: bool = True) -> list[Output]:
        """A publication has its answer; those that were held up by it can go."""
        outbox = publication.outbox
        outbox.settle(publication, is_accepted=is_accepted)
        self.unanswered -= 1
        self._unanswered_bytes -= publication.nbytes
        return self._push(outbox, now) if outbox.is_stalled else []

    def _forget(self, key: Key) -> Incoming | None:
        incoming = self._incoming.pop(key, None)
        if incoming is not None:
            self._by_id.pop(incoming.id or "", None)
            self._flight.cancel(incoming)
            self._taken.pop(incoming, None)
        return incoming


def _acknowledge(incoming: Incoming) -> list[Output]:
    ack = incoming.acknowledgement()
    return [] if ack is None else [Transmit(ack)]


def _check(key: Key, frame: Publish | Subscribe | Attach | DeclareTopic | List | Unsubscribe) -> Failed | None:
    try:
        wire.check(frame)
    except RefusedError as error:
        return Failed(key, error)
    return None
