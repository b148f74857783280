"""Clients of several edges that are real processes: they go from one to another, and to the homes of subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from tests.overlay_live.deployment import EdgeProcess, LiveDeployment, running

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.client.options import ClientOptions
from fieldfare.client.subscription import Subscription

PLACES = 6  # for clients, at each edge
HASTY = ClientOptions(patience_seconds=0.2, doubt_seconds=2.0, connect_timeout_seconds=30.0)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDeployment]:
    made = LiveDeployment(
        tmp_path_factory.mktemp("brokers"),
        FIELDFARE_BROKER_NETWORK="here",
        FIELDFARE_LIMITS_CONNECTIONS_MAX=str(PLACES),
    )
    with running(made, ["r1"], ["edge-a", "edge-b"]) as started:
        yield started


@pytest.fixture
def edges(deployment: LiveDeployment) -> tuple[EdgeProcess, EdgeProcess]:
    return deployment.edges["edge-a"], deployment.edges["edge-b"]


def client_of(*edges: EdgeProcess) -> Client:
    return fieldfare.connect([edge.url for edge in edges], options=HASTY)


async def numbers(subscription: Subscription[Any], count: int) -> list[int]:
    async with asyncio.timeout(60):
        return [(await anext(subscription)).attributes["n"] for _ in range(count)]


async def clients_of(edge: EdgeProcess) -> dict[str, float]:
    """The load of the edges as one of them knows it, by their URLs."""
    async with httpx.AsyncClient(base_url=edge.url) as http:
        response = await http.get("/v1/edges")
        return {each["url"]: each["load"] for each in response.json().get("items", [])}


def test_a_durable_subscription_is_received_from_its_home(edges: tuple[EdgeProcess, EdgeProcess]) -> None:
    async def story() -> None:
        home, other = edges
        async with client_of(home) as owner, owner.subscribe("homes", "n >= 0", name="mine") as waiting:
            await owner.publish("homes", {"n": 1})
            assert await numbers(waiting, 1) == [1]
        async with client_of(other) as client:
            subscription = await client.subscribe("homes", "n >= 0", name="mine")
            await client.publish("homes", {"n": 2})
            assert await numbers(subscription, 2) == [1, 2]  # the first was not acknowledged
            attached = await client.attach("mine", topic="homes")
            await client.publish("homes", {"n": 3})
            assert 3 in await numbers(attached, 3)
            await attached.unsubscribe()
            again = await client.subscribe("homes", "n >= 0", name="mine")  # it has ended: any edge may be its home
            assert again.log

    asyncio.run(story())


def test_who_asks_for_it_over_http_is_told_where_it_is(edges: tuple[EdgeProcess, EdgeProcess]) -> None:
    async def story() -> None:
        home, other = edges
        body = {"topic": "http-homes", "condition": "n >= 0", "name": "polled"}
        async with httpx.AsyncClient(timeout=30) as http:
            assert (await http.post(f"{home.url}/v1/subscriptions", json=body)).status_code == 201
            refused = await http.post(f"{other.url}/v1/subscriptions", json=body)
            assert (refused.status_code, refused.json()["home"]) == (421, home.url)
            refused = await http.get(f"{other.url}/v1/subscriptions/polled/events")
            assert (refused.status_code, refused.json()["home"]) == (421, home.url)
            made = await http.post(f"{other.url}/v1/subscriptions", json={**body, "name": None})
            assert made.status_code == 201
            for method in ("GET", "DELETE"):
                refused = await http.request(method, f"{other.url}/v1/subscriptions/polled?topic=http-homes")
                assert (refused.status_code, refused.json()["home"]) == (421, home.url)
        async with client_of(other) as client:
            await client.unsubscribe("polled", topic="http-homes")
        async with httpx.AsyncClient(timeout=30) as http:
            assert (await http.get(f"{home.url}/v1/subscriptions/polled")).status_code == 404

    asyncio.run(story())


def test_a_client_goes_on_at_another_edge_when_its_own_is_killed(edges: tuple[EdgeProcess, EdgeProcess]) -> None:
    async def story() -> None:
        async with client_of(*edges) as client:
            subscription = await client.subscribe("moving", "n >= 0")
            durable = await client.subscribe("moving", "n >= 0", name="stays")
            await client.publish("moving", {"n": 1})
            assert (await numbers(subscription, 1), await numbers(durable, 1)) == ([1], [1])
            first = subscription.log
            used = await used_by(client, edges)
            await used.kill()
            while client.is_connected:  # noqa: ASYNC110 - a client tells nobody
                await asyncio.sleep(0.01)
            await client.publish("moving", {"n": 2})
            async with asyncio.timeout(60):
                while subscription.log == first:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await client.publish("moving", {"n": 3})
            await used.start()
            got = await numbers(subscription, 1)
            if got == [2]:
                got = await numbers(subscription, 1)
            assert got == [3]
            assert [notice.kind for notice in subscription.notices] == ["gap"]
            assert await numbers(durable, 2) == [2, 3]
            assert durable.log == first
            assert not durable.notices
            await durable.unsubscribe()

    asyncio.run(story())


async def used_by(client: Client, edges: tuple[EdgeProcess, EdgeProcess]) -> EdgeProcess:
    """The edge that a client publishes at: the id of an event names its log."""
    probe = await client.subscribe("probes", "n >= 0")
    async with httpx.AsyncClient(timeout=30) as http:
        for edge in edges:
            body = {"topic": "probes", "condition": "n >= 0"}
            made = await http.post(f"{edge.url}/v1/subscriptions", json=body)
            if made.json()["log"] == probe.log:
                return edge
    raise AssertionError("it is connected to neither")


def test_a_full_edge_sends_clients_on(edges: tuple[EdgeProcess, EdgeProcess]) -> None:
    async def story() -> None:
        full, other = edges
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            clients: list[Client] = []
            while (await clients_of(other))[full.url] < 1.0:
                if len(clients) < PLACES:
                    clients.append(await stack.enter_async_context(client_of(full)))
                await asyncio.sleep(0.05)
            late = await stack.enter_async_context(client_of(full))
            subscription = await late.subscribe("crowded", "n >= 0")
            await clients[0].publish("crowded", {"n": 1})
            assert await numbers(subscription, 1) == [1]
            assert subscription.log != (await clients[0].subscribe("crowded", "n >= 0")).log
            async with httpx.AsyncClient(timeout=30) as http:
                refused = await http.get(f"{full.url}/v1/topics")
            assert (refused.status_code, refused.json()["edges"]) == (503, [other.url])

    asyncio.run(story())
