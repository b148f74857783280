"""Brokers on a real ZooKeeper: discovery, election, assignment, offers, sessions that end, servers that fail."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from tests.conftest import check_java
from tests.coordination.live import LiveScene, ephemerals
from tests.coordination.scripted import ScriptedNode, edge, routing

from fieldfare.coordination.registered import Registered
from fieldfare.errors import ConfigError, CoordinationError
from fieldfare.messages import (
    Announce,
    AssignTopic,
    CountEndpoints,
    EdgeRetired,
    LeaderSeen,
    Member,
    MemberGone,
    OfferTopic,
    TopicOffer,
    TopicSeen,
)
from fieldfare.qos import Offered
from fieldfare.runtime.child_server import free_ports
from fieldfare.runtime.zookeeper import ZooKeeperOptions
from fieldfare.runtime.zookeeper_registry import ZooKeeperRegistry
from fieldfare.runtime.zookeeper_server import ServerOptions, ZooKeeperEnsemble, ZooKeeperServer, read_mntr

T = ("default", "traffic")
SERVER = ServerOptions(tick_seconds=0.2, session_seconds_min=0.5)


@pytest.fixture
def options(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> ZooKeeperOptions:
    """A root of its own for each test."""
    return ZooKeeperOptions(f"{zookeeper.hosts}/tests/{request.node.name}", session_seconds=5.0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def registered(options: ZooKeeperOptions) -> Registered:
    with ZooKeeperRegistry(options) as registry:
        return registry.read()


def manual(name: str) -> ScriptedNode:
    return routing(name, decides=False)


async def lead(scene: LiveScene, first: ScriptedNode, *others: ScriptedNode) -> None:
    """Start routing brokers, of which the first leads."""
    await scene.start(first)
    await scene.until(lambda: first.leader == first.member.name)
    for node in others:
        await scene.start(node)
        await scene.until(lambda node=node: node.leader == first.member.name)  # type: ignore[misc]


def test_brokers_find_each_other_and_hear_when_one_changes_or_leaves(options: ZooKeeperOptions) -> None:
    async def scenario() -> None:
        async with LiveScene(options) as scene:
            nodes = [edge("e1"), edge("e2"), routing("r1")]
            for node in nodes:
                await scene.start(node)
            await scene.until(lambda: all(sorted(node.members) == ["e1", "e2", "r1"] for node in nodes))
            changed = Member("e1", "edge", address="elsewhere:2")
            scene.do("e1", Announce(changed))
            await scene.until(lambda: nodes[1].members["e1"] == changed)
            await scene.stop("e1")
            await scene.until(lambda: "e1" not in nodes[1].members and "e1" not in nodes[2].members)

    run(scenario())


def test_a_leader_is_elected_assigns_topics_and_is_succeeded(options: ZooKeeperOptions) -> None:
    async def scenario() -> None:
        async with LiveScene(options) as scene:
            r1, r2, e1 = routing("r1"), routing("r2"), edge("e1")
            await lead(scene, r1, r2)
            await scene.start(e1)
            topics = [("default", str(number)) for number in range(10)]
            scene.do("e1", *(CountEndpoints(topic, 1, 1) for topic in topics))
            await scene.until(lambda: all(e1.owner(topic) for topic in topics))
            owners = [e1.owner(topic) for topic in topics]
            assert owners.count("r1") == owners.count("r2") == 5
            assert r2.topics == {}  # only the leader is told of topics
            before = {topic: e1.topics[topic].epoch for topic in topics}
            await scene.stop("r1")
            await scene.until(lambda: {e1.owner(topic) for topic in topics} == {"r2"})
            assert r2.leader == "r2"
            moved = [topic for topic, owner in zip(topics, owners, strict=True) if owner == "r1"]
            assert all(e1.topics[topic].epoch > before[topic] for topic in moved)
            assert all(e1.topics[topic].epoch == before[topic] for topic in topics if topic not in moved)
            await scene.start(routing("r3"))
            await scene.until(lambda: [e1.owner(topic) for topic in topics].count("r3") == 5)

    run(scenario())


def test_of_two_concurrent_changes_of_an_offer_one_wins(options: ZooKeeperOptions) -> None:
    async def scenario() -> None:
        async with LiveScene(options) as scene:
            e1, e2 = edge("e1"), edge("e2")
            for node in (e1, e2):
                await scene.start(node)
                scene.do(node.member.name, CountEndpoints(T, 1, 1))
                await scene.until(lambda node=node: T in node.topics)  # type: ignore[misc]
            for version in range(3):
                scene.do("e1", OfferTopic(version, T, TopicOffer(Offered(order="none"), version=version)))
                scene.do("e2", OfferTopic(version, T, TopicOffer(Offered(order="publisher"), version=version)))
                await scene.until(lambda version=version: version in e1.answers() and version in e2.answers())  # type: ignore[misc]
                failures = [e1.answers()[version], e2.answers()[version]]
                assert sorted(failure is None for failure in failures) == [False, True]

                def both_see(version: int = version) -> bool:
                    offers = [node.topics[T].offer for node in (e1, e2)]
                    return offers[0] == offers[1] and offers[0] is not None and offers[0].version == version

                await scene.until(both_see)
                offer = e1.topics[T].offer
                assert offer is not None
                assert offer.offered.order == ("none" if failures[0] is None else "publisher")

    run(scenario())


def test_a_session_that_expires_unseen_is_replaced_and_leaves_nothing_behind(options: ZooKeeperOptions) -> None:
    async def scenario() -> None:
        async with LiveScene(options) as scene:
            r1, r2, e1, e2 = manual("r1"), manual("r2"), edge("e1"), edge("e2")
            await lead(scene, r1, r2)
            for node in (e1, e2):
                await scene.start(node)
                scene.do(node.member.name, CountEndpoints(T, 1, 1, is_owed=True))
            await scene.until(lambda: T in r1.topics and len(e1.members) == 4)
            for name in ("e1", "r1"):
                session = scene.session(name)
                await scene.expire(name)
                await scene.until(lambda name=name, session=session: scene.session(name) not in {None, session})  # type: ignore[misc]
            await scene.until(lambda: r2.leader == "r2" == r1.leader)
            await scene.until(lambda: T in r2.topics and not any(each.waits() for each in scene.capabilities.values()))
            await scene.until(lambda: all(len(node.members) == 4 for node in (r1, r2, e1, e2)))
            assert MemberGone("e1") in e2.told
            assert not any(isinstance(message, MemberGone) and message.name == "e1" for message in e1.told)
            sessions = {scene.session(name)[0] for name in scene.hosts}
            found = await asyncio.to_thread(ephemerals, options)
            assert set(found.values()) == sessions
            assert len(found) == 4 + 2 + 2  # brokers, candidates, counts
            scene.do("r1", AssignTopic(T, "r1", -1))  # it leads no more
            scene.do("r2", AssignTopic(T, "r2", -1))
            await scene.until(lambda: e1.owner(T) == "r2")
            assert [message.owner for message in e2.told if isinstance(message, TopicSeen)][-1] == "r2"

    run(scenario())


def test_what_an_earlier_session_of_a_broker_left_is_replaced_before_it_expires(options: ZooKeeperOptions) -> None:
    async def scenario() -> None:
        earlier = options.client()
        await asyncio.to_thread(earlier.start)
        root = options.tree.root
        for path in (f"{root}/brokers/r1", f"{root}/brokers/e1", f"{root}/topics/default:traffic/endpoints/e1"):
            earlier.create(path, b"{}", ephemeral=True, makepath=True)
        for part in ("owner", "offer", "owed"):
            earlier.create(f"{root}/topics/default:traffic/{part}")
        earlier.create(f"{root}/leader/r1-", ephemeral=True, sequence=True, makepath=True)
        async with LiveScene(options) as scene:
            r1, e1 = routing("r1"), edge("e1")
            await scene.start(r1)
            await scene.start(e1)
            scene.do("e1", CountEndpoints(T, 1, 1))
            await scene.until(lambda: r1.leader == "r1" and e1.owner(T) == "r1")
            await asyncio.to_thread(earlier.stop)
            earlier.close()
            found = await asyncio.to_thread(ephemerals, options)
            assert sorted(found.values()) == sorted(2 * [scene.session("e1")[0], scene.session("r1")[0]])
            assert e1.owner(T) == "r1"

    run(scenario())


def test_a_lost_connection_stops_assignments_and_nothing_else(tmp_path: Path) -> None:
    check_java()

    async def scenario(server: ZooKeeperServer) -> None:
        options = ZooKeeperOptions(server.hosts, session_seconds=10.0)
        async with LiveScene(options) as scene:
            r1, r2, e1 = manual("r1"), manual("r2"), edge("e1")
            await lead(scene, r1, r2)
            await scene.start(e1)
            scene.do("e1", CountEndpoints(T, 1, 1))
            await scene.until(lambda: T in r1.topics and T in e1.topics and len(e1.members) == len(r1.members) == 3)
            before = {name: len(node.told) for name, node in scene.nodes.items()}
            await asyncio.to_thread(server.send_signal, signal.SIGKILL)
            await scene.until(lambda: r1.leader is None and r2.leader is None)
            scene.do("r1", AssignTopic(T, "r1", -1))  # it is dropped, and not kept for later
            scene.do("e1", CountEndpoints(T, 2, 2), CountEndpoints(("default", "new"), 1, 0))
            await asyncio.to_thread(server.start)
            await scene.until(lambda: r1.leader == r2.leader == "r1" and ("default", "new") in r1.topics)
            assert r1.told[before["r1"] :][:2] == [LeaderSeen(None), LeaderSeen("r1")]
            assert not any(isinstance(message, MemberGone) for message in e1.told + r1.told)
            state = await asyncio.to_thread(registered, options)
            assert [(topic.owner, topic.endpoints["e1"].publishers) for topic in state.topics] == [("", 1), ("", 2)]
            scene.do("r1", AssignTopic(T, "r2", -1))
            await scene.until(lambda: e1.owner(T) == "r2")
            server.send_signal(signal.SIGSTOP)  # brokers stop although it answers nothing

    with ZooKeeperServer(tmp_path, SERVER) as server:
        run(scenario(server))


def test_an_ensemble_of_three_goes_on_without_one(tmp_path: Path) -> None:
    check_java()

    async def scenario(ensemble: ZooKeeperEnsemble) -> None:
        async with LiveScene(ZooKeeperOptions(ensemble.hosts, session_seconds=20.0)) as scene:
            r1, e1 = routing("r1"), edge("e1")
            await scene.start(r1)
            await scene.start(e1)
            scene.do("e1", CountEndpoints(T, 1, 1))
            await scene.until(lambda: e1.owner(T) == "r1")
            leader = next(each for each in ensemble.servers if read_mntr(each.port)["zk_server_state"] == "leader")
            await asyncio.to_thread(leader.send_signal, signal.SIGKILL)
            other = ("default", "other")
            scene.do("e1", CountEndpoints(other, 1, 1))
            await scene.until(lambda: e1.owner(other) == "r1")
            assert e1.topics[other].epoch > e1.topics[T].epoch
            assert not any(isinstance(message, MemberGone) for message in e1.told + r1.told)

    with ZooKeeperEnsemble(tmp_path, 3, SERVER) as ensemble:
        run(scenario(ensemble))


def test_with_a_password_nobody_else_reads_or_writes(zookeeper: ZooKeeperServer) -> None:
    hosts = f"{zookeeper.hosts}/secured/below"
    mine = ZooKeeperOptions(hosts, "fieldfare", "a long secret", session_seconds=5.0)
    theirs = ZooKeeperOptions(hosts, "fieldfare", "a wrong secret", session_seconds=5.0)

    async def scenario() -> None:
        async with LiveScene(mine) as scene:
            r1, e1, stranger = routing("r1"), edge("e1"), edge("e2")
            await scene.start(r1)
            await scene.start(e1)
            scene.do("e1", CountEndpoints(T, 1, 1))
            await scene.until(lambda: e1.owner(T) == "r1")
            await scene.start(stranger, theirs)
            await scene.until(lambda: "Refused" in str(scene.capabilities["e2"].problem))
            assert stranger.told == []
            assert sorted(e1.members) == ["e1", "r1"]

    run(scenario())
    assert "secret" not in repr(mine)
    anybody = KazooClient(zookeeper.hosts)
    anybody.start()
    try:
        for path in ("/secured/below", "/secured/below/brokers"):
            with pytest.raises(NoAuthError):
                anybody.get(path)
            with pytest.raises(NoAuthError):
                anybody.create(f"{path}/x")
    finally:
        anybody.stop()
        anybody.close()
    with pytest.raises(CoordinationError, match="password is missing or wrong"), ZooKeeperRegistry(theirs) as registry:
        registry.read()
    assert registered(mine).leader is None


def test_roots_are_apart(options: ZooKeeperOptions, zookeeper: ZooKeeperServer) -> None:
    async def scenario() -> None:
        other = ZooKeeperOptions(f"{options.hosts}/inner", session_seconds=5.0)
        async with LiveScene(options) as scene:
            here, there = routing("r1"), routing("r2")
            await scene.start(here)
            await scene.start(there, other)
            await scene.until(lambda: here.leader == "r1" and there.leader == "r2")
            await scene.until(lambda: list(here.members) == ["r1"] and list(there.members) == ["r2"])

    run(scenario())
    with pytest.raises(ConfigError, match="no path of ZooKeeper"):
        _ = ZooKeeperOptions(f"{zookeeper.hosts}/a//b").tree
    with pytest.raises(ConfigError, match="belong together"):
        ZooKeeperOptions(zookeeper.hosts, user="somebody").client()


def test_the_registry_shows_all_and_retires_an_edge(options: ZooKeeperOptions) -> None:
    async def scenario() -> None:
        async with LiveScene(options) as scene:
            r1, e1, e2 = routing("r1"), edge("e1"), edge("e2")
            for node in (r1, e1, e2):
                await scene.start(node)
            scene.do("e1", CountEndpoints(T, 1, 2, is_owed=True), OfferTopic(1, T, TopicOffer(Offered())))
            scene.do("e2", CountEndpoints(T, 3, 0, is_owed=True))
            await scene.until(lambda: r1.topics.get(T) == e1.topics.get(T) == e2.topics.get(T) and e1.owner(T) == "r1")
            await scene.until(lambda: e1.topics[T].offer and e1.topics[T].owed == ("e1", "e2"))
            state = await asyncio.to_thread(registered, options)
            assert [(member.name, member.role) for member in state.members] == [
                ("e1", "edge"),
                ("e2", "edge"),
                ("r1", "routing"),
            ]
            assert state.leader == "r1"
            (topic,) = state.topics
            assert (topic.topic, topic.owner, topic.epoch) == (T, "r1", e1.topics[T].epoch)
            assert topic.offer == e1.topics[T].offer
            assert {name: (each.publishers, each.subscribers) for name, each in topic.endpoints.items()} == {
                "e1": (1, 2),
                "e2": (3, 0),
            }
            assert topic.owed == {"e1": "log of e1", "e2": "log of e2"}
            assert state.missing == ()
            with pytest.raises(CoordinationError, match="stop it first"):
                await asyncio.to_thread(retire, "e2")
            await scene.stop("e2")
            await scene.until(lambda: "e2" not in e1.members)
            assert (await asyncio.to_thread(registered, options)).missing == ("e2",)
            assert await asyncio.to_thread(retire, "e2") == (T,)
            await scene.until(lambda: e1.topics[T].owed == ("e1",))
            await scene.until(lambda: EdgeRetired("e2") in e1.told)
            assert await asyncio.to_thread(retire, "e2") == ()

    def retire(name: str) -> tuple[tuple[str, str], ...]:
        with ZooKeeperRegistry(options) as registry:
            return registry.retire(name)

    run(scenario())


def test_a_broker_starts_and_stops_without_any_zookeeper() -> None:
    async def scenario() -> None:
        async with LiveScene(ZooKeeperOptions(f"127.0.0.1:{free_ports(1)[0]}", session_seconds=1.0)) as scene:
            e1 = edge("e1")
            await scene.start(e1)
            scene.do("e1", CountEndpoints(T, 1, 1))
            await asyncio.sleep(0.2)
            assert e1.told == []
            assert scene.capabilities["e1"].problem == "it has not been reached yet"
            assert scene.capabilities["e1"].waits()

    run(scenario())
    nowhere = ZooKeeperOptions(f"127.0.0.1:{free_ports(1)[0]}", connect_seconds=0.3)
    with pytest.raises(CoordinationError, match="cannot be reached"), ZooKeeperRegistry(nowhere):
        pass
