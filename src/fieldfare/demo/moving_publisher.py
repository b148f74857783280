"""A publisher moves to its subscribers: five brokers in a row, the publisher at one end, all who listen at the other.

Everything is a process on this machine. The exchange in Berlin publishes quotes at the nearest broker; its customers
are in Rome, four hops away. GRAPE traces where the quotes go, and the exchange's client moves its publisher to Rome,
while quotes flow: none is lost, repeated or out of order, and from then on none travels over the other brokers.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import statistics
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fieldfare.client.aio import Client, connect
from fieldfare.client.options import ClientOptions, SessionOptions
from fieldfare.demo.programs import Program
from fieldfare.errors import FieldfareError
from fieldfare.runtime.child_server import free_ports

_CITIES = ("berlin", "prague", "vienna", "milan", "rome")
_TOPIC = "quotes"
_CONDITIONS = {"archive": "price > 0", "traders": "price BETWEEN 40 AND 60", "alarm": "price > 95"}
_SESSION_PUBLICATIONS = 200  # that GRAPE traces before it decides
_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class MovingOptions:
    """How long quotes are published after the move, and how many of them."""

    seconds: float = 5.0
    quotes_per_second: int = 200
    folder: Path = Path("fieldfare-demo-placement")


@dataclass(slots=True)
class _Customer:
    """One subscription in Rome."""

    name: str
    wanted: list[int] = field(default_factory=list)
    got: list[int] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)  # when a quote was published, and how long it took


@dataclass(slots=True)
class _Story:
    options: MovingOptions
    console: Console
    brokers: dict[str, Program] = field(default_factory=dict)
    customers: dict[str, _Customer] = field(default_factory=lambda: {name: _Customer(name) for name in _CONDITIONS})
    published: int = 0
    moved_at: float | None = None
    began_at: float = field(default_factory=time.monotonic)

    def say(self, text: str, style: str = "") -> None:
        seconds = time.monotonic() - self.began_at
        self.console.print(f"[dim]{seconds:5.1f} s[/]  {text}", style=style, highlight=False, soft_wrap=True)


def run(options: MovingOptions, console: Console) -> None:
    """Run it from start to end; a FieldfareError if anything was lost, repeated or out of order."""
    console.rule("[bold]Fieldfare: a publisher moves to its subscribers")
    shutil.rmtree(options.folder, ignore_errors=True)
    folder = options.folder.absolute()
    folder.mkdir(parents=True)
    story = _Story(options, console)
    story.say(f"Five brokers in a row are being started: {' - '.join(_CITIES)} ...")
    asyncio.run(_go(story, folder))
    _tell(story)


async def _go(story: _Story, folder: Path) -> None:
    try:
        await _start_brokers(story, folder)
        async with AsyncExitStack() as stack:
            customers = await stack.enter_async_context(connect(_url(story, "rome")))
            exchange = await stack.enter_async_context(
                connect(_url(story, "berlin"), options=ClientOptions(session=SessionOptions(is_movable=True)))
            )
            listeners = [await _listen(customers, each, _CONDITIONS[each.name]) for each in story.customers.values()]
            story.say("In Rome an archive, traders and an alarm subscribe; in Berlin the exchange publishes quotes.")
            is_over = asyncio.Event()
            publishing = asyncio.create_task(_publish(exchange, story, is_over))
            try:
                await _watch_until_moved(story, customers)
                await asyncio.sleep(story.options.seconds)
                is_over.set()
                await publishing
                await _wait_for_all(story)
            finally:
                for task in (publishing, *listeners):
                    task.cancel()
    finally:
        for broker in story.brokers.values():
            broker.kill()


async def _start_brokers(story: _Story, folder: Path) -> None:
    settings = {
        "FIELDFARE_PLACEMENT_SESSION_PUBLICATIONS": str(_SESSION_PUBLICATIONS),
        "FIELDFARE_BROKER_PLACEMENT": "grape",
    }
    addresses = {city: f"127.0.0.1:{port}" for city, port in zip(_CITIES, free_ports(len(_CITIES)), strict=True)}

    async def start(city: str, *arguments: str) -> None:
        command = ["broker", "--role", "tree", "--name", city, "--data", city, "--port", "0"]
        command += ["--listen", addresses[city], *arguments]
        story.brokers[city] = await Program.start(command, folder / f"{city}.log", **settings)

    await start(_CITIES[0])  # which makes the secret that all of them share
    async with asyncio.TaskGroup() as group:
        for before, city in itertools.pairwise(_CITIES):
            group.create_task(start(city, "--neighbours", addresses[before]))


def _url(story: _Story, city: str) -> str:
    return next(word for word in story.brokers[city].said.split() if word.startswith("http"))


async def _listen(client: Client, customer: _Customer, condition: str) -> asyncio.Task[None]:
    subscription = await client.subscribe(_TOPIC, condition)

    async def take() -> None:
        async for event in subscription:
            sent_at = event.attributes["sent_at"]
            customer.got.append(event.attributes["number"])
            customer.waits.append((sent_at, time.monotonic() - sent_at))

    return asyncio.create_task(take())


async def _publish(exchange: Client, story: _Story, is_over: asyncio.Event) -> None:
    """Quotes, one at a time: each is on the disk of a broker before the next."""
    for number in itertools.count(1):
        if is_over.is_set():
            return
        price = (number * 37) % 100 + 1
        for name, is_wanted in (("archive", True), ("traders", 40 <= price <= 60), ("alarm", price > 95)):
            if is_wanted:
                story.customers[name].wanted.append(number)
        story.published = number
        await exchange.publish(_TOPIC, {"number": number, "price": price, "sent_at": time.monotonic()})
        await asyncio.sleep(1.0 / story.options.quotes_per_second)


async def _watch_until_moved(story: _Story, rome: Client) -> None:
    async with asyncio.timeout(_WAIT_SECONDS):
        arrived: list[dict[str, Any]] = []
        while not arrived:
            await asyncio.sleep(0.25)
            arrived = [each for each in await rome.placement() if each["source"] and each["traced"]]
    story.moved_at = time.monotonic()
    came = arrived[0]
    story.say(
        f"[bold green]GRAPE has moved the exchange's publisher from {came['source']} to {came['broker']}[/]: an event "
        f"costs {came['cost_before']:.1f} {came['measure']} there, and {came['cost_predicted']:.1f} here."
    )


async def _wait_for_all(story: _Story) -> None:
    with suppress(TimeoutError):  # then the table says what is missing
        async with asyncio.timeout(_WAIT_SECONDS):
            for customer in story.customers.values():
                while len(customer.got) < len(customer.wanted):  # noqa: ASYNC110 - it comes by itself
                    await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)  # in which something could come twice


def _tell(story: _Story) -> None:
    table = Table("customer", "wanted", "came", "lost", "twice", "out of order", "before the move", "after it")
    faults, moved_at = 0, story.moved_at or time.monotonic()
    for customer in story.customers.values():
        lost = len(set(customer.wanted) - set(customer.got))
        repeated = len(customer.got) - len(set(customer.got))
        reordered = sum(before > after for before, after in itertools.pairwise(customer.got))
        faults += lost + repeated + reordered + len(set(customer.got) - set(customer.wanted))
        before = [wait for sent_at, wait in customer.waits if sent_at < moved_at - 1.0]
        after = [wait for sent_at, wait in customer.waits if sent_at > moved_at]
        numbers = (len(customer.wanted), len(customer.got), lost, repeated, reordered)
        table.add_row(customer.name, *(f"{number:,}" for number in numbers), _median(before), _median(after))
    story.console.print(table)
    if faults:
        raise FieldfareError(f"{faults} events were lost, repeated, out of order or not wanted: please report this")
    longest = max(wait for customer in story.customers.values() for _, wait in customer.waits)
    story.console.print(
        f"Checked: every quote came once and in order, also those that were published during the move; the longest "
        f"took {longest * 1000:.0f} ms. Times are medians, from publishing to the customer.",
        style="green",
        soft_wrap=True,
        highlight=False,
    )


def _median(waits: list[float]) -> str:
    return f"{statistics.median(waits) * 1000:.1f} ms" if waits else ""
