"""The events of a subscription that are known one by one: sent, refused or held back, and not settled.

    ... cursor | settled, but for the outstanding ones ... upto | waiting ...

An event is outstanding from when it is first taken up until it is acknowledged, dead, expired or dropped. All others up
to `upto` are settled: so the few that are outstanding stand for the ranges that are settled above the cursor. Of the
events with one key the first goes alone; the others are held back until it is settled.

    READY      may be sent
    LATER      was refused, and waits for its time
    HELD       another event of its key goes first
    IN_HAND    a consumer has it
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush
from typing import TypeAlias

from msgspec import Raw

from fieldfare.messages import Position
from fieldfare.routing.consumers import Consumer, Consumers

# An event that is ready to be sent to any taker: its position, when it expires, and itself as a Delivery in JSON.
EventEntry: TypeAlias = tuple[Position, float, Raw]


class EventState(Enum):
    """Where an outstanding event is."""

    READY = auto()
    LATER = auto()
    HELD = auto()
    IN_HAND = auto()


@dataclass(slots=True, eq=False)
class OutstandingEvent:
    """An event that is not settled. Without its delivery it has to be read from the log before it can be sent."""

    position: Position
    expires_at: float
    delivery: Raw | None
    key: Hashable = None  # None: in no order with others
    state: EventState = EventState.READY
    consumer: str | None = None  # the link that has it
    until: float = 0.0  # when it comes again (LATER), or is taken from its consumer (IN_HAND)
    attempts: int = 0  # sendings that ended without an acknowledgement
    refusals: int = 0  # those of them that count: of a connection that broke, the event is not to blame
    is_in_window: bool = False  # it counts against the window of its consumer
    is_in_order: bool = False  # it was sent after all before it: an acknowledgement up to a later one means it too
    reason: str = ""  # of the last refusal
    is_redriven: bool = False  # a dead letter that is sent again: its bytes are kept with the dead letters

    @property
    def size_bytes(self) -> int:
        """Of its delivery, if that is in memory."""
        return 0 if self.delivery is None else len(self.delivery)

    @property
    def as_logged(self) -> tuple[Position, int, int, float]:
        """What the log is told of it: with attempts, refusals, and before which time it does not come again."""
        until = self.until if self.state is EventState.LATER else 0.0
        return self.position, self.attempts, self.refusals, until


class Outstanding:
    """The outstanding events of one subscription, and who has them."""

    def __init__(self, upto: Position) -> None:
        self.upto = upto  # all up to here that is not outstanding is settled
        self.consumers = Consumers()
        self.events: OrderedDict[Position, OutstandingEvent] = OrderedDict()  # in the order of positions
        self.redriven: dict[Position, OutstandingEvent] = {}
        self.size_bytes = 0  # of the deliveries that are in memory
        self.wake_at = math.inf  # when the timer is due that was set for `wake`
        self._ready: list[Position] = []  # a heap; positions that are no longer ready are passed over
        self._times: list[tuple[float, Position]] = []  # the same, of those that wait for a time
        self._queues: dict[Hashable, deque[Position]] = {}  # by key, the one that goes first included

    def __len__(self) -> int:
        return len(self.events) + len(self.redriven)

    @property
    def in_hand_count(self) -> int:
        """How many of them consumers have."""
        return sum(len(consumer.positions) for consumer in self.consumers)

    def get(self, position: Position) -> OutstandingEvent | None:
        """An event, if it is outstanding."""
        return self.events.get(position) or self.redriven.get(position)

    def all(self) -> list[OutstandingEvent]:
        """All of them."""
        return [*self.events.values(), *self.redriven.values()]

    @property
    def settled_before(self) -> Position:
        """All up to here is settled."""
        first = next(iter(self.events), None)
        return self.upto if first is None else first - 1

    @property
    def next_time(self) -> float | None:
        """When `wake` has something to do."""
        while self._times:
            at, position = self._times[0]
            event = self.get(position)
            if event is not None and event.until == at and event.state in (EventState.LATER, EventState.IN_HAND):
                return at
            heappop(self._times)
        return None

    # Taking up

    def track(self, entry: EventEntry, key: Hashable) -> OutstandingEvent:
        """Take up an event, which lies after all before."""
        position, expires_at, delivery = entry
        event = self.events[position] = OutstandingEvent(position, expires_at, delivery, key)
        self.size_bytes += event.size_bytes
        self.upto = max(self.upto, position)
        self._line_up(event)
        return event

    def redrive(self, event: OutstandingEvent) -> None:
        """Take up a dead letter again."""
        event.is_redriven = True
        self.redriven[event.position] = event
        self.size_bytes += event.size_bytes
        self._line_up(event)

    def recover(self, positions: Iterable[tuple[Position, int, int, float]], upto: Position) -> None:
        """The log says which events are outstanding: with attempts, refusals and the time at which each may come."""
        self.upto = upto
        for position, attempts, refusals, until in positions:
            self.events[position] = event = OutstandingEvent(position, 0.0, None, attempts=attempts, refusals=refusals)
            self._wait(event, EventState.LATER, until)

    def note_sent(self, link: str, positions: Iterable[Position], left_upto: Position) -> None:
        """A consumer has got these in order before any was known by itself; their bytes are in the log only.

        Up to a position they have left its connection, and do not count against its window.
        """
        consumer = self.consumers.get(link)
        for position in positions:
            self.events[position] = event = OutstandingEvent(position, 0.0, None)
            self.upto = max(self.upto, position)
            if consumer is not None:
                self._put_in_hand(event, consumer, is_in_order=True)
                event.state, event.until = EventState.IN_HAND, math.inf
        if consumer is not None:
            self.let_more(consumer, left_upto)

    def restart(self, upto: Position) -> None:
        """Forget all but dead letters that are sent again: go on after a position, forwards or backwards."""
        for event in list(self.events.values()):
            self.settle(event)
        self.upto = upto

    def pass_over(self, position: Position) -> None:
        """Settle all up to a position that was not refused before."""
        for event in [event for event in self.events.values() if event.position <= position and not event.attempts]:
            self.settle(event)
        self.upto = max(self.upto, position)

    def fill(self, entries: Sequence[EventEntry], key_of: KeyOf) -> list[EventEntry]:
        """Take what is outstanding from some entries that were read from the log; returns those that are new."""
        new: list[EventEntry] = []
        for entry in entries:
            position, expires_at, delivery = entry
            event = self.events.get(position)
            if event is not None and event.delivery is None:
                event.expires_at, event.delivery = expires_at, delivery
                self.size_bytes += event.size_bytes
                self._give_key(event, key_of(entry))
            elif event is None and position > self.upto:
                new.append(entry)
        return new

    def _give_key(self, event: OutstandingEvent, key: Hashable) -> None:
        if key is None or event.key is not None:
            if event.state is EventState.READY:
                heappush(self._ready, event.position)
            return
        event.key = key
        queue = self._queues.setdefault(key, deque())
        queue.append(event.position)
        if len(queue) > 1 and event.state in (EventState.READY, EventState.LATER):
            event.state = EventState.HELD
        elif event.state is EventState.READY:
            heappush(self._ready, event.position)

    def drop_unread(self, upto: Position) -> int:
        """The log has no more of the events up to a position that nobody has. Returns how many are gone."""
        gone = [
            event
            for event in self.events.values()
            if event.position <= upto and event.delivery is None and event.state is not EventState.IN_HAND
        ]
        for event in gone:
            self.settle(event)
        return len(gone)

    def _line_up(self, event: OutstandingEvent) -> None:
        if event.key is not None:
            queue = self._queues.setdefault(event.key, deque())
            queue.append(event.position)
            if len(queue) > 1:
                event.state = EventState.HELD
                return
        self._make_ready(event)

    def _make_ready(self, event: OutstandingEvent) -> None:
        event.state = EventState.READY
        heappush(self._ready, event.position)

    def _wait(self, event: OutstandingEvent, state: EventState, until: float) -> None:
        event.state, event.until = state, until
        heappush(self._times, (until, event.position))

    # Sending

    def next_ready(self) -> OutstandingEvent | None:
        """The first event that may be sent, and stays so until it is sent or settled."""
        while self._ready:
            event = self.get(self._ready[0])
            if event is not None and event.state is EventState.READY and event.delivery is not None:
                return event
            heappop(self._ready)  # one without its bytes is put here again when it is read
        return None

    def hand(self, event: OutstandingEvent, consumer: Consumer, until: float) -> None:
        """A consumer is sent an event, to be dealt with until a time."""
        is_in_order = event.attempts == 0 and not event.is_redriven and event.position > consumer.sent_upto
        self._put_in_hand(event, consumer, is_in_order=is_in_order)
        if until == math.inf:
            event.state, event.until = EventState.IN_HAND, until
        else:
            self._wait(event, EventState.IN_HAND, until)

    def _put_in_hand(self, event: OutstandingEvent, consumer: Consumer, *, is_in_order: bool) -> None:
        event.consumer, event.is_in_window, event.is_in_order = consumer.link, True, is_in_order
        consumer.positions.add(event.position)
        consumer.in_window += 1
        consumer.sent_upto = max(consumer.sent_upto, event.position)

    def let_more(self, consumer: Consumer, position: Position) -> int:
        """What was sent up to a position has left its connection: send more. It is not dealt with by that."""
        count = 0
        for each in consumer.positions:
            event = self.get(each)
            if event is not None and event.is_in_window and each <= position:
                event.is_in_window = False
                count += 1
        consumer.in_window -= count
        return count

    def acknowledged_by(self, consumer: Consumer, position: Position) -> list[OutstandingEvent]:
        """The events that a consumer means who acknowledges all up to a position."""
        found = (self.get(each) for each in sorted(consumer.positions) if each <= position)
        return [event for event in found if event is not None and event.is_in_order]

    # Coming to an end

    def settle(self, event: OutstandingEvent) -> None:
        """An event is dealt with, in whatever way: the next one of its key may go."""
        self._take_from_consumer(event)
        if (self.redriven if event.is_redriven else self.events).pop(event.position, None) is not None:
            self.size_bytes -= event.size_bytes
        if event.key is None:
            return
        queue = self._queues[event.key]
        was_first = queue[0] == event.position
        queue.remove(event.position)
        if not queue:
            del self._queues[event.key]
        elif was_first:
            self._let_go_first(queue)

    def _let_go_first(self, queue: deque[Position]) -> None:
        following = self.get(queue[0])
        if following is not None and following.state is EventState.HELD:
            self._make_ready(following)

    def settle_each(self, positions: Iterable[Position]) -> None:
        """Settle those of some events that are outstanding."""
        for position in positions:
            if (event := self.get(position)) is not None:
                self.settle(event)

    def postpone(self, event: OutstandingEvent, until: float) -> None:
        """An event is not dealt with, and comes again at a time."""
        self._take_from_consumer(event)
        self._wait(event, EventState.LATER, until)

    def leave(self, link: str) -> list[OutstandingEvent]:
        """A consumer is gone. Returns what it had, which may be sent to others now."""
        consumer = self.consumers.remove(link)
        found = [] if consumer is None else [self.get(position) for position in sorted(consumer.positions)]
        events = [event for event in found if event is not None]
        for event in events:
            self._take_from_consumer(event)
            self._make_ready(event)
        return events

    def keep_in_hand(self, link: str) -> None:
        """A consumer goes, but what it has stays its own until its time is over."""
        if (consumer := self.consumers.get(link)) is not None:
            consumer.positions.clear()
            consumer.in_window = 0

    def leave_all(self, *, counts: bool) -> None:
        """All consumers are gone; `counts`: what they had was an attempt."""
        for consumer in list(self.consumers):
            for event in self.leave(consumer.link):
                event.attempts += counts

    def forget_bytes(self, attempts_max: int) -> None:
        """Nobody takes events: what can be read from the log again need not be in memory.

        But for those that become dead letters if they are refused once more.
        """
        for event in self.events.values():
            if not event.refusals or event.refusals + 1 < attempts_max:
                self.size_bytes -= event.size_bytes
                event.delivery = None

    def wake(self, now: float) -> list[OutstandingEvent]:
        """Make those ready whose time has come. Returns those that their consumers had for too long."""
        overdue = []
        while (at := self.next_time) is not None and at <= now:
            event = self.get(heappop(self._times)[1])
            if event is None:
                continue
            if event.state is EventState.IN_HAND:
                overdue.append(event)
                event.until = math.inf
            else:
                self._make_ready(event)
        return overdue

    def _take_from_consumer(self, event: OutstandingEvent) -> None:
        consumer = self.consumers.get(event.consumer or "")
        if consumer is not None and event.position in consumer.positions:
            consumer.positions.discard(event.position)
            consumer.in_window -= event.is_in_window
        event.consumer, event.is_in_window, event.is_in_order = None, False, False


class KeyOf:
    """Tells the key of an event. `attribute` None: no event has one."""

    def __init__(self, attribute: str | None) -> None:
        self._attribute = attribute

    def __call__(self, entry: EventEntry) -> Hashable:
        """The value of the attribute; None if the event has none."""
        if self._attribute is None:
            return None
        from fieldfare.routing.matches import attributes_in

        value = attributes_in(entry).get(self._attribute)
        return value if isinstance(value, Hashable) else repr(value)
