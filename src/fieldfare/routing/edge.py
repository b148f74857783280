"""The edge broker: clients connect to it, publish to it and are served by it.

It is a state machine (see `fieldfare.messages`). What must survive goes to the log first: a request is answered, and an
event matched, when the host says that its record is stored. So what is answered is durable, and matching works on all
the events that became durable together. Work that is cheaper for many at once, such as compiling conditions, waits for
the end of the host's current round, by a timer that is due at once.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fieldfare.messages import (
    Ack,
    Append,
    Attach,
    Called,
    ClientFrame,
    Closed,
    CursorsMoved,
    DeclareTopic,
    Detach,
    Done,
    EdgeFrame,
    Effect,
    Fetched,
    HandedOver,
    Identity,
    Input,
    List,
    Listed,
    NotStored,
    Opened,
    PipelineMatched,
    Position,
    Publish,
    Reached,
    Received,
    Record,
    Ref,
    Refused,
    Send,
    SetTimer,
    Started,
    Stored,
    Subscribe,
    TimerDue,
    TopicStored,
    Unsubscribe,
)
from fieldfare.qos import unmet
from fieldfare.routing import listing, recovery
from fieldfare.routing.continuing import Else, Then, nothing
from fieldfare.routing.delivery import Deliveries
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.outbox import Outbox
from fieldfare.routing.publishing import Publishing
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.statistics import Statistics, statistics
from fieldfare.routing.subscribing import Subscribing
from fieldfare.routing.topic import START, Topic

RESTART_GAP = 1 << 32  # best-effort events use positions that are not stored: after a restart, begin beyond them
_STEP, _TIDY = "step", "tidy"
_DEFAULTS = EdgeOptions()


@dataclass(slots=True)
class Connection:
    """A client that is connected, and the subscriptions that are delivered to it."""

    identity: Identity
    outboxes: dict[int, Outbox] = field(default_factory=dict)
    wish_count: int = 0  # subscriptions that are just being made


class Edge:
    """An edge broker."""

    def __init__(self, name: str, rng: random.Random, options: EdgeOptions = _DEFAULTS) -> None:
        self.name, self.rng, self.options = name, rng, options
        self.position: Position = START  # the last that was given to an event
        self.topics: dict[tuple[str, str], Topic] = {}
        self.subscriptions: dict[tuple[str, str], Outbox] = {}
        self.connections: dict[str, Connection] = {}
        self.refused_counts: dict[str, int] = {}
        self.deliveries = Deliveries(options, rng, self.emit, self.append_lazily)
        self.publishing = Publishing(self)
        self.subscribing = Subscribing(self)
        self._effects: list[Effect] = []
        self._number = 0
        self._unstored: deque[tuple[int, Then, Else]] = deque()
        self._handed: dict[int, tuple[Then, Else]] = {}
        self._timers: set[str] = set()
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            Started: self._started,
            Opened: self._opened,
            Received: self._received,
            Closed: lambda message, _: self.subscribing.closed(message.connection),
            Stored: self._stored,
            NotStored: self._not_stored,
            Fetched: self._fetched,
            TimerDue: self._due,
            Called: self._called,
            HandedOver: self._handed_over,
            PipelineMatched: self.publishing.matched_elsewhere,
        }
        self._has_gaps = False  # whether the log knows that positions are used which it does not hold
        self._noting_count = 0

    # What happens

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        self._handlers[type(message)](message, now)
        effects, self._effects = self._effects, []
        return effects

    def recover(self, record: Record) -> None:
        """Take up a record of the checkpoint or the log."""
        recovery.recover(self, record)
        self._effects.clear()

    def checkpoint(self) -> Sequence[Record]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        return recovery.checkpoint(self)

    def statistics(self) -> Statistics:
        """Counts, for those who watch."""
        return statistics(self)

    def _started(self, _: Started, now: float) -> None:
        if self.position > START:
            self.position += RESTART_GAP
        self.subscribing.started(now)

    def _opened(self, message: Opened, _: float) -> None:
        self.connections[message.connection] = Connection(message.identity)

    def _fetched(self, message: Fetched, now: float) -> None:
        tenant, _, name = message.reader.rpartition("/")
        self.deliveries.fetched(self.topics[tenant, name], message, now)

    def _called(self, message: Called, now: float) -> None:
        if outbox := self.subscribing.by_handle.get(message.handle):
            self.deliveries.called(self.topic_of(outbox), outbox, message, now)

    def _received(self, message: Received, now: float) -> None:
        connection = self.connections.get(message.connection)
        if connection is None:
            return  # it was closed meanwhile
        try:
            self._request(message.connection, connection.identity, message.frame, now)
        except Refusal as refusal:
            self.refuse(message.connection, getattr(message.frame, "ref", None), refusal)

    def _request(self, connection: str, identity: Identity, frame: ClientFrame, now: float) -> None:
        match frame:
            case Publish():
                self.publishing.publish(connection, identity, frame, now)
            case Ack():
                self.subscribing.acknowledge(connection, identity, frame, now)
            case Subscribe():
                self.subscribing.subscribe(connection, identity, frame, now)
            case Attach():
                self.subscribing.attach(connection, identity, frame, now)
            case Detach():
                self.subscribing.detach(connection, identity, frame)
            case Unsubscribe():
                self.subscribing.unsubscribe(connection, identity, frame)
            case DeclareTopic():
                self._declare(connection, identity, frame)
            case List():
                self.send(connection, Listed(frame.ref, *listing.page(self, identity, frame)))

    def _due(self, message: TimerDue, now: float) -> None:
        key = message.key
        self._timers.discard(key)
        if key == _STEP:
            self.subscribing.grant_wishes(now)
            self.publishing.match_ready(now)
        elif key == _TIDY:
            self.deliveries.tidy()
            self._write_cursors()
        elif outbox := self.subscribing.by_handle.get(int(key.partition(":")[2])):
            if key.startswith("deadline"):
                self.deliveries.check_deadline(outbox, now)
            else:
                self.deliveries.call_again(outbox)

    # What is to be done

    def emit(self, effect: Effect) -> None:
        """Ask the host to do something."""
        self._effects.append(effect)

    def send(self, connection: str, frame: EdgeFrame) -> None:
        """Send a frame to a client."""
        self._effects.append(Send(connection, frame))

    def refuse(self, connection: str, ref: Ref | None, refusal: Refusal) -> None:
        """Answer that a request is not carried out."""
        self.refused_counts[refusal.code] = self.refused_counts.get(refusal.code, 0) + 1
        self.send(connection, Refused(ref, refusal.code, refusal.reason, refusal.expected))

    def refusing(self, connection: str, ref: Ref | None) -> Else:
        """What to do about a request that could not be stored."""
        return lambda reason: self.refuse(connection, ref, Refusal("storage", reason))

    def step_soon(self, now: float) -> None:
        """Do the work that waits at the end of the host's round."""
        self._set_timer(_STEP, now)

    def tidy_soon(self, now: float) -> None:
        """Write moved cursors, and look after the slow, in a while."""
        self._set_timer(_TIDY, now + self.options.tidy_seconds)

    def _set_timer(self, key: str, at: float) -> None:
        if key not in self._timers:
            self._timers.add(key)
            self.emit(SetTimer(key, at))

    # The log, and the pipeline

    def append(self, record: Record, then: Then, otherwise: Else, *, is_durable: bool = True) -> None:
        """Store a record, and then go on."""
        self._number += 1
        self._unstored.append((self._number, then, otherwise))
        self.emit(Append(self._number, record, is_durable))

    def append_lazily(self, record: Record) -> None:
        """Store a record that it is no harm to lose."""
        self.append(record, nothing, nothing, is_durable=False)

    def when_stored(self, then: Then, otherwise: Else, now: float) -> None:
        """Go on when all records that are under way are stored."""
        if self._unstored:
            self._unstored.append((self._unstored[-1][0], then, otherwise))
        else:
            then(now)

    def note_gaps(self, then: Then, otherwise: Else, now: float) -> None:
        """Go on when the log knows that positions are used which it does not hold: no restart may use them again."""

        def noted(now: float) -> None:
            self._has_gaps = True
            self._noting_count -= 1
            then(now)

        def not_noted(reason: str) -> None:
            self._noting_count -= 1
            otherwise(reason)

        if self._has_gaps and not self._noting_count:  # nobody overtakes those who still wait
            then(now)
        else:
            self._noting_count += 1
            self.append(Reached(self.position), noted, not_noted)

    def _stored(self, message: Stored, now: float) -> None:
        while self._unstored and self._unstored[0][0] <= message.number:
            self._unstored.popleft()[1](now)
        self.publishing.match_ready(now)

    def _not_stored(self, message: NotStored, now: float) -> None:
        while self._unstored and self._unstored[0][0] <= message.number:
            self._unstored.popleft()[2](message.reason)
        self.publishing.match_ready(now)  # what needs no log may have waited for what does

    def hand(self, effect: Callable[[int], Effect], then: Then, otherwise: Else) -> None:
        """Give something to the pipeline, and then go on."""
        self._number += 1
        self._handed[self._number] = (then, otherwise)
        self.emit(effect(self._number))

    def _handed_over(self, message: HandedOver, now: float) -> None:
        then, otherwise = self._handed.pop(message.number)
        if message.failure is None:
            then(now)
        else:
            otherwise(message.failure)

    def _write_cursors(self) -> None:
        moved: dict[str, dict[str, Position]] = {}
        for outbox in self.deliveries.moved.values():
            outbox.settle(self.topic_of(outbox).matched)
            moved.setdefault(outbox.subscription.tenant, {})[outbox.subscription.id] = outbox.cursor
        self.deliveries.moved.clear()
        for tenant, positions in moved.items():
            self.append_lazily(CursorsMoved(tenant, positions))

    # Topics

    def topic(self, tenant: str, name: str) -> Topic:
        """A topic; one that is not known comes into being, with the default offer."""
        topic = self.topics.get((tenant, name))
        if topic is None:
            if sum(1 for key in self.topics if key[0] == tenant) >= self.options.topics_max:
                raise Refusal("limit", f"there are {self.options.topics_max:,} topics already: use one of them")
            topic = self.topics[tenant, name] = Topic(tenant, name, self.options)
        return topic

    def topic_of(self, outbox: Outbox) -> Topic:
        """The topic of a subscription."""
        return self.topics[outbox.subscription.tenant, outbox.subscription.topic]

    def _declare(self, connection: str, identity: Identity, frame: DeclareTopic) -> None:
        require(identity, "manage", frame.topic)
        topic = self.topic(identity.tenant, frame.topic)
        for subscription in self.subscribing.of_topic(topic):
            if frame.matching != topic.matching:
                raise Refusal("invalid", "a topic that has subscriptions is matched where it is: end them first")
            if reason := unmet(frame.offered, subscription.qos):
                raise Refusal("qos", f"the subscription {subscription.id!r} needs more: {reason}")

        def stored(_: float) -> None:
            topic.change_count -= 1
            topic.offered, topic.matching = frame.offered, frame.matching
            self.send(connection, Done(frame.ref))

        def failed(reason: str) -> None:
            topic.change_count -= 1
            self.refuse(connection, frame.ref, Refusal("storage", reason))

        topic.change_count += 1
        self.append(TopicStored(identity.tenant, frame.topic, frame.offered, frame.matching), stored, failed)
