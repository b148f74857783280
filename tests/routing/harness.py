"""Runs an edge step by step in a test: what it asks for is done at once, or when the test says so.

Time stands still until the test lets it pass. What is appended is stored at once unless `holds_storage`; the log is
read at once unless `holds_reading`; webhooks and the pipeline answer only when the test answers for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec.json import Decoder
from tests.routing.frames import number_of, publication
from tests.routing.memory_log import MemoryLog

from fieldfare.kernel import Kernel
from fieldfare.messages import (
    Ack,
    Append,
    Attach,
    Audit,
    BatchStored,
    CallWebhook,
    CheckWebhook,
    ClientFrame,
    Closed,
    CompileConditions,
    ConditionsCompiled,
    DeclareTopic,
    Deliver,
    Delivery,
    Detach,
    EdgeFrame,
    Fetch,
    Fetched,
    HandedOver,
    HandEvents,
    HandSubscription,
    Identity,
    Input,
    InterestMerged,
    List,
    MergeInterest,
    Notice,
    NotStored,
    Opened,
    Position,
    Received,
    Record,
    Send,
    Started,
    Stored,
    Subscribe,
    Unsubscribe,
    UsePipeline,
    Warn,
    WebhookCalled,
    WebhookChecked,
)
from fieldfare.routing.edge import Edge
from fieldfare.routing.interest import compile_conditions
from fieldfare.routing.options import EdgeOptions
from fieldfare.store.journal import StreamPart

TENANT = "acme"
ALL = Identity(TENANT, {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
FETCHES_MAX = 10_000  # more, without an end in sight, is a reader that goes in circles

_delivery: Decoder[Delivery] = Decoder(Delivery)


class Log(Protocol):
    """What the harness needs of a log; a Journal is one."""

    @property
    def first_position(self) -> Position: ...
    def append(self, records: Sequence[Record], *, sync: bool) -> None: ...
    def read(self, stream: str, after: Position) -> StreamPart[Record]: ...
    def checkpoint(self, records: Sequence[Record]) -> None: ...


class Harness:
    """An edge on the kernel, and all that a host does for it. Without a log of its own it gets one in memory."""

    def __init__(self, options: EdgeOptions | None = None, log: Log | None = None) -> None:
        self.options = options or EdgeOptions()
        self.memory = MemoryLog()
        self.log: Log = log or self.memory
        self.now = 1_000_000.0
        self.holds_storage = self.holds_reading = self.holds_checks = self.holds_compiling = False
        self.unstored: list[Append] = []
        self.fetches: list[Fetch] = []
        self.calls: list[CallWebhook] = []
        self.checks: list[CheckWebhook] = []
        self.compiling: list[CompileConditions] = []
        self.handed: list[HandEvents | HandSubscription] = []
        self.batches: list[BatchStored] = []
        self.warnings: list[str] = []
        self.audited: list[Audit] = []
        self.pipeline_topics: list[UsePipeline] = []
        self.clients: dict[str, Client] = {}
        self._lives = self._opened = 0
        self.start(())

    def start(self, records: Sequence[Record]) -> None:
        """A new edge that knows what the log holds; all that was under way for the last one is gone."""
        self._lives += 1
        self.edge = Edge("edge", random.Random(self._lives), self.options)
        self.kernel = Kernel(self.edge)
        under_way: tuple[list[Any], ...] = (self.unstored, self.fetches, self.calls, self.checks, self.compiling)
        for waiting in (*under_way, self.handed, self.batches, self.pipeline_topics):
            waiting.clear()
        self._provide()
        self.clients.clear()
        self.fetch_count = 0
        for record in records:
            self.edge.recover(record)
        self.tell(Started())

    def _provide(self) -> None:
        kernel = self.kernel
        kernel.provide(Send, self._send)
        kernel.provide(Warn, lambda effect: self.warnings.append(effect.text))
        kernel.provide(Audit, self.audited.append)
        kernel.provide(Append, self.unstored.append)
        kernel.provide(Fetch, self._fetch)
        kernel.provide(CallWebhook, self._call)
        kernel.provide(CheckWebhook, self.checks.append)
        kernel.provide(CompileConditions, self.compiling.append)
        kernel.provide(MergeInterest, self._merge)
        kernel.provide(UsePipeline, self.pipeline_topics.append)
        kernel.provide(HandEvents, self.handed.append)
        kernel.provide(HandSubscription, self.handed.append)
        kernel.provide(BatchStored, self.batches.append)

    def _send(self, effect: Send) -> None:
        if effect.link in self.clients:
            self.clients[effect.link].frames.append(effect.frame)

    def _merge(self, effect: MergeInterest) -> None:
        self.kernel.tell(InterestMerged(effect.number, effect.merge()))

    def _fetch(self, effect: Fetch) -> None:
        assert effect.reader not in {fetch.reader for fetch in self.fetches}, "one piece at a time"
        self.fetches.append(effect)

    def _call(self, effect: CallWebhook) -> None:
        assert effect.handle not in {call.handle for call in self.calls}, "one call at a time"
        self.calls.append(effect)

    def crash(self) -> None:
        """Come back with what is stored."""
        self.start(self.memory.recover())

    def checkpoint(self) -> None:
        self.log.checkpoint(self.edge.checkpoint())

    def tell(self, *messages: Input) -> None:
        """One round: messages, and all that can be done about them now."""
        for message in messages:
            self.kernel.tell(message)
        self.settle()

    def settle(self) -> None:
        """Timers that are due, storing and reading, until nothing is left to do."""
        while True:
            self.kernel.run_round(self.now)
            if self.checks and not self.holds_checks:
                self.kernel.tell(WebhookChecked(self.checks.pop(0).number))
            elif self.compiling and not self.holds_compiling:
                self._compile()
            elif self.unstored and not self.holds_storage:
                self._store(len(self.unstored))
            elif self.fetches and not self.holds_reading:
                self.kernel.tell(self._fetched())
            else:
                return

    def pass_time(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end = self.now + seconds
        while (at := self.kernel.next_timer_at) is not None and at <= end:
            self.now = max(self.now, at)
            self.settle()
        self.now = end

    # Checks and compiling

    def answer_check(self, failure: str | None = None, *, is_busy: bool = False) -> None:
        """The webhook that was to be checked first may be called, or may not."""
        self.tell(WebhookChecked(self.checks.pop(0).number, failure, is_busy))

    def compile(self) -> None:
        """Compile the conditions that were asked for first."""
        self._compile()
        self.settle()

    def _compile(self) -> None:
        effect = self.compiling.pop(0)
        self.kernel.tell(ConditionsCompiled(effect.number, compile_conditions(effect.handles, effect.conditions)))

    # The log

    def store(self, count: int | None = None) -> None:
        """Store what waits for it, or the first of it."""
        self._store(len(self.unstored) if count is None else count)
        self.settle()

    def _store(self, count: int) -> None:
        group = [self.unstored.pop(0) for _ in range(count)]
        self.log.append([append.record for append in group], sync=True)
        self.kernel.tell_first(Stored(group[-1].number, self.log.first_position))

    def store_unheard(self) -> Callable[[], None]:
        """Store what waits; the edge hears of it only when what is returned is called."""
        group = self.unstored.copy()
        self.unstored.clear()
        self.log.append([append.record for append in group], sync=True)
        return lambda: self.tell(Stored(group[-1].number))

    def fail_to_store(self, reason: str = "the disk is full") -> None:
        """Nothing that waits is stored."""
        group = self.unstored.copy()
        self.unstored.clear()
        self.tell(NotStored(group[-1].number, reason))

    def read(self) -> None:
        """Answer the first that asked for a piece of the log."""
        self.tell(self._fetched())

    def read_unheard(self) -> Callable[[], None]:
        """Read a piece; the edge hears of it only when what is returned is called."""
        fetched = self._fetched()
        return lambda: self.tell(fetched)

    def _fetched(self) -> Fetched:
        self.fetch_count += 1
        assert self.fetch_count < FETCHES_MAX, "the log is read in circles"
        fetch = self.fetches.pop(0)
        piece = self.log.read(fetch.stream, fetch.after)
        return Fetched(fetch.reader, piece.records, piece.position, piece.lost_before, piece.expired_before)

    # Webhooks and the pipeline

    def answer_call(self, failure: str | None = None, **details: Any) -> CallWebhook:
        """The endpoint that was called first takes the events, or fails."""
        call = self.calls.pop(0)
        self.tell(WebhookCalled(call.handle, call.tenant, call.subscription, call.position, failure, **details))
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
        self.tell(*(Received(client.id, frame) for client, frame in frames))


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
