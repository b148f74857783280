"""Peers without a server: real ones, each in a process of its own, on loopback."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fieldfare.experiments.revisiting.measured import Run, percentiles, rate_for
from fieldfare.experiments.revisiting.settings import SEED, Scale
from fieldfare.experiments.revisiting.workloads import Workload
from fieldfare.planning.application import Durability
from fieldfare.qos import Requested
from fieldfare.runtime.peers.options import PeerOptions
from fieldfare.runtime.peers.peer import peer

PEERS = 3
_TOPIC = "revisiting"
_UNDER_WAY = 64  # publications whose outcome is not known
_SUBSCRIBING = 50  # at a time
_SILENT_SECONDS = 1.0
_DELIVERIES_MIN, _LONGER_MAX = 50, 4.0  # where few events are wanted, latency is looked at for longer
_LAST_SECONDS_MAX = 20.0
_LOOKING_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _Place:
    """What a process of subscribers is told."""

    join: str
    conditions: list[str]
    is_reliable: bool


def run_among_peers(workload: Workload, scale: Scale) -> Run:
    """One peer publishes, here; the others, which hold the subscriptions, are processes."""
    return asyncio.run(_run(workload, scale))


async def _run(workload: Workload, scale: Scale) -> Run:
    is_reliable = workload.application.durability is Durability.DISK
    options = _options(is_reliable=is_reliable)
    async with AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(peer(options=options))
        pipes = [
            stack.enter_context(_subscribing(_Place(publisher.address, conditions, is_reliable)))
            for conditions in (workload.conditions[number :: PEERS - 1] for number in range(PEERS - 1))
        ]
        for pipe in pipes:
            await _answer(pipe)
        events = [tail[:-1] for tail in workload.tails]  # without the closing brace
        await _saturated(publisher, events, pipes, scale.saturating_seconds / 3)  # warms up
        throughput = await _saturated(publisher, events, pipes, scale.saturating_seconds)
        rate = rate_for(workload.application.events_per_second, throughput)
        longest = _DELIVERIES_MIN / max(rate * workload.application.matches_per_event, 1e-9)
        seconds = min(max(scale.pacing_seconds, longest), _LONGER_MAX * scale.pacing_seconds)
        await _paced(publisher, events, rate, seconds)
        waits = [wait for found in await _taken(pipes) for wait in found[1]]
        p50, p99 = percentiles(np.array(waits[len(waits) // 5 :]) / 1e9)
        return Run(throughput, rate, p50, p99)


def _options(*, is_reliable: bool) -> PeerOptions:
    return PeerOptions(best_effort=() if is_reliable else (_TOPIC,))


async def _saturated(publisher: Any, events: list[bytes], pipes: list[Connection], seconds: float) -> float:
    gate, count, began = asyncio.Semaphore(_UNDER_WAY), 0, time.monotonic()

    async def publish(number: int) -> None:
        try:
            await publisher.publish(_TOPIC, _stamped(events[number % len(events)]))
        finally:
            gate.release()

    async with asyncio.TaskGroup() as tasks:
        while time.monotonic() - began < seconds:
            await gate.acquire()
            tasks.create_task(publish(count))
            count += 1
    published = time.monotonic_ns()
    ended = max([published, *(last for last, waits in await _taken(pipes) if waits)])
    return count / (ended / 1e9 - began)


async def _paced(publisher: Any, events: list[bytes], rate: float, seconds: float) -> None:
    due, published, rng = time.monotonic(), set[asyncio.Task[Any]](), np.random.default_rng(SEED)
    for number in range(max(10, int(rate * seconds))):
        due += rng.exponential(1.0 / rate)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        published.add(asyncio.create_task(publisher.publish(_TOPIC, _stamped(events[number % len(events)]))))
    await asyncio.gather(*published)


def _stamped(event: bytes) -> bytes:
    return b"{" + event + b',"sent":%d}' % time.monotonic_ns()


async def _taken(pipes: list[Connection]) -> list[tuple[int, list[int]]]:
    """When each process got its last event, and how long its events took, since it was last asked."""
    for pipe in pipes:
        pipe.send(None)
    return [await _answer(pipe) for pipe in pipes]


async def _answer(pipe: Connection) -> Any:
    found = await asyncio.to_thread(pipe.recv)
    if isinstance(found, Exception):
        raise found
    return found


@contextmanager
def _subscribing(place: _Place) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_subscribe, args=(theirs, place), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join(5.0)
        if process.is_alive():
            process.kill()
            process.join()


def _subscribe(pipe: Connection, place: _Place) -> None:
    """The main function of a process: subscribe, then report what came whenever it is asked to."""
    try:
        asyncio.run(_take(pipe, place))
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the experiment has to hear of it
        pipe.send(error)


async def _take(pipe: Connection, place: _Place) -> None:
    waits: list[int] = []
    last = 0

    def taken(event: Any) -> None:
        nonlocal last
        last = time.monotonic_ns()
        waits.append(last - event.attributes["sent"])

    qos = Requested(reliability="reliable" if place.is_reliable else "best_effort", order="none")
    async with peer(place.join, options=_options(is_reliable=place.is_reliable)) as member:
        for start in range(0, len(place.conditions), _SUBSCRIBING):
            some = place.conditions[start : start + _SUBSCRIBING]
            await asyncio.gather(*(member.subscribe(_TOPIC, condition, taken, qos=qos) for condition in some))
        pipe.send(None)
        while True:
            await asyncio.to_thread(pipe.recv)
            for _ in range(round(_LAST_SECONDS_MAX / _LOOKING_SECONDS)):
                if time.monotonic_ns() - last >= _SILENT_SECONDS * 1e9:
                    break
                await asyncio.sleep(_LOOKING_SECONDS)
            pipe.send((last, waits.copy()))
            waits.clear()
