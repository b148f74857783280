"""The service as a real process, and real faults: what was accepted is delivered, once, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, Self

import httpx
import pytest
from tests.faults.live import TOPIC, History, Service, delivered, listening, publishing, until
from tests.runtime.processes import COMMAND, environment

from fieldfare.client.aio import connect
from fieldfare.qos import Requested

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


def test_the_clock_jumps(tmp_path: Path) -> None:
    """By a day, forward and back: nothing expires early, no deadline is missed early, and time goes on."""
    library = faketime_library()
    clock = tmp_path / "clock"
    clock.write_text("+0")

    async def run() -> None:
        history = History()
        variables = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        async with Service(tmp_path / "data", variables=variables) as service, connect(service.url) as client:
            watcher = await client.subscribe(TOPIC, "TRUE", qos=Requested(deadline_seconds=3600))
            await publishing(service.url, history, "before", 20)
            for jump in ("+1d", "-1d"):
                clock.write_text(jump)
                await publishing(service.url, history, jump, 20)
            async with listening(service.url, history, *ALL, qos=Requested(durability="transient")):
                await delivered(history)  # what was published before the jumps is still alive
            assert not watcher.notices

    asyncio.run(run())


def faketime_library() -> str:
    """Where the library is that changes the time for a process."""
    if os.environ.get("CI") and not list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")):
        subprocess.run(["apt-get", "install", "-y", "-q", "faketime"], check=True, capture_output=True)  # noqa: S607
    found = list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("faketime is missing: install it to test jumps of the clock")
    return str(found[0])


def test_webhooks_that_fail_or_hang(tmp_path: Path) -> None:
    """One that fails at first gets everything, through a crash; one that hangs or refuses holds up nobody."""

    async def run() -> None:
        got: dict[str, list[int]] = {"/flaky": [], "/good": []}
        calls: Counter[str] = Counter()
        async with (
            Endpoints(got, calls) as endpoints,
            Service(tmp_path / "data", variables=endpoints.allowed) as service,
        ):
            async with connect(service.url) as client:
                for path in ("/flaky", "/good", "/hanging", "/refusing"):
                    await client.subscribe(TOPIC, "TRUE", name=path[1:], webhook=f"{endpoints.url}{path}")
                for number in range(50):
                    await client.publish(TOPIC, {"publisher": "p", "number": number})
                await until(lambda: set(got["/good"]) == set(range(50)), "the good one gets everything")
                await service.kill()
                await service.start()
                await until(lambda: set(got["/flaky"]) == set(range(50)), "the flaky one gets everything")
            assert refused_events(service.url) == set(range(50))
            assert calls["/hanging"]
            for numbers in got.values():  # at least once: a crash may repeat events, but from some place on, in order
                assert list(dict.fromkeys(numbers)) == list(range(50))

    asyncio.run(run())


def refused_events(url: str) -> set[int]:
    letters = httpx.get(f"{url}/v1/subscriptions/refusing/dead-letters").json()["items"]
    return {letter["event"]["event"]["number"] for letter in letters}


class Endpoints:
    """Webhooks of all sorts, on one port."""

    def __init__(self, got: dict[str, list[int]], calls: Counter[str]) -> None:
        self._got, self._calls = got, calls

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.allowed = {"FIELDFARE_WEBHOOKS_ALLOW": "127.0.0.1"}
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
                )
                body = json.loads(await reader.readexactly(length))
                path = head.split()[1].decode()
                self._calls[path] += 1
                status = self._answer(path, [event["event"]["number"] for event in body["events"]])
                if status == 0:
                    await reader.read()  # hangs until the other side gives up
                    break
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
                await writer.drain()
        writer.close()

    def _answer(self, path: str, numbers: list[int]) -> int:
        if path == "/hanging":
            return 0
        if path == "/refusing":
            return 404
        if path == "/flaky" and self._calls[path] % 3:
            return 500
        self._got[path] += numbers
        return 204
