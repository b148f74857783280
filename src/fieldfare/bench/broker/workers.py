"""The processes around a broker: one that publishes, and some that hold the subscribers' connections.

A publisher that only pushes would measure how fast a broker drops what its clients cannot take. So the loop is closed:
subscribers count what they received into shared memory, and the publisher, which knows what its events have to reach,
has only so many batches under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import numpy as np

from fieldfare.bench.broker.connections import ClientConnection, Connect
from fieldfare.bench.broker.load import Load, ReceivedEvent, Wanted
from fieldfare.bench.broker.wires import WireError
from fieldfare.errors import FieldfareError

CONNECTING_MAX = 64  # connections being opened at a time
SUBSCRIPTIONS_SECONDS_MAX = 30.0
QUIET_SECONDS = 0.25  # without a delivery: none of those that were sent is still to come
STALLED_SECONDS_MAX = 30.0
POLL_SECONDS = 0.0005
TICK_SECONDS = 0.005
_SEED = 1

Counters: TypeAlias = Any  # a shared array of deliveries, one number for each process of subscribers


@dataclass(frozen=True, slots=True)
class Site:
    """Brokers and what they are measured with, as every process around them has to know."""

    host: str
    ports: tuple[int, ...]  # connection number c is opened at ports[c % len(ports)]
    connect: Connect
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
    """Publish at a rate, whatever happens: what is due at every tick, or groups as large that come by Poisson's law."""

    seconds: float
    events_per_second: float
    is_random: bool = False


@dataclass(frozen=True, slots=True)
class AwaitSubscriptions:
    """Publish a few events again and again, until every connection has received one that it wants.

    A subscription that one broker has accepted may take a moment to reach the others: what is published before then is
    lost, where brokers keep nothing. These events have numbers below 0; those of them that come late, when a run has
    begun, do not count.
    """


@dataclass(frozen=True, slots=True)
class Sent:
    """What the publisher did."""

    events: int
    started: int
    cpu_seconds: float = 0.0  # of the process


@dataclass(frozen=True, slots=True)
class Received:
    """What the connections of a process received since it was last asked; times are in nanoseconds."""

    counts: list[int]
    sums: list[int]  # of the numbers of the events
    ended: int
    numbers: list[int]  # of all deliveries, if they were to be recorded
    waits: list[int]
    cpu_seconds: float = 0.0  # of the process


class ReceiptCounter:
    """Counts what a connection received and its client wanted."""

    def __init__(self, site: Site, process: int, square: Wanted | None) -> None:
        self._counters, self._process = site.counters, process
        self._square = square  # None: the broker filters
        self._is_reached = False
        self.start(is_recording=False)

    def start(self, *, is_recording: bool) -> None:
        """A run begins."""
        self.count = self.sum = self.ended = 0
        self._is_recording = is_recording
        self.numbers: list[int] = []
        self.waits: list[int] = []

    def __call__(self, events: list[ReceivedEvent]) -> None:
        """These events came."""
        now = time.monotonic_ns()
        if self._square is not None:
            events = self._square.wanted(events)
        if events and events[0].number < 0:
            events = self._without_probes(events)
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

    def _without_probes(self, events: list[ReceivedEvent]) -> list[ReceivedEvent]:
        """The first event that comes tells that the subscription is in force; of others like it nothing is wanted."""
        if not self._is_reached:
            self._is_reached = True
            self._counters[self._process] += 1
        return [event for event in events if event.number >= 0]


