"""What an application does with single events, at a broker in the same process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.client.events import Event
from fieldfare.client.subscription import Subscription
from fieldfare.client.sync import SyncClient
from fieldfare.errors import FieldfareError
from fieldfare.messages import Start
from fieldfare.qos import Consuming
from fieldfare.runtime.embedded import Embedded, HostTransport

QUICK = Consuming(attempts_max=3, backoff_seconds=0.01, backoff_seconds_max=0.02)
SHARED = msgspec.structs.replace(QUICK, is_shared=True)


class Reading(msgspec.Struct):
    n: int


def story(tell: Callable[[Embedded], Awaitable[None]]) -> Callable[[Path], None]:
    @wraps(tell)
    def test(tmp_path: Path) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), fieldfare.embedded(tmp_path / "log") as broker:
                await tell(broker)

        asyncio.run(main())

    vars(test).pop("__wrapped__")  # or else pytest would look for its arguments
    return test


async def take(subscription: Subscription[Any], count: int) -> list[Event[Any]]:
    return [await anext(subscription) for _ in range(count)]


def numbers(events: list[Event[Any]]) -> list[int]:
    return [event.attributes["n"] for event in events]


async def dead_letters(broker: Embedded, name: str = "s") -> list[dict[str, Any]]:
    while not (letters := await broker.dead_letters(name)):  # noqa: ASYNC110 - nothing sets an event
        await asyncio.sleep(0.01)
    return letters


async def publish(broker: Embedded, *values: int) -> None:
    await broker.publish("t", [{"n": n} for n in values])


@story
async def test_a_refused_event_comes_again_and_then_is_a_dead_letter(broker: Embedded) -> None:
    async with broker.subscribe("t", "TRUE", name="s", consuming=QUICK) as subscription:
        await publish(broker, 1, 2)
        seen: list[tuple[int, int]] = []
        async for event in subscription:
            seen.append((event.attributes["n"], event.attempt))
            if event.attributes["n"] == 1:
                subscription.nack(event, "no")
            if len(seen) == 4:
                break
        assert sorted(seen) == [(1, 1), (1, 2), (1, 3), (2, 1)]
        letters = await dead_letters(broker)
        assert [(letter["reason"], letter["attempts"]) for letter in letters] == [("no", 3)]
        assert await broker.redrive("s", [letters[0]["id"]]) == 1
        (again,) = await take(subscription, 1)
        assert again.attributes == {"n": 1}
        subscription.ack(again)
        await publish(broker, 3)
        assert numbers(await take(subscription, 1)) == [3]
        assert await broker.dead_letters("s") == []


@story
async def test_an_application_may_be_done_in_any_order(broker: Embedded) -> None:
    async with broker.subscribe("t", "TRUE", name="s", manual_ack=True) as subscription:
        await publish(broker, *range(6))
        events = await take(subscription, 6)
        for place in (4, 0, 2, 1):
            subscription.ack(events[place])
    await asyncio.sleep(0.3)
    async with broker.attach("s", manual_ack=True) as again:
        assert numbers(await take(again, 2)) == [3, 5]


@story
async def test_what_cannot_be_read_is_refused_and_the_application_goes_on(broker: Embedded) -> None:
    async with broker.subscribe("t", "TRUE", name="s", type=Reading, consuming=QUICK) as subscription:
        await broker.publish("t", [{"n": "many"}, {"n": 2}])
        assert (await anext(subscription)).attributes == Reading(2)
        waiting = asyncio.ensure_future(anext(subscription))
        letters = await dead_letters(broker)
        assert "int" in letters[0]["reason"]
        assert not waiting.done()
        await publish(broker, 3)
        assert (await waiting).attributes == Reading(3)


@story
async def test_consumers_share_a_subscription(broker: Embedded) -> None:
    async with (
        Client(HostTransport(broker._host)) as other,
        broker.subscribe("t", "TRUE", name="s", consuming=SHARED, window=4) as one,
        other.subscribe("t", "TRUE", name="s", consuming=SHARED, window=4) as two,
    ):
        await publish(broker, *range(40))
        got: dict[int, list[int]] = {0: [], 1: []}

        async def consume(number: int, subscription: Subscription[Any]) -> None:
            async for event in subscription:
                got[number].append(event.attributes["n"])
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(consume(*each)) for each in enumerate((one, two))]
        while len(got[0]) + len(got[1]) < 40:  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert sorted(got[0] + got[1]) == list(range(40))
        assert got[0]
        assert got[1]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@story
async def test_a_subscription_is_sought_while_it_is_read(broker: Embedded) -> None:
    async with broker.subscribe("t", "TRUE", name="s") as subscription:
        await publish(broker, 0, 1)
        await asyncio.sleep(0.05)
        middle = time.time()
        await asyncio.sleep(0.05)
        await publish(broker, 2, 3)
        assert numbers(await take(subscription, 4)) == [0, 1, 2, 3]
        await broker.seek("s", beginning=True)
        assert numbers(await take(subscription, 2)) == [0, 1]
        await broker.seek("s", time=middle)
        assert numbers(await take(subscription, 2)) == [2, 3]
        last = (await take_again(broker, subscription))[-1]
        await broker.seek("s", position=last.position - 1)
        assert numbers(await take(subscription, 1)) == [3]
    with pytest.raises(FieldfareError, match="there is no subscription"):
        await broker.seek("none", beginning=True)


async def take_again(broker: Embedded, subscription: Subscription[Any]) -> list[Event[Any]]:
    await broker.seek("s", beginning=True)
    return await take(subscription, 4)


@story
async def test_pause_resume_and_change(broker: Embedded) -> None:
    async with broker.subscribe("t", "n < 10", name="s") as subscription:
        await broker.pause("s")
        await publish(broker, 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(subscription), 0.2)
        await broker.resume("s")
        assert numbers(await take(subscription, 1)) == [1]
        await broker.change("s", condition="n >= 10")
        await publish(broker, 2, 12)
        assert numbers(await take(subscription, 1)) == [12]


@story
async def test_a_new_subscription_begins_in_the_past(broker: Embedded) -> None:
    await publish(broker, 1, 2)
    async with broker.subscribe("t", "TRUE", start=Start(beginning=True)) as subscription:
        assert numbers(await take(subscription, 2)) == [1, 2]


def test_without_an_event_loop(tmp_path: Path) -> None:
    with SyncClient(fieldfare.embedded(tmp_path / "log")) as client:
        subscription = client.subscribe("t", "TRUE", name="s", consuming=QUICK)
        client.publish("t", [{"n": 1}])
        attempts = []
        for event in subscription:
            attempts.append(event.attempt)
            if event.attempt < 3:
                subscription.nack(event, "no")
            else:
                subscription.ack(event)
                break
        assert attempts == [1, 2, 3]
        client.seek("s", beginning=True)
        assert next(iter(subscription)).attributes == {"n": 1}
        client.pause("s")
        client.resume("s")
        client.change("s", condition="n > 1")
        assert (client.dead_letters("s"), client.redrive("s"), client.drop_dead_letters("s")) == ([], 0, 0)
        subscription.unsubscribe()
