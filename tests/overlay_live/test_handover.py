"""Topics that move between living routing brokers, and a ZooKeeper that is one process with one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.overlay_live.deployment import SESSION_SECONDS, LiveDeployment, running
from tests.overlay_live.stage import OverlayStage, play

_HANDED_OVER_SECONDS = 3.5  # an edge leaves the former owner of a topic a while after it joined the new one


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDeployment]:
    """The first routing broker has a ZooKeeper inside, and owns all topics."""
    made = LiveDeployment(tmp_path_factory.mktemp("brokers"))
    with running(made, ["r1"], ["edge-a", "edge-b"]) as started:
        yield started


def test_a_routing_broker_comes_and_takes_its_share_and_gives_it_back(deployment: LiveDeployment) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        await deployment.topic(stage.topic, lambda topic: topic.owner == "r1")
        stage.tell_waits("before")
        newcomer = deployment.add_routing("r2")
        await newcomer.start()
        await deployment.topic(stage.topic, lambda topic: topic.owner == "r2")
        await asyncio.sleep(_HANDED_OVER_SECONDS)
        stage.tell_waits("handed over")
        assert await asyncio.to_thread(newcomer.process.stop) == 0
        await deployment.topic(stage.topic, lambda topic: topic.owner == "r1")

    async def share() -> None:
        async with OverlayStage(deployment, "stays") as other:
            await other.begin()
            await play(deployment, "handover", go_wrong)

    asyncio.run(share())


def test_the_only_zookeeper_is_killed_with_its_broker(deployment: LiveDeployment) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        await deployment.routing["r1"].kill()
        stage.subscribe_later("edge-a")
        await asyncio.sleep(SESSION_SECONDS + 1)
        await deployment.routing["r1"].start()
        await deployment.topic(stage.topic, lambda topic: len(topic.endpoints) == len(deployment.edges))

    asyncio.run(play(deployment, "zookeeper-killed", go_wrong))
