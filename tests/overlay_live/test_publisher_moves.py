"""Publishers that move between edges that are real processes: what their subscribers get, and how long it takes."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from tests.overlay_live.deployment import EdgeProcess, LiveDeployment, running

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.client.options import ClientOptions
from fieldfare.client.subscription import Subscription
from fieldfare.errors import NotAdvertisedError, NotConnectedError

MOVES = 10
NOWHERE = "http://127.0.0.1:1"
PAUSE_SECONDS = 0.002  # between publications


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EdgeProcess]]:
    deployment = LiveDeployment(tmp_path_factory.mktemp("brokers"))
    with running(deployment, ["r1"], ["edge-a", "edge-b", "edge-c"]) as started:
        yield list(started.edges.values())


class Publishing:
    """Publishes numbers one after another in the background, and notes how long each takes to be accepted."""

    def __init__(self, client: Client, topic: str) -> None:
        self.count = 0
        self.seconds: list[float] = []
        self._client, self._topic = client, topic
        self._task = asyncio.create_task(self._publish())
        self._answers: list[asyncio.Task[None]] = []
        self._is_over = False

    async def _publish(self) -> None:
        while not self._is_over:
            self._answers.append(asyncio.create_task(self._publish_one(self.count)))
            self.count += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _publish_one(self, number: int) -> None:
        began_at = asyncio.get_running_loop().time()
        await self._client.publish(self._topic, {"n": number})
        self.seconds.append(asyncio.get_running_loop().time() - began_at)

    async def end(self) -> None:
        self._is_over = True
        await self._task
        async with asyncio.timeout(60):
            await asyncio.gather(*self._answers)


async def numbers(subscription: Subscription[Any], count: int) -> list[int]:
    async with asyncio.timeout(60):
        return [(await anext(subscription)).attributes["n"] for _ in range(count)]


def test_a_publisher_moves_round_the_edges(edges: list[EdgeProcess], capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        async with (
            fieldfare.connect(edges[0].url) as publisher,
            fieldfare.connect(edges[0].url) as here,
            fieldfare.connect(edges[1].url) as there,
            fieldfare.connect(edges[2].url) as third,
        ):
            subscriptions = [await each.subscribe("moving", "n >= 0") for each in (here, there, third)]
            publishing = Publishing(publisher, "moving")
            await asyncio.sleep(0.5)
            moves, pauses = [], []
            for number in range(1, MOVES + 1):
                target = edges[number % len(edges)]
                began_at, before = asyncio.get_running_loop().time(), len(publishing.seconds)
                await publisher.move_publisher(target.url)
                moves.append(asyncio.get_running_loop().time() - began_at)
                assert publisher.publishing_at == target.url
                await asyncio.sleep(0.3)
                pauses.append(max(publishing.seconds[before:]))
            await publishing.end()
            for subscription in subscriptions:
                assert await numbers(subscription, publishing.count) == list(range(publishing.count))
        with capsys.disabled():
            usual = statistics.median(publishing.seconds)
            print(  # noqa: T201 - it is measured here, and not judged
                f"\n{MOVES} moves on loopback: {_milliseconds(moves)} each; the slowest publication meanwhile took "
                f"{_milliseconds(pauses)}, others {1e3 * usual:.1f} ms"
            )

    asyncio.run(story())


def _milliseconds(seconds: list[float]) -> str:
    return f"{1e3 * statistics.median(seconds):.1f} ms (at most {1e3 * max(seconds):.1f})"


@pytest.mark.parametrize("killed", [0, 1], ids=["source", "target"])
def test_a_move_goes_on_after_an_edge_was_killed(edges: list[EdgeProcess], killed: int) -> None:
    async def story() -> None:
        topic = f"killed-{killed}"
        async with (
            fieldfare.connect(edges[0].url) as publisher,
            fieldfare.connect(edges[2].url) as third,
        ):
            subscription = await third.subscribe(topic, "n >= 0")
            publishing = Publishing(publisher, topic)
            await asyncio.sleep(0.3)
            move = asyncio.create_task(publisher.move_publisher(edges[1].url))
            await asyncio.sleep(0.005)
            await edges[killed].restart(0.2)
            async with asyncio.timeout(60):
                await move
            await publishing.end()
            assert await numbers(subscription, publishing.count) == list(range(publishing.count))

    asyncio.run(story())


def test_what_was_advertised_holds_at_the_next_edge_too(edges: list[EdgeProcess]) -> None:
    async def story() -> None:
        async with fieldfare.connect(edges[0].url) as client:
            await client.advertise("advertised", "n < 5")
            await client.publish("advertised", {"n": 1})
            for edge in edges[1:]:
                with pytest.raises(NotAdvertisedError, match="n < 5"):
                    await client.publish("advertised", {"n": 9})
                await client.move_publisher(edge.url)
            await client.publish("advertised", {"n": 2})
            await client.unadvertise("advertised")
            await client.publish("advertised", {"n": 9})

    asyncio.run(story())


def test_an_edge_that_cannot_be_reached_is_not_moved_to(edges: list[EdgeProcess]) -> None:
    options = ClientOptions(connect_timeout_seconds=0.5, ping_timeout_seconds=5.0)

    async def story() -> None:
        async with fieldfare.connect(edges[0].url, options=options) as client:
            await client.publish("staying", {"n": 1})
            measured = await client._mover.ping([edges[1].url, NOWHERE])
            assert measured[0] is not None
            assert measured[1] is None
            with pytest.raises(NotConnectedError):
                await client.move_publisher(NOWHERE)
            await client.publish("staying", {"n": 2})
            assert client.publishing_at == edges[0].url

    asyncio.run(story())


def test_a_client_without_an_event_loop_moves_too(edges: list[EdgeProcess]) -> None:
    with fieldfare.connect_sync(edges[0].url) as client:
        client.publish("sync", {"n": 1})
        client.move_publisher(edges[1].url)
        client.publish("sync", {"n": 2})
        assert client.client.publishing_at == edges[1].url
