"""The demo's second half: the live service, its clients, and a crash in the middle that nobody notices."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from fieldfare.client.aio import Client, connect
from fieldfare.demo.programs import Program
from fieldfare.errors import FieldfareError
from fieldfare.matching.index import Index

_TOPIC = "traffic"
_BATCH = 50
_PACE_SECONDS = 0.02  # between batches: sensors report at their own pace
_WAIT_SECONDS = 60.0


@dataclass(slots=True)
class _Heard:
    """What the drivers were told: which event each of them, and after how long."""

    wanted_count: int
    pairs: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    is_complete: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, driver: str, attributes: dict[str, Any]) -> None:
        self.pairs[driver, attributes["event_id"]] += 1
        self.seconds.append(time.time() - attributes["sent_at"])
        if len(self.pairs) >= self.wanted_count:
            self.is_complete.set()


def run(drivers: pa.Table, reports: pa.Table, folder: Path, console: Console) -> None:
    """Serve, kill, serve again; then compare what drivers heard with what they wanted."""
    console.rule("[bold]The live service")
    wanted = _wanted(drivers, reports)
    heard = asyncio.run(_serve_through_a_crash(drivers, reports, folder, console, _Heard(len(wanted))))
    _tell(wanted, heard, console)


def _wanted(drivers: pa.Table, reports: pa.Table) -> set[tuple[str, int]]:
    index = Index(drivers)
    lists = index.match_table(reports).to_pylist()
    numbers = reports["event_id"].to_pylist()
    return {(driver, number) for number, names in zip(numbers, lists, strict=True) for driver in names}


async def _serve_through_a_crash(
    drivers: pa.Table, reports: pa.Table, folder: Path, console: Console, heard: _Heard
) -> _Heard:
    service = await _serve(folder, 0)
    try:
        console.print(
            f"[bold]fieldfare serve[/] is ready at {service.url} after {service.seconds:.1f} s.", highlight=False
        )
        async with connect(service.url) as sensors, _listening(service.url, drivers, heard):
            console.print(f"{drivers.num_rows:,} drivers are connected. Sensors report {reports.num_rows:,} events ...")
            rows = reports.to_pylist()
            half = len(rows) // 2
            await _report(sensors, rows[:half])
            crash = asyncio.create_task(_report(sensors, rows[half:]))
            service.kill()
            console.print("Now the service is killed (SIGKILL) while they report, and started again on its data.")
            service = await _serve(folder, int(service.url.rpartition(":")[2]))
            await crash
            with suppress(TimeoutError):  # then the check says what is missing
                await asyncio.wait_for(heard.is_complete.wait(), _WAIT_SECONDS)
    finally:
        service.kill()
    return heard


async def _report(sensors: Client, rows: Sequence[dict[str, Any]]) -> None:
    """Publish batch by batch; each returns when it is on disk."""
    for start in range(0, len(rows), _BATCH):
        sent_at = time.time()
        await sensors.publish(_TOPIC, [{**row, "sent_at": sent_at} for row in rows[start : start + _BATCH]])
        await asyncio.sleep(_PACE_SECONDS)


@asynccontextmanager
async def _listening(url: str, drivers: pa.Table, heard: _Heard) -> AsyncIterator[None]:
    """All drivers, over one connection; each has a subscription of its own."""

    async def listen(client: Client, driver: str, condition: str, ready: asyncio.Event) -> None:
        subscription = await client.subscribe(_TOPIC, condition)
        ready.set()
        async for event in subscription:
            heard.add(driver, event.attributes)

    async with connect(url) as client, asyncio.TaskGroup() as group:
        tasks, waits = [], []
        for row in drivers.to_pylist():
            waits.append(ready := asyncio.Event())
            tasks.append(group.create_task(listen(client, row["subscription_id"], row["condition"], ready)))
        for ready in waits:
            await ready.wait()
        yield
        for task in tasks:
            task.cancel()


def _tell(wanted: set[tuple[str, int]], heard: _Heard, console: Console) -> None:
    missing = len(wanted - heard.pairs.keys())
    repeated = sum(count - 1 for count in heard.pairs.values())
    if missing or repeated or heard.pairs.keys() - wanted:
        raise FieldfareError(f"the service lost {missing} deliveries and repeated {repeated}: please report this")
    console.print(
        f"Checked: all {len(wanted):,} deliveries arrived, each once, through the crash. "
        f"Half of them took less than {statistics.median(heard.seconds) * 1000:.1f} ms, from publishing to the driver, "
        "with every event on disk before it was acknowledged.",
        style="green",
        soft_wrap=True,
        highlight=False,
    )


async def _serve(folder: Path, port: int) -> Program:
    return await Program.start(["serve", "--port", str(port), "--data", "service"], folder / "service.log")
