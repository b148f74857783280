"""A node on asyncio: what happens is queued for it, what it asks for is done.

Messages are handled in rounds. All that has come in is handled, then the timers that are due; what a round sends to one
connection goes out as one list, and what it appends goes to the log as one group. While a group is being flushed the
next one gathers, so that the cost of a flush is shared by however many wait for it.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, cast

from fieldfare.errors import JournalError, JournalFullError, WebhookAddressError
from fieldfare.messages import (
    Append,
    Call,
    Called,
    ClientFrame,
    Close,
    Closed,
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
    Node,
    NotStored,
    Opened,
    Received,
    Record,
    Refused,
    Send,
    SetTimer,
    Started,
    Stored,
    Subscribe,
    TimerDue,
    stream_of,
)
from fieldfare.store.journal import Journal

_SETTLE_SECONDS = 5.0
_log = logging.getLogger(__name__)
_CHECKS_MAX = 64  # of webhooks' addresses at a time

Frames = Callable[[list[EdgeFrame]], None]


class Webhooks(Protocol):
    """Who calls webhooks."""

    async def check(self, url: str) -> None:
        """Raise a WebhookAddressError if it is not to be called."""
        ...

    async def call(self, call: Call) -> Called:
        """Call one, and tell how it went."""
        ...


class Pipeline(Protocol):
    """Who has topics matched by Spark."""

    def perform(self, effect: HandEvents | HandSubscription) -> None:
        """Take events, or a subscription; answered later by HandedOver."""
        ...


@dataclass(slots=True)
class Connection:
    """A client at the host: by socket, by request, or in the same process."""

    id: str
    host: Host
    on_frames: Frames
    on_close: Callable[[str], None]
    frames: list[EdgeFrame] = field(default_factory=list)

    def send(self, frame: ClientFrame) -> None:
        """The client says something."""
        self.host.received(self, frame)

    def close(self) -> None:
        """The client is gone, and hears nothing any more."""
        self.host.disconnected(self)


class Host:
    """Runs one node. Everything but the log's thread happens in the event loop that `start` was called in."""

    def __init__(
        self, node: Node, journal: Journal[Record], webhooks: Webhooks | None = None, pipeline: Pipeline | None = None
    ) -> None:
        self.node, self.journal = node, journal
        self.webhooks, self.pipeline = webhooks, pipeline
        self.failure: str | None = "it has not started"
        self.flush_seconds = 0.0  # all together, and how many there were
        self.flush_count = 0
        self._connections: dict[str, Connection] = {}
        self._names = count(1)
        self._inbox: deque[Input] = deque()
        self._timers: list[tuple[float, int, str]] = []
        self._timer_at: dict[str, float] = {}
        self._order = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._to_append: list[Append] = []
        self._to_fetch: list[Fetch] = []
        self._speakers: dict[str, Connection] = {}  # those with frames to be sent at the end of the round
        self._is_round_due = self._is_log_busy = self._is_stopping = self._is_readers_turn = False
        self._log_thread = ThreadPoolExecutor(1, thread_name_prefix="fieldfare-log")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._checks = asyncio.Semaphore(_CHECKS_MAX)
        self._is_idle = asyncio.Event()
        self._epoch = time.time() - time.monotonic()  # the time is read once: when the clock jumps, this does not

    def now(self) -> float:
        """Seconds since 1970, by a clock that only goes forward evenly."""
        return self._epoch + time.monotonic()

    # Living

    async def start(self) -> None:
        """Recover what the log holds, and begin."""
        self._loop = asyncio.get_running_loop()
        await self._loop.run_in_executor(self._log_thread, self._recover)
        self.failure = None
        self.tell(Started())
        await asyncio.sleep(0)

    def _recover(self) -> None:
        for record in self.journal.recover():
            self.node.recover(record)

    async def stop(self, reason: str = "the service is stopping: come back soon") -> None:
        """Finish what is in hand, part from the clients, and leave a log that is quick to recover."""
        self.failure, self._is_stopping = reason, True
        with suppress(TimeoutError):  # who publishes without a pause would keep it from ever being idle
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self._settle()
        for connection in list(self._connections.values()):
            self._part(connection, reason)
        await self._settle()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._alarm is not None:
            self._alarm.cancel()
        await self._loop.run_in_executor(self._log_thread, self._last_checkpoint, self.node.checkpoint())
        self._is_round_due = True  # and never begins: there is no log any more
        self._log_thread.shutdown()

    def _last_checkpoint(self, records: Any) -> None:
        try:
            self.journal.checkpoint(records)
        except JournalError as error:
            _log.warning("no checkpoint was written, so the next start reads more of the log: %s", error)

    async def _settle(self) -> None:
        """Until nothing is left to be handled or stored."""
        self._is_idle.clear()
        self._round_soon()
        await self._is_idle.wait()

    # Connections

    def connect(self, identity: Identity, on_frames: Frames, on_close: Callable[[str], None]) -> Connection:
        """A new client. It gets, round by round, what the node sends to it."""
        connection = Connection(f"c{next(self._names)}", self, on_frames, on_close)
        if self._is_stopping:
            self._loop.call_soon(on_close, self.failure or "")
            return connection
        self._connections[connection.id] = connection
        self.tell(Opened(connection.id, identity))
        return connection

    def received(self, connection: Connection, frame: ClientFrame) -> None:
        """A client said something. Whether a webhook may be called takes a look at the network first."""
        if isinstance(frame, Subscribe) and frame.webhook is not None and self.webhooks is not None:
            self._do(self._check_webhook(self.webhooks, connection, frame, frame.webhook))
        else:
            self.tell(Received(connection.id, frame))

    async def _check_webhook(self, webhooks: Webhooks, connection: Connection, frame: Subscribe, url: str) -> None:
        if self._checks.locked():
            connection.on_frames(
                [Refused(frame.ref, "busy", "many webhooks are being looked at: try again in a second")]
            )
            return
        try:
            async with self._checks:
                await webhooks.check(url)
        except WebhookAddressError as error:
            connection.on_frames([Refused(frame.ref, "invalid", str(error))])
        else:
            self.tell(Received(connection.id, frame))

    def disconnected(self, connection: Connection) -> None:
        """A client is gone."""
        if self._connections.pop(connection.id, None) is not None:
            self.tell(Closed(connection.id))

    def _part(self, connection: Connection, reason: str) -> None:
        self.disconnected(connection)
        connection.on_close(reason)

    # Rounds

    def tell(self, message: Input) -> None:
        """Something happened."""
        self._inbox.append(message)
        self._round_soon()

    def _round_soon(self) -> None:
        if not self._is_round_due:
            self._is_round_due = True
            self._loop.call_soon(self._round)

    def _round(self) -> None:
        self._is_round_due = False
        now = self.now()
        self._handle_all(now)
        while self._timers and self._timers[0][0] <= now:
            at, _, key = heapq.heappop(self._timers)
            if self._timer_at.get(key) == at:
                del self._timer_at[key]
                self._inbox.append(TimerDue(key))
                self._handle_all(now)
        speakers, self._speakers = self._speakers, {}
        for connection in speakers.values():
            frames, connection.frames = connection.frames, []
            connection.on_frames(frames)
        self._set_alarm(now)
        self._feed_log()
        if not self._is_log_busy and not self._inbox:
            self._is_idle.set()

    def _handle_all(self, now: float) -> None:
        while self._inbox:
            for effect in self.node.handle(self._inbox.popleft(), now):
                self._perform(effect)

    def _set_alarm(self, now: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._timers:
            self._alarm = self._loop.call_later(max(0.0, self._timers[0][0] - now), self._round_soon)

    # Effects

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    connection.frames.append(effect.frame)
                    self._speakers[effect.connection] = connection
            case Append():
                self._to_append.append(effect)
            case SetTimer():
                self._timer_at[effect.key] = effect.at
                heapq.heappush(self._timers, (effect.at, next(self._order), effect.key))
            case Fetch():
                self._to_fetch.append(effect)
            case Call():
                self._do(self._call(effect))
            case HandEvents() | HandSubscription():
                self._hand(effect)
            case Close():
                if connection := self._connections.get(effect.connection):
                    self._part(connection, effect.reason)

    def _do(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, call: Call) -> None:
        if self.webhooks is None:
            self.tell(Called(call.handle, call.position, "webhooks are switched off", is_permanent=True))
        else:
            self.tell(await self.webhooks.call(call))

    def _hand(self, effect: HandEvents | HandSubscription) -> None:
        if self.pipeline is None:
            self.tell(HandedOver(effect.number, "this service has no Spark pipeline: start it with --spark"))
        else:
            self.pipeline.perform(effect)

    # The log, in its thread, one thing at a time

    def _feed_log(self) -> None:
        if self._is_log_busy:
            return
        if self._to_fetch and (self._is_readers_turn or not self._to_append):
            self._is_readers_turn = False
            self._in_log(self._fetch, self._to_fetch.pop(0), self._fetched)
        elif self._to_append:
            self._is_readers_turn = True  # or who publishes without a pause would keep them waiting
            group, self._to_append = self._to_append, []
            self._in_log(self._append, group, self._appended)

    def _in_log(self, work: Callable[[Any], Any], argument: Any, then: Callable[[Any], None]) -> None:
        self._is_log_busy = True

        def done(future: Future[Any]) -> None:
            if error := future.exception():  # a fault of ours: nothing more is stored, and everybody is told
                self._fail(error)
                return
            self._is_log_busy = False
            then(future.result())
            self._round_soon()

        self._log_thread.submit(work, argument).add_done_callback(
            lambda future: self._loop.call_soon_threadsafe(done, future)
        )

    def _append(self, group: list[Append]) -> Stored | NotStored:
        number = group[-1].number
        began = time.monotonic()
        try:
            self.journal.append([append.record for append in group], sync=any(append.is_durable for append in group))
        except JournalFullError as error:
            return NotStored(number, str(error))
        except JournalError as error:
            self._fail(error)
            return NotStored(number, str(error))
        self.flush_seconds += time.monotonic() - began
        self.flush_count += 1
        return Stored(number)

    def _appended(self, outcome: Stored | NotStored) -> None:
        if isinstance(outcome, NotStored) and self._to_append:  # what follows it must not be stored without it
            outcome = NotStored(self._to_append[-1].number, outcome.reason)
            self._to_append.clear()
        now = self.now()
        for effect in self.node.handle(outcome, now):
            self._perform(effect)
        # The node's state is that of the log just now, and nothing can be appended before this is done.
        if isinstance(outcome, Stored) and self.journal.is_due_for_checkpoint:
            self._in_log(self._checkpoint, (self.node.checkpoint(), now), lambda _: None)

    def _checkpoint(self, work: tuple[Any, float]) -> None:
        records, now = work
        try:
            self.journal.checkpoint(records)
            self.journal.trim(now)
        except JournalError as error:
            _log.warning("no checkpoint was written, so the log cannot be shortened: %s", error)

    def _fetch(self, fetch: Fetch) -> Fetched | None:
        try:
            piece = self.journal.read(stream_of(fetch.tenant, fetch.topic), fetch.after)
        except JournalError as error:
            self._fail(error)
            return None
        records = cast("list[EventsStored]", piece.records)  # only these have events, and so a place in a stream
        return Fetched(fetch.reader, records, piece.position, piece.is_end, piece.lost_before)

    def _fetched(self, piece: Fetched | None) -> None:
        if piece is not None:
            self._inbox.append(piece)

    def _fail(self, error: BaseException) -> None:
        failure = f"the log failed, restart the service: {error}"
        if failure != self.failure:
            _log.error("%s", failure)
        self.failure = failure
