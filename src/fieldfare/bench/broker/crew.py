"""A broker with its publisher and subscribers, each a process: start them, have them do a run, check what came."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fieldfare.bench.broker.connections import connect_by_wire
from fieldfare.bench.broker.load import Integers, Load
from fieldfare.bench.broker.servers import HOST, Guarantee, Server, running
from fieldfare.bench.broker.workers import (
    AwaitSubscriptions,
    Pace,
    Publisher,
    Received,
    Saturate,
    Sent,
    Site,
    Subscribers,
    work,
)
from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.cores import one_core

_EXIT_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Run:
    """What a broker did in one go, complete."""

    events: int
    deliveries: int
    messages: int  # that the broker had to send: more than deliveries, if it cannot filter
    seconds: float  # from the first publication to the last delivery
    cpu_seconds: float | None  # of the broker
    subscribers_cpu_seconds: float  # of the busiest process of subscribers
    publisher_cpu_seconds: float
    numbers: Integers  # of the recorded deliveries
    waits_ms: np.typing.NDArray[np.float64]

    @property
    def events_per_second(self) -> float:
        """End to end."""
        return self.events / self.seconds

    @property
    def cpu_us_per_message(self) -> float | None:
        """Of the broker. A message of ours that holds several events counts as so many."""
        return None if self.cpu_seconds is None else 1e6 * self.cpu_seconds / self.messages


class Measurable(Protocol):
    """A broker, or all that are connected with each other, as processes."""

    def cpu_seconds(self) -> float | None:
        """What they have used of the processors so far, where the platform tells."""
        ...

    def memory_bytes(self) -> int | None:
        """What they have in memory, where the platform tells."""
        ...


@dataclass(frozen=True, slots=True)
class Crew:
    """Processes that are connected to a broker, and wait for orders."""

    name: str  # of the broker
    filters: bool  # the broker, by content, so that its clients need not
    broker: Measurable
    load: Load
    publisher: Connection
    subscribers: Sequence[Connection]
    memory_before_bytes: int | None = None  # of the broker, without these subscribers

    def await_subscriptions(self) -> None:
        """Wait until every subscription is in force, also where it has to travel from broker to broker."""
        _ask(self.publisher, AwaitSubscriptions())

    def run(self, order: Saturate | Pace, *, is_recording: bool = False) -> Run:
        """Publish, wait until everything has arrived, and compare with what had to."""
        for pipe in self.subscribers:
            _ask(pipe, is_recording)
        before = self.broker.cpu_seconds()
        sent: Sent | Exception = _asked(self.publisher, order)
        received: list[Received] = [_ask(pipe, None) for pipe in self.subscribers]  # their failure explains the other
        if isinstance(sent, Exception):
            raise sent
        after = self.broker.cpu_seconds()
        verify(self.name, self.load, sent.events, received)
        waits = [wait for process in received for wait in process.waits]
        deliveries = sum(sum(process.counts) for process in received)
        return Run(
            events=sent.events,
            deliveries=deliveries,
            messages=deliveries if self.filters else sent.events * self.load.connections,
            seconds=(max(process.ended for process in received) - sent.started) / 1e9,
            cpu_seconds=None if before is None or after is None else after - before,
            subscribers_cpu_seconds=max(process.cpu_seconds for process in received),
            publisher_cpu_seconds=sent.cpu_seconds,
            numbers=np.array([number for process in received for number in process.numbers], np.int64),
            waits_ms=np.array(waits, np.float64) / 1e6,
        )


def verify(broker: str, load: Load, events: int, received: Sequence[Received]) -> None:
    """Compare what each connection received with what it had to: how many events, and which, by their sum."""
    counts, sums = np.zeros((2, load.connections), np.int64)
    for process, part in enumerate(received):
        counts[process :: len(received)] = part.counts
        sums[process :: len(received)] = part.sums
    expected_counts, expected_sums = load.expected(events)
    wrong = np.flatnonzero((counts != expected_counts) | (sums != expected_sums))
    if len(wrong):
        first = wrong[0]
        reason = (
            f"{len(wrong)} of {len(counts)} connections received other events than they had to, for example "
            f"connection {first} {counts[first]} where {expected_counts[first]} match"
        )
        raise BenchVerificationError(broker, "broker", events, reason)


def _asked(pipe: Connection, order: Any) -> Any:
    pipe.send(order)
    return pipe.recv()


def _ask(pipe: Connection, order: Any) -> Any:
    answer = _asked(pipe, order)
    if isinstance(answer, Exception):
        raise answer
    return answer


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a crew works: how many processes of subscribers, and whether the broker has one core to itself."""

    subscriber_processes: int = 1
    on_one_core: bool = False


@contextmanager
def crew(
    server: Server, guarantee: Guarantee, load: Load, setting: Setting, rehearsal: Load | None = None
) -> Iterator[Crew]:
    """Start a broker and its crew, and stop them.

    The subscribers of a rehearsal come before them and leave again, so that what a broker needs once, for its first
    clients, is not counted as the others' memory.
    """
    context = multiprocessing.get_context("spawn")
    processes = setting.subscriber_processes

    def subscribing(load: Load, number: int, count: int) -> AbstractContextManager[Connection]:
        worker = Subscribers(replace(site, load=load), number, count, is_filtering=not server.filters)
        return working(context, worker)

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldfare-bench-"))
        with one_core() if setting.on_one_core else nullcontext():
            broker = stack.enter_context(running(server, guarantee, Path(folder)))
        connect = partial(connect_by_wire, guarantee.wire)
        site = Site(HOST, (broker.port,), connect, load, context.RawArray("q", processes))
        publisher = stack.enter_context(working(context, Publisher(site)))
        if rehearsal is not None:
            with subscribing(rehearsal, 0, 1):
                pass
        memory_bytes = broker.memory_bytes()
        subscribers = [stack.enter_context(subscribing(load, number, processes)) for number in range(processes)]
        yield Crew(server.name, server.filters, broker, load, publisher, subscribers, memory_bytes)


@contextmanager
def working(context: multiprocessing.context.SpawnContext, worker: Publisher | Subscribers) -> Iterator[Connection]:
    """Start a process that takes orders for a worker, wait until it is connected, and stop it in the end."""
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, worker), daemon=True)
    process.start()
    theirs.close()
    try:
        ready = ours.recv()
        if isinstance(ready, Exception):
            raise ready
        yield ours
    finally:
        ours.close()
        process.join(_EXIT_SECONDS_MAX)
        if process.is_alive():
            process.kill()
            process.join()