class Subscribers:
    """A share of the load's connections, in a process of their own."""

    def __init__(self, site: Site, process: int, processes: int, *, is_filtering: bool) -> None:
        self._site = site
        self._numbers = range(process, site.load.connections, processes)
        self._process = process
        self._is_filtering = is_filtering  # the clients have to, for the broker cannot
        self._takers: list[ReceiptCounter] = []
        self._connections: list[ClientConnection] = []
        self._cpu_seconds = 0.0  # of this process when the run began

    async def open(self) -> None:
        """Connect them all, and wait until every subscription is in force."""
        gate = asyncio.Semaphore(CONNECTING_MAX)

        async def connect(number: int) -> None:
            squares = self._site.load.of(number)
            taker = ReceiptCounter(self._site, self._process, squares[0] if self._is_filtering else None)
            self._takers.append(taker)
            async with gate:
                port = self._site.ports[number % len(self._site.ports)]
                self._connections.append(await self._site.connect(self._site.host, port, squares, taker))

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
        self._tails = site.load.tails

    async def open(self) -> None:
        """Connect."""
        self._connection = await self._site.connect(self._site.host, self._site.ports[0], [], lambda _: None)

    async def serve(self, command: Saturate | Pace | AwaitSubscriptions) -> Sent:
        """Publish, and wait until everything has arrived."""
        started, cpu_seconds = time.monotonic_ns(), time.process_time()
        if isinstance(command, AwaitSubscriptions):
            return Sent(await self._await_subscriptions(), started)
        events = await (self._saturate(command) if isinstance(command, Saturate) else self._pace(command))
        await self._delivered(events)
        return Sent(events, started, time.process_time() - cpu_seconds)

    async def _await_subscriptions(self) -> int:
        numbers, connections = self._site.load.reaching_all()
        deadline = time.monotonic() + SUBSCRIPTIONS_SECONDS_MAX
        while time.monotonic() < deadline:
            self._publish([number - len(self._tails) for number in numbers], time.monotonic_ns())
            if await self._counted(connections, QUIET_SECONDS) == connections:
                return len(numbers)
        raise WireError(f"not every subscription was in force after {SUBSCRIPTIONS_SECONDS_MAX:g} s")

    async def _saturate(self, command: Saturate) -> int:
        until = time.monotonic() + command.seconds
        sent, under_way = 0, command.batch_events * command.batches_under_way
        while sent == 0 or time.monotonic() < until:
            self._publish(range(sent, sent + command.batch_events), time.monotonic_ns())
            sent += command.batch_events
            await self._delivered(sent + command.batch_events - under_way)
        return sent

    async def _pace(self, command: Pace) -> int:
        """What is due is sent, stamped with when it was due, so that a late publisher hides nothing."""
        if command.is_random:
            return await self._pace_at_random(command)
        started = time.monotonic_ns()
        sent = 0
        for tick in range(1, int(command.seconds / TICK_SECONDS) + 1):
            due = started + int(tick * TICK_SECONDS * 1e9)
            await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
            stop = int(tick * TICK_SECONDS * command.events_per_second)
            if stop > sent:
                self._publish(range(sent, stop), due)
                sent = stop
        return sent

    async def _pace_at_random(self, command: Pace) -> int:
        together = max(1, round(TICK_SECONDS * command.events_per_second))
        rng = np.random.default_rng(_SEED)
        due, sent = float(time.monotonic_ns()), 0
        while sent < command.seconds * command.events_per_second:
            due += rng.exponential(together / command.events_per_second) * 1e9
            await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
            self._publish(range(sent, sent + together), int(due))
            sent += together
        return sent

    def _publish(self, numbers: Iterable[int], moment: int) -> None:
        tails, pool = self._tails, len(self._tails)
        head = b'{"number":%d,"sent":' + b"%d," % moment
        self._connection.publish([head % number + tails[number % pool] for number in numbers])

    async def _delivered(self, events: int) -> None:
        """Wait until the first so many events have reached whom they have to."""
        missing = self._site.load.deliveries(max(0, events))
        count = await self._counted(missing, STALLED_SECONDS_MAX)
        if count < missing:
            raise WireError(f"{missing - count} of {missing} deliveries never came")

    async def _counted(self, missing: int, quiet_seconds: float) -> int:
        """How many deliveries there were when as many had come as are missing, or none for some time."""
        last, moved_at = -1, time.monotonic()
        while (count := sum(self._site.counters)) < missing:
            if self._connection.failure:
                raise self._connection.failure
            if count != last:
                last, moved_at = count, time.monotonic()
            elif time.monotonic() - moved_at > quiet_seconds:
                return count
            await asyncio.sleep(POLL_SECONDS)
        if self._connection.failure:
            raise self._connection.failure
        return count

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
