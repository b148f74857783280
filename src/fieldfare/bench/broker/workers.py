"""The processes around a broker: one that publishes, and some that hold the subscribers' connections.

A publisher that only pushes would measure how fast a broker drops what its clients cannot take. So the loop is closed:
subscribers count what they received into shared memory, and the publisher, which knows what its events have to reach,
has only so many batches under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias, cast

from fieldfare.bench.broker.load import Event, Load, Square
from fieldfare.bench.broker.wires import Wire, WireError
from fieldfare.errors import FieldfareError

CONNECTING_MAX = 64  # connections being opened at a time
READY_SECONDS_MAX = 300.0
STALLED_SECONDS_MAX = 30.0
POLL_SECONDS = 0.0005
TICK_SECONDS = 0.005

Counters: TypeAlias = Any  # a shared array of deliveries, one number for each process of subscribers
WireMaker: TypeAlias = Callable[[], Wire]


@dataclass(frozen=True, slots=True)
class Site:
    """A broker and what it is measured with, as every process around it has to know."""

    host: str
    port: int
    wire: WireMaker
    load: Load
    counters: Counters


@dataclass(frozen=True, slots=True)
class Saturate:
    """Publish as fast as deliveries come back."""

    seconds: float
    batch_events: int
    batches_under_way: int


@dataclass(frozen=True, slots=True)
class Pace:
    """Publish at a rate, whatever happens."""

    seconds: float
    events_per_second: float


@dataclass(frozen=True, slots=True)
class Sent:
    """What the publisher did."""

    events: int
    started: int


@dataclass(frozen=True, slots=True)
class Received:
    """What the connections of a process received since it was last asked; times are in nanoseconds."""

    counts: list[int]
    sums: list[int]  # of the numbers of the events
    ended: int
    numbers: list[int]  # of all deliveries, if they were to be recorded
    waits: list[int]
    cpu_seconds: float = 0.0  # of the process


class _Connection(asyncio.Protocol):
    """A connection that reads with a wire. A failure is kept, for there is nobody to catch it."""

    def __init__(self, wire: Wire, squares: Sequence[Square], take: Callable[[list[Event]], None]) -> None:
        self._wire = wire
        self._squares = squares
        self._take = take
        self.transport: asyncio.Transport
        self.ready = asyncio.Event()
        self.failure: Exception | None = None
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._wire.greeting(self._squares))

    def data_received(self, data: bytes) -> None:
        try:
            events = self._wire.feed(data)
        except (FieldfareError, ValueError) as error:
            self.failure = error
            self.ready.set()
            self.transport.abort()
            return
        if self._wire.reply:
            self.transport.write(self._wire.reply)
            self._wire.reply = b""
        if events:
            self._take(events)
        if self._wire.is_ready:
            self.ready.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_closing and self.failure is None:
            self.failure = exc or WireError("the broker closed a connection")
        self.ready.set()

    def publish(self, events: Sequence[bytes]) -> None:
        self.transport.write(self._wire.publication(events))

    def close(self) -> None:
        self._is_closing = True
        self.transport.abort()


async def _connect(site: Site, squares: Sequence[Square], take: Callable[[list[Event]], None]) -> _Connection:
    def make() -> _Connection:
        return _Connection(site.wire(), squares, take)

    _, connection = await asyncio.get_running_loop().create_connection(make, site.host, site.port)
    async with asyncio.timeout(READY_SECONDS_MAX):
        await connection.ready.wait()
    if connection.failure:
        raise connection.failure
    return connection


class _Taker:
    """Counts what a connection received and its client wanted."""

    def __init__(self, site: Site, process: int, square: Square | None) -> None:
        self._counters, self._process = site.counters, process
        self._square = square  # None: the broker filters
        self.start(is_recording=False)

    def start(self, *, is_recording: bool) -> None:
        self.count = self.sum = self.ended = 0
        self._is_recording = is_recording
        self.numbers: list[int] = []
        self.waits: list[int] = []

    def __call__(self, events: list[Event]) -> None:
        now = time.monotonic_ns()
        if self._square is not None:
            events = self._square.wanted(events)
        numbers = [event.number for event in events]
        if not numbers:
            return
        self.count += len(numbers)
        self.sum += sum(numbers)
        self.ended = now
        if self._is_recording:
            self.numbers += numbers
            self.waits += [now - event.sent for event in events]
        self._counters[self._process] += len(numbers)


class Subscribers:
    """A share of the load's connections, in a process of their own."""

    def __init__(self, site: Site, process: int, processes: int, *, is_filtering: bool) -> None:
        self._site = site
        self._numbers = range(process, site.load.connections, processes)
        self._process = process
        self._is_filtering = is_filtering  # the clients have to, for the broker cannot
        self._takers: list[_Taker] = []
        self._connections: list[_Connection] = []
        self._cpu_seconds = 0.0  # of this process when the run began

    async def open(self) -> None:
        """Connect them all, and wait until every subscription is in force."""
        gate = asyncio.Semaphore(CONNECTING_MAX)

        async def connect(number: int) -> None:
            squares = self._site.load.of(number)
            taker = _Taker(self._site, self._process, squares[0] if self._is_filtering else None)
            self._takers.append(taker)
            async with gate:
                self._connections.append(await _connect(self._site, squares, taker))

        await asyncio.gather(*(connect(number) for number in self._numbers))

    async def serve(self, command: Any) -> Received | None:
        """`True` or `False` begins a run, with or without recording; None asks what came."""
        for connection in self._connections:
            if connection.failure:
                raise connection.failure
        if command is None:
            return Received(
                [taker.count for taker in self._takers],
                [taker.sum for taker in self._takers],
                max(taker.ended for taker in self._takers),
                [number for taker in self._takers for number in taker.numbers],
                [wait for taker in self._takers for wait in taker.waits],
                time.process_time() - self._cpu_seconds,
            )
        for taker in self._takers:
            taker.start(is_recording=command)
        self._site.counters[self._process] = 0
        self._cpu_seconds = time.process_time()
        return None

    def close(self) -> None:
        """Leave."""
        for connection in self._connections:
            connection.close()


