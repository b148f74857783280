"""A broker inside the application."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import fieldfare
from fieldfare.client.events import Event
from fieldfare.qos import Consuming


def test_callbacks_get_what_they_want_and_durable_ones_go_on_after_a_restart(tmp_path: Path) -> None:
    got: list[int] = []

    async def slow(event: Event[dict[str, Any]]) -> None:
        await asyncio.sleep(0)
        got.append(event.attributes["speed"])

    async def run(speeds: list[int], expected: list[int], *, is_listening: bool) -> None:
        async with fieldfare.embedded(tmp_path / "log") as broker:
            if is_listening:
                await broker.deliver("traffic", "speed < 25", slow, name="slow")
            await broker.publish("traffic", [{"speed": speed} for speed in speeds])
            async with asyncio.timeout(30):
                while got != expected:  # noqa: ASYNC110 - the callback has no event to set
                    await asyncio.sleep(0.01)

    asyncio.run(run([12, 40, 24], [12, 24], is_listening=True))
    asyncio.run(run([7, 50], [12, 24], is_listening=False))  # nobody listens, but it waits
    asyncio.run(run([9], [12, 24, 7, 9], is_listening=True))


def test_a_callback_that_fails_ends_its_task_and_nothing_else(tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise ValueError("this callback fails")

    async def run() -> None:
        async with fieldfare.embedded(tmp_path / "log") as broker:
            task = await broker.deliver("traffic", "TRUE", fail)
            await broker.publish("traffic", {"speed": 1})
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(outcome, ValueError)
            await broker.publish("traffic", {"speed": 2})

    asyncio.run(run())


def test_what_a_callback_of_a_named_subscription_cannot_deal_with_becomes_a_dead_letter(tmp_path: Path) -> None:
    got: list[tuple[int, int]] = []

    def choosy(event: Event[dict[str, Any]]) -> None:
        got.append((event.attributes["n"], event.attempt))
        if event.attributes["n"] == 1:
            raise ValueError("not one")

    async def run() -> None:
        async with fieldfare.embedded(tmp_path / "log") as broker, asyncio.timeout(30):
            consuming = Consuming(attempts_max=2, backoff_seconds=0.01)
            await broker.deliver("traffic", "TRUE", choosy, name="choosy", consuming=consuming)
            await broker.publish("traffic", [{"n": n} for n in range(3)])
            while not (letters := await broker.dead_letters("choosy")):  # noqa: ASYNC110 - nothing sets an event
                await asyncio.sleep(0.01)
            assert [letter["reason"] for letter in letters] == ["ValueError('not one')"]
            assert [letter["event"]["event"] for letter in letters] == [{"n": 1}]
            assert sorted(got) == [(0, 1), (1, 1), (1, 2), (2, 1)]

    asyncio.run(run())
