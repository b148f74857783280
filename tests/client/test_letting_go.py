"""Subscriptions that an application leaves end at the edge; what waits in a client is bounded over all of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.client.fake import QUICK
from tests.runtime.serving import Served, attached, serving

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.client.subscription import Subscription
from fieldfare.errors import RefusedError


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Served, Client]]:
    async with (
        asyncio.timeout(120),
        serving() as served,
        fieldfare.connect(served.url, token="all", options=replace(QUICK, **options)) as client,  # noqa: S106
    ):
        yield served, client


def at_edge(served: Served) -> int:
    return len(list(served.edge.parts.takers))


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - what is waited for is in the edge's own state
            await asyncio.sleep(0.01)


def test_a_loop_that_is_left_ends_its_subscription() -> None:
    async def main() -> None:
        async with connected() as (served, client):
            publishing = asyncio.create_task(_publish_until_cancelled(client))
            async for event in client.subscribe("traffic", "TRUE"):
                assert event.attributes["n"] >= 0
                assert at_edge(served) == 1
                break
            await until(lambda: at_edge(served) == 0)
            publishing.cancel()

    asyncio.run(main())


async def _publish_until_cancelled(client: Client) -> None:
    number = 0
    while True:
        await client.publish("traffic", {"n": number})
        number += 1


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_subscription_that_is_forgotten_ends(is_awaited: bool) -> None:
    async def main() -> None:
        async with connected() as (served, client):
            subscription = client.subscribe("traffic", "TRUE")
            kept = await client.subscribe("traffic", "TRUE")
            if is_awaited:
                await subscription
            del subscription
            await until(lambda: at_edge(served) == 1)
            await client.publish("traffic", {"n": 1})
            assert (await anext(kept)).attributes == {"n": 1}

    asyncio.run(main())


def test_one_in_a_cycle_of_references_ends_when_it_is_collected() -> None:
    async def main() -> None:
        async with connected() as (served, client):
            holder: dict[str, Any] = {"subscription": await client.subscribe("traffic", "TRUE")}
            holder["self"] = holder
            gc.disable()
            try:
                del holder
                await client.topics()
                assert at_edge(served) == 1
                threading.Thread(target=gc.collect).start()  # in another thread than the loop's
                await until(lambda: at_edge(served) == 0)
            finally:
                gc.enable()

    asyncio.run(main())


def test_a_task_that_waits_for_an_event_keeps_its_subscription() -> None:
    async def main() -> None:
        async with connected() as (served, client):

            async def first() -> Any:
                async for event in client.subscribe("traffic", "TRUE"):
                    return event.attributes
                return None

            task = asyncio.create_task(first())
            await until(lambda: at_edge(served) == 1)
            gc.collect()
            await client.publish("traffic", {"n": 7})
            assert await task == {"n": 7}
            await until(lambda: at_edge(served) == 0)

    asyncio.run(main())


def test_a_durable_one_is_only_detached() -> None:
    async def main() -> None:
        async with connected() as (served, client):
            subscription = await client.subscribe("traffic", "TRUE", name="mine")
            await client.publish("traffic", [{"n": 0}, {"n": 1}])
            assert (await anext(subscription)).attributes == {"n": 0}
            del subscription
            await until(lambda: not attached(served, "mine"))
            async with client.attach("mine") as again:
                assert (await anext(again)).attributes == {"n": 0}  # it was not done with it

    asyncio.run(main())


@pytest.mark.parametrize("name", [None, "mine"])
def test_closing(name: str | None) -> None:
    async def main() -> None:
        async with connected() as (served, client):
            options: Any = {} if name is None else {"name": name}
            async with contextlib.aclosing(client.subscribe("traffic", "TRUE", **options)) as subscription:
                await client.publish("traffic", [{"n": 0}, {"n": 1}])
                assert (await anext(subscription)).attributes == {"n": 0}
            await subscription.aclose()  # a second time does nothing
            with pytest.raises(StopAsyncIteration):
                await anext(subscription)
            await until(lambda: at_edge(served) == (0 if name is None else 1))
            await until(lambda: not attached(served, "mine"))

    asyncio.run(main())


def test_without_an_event_loop() -> None:
    async def main() -> None:
        async with serving() as served:
            await asyncio.to_thread(_leave_in_every_way, served, asyncio.get_running_loop())

    asyncio.run(main())


def _leave_in_every_way(served: Served, loop: asyncio.AbstractEventLoop) -> None:
    def wait_for(count: int) -> None:
        asyncio.run_coroutine_threadsafe(until(lambda: at_edge(served) == count), loop).result()

    with fieldfare.connect_sync(served.url, token="all", options=QUICK) as client:  # noqa: S106
        forgotten = client.subscribe("traffic", "TRUE")
        wait_for(1)
        del forgotten
        wait_for(0)
        with contextlib.closing(client.subscribe("traffic", "TRUE")) as closed:
            client.publish("traffic", {"n": 0})
            assert next(iter(closed)).attributes == {"n": 0}
        wait_for(0)
        with client.subscribe("traffic", "TRUE") as entered:
            client.publish("traffic", {"n": 1})
            for event in entered:
                assert event.attributes == {"n": 1}
                break
            wait_for(1)  # the loop was left, but it can be entered again
        wait_for(0)
        later = client.subscribe("traffic", "TRUE")
    later.close()  # after its client: nothing to do
    del later


def test_one_that_is_forgotten_after_its_loop_makes_no_noise(capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[Subscription[Any]] = []

    async def main() -> None:
        async with connected() as (_, client):
            kept.append(await client.subscribe("traffic", "TRUE"))
            kept.append(client.subscribe("traffic", "TRUE"))

    asyncio.run(main())
    kept.clear()
    gc.collect()
    assert capsys.readouterr().err == ""


# Memory


def _buffered(subscriptions: list[Subscription[Any]]) -> int:
    return sum(len(subscription._inbox.events) for subscription in subscriptions)


def test_what_waits_in_a_client_is_bounded_over_all_its_subscriptions() -> None:
    async def main() -> None:
        async with connected(buffered_events_max=300) as (served, client):
            subscriptions = [client.subscribe("traffic", "TRUE") for _ in range(200)]
            for subscription in subscriptions:
                await subscription
            peaks = []
            for start in range(0, 50, 5):
                await client.publish("traffic", [{"n": n} for n in range(start, start + 5)])
                await client.topics()
                peaks.append(_buffered(subscriptions))
                in_flight = sum(len(taker.in_flight) for taker in served.edge.parts.takers)
                assert in_flight <= 300
            assert 200 <= max(peaks) <= 300
            received = await asyncio.gather(*(_take(each, 50) for each in subscriptions))
            assert received == [list(range(50))] * 200  # nobody misses anything
            assert client._budget.reserved <= 300

    asyncio.run(main())


async def _take(subscription: Subscription[Any], count: int) -> list[int]:
    return [(await anext(subscription)).attributes["n"] for _ in range(count)]


def test_a_busy_subscription_has_a_larger_window_at_the_edge() -> None:
    async def main() -> None:
        async with connected() as (served, client):
            busy = await client.subscribe("traffic", "TRUE")
            unread = await client.subscribe("traffic", "TRUE")
            for start in range(0, 5000, 100):
                await client.publish("traffic", [{"n": n} for n in range(start, start + 100)])
                assert await _take(busy, 100) == list(range(start, start + 100))
            windows = {taker.id: taker.window for taker in served.edge.parts.takers}
            assert windows[busy.id] >= 64
            assert windows[unread.id] == 16

    asyncio.run(main())


def test_more_subscriptions_than_the_budget_has_events_are_refused() -> None:
    async def main() -> None:
        async with connected(buffered_events_max=3) as (_, client):
            kept = [await client.subscribe("traffic", "TRUE") for _ in range(3)]
            with pytest.raises(RefusedError, match="buffered_events_max"):
                await client.subscribe("traffic", "TRUE")
            await kept.pop().aclose()
            await client.subscribe("traffic", "TRUE")

    asyncio.run(main())


def test_windows_survive_broken_connections() -> None:
    async def main() -> None:
        async with connected(buffered_events_max=64) as (_, client):
            subscriptions = [await client.subscribe("traffic", "TRUE", name=f"s{n}") for n in range(10)]
            await client.publish("traffic", [{"n": n} for n in range(200)])
            taken: list[list[int]] = [[] for _ in subscriptions]
            for _ in range(20):
                for number, subscription in enumerate(subscriptions):
                    taken[number] += await _take(subscription, 10)
                assert _buffered(subscriptions) <= 64
                client._runner._connection.abort()  # type: ignore[union-attr] # there is one
            assert taken == [list(range(200))] * 10
            assert client._budget.reserved <= 64

    asyncio.run(main())
