"""The service as a real process, and real faults: what was accepted is delivered, once, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

import httpx
import pytest
from tests.faults.live import TOPIC, History, Service, delivered, listening, publishing, until
from tests.runtime.processes import COMMAND, environment

from fieldfare.client.aio import connect

ODD = ("number % 2 = 1", lambda number: number % 2 == 1)
LOW = ("number < 200", lambda number: number < 200)
ALL = ("TRUE", lambda _: True)


def test_killed_again_and_again_under_load(tmp_path: Path) -> None:
    async def run() -> None:
        history = History()
        async with (
            Service(tmp_path / "data") as service,
            listening(service.url, history, *ALL),
            listening(service.url, history, *LOW),
            listening(service.url, history, "number >= 100", lambda number: number >= 100, name="durable"),
        ):
            publishers = [asyncio.create_task(publishing(service.url, history, f"p{n}", 600)) for n in range(3)]
            for _ in range(3):
                already = len(history.accepted)
                await until(functools.partial(more_than, history, already + 100), "more is accepted")
                await service.kill()
                await service.start()
            await asyncio.gather(*publishers)
            assert len(history.accepted) == 1800
            await delivered(history)

    asyncio.run(run())


def test_a_stopped_subscriber_slows_nobody_and_gets_everything_later(tmp_path: Path) -> None:
    async def run() -> None:
        history = History()
        async with Service(tmp_path / "data") as service, listening(service.url, history, *ALL):
            out = (tmp_path / "slow.jsonl").open("wb")
            command = [*COMMAND, "subscribe", TOPIC, "TRUE", "--follow", "--name", "slow", "--url", service.url]
            with out, contextlib.closing(Stoppable(command, out)) as slow:
                await until(lambda: subscriptions(service.url) == 2, "both subscribe")
                slow.send(signal.SIGSTOP)
                await publishing(service.url, history, "p", 6000, batch=500)
                large = [{"publisher": "q", "number": n, "text": "x" * 1000} for n in range(4000)]
                async with connect(service.url) as client:
                    for start in range(0, len(large), 500):
                        await client.publish(TOPIC, large[start : start + 500])
                history.accepted |= {("q", n) for n in range(4000)}
                await delivered(history)  # the other one has it all, while this one sleeps
                assert waiting(service.url) <= 2 * 1024, "the slow one holds more memory than its share"
                slow.send(signal.SIGCONT)
                await until(lambda: lines(tmp_path / "slow.jsonl") == 10_000, "the slow one catches up")

    asyncio.run(run())


def more_than(history: History, count: int) -> bool:
    return len(history.accepted) > count


class Stoppable:
    """A process that may be asleep when it is to end."""

    def __init__(self, command: list[str], out: BinaryIO) -> None:
        self._process = subprocess.Popen(command, stdout=out, env=environment())

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def subscriptions(url: str) -> int:
    return len(httpx.get(f"{url}/v1/subscriptions").json()["items"])


def waiting(url: str) -> float:
    """Events that wait in the broker's memory, of all subscriptions."""
    values = [
        float(line.rpartition(" ")[2])
        for line in httpx.get(f"{url}/metrics").text.splitlines()
        if line.startswith("fieldfare_subscription_waiting")
    ]
    assert values, "the metric is gone: this test cannot fail"
    return sum(values)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def test_thousands_of_subscriptions_come_and_go_during_traffic(tmp_path: Path) -> None:
    async def churn(url: str, rounds: int) -> int:
        changes = 0
        async with connect(url) as client:
            for number in range(rounds):
                made = [
                    client.subscribe(TOPIC, f"number = {number * 1000 + n} AND publisher = 'x'") for n in range(500)
                ]
                for subscription in made:
                    await subscription
                await asyncio.gather(*(subscription.unsubscribe() for subscription in made))
                changes += 2 * len(made)
        return changes

    async def run() -> None:
        history = History()
        async with (
            Service(tmp_path / "data") as service,
            listening(service.url, history, *ODD),
            listening(service.url, history, *ALL, name="durable"),
        ):
            traffic = asyncio.create_task(publishing(service.url, history, "p", 3000))
            assert await churn(service.url, 20) == 20_000
            await traffic
            await delivered(history)
            assert subscriptions(service.url) == 2

    asyncio.run(run())


def test_a_publisher_whose_answers_get_lost(tmp_path: Path) -> None:
    """A proxy cuts connections after the service has got a publication, and before the publisher gets its answer."""

    async def run() -> None:
        history = History()
        rng = random.Random(7)
        async with Service(tmp_path / "data") as service, listening(service.url, history, *ALL):
            async with cutting_proxy(service.url, rng) as (proxied, cuts):
                await publishing(proxied, history, "p", 300)
            assert cuts, "no answer was lost: this run proves nothing"
            await delivered(history)
            assert len(history.accepted) == 300

    asyncio.run(run())


@contextlib.asynccontextmanager
async def cutting_proxy(url: str, rng: random.Random) -> AsyncIterator[tuple[str, list[int]]]:
    """A proxy on a port of its own that passes everything on, but loses every tenth answer, and the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    cuts: list[int] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                if is_answer and b"accepted" in data and rng.random() < 0.1:
                    cuts.append(len(data))
                    break
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        ways = [
            asyncio.create_task(carry(reader, there_writer, is_answer=False)),
            asyncio.create_task(carry(there_reader, writer, is_answer=True)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        writer.close()
        there_writer.close()
        await asyncio.gather(*ways, return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", cuts


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root and the permission to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607 - wherever it is


def test_a_full_disk(small_disk: Path) -> None:
    """It refuses, never acknowledges, and goes on when there is room again."""

    async def run() -> None:
        history = History()
        ballast = small_disk / "ballast"
        async with Service(small_disk / "data") as service, listening(service.url, history, *ALL):
            await publishing(service.url, history, "before", 50)
            ballast.write_bytes(b"x" * (shutil.disk_usage(small_disk).free - 4096))
            publisher = asyncio.create_task(publishing(service.url, history, "during", 400, batch=100))
            await until(lambda: refusals(service.url) > 0, "the service refuses")
            ballast.unlink()
            await publisher  # it was told to try again, and has
            await delivered(history)
            await service.kill()
            await service.start()
            await publishing(service.url, history, "after", 50)
            await delivered(history)

    asyncio.run(run())


def refusals(url: str) -> float:
    text = httpx.get(f"{url}/metrics").text
    return sum(
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("fieldfare_refused") and 'code="storage"' in line
    )


def test_a_flush_that_fails(tmp_path: Path) -> None:
    """What was not flushed is not acknowledged, not even when it is tried again; after a restart all is well."""
    if shutil.which("strace") is None:
        if os.environ.get("CI"):
            subprocess.run(["apt-get", "install", "-y", "-q", "strace"], check=True, capture_output=True)  # noqa: S607
        else:
            pytest.skip("strace is missing: install it to test failing disks")

    async def run() -> None:
        history = History()
        prefix = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=20+")
        async with Service(tmp_path / "data", prefix=prefix) as service, listening(service.url, history, *ALL):
            publisher = asyncio.create_task(publishing(service.url, history, "p", 500))
            await until(lambda: httpx.get(f"{service.url}/readyz").status_code == 503, "the service says that it fails")
            accepted = len(history.accepted)
            await asyncio.sleep(1.0)  # the publisher tries again meanwhile
            assert len(history.accepted) == accepted < 500
            await service.kill()
            service.prefix = []
            await service.start()
            await publisher
            await delivered(history)

    asyncio.run(run())
