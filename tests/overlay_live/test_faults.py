"""Much goes wrong in a deployment of real processes, and every event comes once, in order, to all who want it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest
from tests.overlay_live.deployment import SESSION_SECONDS, LiveDeployment, running
from tests.overlay_live.stage import OverlayStage, play

from fieldfare.runtime.zookeeper_server import ZooKeeperEnsemble, ask

ROUTING, EDGES = ("r1", "r2", "r3"), ("edge-a", "edge-b")
_AWAY_SECONDS = 0.5


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as servers:
        yield servers


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, ensemble: ZooKeeperEnsemble) -> Iterator[LiveDeployment]:
    made = LiveDeployment(tmp_path_factory.mktemp("brokers"), ensemble.hosts)
    with running(made, ROUTING, EDGES) as started:
        yield started


@pytest.fixture
def deployment(brokers: LiveDeployment) -> LiveDeployment:
    """All are up, whatever became of the test before."""
    asyncio.run(brokers.start_again())
    return brokers


def test_edges_are_killed(deployment: LiveDeployment) -> None:
    async def go_wrong(_: OverlayStage) -> None:
        for edge in deployment.edges.values():  # an origin of events, and a receiver
            await edge.restart(_AWAY_SECONDS)

    asyncio.run(play(deployment, "edges-killed", go_wrong))


def test_the_owner_of_a_topic_is_killed(deployment: LiveDeployment) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        before = await deployment.topic(stage.topic, lambda topic: bool(topic.owner))
        await deployment.routing[before.owner].kill()
        stage.subscribe_later("edge-a")
        after = await deployment.topic(stage.topic, lambda topic: topic.owner != before.owner)
        assert after.epoch > before.epoch
        await deployment.routing[before.owner].start()

    asyncio.run(play(deployment, "owner-killed", go_wrong))


def test_the_leader_is_killed(deployment: LiveDeployment) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        leader = (await deployment.until(lambda registered: registered.leader is not None)).leader
        assert leader is not None
        await deployment.routing[leader].kill()
        await deployment.until(lambda registered: registered.leader not in (leader, None))
        await deployment.topic(stage.topic, lambda topic: topic.owner not in (leader, ""))
        await deployment.routing[leader].start()

    asyncio.run(play(deployment, "leader-killed", go_wrong))


def test_the_owner_of_a_topic_is_stopped_until_the_topic_has_moved(deployment: LiveDeployment) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        before = await deployment.topic(stage.topic, lambda topic: bool(topic.owner))
        with deployment.routing[before.owner].stopped():
            stage.subscribe_later("edge-b")
            await deployment.topic(stage.topic, lambda topic: topic.owner != before.owner)
            await asyncio.sleep(_AWAY_SECONDS)
        await deployment.until(lambda registered: before.owner in {member.name for member in registered.members})

    asyncio.run(play(deployment, "owner-stopped", go_wrong))


def test_the_session_of_an_edge_expires_while_it_is_owed_events(deployment: LiveDeployment) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        with deployment.edges["edge-b"].stopped():
            await deployment.until(lambda registered: "edge-b" in registered.missing)
            await deployment.topic(
                stage.topic, lambda topic: set(topic.endpoints) == {"edge-a"} and set(topic.owed) == set(EDGES)
            )
        await deployment.topic(stage.topic, lambda topic: set(topic.endpoints) == set(EDGES))

    asyncio.run(play(deployment, "session-expired", go_wrong))


def test_the_leader_of_a_zookeeper_ensemble_is_killed(deployment: LiveDeployment, ensemble: ZooKeeperEnsemble) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        leader = next(server for server in ensemble.servers if "Mode: leader" in ask(server.port, "srvr"))
        leader.send_signal(signal.SIGKILL)
        stage.subscribe_later("edge-a")
        await deployment.until(lambda registered: len(registered.members) == len(ROUTING) + len(EDGES))
        await asyncio.sleep(SESSION_SECONDS + 1)
        await asyncio.to_thread(leader.start)

    asyncio.run(play(deployment, "ensemble", go_wrong))
