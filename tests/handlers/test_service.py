"""Handlers as clients of a real service: connections that break, applications that share, end and start again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake import QUICK
from tests.runtime.serving import Served, serving

import fieldfare
from fieldfare.client.events import Event
from fieldfare.errors import DetachedError, RefusedError
from fieldfare.handlers.handler import Retries


def application(served: Served) -> fieldfare.App:
    return fieldfare.App(served.url, token="all", options=QUICK)  # noqa: S106


@asynccontextmanager
async def publishing() -> AsyncIterator[tuple[Served, fieldfare.client.aio.Client]]:
    async with (
        asyncio.timeout(120),
        serving() as served,
        fieldfare.connect(served.url, token="all", options=QUICK) as client,  # noqa: S106
    ):
        yield served, client


@asynccontextmanager
async def running(app: fieldfare.App) -> AsyncIterator[asyncio.Task[None]]:
    is_ready = asyncio.Event()
    task = asyncio.create_task(app.serve(is_ready.set))
    ready = asyncio.create_task(is_ready.wait())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    yield task
    app.stop()
    await asyncio.wait([task])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - what is waited for is in the edge's own state
            await asyncio.sleep(0.01)


def unsettled(served: Served, name: str) -> int:
    taker = served.edge.parts.takers.get("acme", name)
    assert taker is not None
    return len(taker.waiting) + len(taker.in_flight) + len(taker.outstanding or ())


@pytest.mark.parametrize("concurrency", [1, 8])
def test_connections_that_break_neither_lose_nor_double_events(concurrency: int) -> None:
    async def main() -> None:
        async with publishing() as (served, client):
            app = application(served)
            handled: Counter[int] = Counter()

            @app.on("traffic", name="mine", concurrency=concurrency, retries=Retries(10, 0.01))
            async def handle(event: Event[dict[str, int]]) -> None:
                await asyncio.sleep(random.random() / 200)
                if event.attributes["n"] % 10 == 0 and event.attempt == 1:
                    raise ValueError("once")
                handled[event.attributes["n"]] += 1

            async with running(app):
                for start in range(0, 200, 20):
                    await client.publish("traffic", [{"n": n} for n in range(start, start + 20)])
                    await asyncio.sleep(0.01)
                    if (connection := app.client._runner._connection) is not None:
                        connection.abort()
                await until(lambda: len(handled) == 200)
                await until(lambda: unsettled(served, "mine") == 0)
            assert handled == Counter(range(200))

    asyncio.run(main())


def test_applications_that_share_a_handler_have_each_event_once() -> None:
    async def main() -> None:
        async with publishing() as (served, client):
            handled: list[Counter[int]] = [Counter(), Counter()]
            apps = [application(served) for _ in handled]
            for app, own in zip(apps, handled, strict=True):

                @app.on("traffic", name="mine", shared=True, key="road")
                async def handle(event: dict[str, Any], own: Counter[int] = own) -> None:
                    await asyncio.sleep(0.001)
                    own[event["n"]] += 1

            async with running(apps[0]), running(apps[1]):
                await client.publish("traffic", [{"n": n, "road": f"A{n % 9}"} for n in range(100)])
                await until(lambda: sum(map(len, handled)) == 100)
            assert handled[0] + handled[1] == Counter(range(100))
            assert all(len(own) > 10 for own in handled)

    asyncio.run(main())


def test_two_applications_with_one_name_are_told_to_share() -> None:
    async def main() -> None:
        async with publishing() as (served, _):
            first, second = application(served), application(served)
            for app in (first, second):
                app.on("traffic", name="mine")(lambda event: None)  # noqa: ARG005
            async with running(first) as task, running(second):
                with pytest.raises(DetachedError, match="shared=True"):
                    await task

    asyncio.run(main())


def test_a_right_that_is_missing_ends_the_application() -> None:
    async def main() -> None:
        async with publishing() as (served, _):
            app = fieldfare.App(served.url, token="reader", options=QUICK)  # noqa: S106
            app.on("secrets")(lambda event: None)  # noqa: ARG005
            with pytest.raises(RefusedError):
                await app.serve()

    asyncio.run(main())


def test_an_application_that_ends_leaves_no_unnamed_subscription() -> None:
    async def main() -> None:
        async with publishing() as (served, client):
            app = application(served)
            app.on("traffic")(lambda event: None)  # noqa: ARG005
            app.on("traffic", name="mine")(lambda event: None)  # noqa: ARG005
            async with running(app):
                assert len(await client.subscriptions()) == 2
            assert [each["subscription"] for each in await client.subscriptions()] == ["mine"]

    asyncio.run(main())


# As a process

_PROGRAM = """
import asyncio, os
import fieldfare
app = fieldfare.App(token="all")

@app.on("traffic", name="mine", concurrency=4)
async def handle(event: dict) -> None:
    with open("begun", "a") as file:
        file.write(f"{event['n']}\\n")
    await asyncio.sleep(0.05)
    with open("handled", "a") as file:
        file.write(f"{VERSION} {event['n']}\\n")
"""


class Program:
    """`fieldfare run` in a folder."""

    def __init__(self, folder: Path, url: str, *options: str) -> None:
        environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "fieldfare", "run", "program:app", "--url", url, *options]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> str:
        self.process.send_signal(number)
        output, _ = await asyncio.to_thread(self.process.communicate, timeout=60)
        return output.decode()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def written(folder: Path) -> list[list[str]]:
    path = folder / "handled"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_an_application_that_is_ended_in_the_middle_loses_and_doubles_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM.replace("{VERSION}", "1"))

    async def main() -> None:
        async with publishing() as (served, client):
            await (await client.subscribe("traffic", "TRUE", name="mine")).aclose()
            await client.publish("traffic", [{"n": n} for n in range(200)])
            taker = served.edge.parts.takers.get("acme", "mine")
            assert taker is not None
            for least in (20, 80, 200):
                program = Program(tmp_path, served.url)
                try:
                    await until(lambda least=least: len(written(tmp_path)) >= least)  # type: ignore[misc]
                    output = await program.stop()
                finally:
                    program.kill()
                assert program.process.returncode == 0, output
                assert "Traceback" not in output
                await until(lambda: not taker.is_attached)
                handled = [int(number) for _, number in written(tmp_path)]
                begun = [int(number) for number in (tmp_path / "begun").read_text().split()]
                assert len(handled) == len(set(handled))
                assert sorted(begun) == sorted(handled)  # what was in hand was finished, and acknowledged
                assert taker.cursor + 1 <= len(handled)  # acknowledged is only what was handled
            assert sorted(handled) == list(range(200))

    asyncio.run(main())


def test_an_application_starts_again_when_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM.replace("{VERSION}", "1"))

    async def main() -> None:
        async with publishing() as (served, client):
            program = Program(tmp_path, served.url, "--reload")
            try:
                number = 0
                for version in ("1", "broken", "2"):
                    text = "this is no Python" if version == "broken" else _PROGRAM.replace("{VERSION}", version)
                    (tmp_path / "program.py").write_text(text)
                    while version != "broken" and version not in {each for each, _ in written(tmp_path)}:
                        await client.publish("traffic", {"n": number})
                        number += 1
                        await asyncio.sleep(0.1)
                output = await program.stop(signal.SIGINT)
            finally:
                program.kill()
            assert program.process.returncode == 0, output
            assert "program.py has changed" in output
            numbers = [int(each) for _, each in written(tmp_path)]
            assert len(numbers) == len(set(numbers))

    asyncio.run(main())
