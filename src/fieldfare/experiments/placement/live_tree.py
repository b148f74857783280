"""Brokers of a tree as processes on this machine, with publishers that move: what the simulator is compared with.

    with LiveTree(workload, {"BROKER_PLACEMENT": "grape"}) as tree:
        measured = asyncio.run(tree.run(seconds=10.0))

Clients are in this process, one for each publisher and one for the subscribers at each broker.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import fieldfare
from fieldfare.client import aio
from fieldfare.client.options import ClientOptions, SessionOptions
from fieldfare.client.subscription import Subscription
from fieldfare.errors import ServiceError
from fieldfare.experiments.placement.stock_quotes import CONDITIONS, Rating
from fieldfare.experiments.placement.workloads import StockPublisher, StockWorkload
from fieldfare.runtime.child_server import free_ports

TOPIC = "stocks"
_READY = r"Fieldfare is ready at (\S+).*\n"
_READY_SECONDS = 120.0
_LAST_SECONDS = 30.0  # for the last events to arrive
_SETTLE_SECONDS = 1.0
_SOURCES = Path(fieldfare.__file__).parents[1]
_MOVABLE = ClientOptions(session=SessionOptions(is_movable=True))


@dataclass(slots=True)
class LiveMeasured:
    """What came, and where the publishers ended."""

    places: dict[str, str] = field(default_factory=dict)
    moved: int = 0  # publishers that are elsewhere than where they began
    deliveries: list[tuple[float, float]] = field(default_factory=list)  # when it was published, and its delay
    expected: int = 0
    repeated: int = 0

    def median_seconds(self, since: float, until: float) -> float:
        """The delay of what was published in some time."""
        delays = sorted(delay for sent_at, delay in self.deliveries if since <= sent_at < until)
        return delays[len(delays) // 2]


class LiveTree:
    """A context manager: inside it the brokers run, afterwards nothing of them is left."""

    def __init__(self, workload: StockWorkload, settings: Mapping[str, str]) -> None:
        self._workload, self._settings = workload, settings
        self._stack = ExitStack()
        self._urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        shape = self._workload.shape
        names = list(shape.neighbours)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
            first, *others = names
            started = self._start(stack, folder, first, addresses[first], None)
            self._urls[first] = _ready(started, folder, first)  # it makes the secret that all of them share
            upstream = shape.upstream(first)
            processes = {
                name: self._start(stack, folder, name, addresses[name], addresses[upstream[name]]) for name in others
            }
            for name, process in processes.items():
                self._urls[name] = _ready(process, folder, name)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(
        self, stack: ExitStack, folder: Path, name: str, address: str, neighbour: str | None
    ) -> subprocess.Popen[str]:
        arguments = ["broker", "--role", "tree", "--name", name, "--data", name, "--port", "0", "--listen", address]
        if neighbour is not None:
            arguments += ["--neighbours", neighbour]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FIELDFARE_")}
        settings = {f"FIELDFARE_{key}": value for key, value in self._settings.items()}
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "fieldfare", *arguments],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**kept, "PYTHONPATH": str(_SOURCES), **settings},
            )
        stack.callback(_stop, process)
        return process

    async def run(self, seconds: float) -> LiveMeasured:
        """Publish for some time at each publisher's rate, and wait until all has come."""
        measured, workload = LiveMeasured(), self._workload
        async with AsyncExitStack() as stack:
            publishers = {
                each.name: await stack.enter_async_context(aio.connect(self._urls[each.place], options=_MOVABLE))
                for each in workload.publishers
            }
            subscribers = {name: await stack.enter_async_context(aio.connect(url)) for name, url in self._urls.items()}
            receiving = [
                asyncio.create_task(_receive(await subscribers[broker].subscribe(TOPIC, condition), measured))
                for broker, condition in _conditions(workload)
            ]
            await asyncio.sleep(_SETTLE_SECONDS)
            until = time.monotonic() + seconds
            counts = await asyncio.gather(
                *(_publish(publishers[each.name], each, until) for each in workload.publishers)
            )
            measured.expected = sum(
                _wanted(each, count) for each, count in zip(workload.publishers, counts, strict=True)
            )
            late_at = time.monotonic() + _LAST_SECONDS
            while len(measured.deliveries) < measured.expected and time.monotonic() < late_at:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await asyncio.sleep(_SETTLE_SECONDS)  # in which something could come twice
            names = {url: name for name, url in self._urls.items()}
            measured.places = {name: names[client.publishing_at] for name, client in publishers.items()}
            measured.moved = sum(measured.places[each.name] != each.place for each in workload.publishers)
            for task in receiving:
                task.cancel()
        return measured


def _conditions(workload: StockWorkload) -> list[tuple[str, str]]:
    """Each subscription: at which broker, and what it wants."""
    return [
        (broker, f"symbol = '{publisher.name}' AND {CONDITIONS[rating]}")
        for publisher in workload.publishers
        for rating, counts in publisher.subscribers.items()
        for broker, count in counts.items()
        for _ in range(count)
    ]


async def _publish(client: aio.Client, publisher: StockPublisher, until: float) -> int:
    """Publish until then; returns how many were accepted."""
    began_at, number, accepted = time.monotonic(), 0, []
    while time.monotonic() < until:
        quote = publisher.quotes.event(number % len(publisher.sequence))
        event = {"symbol": publisher.name, **quote, "t": time.monotonic(), "number": number}
        accepted.append(await client.publish_soon(TOPIC, event))
        number += 1
        await asyncio.sleep(max(0.0, began_at + number * publisher.period_seconds - time.monotonic()))
    await asyncio.gather(*accepted)
    return number


def _wanted(publisher: StockPublisher, count: int) -> int:
    """Deliveries of a publisher's first publications."""
    by_rating = Counter({rating: sum(counts.values()) for rating, counts in publisher.subscribers.items()})
    length = len(publisher.sequence)
    takes = {rating: publisher.quotes.wanted(rating) for rating in Rating}
    return sum(by_rating[rating] * int(takes[rating][number % length]) for rating in Rating for number in range(count))


async def _receive(subscription: Subscription[dict[str, Any]], measured: LiveMeasured) -> None:
    last: dict[str, int] = {}
    async for event in subscription:
        now, attributes = time.monotonic(), event.attributes
        measured.deliveries.append((attributes["t"], now - attributes["t"]))
        measured.repeated += attributes["number"] <= last.get(attributes["symbol"], -1)  # or out of order
        last[attributes["symbol"]] = attributes["number"]


def _ready(process: subprocess.Popen[str], folder: Path, name: str) -> str:
    """Wait until a broker says where it is."""
    watchdog = threading.Timer(_READY_SECONDS, process.kill)  # then readline returns
    watchdog.start()
    said = process.stdout.readline() if process.stdout is not None else ""
    watchdog.cancel()
    found = re.fullmatch(_READY, said)
    if found is None:
        raise ServiceError(f"{name} is not ready: {said!r} {(folder / f'{name}.log').read_text()[-2000:]}")
    return found[1]


def _stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
