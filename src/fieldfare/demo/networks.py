"""Two isolated networks meet: each has an edge of its own, and routing brokers between them, one of which is killed.

Everything is a process on this machine. In each city sensors publish at their own edge; the control room of the other
city hears of those that are too hot, and of no others. The routing broker that connects them is killed with SIGKILL.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fieldfare.client.aio import Client, connect
from fieldfare.demo.programs import Program
from fieldfare.errors import FieldfareError

_CITIES = ("berlin", "paris")
_ROUTING = ("routing-1", "routing-2")
_TOPIC = "sensors"
_HOT_DEGREES = 80
_PACE_SECONDS = 0.02  # between publications of a city
_SESSION_SECONDS = 3.0  # so soon a killed broker is missed; the default is longer, for networks that stutter
_LOOK_SECONDS = 0.1
_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class NetworksOptions:
    """How long sensors publish, before the crash and after it together, and how much in each city."""

    seconds: float = 8.0
    events_per_second: int = 500
    seed: int = 7
    folder: Path = Path("fieldfare-demo-networks")


@dataclass(slots=True)
class _Crossing:
    """What one control room wants of the other city, and what it got: numbers of events."""

    origin: str
    receiver: str
    published_count: int = 0
    wanted: list[int] = field(default_factory=list)
    got: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)  # of those that it got, from publishing on
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, event: dict[str, Any]) -> None:
        self.got.append(event["number"])
        self.waits.append(time.monotonic() - event["sent_at"])
        self.came.set()

    async def complete(self) -> None:
        """Wait for all that is wanted."""
        while len(self.got) < len(self.wanted):
            self.came.clear()
            await self.came.wait()

    def __str__(self) -> str:
        return f"{self.origin} → {self.receiver} {len(self.got):>6,} of {len(self.wanted):>6,}"


@dataclass(slots=True)
class _Story:
    """What goes on, and how long it has."""

    options: NetworksOptions
    console: Console
    brokers: dict[str, Program] = field(default_factory=dict)
    crossings: list[_Crossing] = field(default_factory=list)
    began_at: float = field(default_factory=time.monotonic)

    def say(self, text: str, style: str = "") -> None:
        seconds = time.monotonic() - self.began_at
        self.console.print(f"[dim]{seconds:5.1f} s[/]  {text}", style=style, highlight=False, soft_wrap=True)


def run(options: NetworksOptions, console: Console) -> None:
    """Run it from start to end; a FieldfareError if anything was lost, repeated or out of order."""
    console.rule("[bold]Fieldfare: two isolated networks meet")
    shutil.rmtree(options.folder, ignore_errors=True)
    folder = options.folder.absolute()
    folder.mkdir(parents=True)
    story = _Story(options, console)
    with ExitStack() as stack:
        hosts = _start_zookeeper(folder, stack)
        story.say("ZooKeeper is there. Two routing brokers and an edge for each network are being started ...")
        pause_seconds = asyncio.run(_go_through_a_crash(story, folder, hosts))
    _tell(story, pause_seconds)


def _start_zookeeper(folder: Path, stack: ExitStack) -> str:
    from fieldfare.runtime.zookeeper_server import ZooKeeperServer  # not everybody has what it needs

    return stack.enter_context(ZooKeeperServer(folder / "zookeeper")).hosts


async def _go_through_a_crash(story: _Story, folder: Path, hosts: str) -> float:
    """Returns for how long there was no way between the networks."""
    options = story.options
    try:
        await _start_brokers(story, folder, hosts)
        async with _traffic(story):
            await asyncio.sleep(options.seconds / 2)
            owner, _ = await _owner(hosts)
            story.brokers[owner].kill()
            killed_at = time.monotonic()
            story.say(f"[bold red]{owner} is killed (SIGKILL).[/] It connected the networks. Sensors publish on.")
            while (found := await _owner(hosts))[0] == owner:  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(_LOOK_SECONDS)
            story.say(f"[bold green]The leader gives the topic to {found[0]}[/] (epoch {found[1]}): {owner} is missed.")
            pause_seconds = time.monotonic() - killed_at
            await asyncio.sleep(options.seconds / 2)
    finally:
        for broker in story.brokers.values():
            broker.kill()
    return pause_seconds


async def _start_brokers(story: _Story, folder: Path, hosts: str) -> None:
    settings = {
        "FIELDFARE_BROKER_ZOOKEEPER": hosts,
        "FIELDFARE_BROKER_ZOOKEEPER_SESSION_SECONDS": str(_SESSION_SECONDS),
    }

    async def start(role: str, name: str, *arguments: str) -> None:
        command = ["broker", "--role", role, "--name", name, "--data", name, *arguments]
        story.brokers[name] = await Program.start(command, folder / f"{name}.log", **settings)

    await start("routing", _ROUTING[0])  # which makes the secret that all of them share
    async with asyncio.TaskGroup() as group:
        group.create_task(start("routing", _ROUTING[1]))
        for city in _CITIES:
            group.create_task(start("edge", city, "--network", city, "--port", "0"))
    for city in _CITIES:
        story.say(f"The network of {city} has its edge at {story.brokers[city].url}")


async def _owner(hosts: str) -> tuple[str, int]:
    """Which routing broker connects the networks for the topic, and since which epoch."""
    from fieldfare.runtime.zookeeper import ZooKeeperOptions
    from fieldfare.runtime.zookeeper_registry import ZooKeeperRegistry

    def read() -> tuple[str, int]:
        with ZooKeeperRegistry(ZooKeeperOptions(f"{hosts}/fieldfare")) as registry:
            return next((topic.owner, topic.epoch) for topic in registry.read().topics if topic.topic[1] == _TOPIC)

    return await asyncio.to_thread(read)


# Sensors and control rooms


@asynccontextmanager
async def _traffic(story: _Story) -> AsyncIterator[None]:
    """Meanwhile sensors publish in both cities, and each control room listens for what is hot in the other."""
    is_over = asyncio.Event()
    async with AsyncExitStack() as stack:
        clients = {city: await stack.enter_async_context(connect(story.brokers[city].url)) for city in _CITIES}
        story.crossings += [_Crossing(here, there) for here, there in itertools.permutations(_CITIES, 2)]
        listeners = [await _listen(clients[crossing.receiver], crossing) for crossing in story.crossings]
        story.say(f"Control rooms subscribe: temperature > {_HOT_DEGREES} AND city = … the other one. Sensors publish.")
        publishers = [
            asyncio.create_task(_publish(clients[crossing.origin], crossing, story.options, is_over))
            for crossing in story.crossings
        ]
        watcher = asyncio.create_task(_watch(story))
        try:
            yield
            is_over.set()
            await asyncio.gather(*publishers)
            story.say("Sensors have stopped.")
            await _wait_for_all(story)
        finally:
            for task in (*publishers, *listeners, watcher):
                task.cancel()


async def _wait_for_all(story: _Story) -> None:
    """Until all that is wanted has come, or for long; and a moment longer, in which something could come twice."""
    with suppress(TimeoutError):  # then the table says what is missing
        async with asyncio.timeout(_WAIT_SECONDS):
            for crossing in story.crossings:
                await crossing.complete()
    await asyncio.sleep(_LOOK_SECONDS)


async def _listen(client: Client, crossing: _Crossing) -> asyncio.Task[None]:
    subscription = await client.subscribe(_TOPIC, f"city = '{crossing.origin}' AND temperature > {_HOT_DEGREES}")

    async def take() -> None:
        async for event in subscription:
            crossing.take(event.attributes)

    return asyncio.create_task(take())


async def _publish(client: Client, crossing: _Crossing, options: NetworksOptions, is_over: asyncio.Event) -> None:
    rng = random.Random(f"{options.seed} {crossing.origin}")  # noqa: S311 - a story
    numbers = itertools.count(1)
    while not is_over.is_set():
        readings = [
            _reading(crossing.origin, next(numbers), rng)
            for _ in range(max(1, round(options.events_per_second * _PACE_SECONDS)))
        ]
        crossing.published_count += len(readings)
        crossing.wanted += [each["number"] for each in readings if each["temperature"] > _HOT_DEGREES]
        await client.publish(_TOPIC, readings)  # which returns when they are on the disk of the edge
        await asyncio.sleep(_PACE_SECONDS)


def _reading(city: str, number: int, rng: random.Random) -> dict[str, Any]:
    temperature = round(rng.gauss(60.0, 12.0), 1)
    return {"city": city, "number": number, "temperature": temperature, "sent_at": time.monotonic()}


async def _watch(story: _Story) -> None:
    while True:
        await asyncio.sleep(1.0)
        story.say("hot ones that came: " + "    ".join(map(str, story.crossings)), style="cyan")


# What became of it


def _tell(story: _Story, pause_seconds: float) -> None:
    table = Table("from", "to", "published", "wanted there", "came", "lost", "twice", "out of order")
    faults = 0
    for crossing in story.crossings:
        lost = len(set(crossing.wanted) - set(crossing.got))
        repeated = len(crossing.got) - len(set(crossing.got))
        reordered = sum(before > after for before, after in itertools.pairwise(crossing.got))
        faults += lost + repeated + reordered + len(set(crossing.got) - set(crossing.wanted))
        numbers = (crossing.published_count, len(crossing.wanted), len(crossing.got), lost, repeated, reordered)
        table.add_row(crossing.origin, crossing.receiver, *(f"{number:,}" for number in numbers))
    story.console.print(table)
    if faults:
        raise FieldfareError(f"{faults} events were lost, repeated, out of order or not wanted: please report this")
    waits = [wait for crossing in story.crossings for wait in crossing.waits]
    story.console.print(
        f"Checked: every hot reading came once and in order, through the crash. Half of all came within "
        f"{statistics.median(waits) * 1000:.1f} ms; nobody waited longer than {max(waits):.1f} s, as for "
        f"{pause_seconds:.1f} s no routing broker connected the networks: {_SESSION_SECONDS:.0f} s until ZooKeeper "
        "misses a killed one, 1 s in which it may come back, and the rest to go over.",
        style="green",
        soft_wrap=True,
        highlight=False,
    )
