"""The service under faults: clients that publish and listen, and the law that what they saw is held against.

Whatever was accepted, and matches, reaches every reliable subscriber, once, and each publisher's events in their order.
What had no answer may have happened or not. Nothing else arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.runtime.processes import ServiceProcess

from fieldfare import FieldfareError
from fieldfare.client.aio import Client, connect

TOPIC = "traffic"
WAIT_SECONDS = 120.0  # for anything that is waited for: a busy machine is no fault of the service


@dataclass
class Listener:
    """A subscriber, and the numbers of the events that it saw, in the order in which it saw them."""

    wants: Callable[[int], bool]
    seen: list[tuple[str, int]] = field(default_factory=list)  # publisher and number


@dataclass
class History:
    """What publishers tried, and what became of it."""

    accepted: set[tuple[str, int]] = field(default_factory=set)
    maybe: set[tuple[str, int]] = field(default_factory=set)
    refused: int = 0
    listeners: list[Listener] = field(default_factory=list)

    def missing(self) -> int:
        """Accepted events that have not reached somebody who wants them."""
        return sum(
            len({event for event in self.accepted if listener.wants(event[1])} - set(listener.seen))
            for listener in self.listeners
        )

    def check(self) -> None:
        """Raise where the law does not hold."""
        assert self.accepted, "nothing was accepted: this run proves nothing"
        for listener in self.listeners:
            seen = set(listener.seen)
            assert len(listener.seen) == len(seen), "an event came twice"
            assert all(listener.wants(number) for _, number in seen), "an event came that does not match"
            assert seen <= self.accepted | self.maybe, "an event came that was refused, or never published"
            for publisher in {name for name, _ in seen}:
                numbers = [number for name, number in listener.seen if name == publisher]
                assert numbers == sorted(numbers), f"the events of {publisher} came out of order"
        assert self.missing() == 0, "an accepted event was lost"


class Service:
    """The service on one data folder, which may be killed and started again on the same port."""

    def __init__(self, data: Path, *, prefix: tuple[str, ...] = (), variables: Mapping[str, str] | None = None) -> None:
        self._data, self._variables = data, variables or {}
        self.prefix = list(prefix)
        self._port = 0
        self._stack = contextlib.ExitStack()

    async def start(self) -> ServiceProcess:
        self.process = ServiceProcess(self._data, "--port", str(self._port), **self._variables)
        self.process.prefix = self.prefix
        await asyncio.to_thread(self._stack.enter_context, self.process)
        self._port = int(self.process.url.rpartition(":")[2])
        return self.process

    @property
    def url(self) -> str:
        return self.process.url

    async def kill(self) -> None:
        await asyncio.to_thread(self.process.kill)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._stack.close)


@contextlib.asynccontextmanager
async def listening(
    url: str, history: History, condition: str, wants: Callable[[int], bool], **options: Any
) -> AsyncIterator[Listener]:
    """A subscriber with a connection of its own."""
    listener = Listener(wants)
    history.listeners.append(listener)
    in_force = asyncio.Event()

    async def listen(client: Client) -> None:
        subscription = await client.subscribe(TOPIC, condition, **options)
        in_force.set()
        async for event in subscription:
            listener.seen.append((event.attributes["publisher"], event.attributes["number"]))

    async with connect(url) as client:
        task = asyncio.create_task(listen(client))
        await asyncio.wait_for(in_force.wait(), WAIT_SECONDS)
        try:
            yield listener
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def publishing(url: str, history: History, name: str, count: int, batch: int = 5) -> None:
    """A publisher with a connection of its own, which sends batch after batch, each when the last is answered."""
    async with connect(url) as client:
        for start in range(0, count, batch):
            numbers = range(start, min(count, start + batch))
            events = {(name, number) for number in numbers}
            history.maybe |= events
            try:
                await client.publish(TOPIC, [{"publisher": name, "number": number} for number in numbers])
            except FieldfareError:
                history.maybe -= events
                history.refused += len(events)
                raise
            history.accepted |= events
            history.maybe -= events
            await asyncio.sleep(0.002)


async def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
    while not is_so():
        assert asyncio.get_running_loop().time() < deadline, f"this did not happen: {what}"
        await asyncio.sleep(0.02)


async def delivered(history: History) -> None:
    """All that was accepted has arrived, and a little more time has passed, in which too much could arrive."""
    await until(lambda: history.missing() == 0, f"all accepted events arrive; {history.missing()} are missing")
    await asyncio.sleep(0.3)
    history.check()
