"""Runs an edge step by step in a test: what it asks for is done at once, or when the test says so.

Time stands still until the test lets it pass. What is appended is stored at once unless `holds_storage`; the log is
read at once unless `holds_reading`; webhooks and the pipeline answer only when the test answers for them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from msgspec.json import Decoder
from tests.routing.frames import number_of, publication
from tests.routing.memory_log import MemoryLog

from fieldfare.messages import (
    Ack,
    Append,
    Attach,
    Call,
    Called,
    ClientFrame,
    Closed,
    DeclareTopic,
    Deliver,
    Delivery,
    Detach,
    EdgeFrame,
    Effect,
    EventsStored,
    Fetch,
    Fetched,
    HandedOver,
    HandEvents,
    HandSubscription,
    Identity,
    Input,
    List,
    Notice,
    NotStored,
    Opened,
    Position,
    Received,
    Record,
    Send,
    SetTimer,
    Started,
    Stored,
    Subscribe,
    TimerDue,
    Unsubscribe,
    stream_of,
)
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.store.journal import Piece

TENANT = "acme"
ALL = Identity(TENANT, {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
FETCHES_MAX = 10_000  # more, without an end in sight, is a reader that goes in circles

_delivery: Decoder[Delivery] = Decoder(Delivery)


class Log(Protocol):
    """What the harness needs of a log; a Journal is one."""

    def append(self, records: Sequence[Record], *, sync: bool) -> None: ...
    def read(self, stream: str, after: Position) -> Piece[Record]: ...
    def checkpoint(self, records: Sequence[Record]) -> None: ...


class Harness:
    """An edge, and all that a host does for it. Without a log of its own it gets one in memory."""

    def __init__(self, options: EdgeOptions | None = None, log: Log | None = None) -> None:
        self.options = options or EdgeOptions()
        self.memory = MemoryLog()
        self.log: Log = log or self.memory
        self.now = 1_000_000.0
        self.holds_storage = self.holds_reading = False
        self.unstored: list[Append] = []
        self.fetches: list[Fetch] = []
        self.calls: list[Call] = []
        self.handed: list[HandEvents | HandSubscription] = []
        self.clients: dict[str, Client] = {}
        self._lives = self._opened = 0
        self.start(())

    def start(self, records: Sequence[Record]) -> None:
        """A new edge that knows what the log holds; all that was under way for the last one is gone."""
        self._lives += 1
        self.edge = Edge("edge", random.Random(self._lives), self.options)
        self.timers: dict[str, float] = {}
        for under_way in (self.unstored, self.fetches, self.calls, self.handed):
            under_way.clear()
        self.clients.clear()
        self.fetch_count = 0
        for record in records:
            self.edge.recover(record)
        self.tell(Started())

    def crash(self) -> None:
        """Come back with what is stored."""
        self.start(self.memory.recover())

    def checkpoint(self) -> None:
        self.log.checkpoint(self.edge.checkpoint())

    def tell(self, message: Input) -> None:
        """One round: a message, and all that can be done about it now."""
        self._step(message)
        self.settle()

    def _step(self, message: Input) -> None:
        for effect in self.edge.handle(message, self.now):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                if effect.connection in self.clients:
                    self.clients[effect.connection].frames.append(effect.frame)
            case Append():
                self.unstored.append(effect)
            case Fetch():
                assert effect.reader not in {fetch.reader for fetch in self.fetches}, "one piece at a time"
                self.fetches.append(effect)
            case SetTimer():
                self.timers[effect.key] = effect.at
            case Call():
                assert effect.handle not in {call.handle for call in self.calls}, "one call at a time"
                self.calls.append(effect)
            case HandEvents() | HandSubscription():
                self.handed.append(effect)
            case _:
                raise AssertionError(effect)

    def settle(self) -> None:
        """Timers that are due, storing and reading, until nothing is left to do."""
        while True:
            if due := [key for key, at in self.timers.items() if at <= self.now]:
                del self.timers[due[0]]
                self._step(TimerDue(due[0]))
            elif self.unstored and not self.holds_storage:
                self._store(len(self.unstored))
            elif self.fetches and not self.holds_reading:
                self._read()
            else:
                return

    def pass_time(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end = self.now + seconds
        while (at := min(self.timers.values(), default=math.inf)) <= end:
            self.now = max(self.now, at)
            self.settle()
        self.now = end

    # The log

    def store(self, count: int | None = None) -> None:
        """Store what waits for it, or the first of it."""
        self._store(len(self.unstored) if count is None else count)
        self.settle()

    def _store(self, count: int) -> None:
        group = [self.unstored.pop(0) for _ in range(count)]
        self.log.append([append.record for append in group], sync=True)
        self._step(Stored(group[-1].number))

    def store_unheard(self) -> Callable[[], None]:
        """Store what waits; the edge hears of it only when what is returned is called."""
        group, self.unstored = self.unstored, []
        self.log.append([append.record for append in group], sync=True)
        return lambda: self.tell(Stored(group[-1].number))

    def fail_to_store(self, reason: str = "the disk is full") -> None:
        """Nothing that waits is stored."""
        group, self.unstored = self.unstored, []
        self.tell(NotStored(group[-1].number, reason))

    def read(self) -> None:
        """Answer the first that asked for a piece of the log."""
        self._read()
        self.settle()

    def read_unheard(self) -> Callable[[], None]:
        """Read a piece; the edge hears of it only when what is returned is called."""
        fetched = self._fetched()
        return lambda: self.tell(fetched)

    def _read(self) -> None:
        self._step(self._fetched())

    def _fetched(self) -> Fetched:
        self.fetch_count += 1
        assert self.fetch_count < FETCHES_MAX, "the log is read in circles"
        fetch = self.fetches.pop(0)
        piece = self.log.read(stream_of(fetch.tenant, fetch.topic), fetch.after)
        return Fetched(fetch.reader, *cast("Piece[EventsStored]", piece))

    # Webhooks and the pipeline

    def answer_call(self, failure: str | None = None, **details: Any) -> Call:
        """The endpoint that was called first takes the events, or fails."""
        call = self.calls.pop(0)
        self.tell(Called(call.handle, call.position, failure, **details))
        return call

    def take_over(self, failure: str | None = None) -> HandEvents | HandSubscription:
        """The pipeline has, or has not, taken what it was handed first."""
        handed = self.handed.pop(0)
        self.tell(HandedOver(handed.number, failure))
        return handed

    # Clients

    def connect(self, identity: Identity = ALL) -> Client:
        self._opened += 1
        client = Client(self, f"c{self._lives}.{self._opened}", identity)
        self.clients[client.id] = client
        self.tell(Opened(client.id, identity))
        return client

    def together(self, *frames: tuple[Client, ClientFrame]) -> None:
        """Several frames in one round."""
        for client, frame in frames:
            self._step(Received(client.id, frame))
        self.settle()


class Client:
    """A client that says what the test tells it to, and keeps what it is sent."""

    def __init__(self, harness: Harness, connection: str, identity: Identity) -> None:
        self.harness, self.id, self.identity = harness, connection, identity
        self.frames: list[EdgeFrame] = []
        self._ref = 1000  # below are those that tests choose themselves

    def send(self, frame: ClientFrame) -> None:
        self.harness.tell(Received(self.id, frame))

    def close(self) -> None:
        del self.harness.clients[self.id]
        self.harness.tell(Closed(self.id))

    def ref(self) -> int:
        self._ref += 1
        return self._ref

    def answer(self, ref: int) -> EdgeFrame | None:
        """The answer to a request; None as long as there is none."""
        answers = [frame for frame in self.frames if getattr(frame, "ref", None) == ref]
        assert len(answers) <= 1, answers
        return answers[0] if answers else None

    def _ask(self, frame: ClientFrame, ref: int) -> EdgeFrame | None:
        self.send(frame)
        return self.answer(ref)

    def publish(self, topic: str, *events: dict[str, Any], **options: Any) -> EdgeFrame | None:
        ref = self.ref()
        return self._ask(publication(ref, topic, *events, **options), ref)

    def subscribe(self, topic: str, condition: str = "n >= 0", **options: Any) -> EdgeFrame | None:
        ref = self.ref()
        return self._ask(Subscribe(ref, topic, condition, **options), ref)

    def attach(self, subscription: str, **options: Any) -> EdgeFrame | None:
        ref = self.ref()
        return self._ask(Attach(ref, subscription, **options), ref)

    def unsubscribe(self, subscription: str) -> EdgeFrame | None:
        ref = self.ref()
        return self._ask(Unsubscribe(ref, subscription), ref)

    def declare(self, topic: str, **options: Any) -> EdgeFrame | None:
        ref = self.ref()
        return self._ask(DeclareTopic(ref, topic, **options), ref)

    def page(self, what: str, **options: Any) -> EdgeFrame | None:
        ref = self.ref()
        return self._ask(List(ref, what, **options), ref)  # type: ignore[arg-type]

    def ack(self, subscription: str, position: Position, *, is_final: bool = True) -> None:
        self.send(Ack(subscription, position, is_final))

    def detach(self, subscription: str) -> None:
        self.send(Detach(subscription))

    # What came

    def deliveries(self, subscription: str) -> list[Delivery]:
        return [
            _delivery.decode(event)
            for frame in self.frames
            if isinstance(frame, Deliver) and frame.subscription == subscription
            for event in frame.events
        ]

    def numbers(self, subscription: str) -> list[int]:
        """The attribute n of all events that were delivered."""
        return [number_of(delivery) for delivery in self.deliveries(subscription)]

    def positions(self, subscription: str) -> list[Position]:
        return [delivery.position for delivery in self.deliveries(subscription)]

    def notices(self, kind: str) -> list[Notice]:
        return [frame for frame in self.frames if isinstance(frame, Notice) and frame.kind == kind]

    def take_all(self, subscription: str) -> list[int]:
        """Acknowledge all that comes, until nothing more does; the numbers of all of it."""
        acknowledged = -1
        while (positions := self.positions(subscription)) and positions[-1] > acknowledged:
            acknowledged = positions[-1]
            self.ack(subscription, acknowledged)
        return self.numbers(subscription)