class Publisher:
    """One connection that publishes the pool of events over and over."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tails = [b'"x":%r,"y":%r}' % (x, y) for x, y in site.load.points.tolist()]

    async def open(self) -> None:
        """Connect."""
        self._connection = await _connect(self._site, [], lambda _: None)

    async def serve(self, command: Saturate | Pace) -> Sent:
        """Publish, and wait until everything has arrived."""
        started = time.monotonic_ns()
        events = await (self._saturate(command) if isinstance(command, Saturate) else self._pace(command))
        await self._delivered(events)
        return Sent(events, started)

    async def _saturate(self, command: Saturate) -> int:
        until = time.monotonic() + command.seconds
        sent, under_way = 0, command.batch_events * command.batches_under_way
        while sent == 0 or time.monotonic() < until:
            self._publish(sent, sent + command.batch_events, time.monotonic_ns())
            sent += command.batch_events
            await self._delivered(sent + command.batch_events - under_way)
        return sent

    async def _pace(self, command: Pace) -> int:
        """What is due is sent every tick, stamped with when it was due, so that a late publisher hides nothing."""
        started = time.monotonic_ns()
        sent = 0
        for tick in range(1, int(command.seconds / TICK_SECONDS) + 1):
            due = started + int(tick * TICK_SECONDS * 1e9)
            await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
            stop = int(tick * TICK_SECONDS * command.events_per_second)
            if stop > sent:
                self._publish(sent, stop, due)
                sent = stop
        return sent

    def _publish(self, start: int, stop: int, moment: int) -> None:
        tails, pool = self._tails, len(self._tails)
        head = b'{"number":%d,"sent":' + b"%d," % moment
        self._connection.publish([head % number + tails[number % pool] for number in range(start, stop)])

    async def _delivered(self, events: int) -> None:
        """Wait until the first so many events have reached whom they have to."""
        missing = self._site.load.deliveries(max(0, events))
        last, moved_at = -1, time.monotonic()
        while (count := sum(self._site.counters)) < missing:
            if self._connection.failure:
                raise self._connection.failure
            if count != last:
                last, moved_at = count, time.monotonic()
            elif time.monotonic() - moved_at > STALLED_SECONDS_MAX:
                raise WireError(f"{missing - count} of {missing} deliveries never came")
            await asyncio.sleep(POLL_SECONDS)
        if self._connection.failure:
            raise self._connection.failure

    def close(self) -> None:
        """Leave."""
        self._connection.close()


def work(pipe: Connection, worker: Publisher | Subscribers) -> None:
    """The main function of a process: answer commands until the pipe is closed; a failure is an answer, too."""
    import uvloop

    uvloop.run(_work(pipe, worker))


async def _work(pipe: Connection, worker: Publisher | Subscribers) -> None:
    loop = asyncio.get_running_loop()
    try:
        await worker.open()
        pipe.send(None)
        while True:
            command = await loop.run_in_executor(None, pipe.recv)
            pipe.send(await worker.serve(command))
    except EOFError:
        worker.close()
    except (FieldfareError, OSError, TimeoutError, ValueError) as error:
        pipe.send(error)
