"""The client against the real service: gateway, host, edge and log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.fake import QUICK
from tests.runtime.serving import Served, serving

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.errors import ForbiddenError, IncompatibleQosError, RefusedError, UnauthenticatedError
from fieldfare.qos import Offered, Requested


@asynccontextmanager
async def connected(token: str = "all") -> AsyncIterator[tuple[Served, Client]]:  # noqa: S107 - everybody knows it
    async with (
        asyncio.timeout(120),
        serving() as served,
        fieldfare.connect(served.url, token=token, options=QUICK) as client,
    ):
        yield served, client


def test_events_that_satisfy_a_condition_arrive_in_order() -> None:
    async def main() -> None:
        async with connected() as (_, client):
            slow = await client.subscribe("traffic", "speed < 25")
            later = await client.subscribe("traffic", "speed < 10", qos=Requested(durability="transient"), window=3)
            futures = [await client.publish_soon("traffic", {"speed": speed}) for speed in range(100)]
            await asyncio.gather(*futures)
            assert [(await anext(slow)).attributes["speed"] for _ in range(25)] == list(range(25))
            assert [(await anext(later)).attributes["speed"] for _ in range(10)] == list(range(10))

    asyncio.run(main())


def test_a_durable_subscription_goes_on_in_another_client() -> None:
    async def main() -> None:
        async with connected() as (served, client):
            async with client.subscribe("traffic", "TRUE", name="mine") as subscription:
                await client.publish("traffic", [{"n": n} for n in range(10)])
                for _ in range(4):
                    event = await anext(subscription)
                subscription.acknowledge(event)
            async with (
                fieldfare.connect(served.url, token="all", options=QUICK) as other,  # noqa: S106
                other.attach("mine") as again,
            ):
                assert [(await anext(again)).attributes["n"] for _ in range(6)] == list(range(4, 10))
            assert [item["subscription"] for item in await client.subscriptions()] == ["mine"]
            await client.unsubscribe("mine")
            assert await client.subscriptions() == []

    asyncio.run(main())


def test_refusals() -> None:
    async def main() -> None:
        async with connected() as (served, client):
            with pytest.raises(RefusedError) as caught:
                await client.subscribe("traffic", "speed <")
            assert caught.value.code == "condition"
            await client.declare_topic("fleeting", Offered(reliability="best_effort", durability="volatile"))
            with pytest.raises(IncompatibleQosError, match="reliability"):
                await client.subscribe("fleeting", "TRUE")
            await client.publish("traffic", {"n": 1})
            assert [topic["topic"] for topic in await client.topics()] == ["fleeting", "traffic"]
            async with fieldfare.connect(served.url, token="reader", options=QUICK) as reader:  # noqa: S106
                with pytest.raises(ForbiddenError):
                    await reader.publish("traffic", {"n": 1})
            with pytest.raises(UnauthenticatedError):
                async with fieldfare.connect(served.url, token="wrong", options=QUICK):  # noqa: S106
                    pass

    asyncio.run(main())


def test_a_refused_publication_harms_no_other() -> None:
    async def main() -> None:
        async with connected() as (_, client):
            subscription = await client.subscribe("traffic", "TRUE")
            events = [{"n": 0}, {"n": 2**70}, {"n": 2}, [1], {"n": 4}]
            futures = [await client.publish_soon("traffic", [event]) for event in events]
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
            assert [isinstance(outcome, RefusedError) for outcome in outcomes] == [False, True, False, True, False]
            assert [(await anext(subscription)).attributes["n"] for _ in range(3)] == [0, 2, 4]

    asyncio.run(main())
