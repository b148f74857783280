"""The simulated ZooKeeper and the real one tell the same story."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from tests.coordination.live import LiveScene
from tests.coordination.scripted import Do, ScriptedNode, by_subject, edge, routing

from fieldfare.messages import (
    Announce,
    AssignTopic,
    CountEndpoints,
    Effect,
    Input,
    Member,
    OfferTopic,
    TopicKey,
    TopicOffer,
    TopicSeen,
)
from fieldfare.qos import Offered
from fieldfare.runtime.zookeeper import ZooKeeperOptions
from fieldfare.runtime.zookeeper_server import ZooKeeperServer
from fieldfare.simulation import World
from fieldfare.simulation.zookeeper import SimulatedZooKeeper

T, OTHER = ("default", "traffic"), ("default", "other")
Nodes = dict[str, ScriptedNode]


@dataclass(frozen=True)
class Step:
    """What one broker does, and what is so afterwards."""

    broker: str
    act: Effect | str | Callable[[Nodes], Effect]  # or "start" or "stop"
    then: Callable[[Nodes], bool]


def epoch(nodes: Nodes, topic: TopicKey = T) -> int:
    return nodes["r1"].topics[topic].epoch


def owner(nodes: Nodes, name: str, topic: TopicKey = T) -> str:
    return nodes[name].owner(topic)


SCENARIO = [
    Step("r1", "start", lambda nodes: nodes["r1"].leader == "r1" and "r1" in nodes["r1"].members),
    Step("e1", "start", lambda nodes: len(nodes["e1"].members) == len(nodes["r1"].members) == 2),
    Step("e2", "start", lambda nodes: all(len(node.members) == 3 for node in nodes.values())),
    Step("e1", CountEndpoints(T, 1, 0), lambda nodes: T in nodes["r1"].topics and T in nodes["e1"].topics),
    Step("e2", CountEndpoints(T, 0, 2), lambda nodes: T in nodes["e2"].topics),
    Step("r1", AssignTopic(T, "r1", -1), lambda nodes: all(owner(nodes, name) == "r1" for name in nodes)),
    Step(
        "e1",
        OfferTopic(1, T, TopicOffer(Offered())),
        lambda nodes: all(each.topics[T].offer for each in nodes.values()),
    ),
    Step("e2", OfferTopic(2, T, TopicOffer(Offered(order="none"))), lambda nodes: bool(nodes["e2"].answers())),
    Step("r2", "start", lambda nodes: nodes["r2"].leader == "r1" and all(len(n.members) == 4 for n in nodes.values())),
    Step(
        "r1",
        lambda nodes: AssignTopic(T, "r2", epoch(nodes)),
        lambda nodes: all(owner(nodes, name) == "r2" for name in ("r1", "e1", "e2")),
    ),
    Step("r1", AssignTopic(T, "r1", -1), lambda nodes: owner(nodes, "e1") == "r2"),
    Step("e1", CountEndpoints(OTHER, 1, 1), lambda nodes: OTHER in nodes["r1"].topics and OTHER in nodes["e1"].topics),
    Step("e1", CountEndpoints(OTHER, 0, 0), lambda nodes: OTHER not in nodes["r1"].topics),
    Step("e1", Announce(Member("e1", "edge", url="new")), lambda nodes: nodes["e2"].members["e1"].url == "new"),
    Step("r1", "stop", lambda nodes: nodes["r2"].leader == "r2" and T in nodes["r2"].topics),
    Step("r2", "stop", lambda nodes: all(sorted(nodes[name].members) == ["e1", "e2"] for name in ("e1", "e2"))),
]


def make(name: str) -> ScriptedNode:
    return edge(name) if name.startswith("e") else routing(name, decides=False)


def story(nodes: Nodes) -> dict[str, dict[object, list[Input]]]:
    """What all were told, with epochs counted from 1: their numbers differ from service to service."""
    epochs = sorted({each.epoch for node in nodes.values() for each in node.told if isinstance(each, TopicSeen)})
    return {
        name: by_subject(
            msgspec.structs.replace(each, epoch=epochs.index(each.epoch)) if isinstance(each, TopicSeen) else each
            for each in node.told
        )
        for name, node in nodes.items()
    }


def effect_of(step: Step, nodes: Nodes) -> Effect:
    assert not isinstance(step.act, str)
    return step.act if isinstance(step.act, Effect) else step.act(nodes)


def simulated() -> dict[str, dict[object, list[Input]]]:
    world, nodes = World(), Nodes()
    service = SimulatedZooKeeper(world.network)
    for step in SCENARIO:
        if step.act == "start":
            nodes[step.broker] = node = make(step.broker)
            host = world.node(step.broker, lambda node=node: node)  # type: ignore[misc]
            service.serve(host)
            host.start()
        elif step.act == "stop":
            world.crash(world.machines[step.broker])
        else:
            world.machines[step.broker].tell(Do(effect_of(step, nodes)))  # type: ignore[union-attr]
        world.run_for(10.0)
        living = {name: node for name, node in nodes.items() if world.machines[name].is_up}
        assert step.then(living), step
    return story(nodes)


async def real(options: ZooKeeperOptions) -> dict[str, dict[object, list[Input]]]:
    async with LiveScene(options) as scene:
        for step in SCENARIO:
            if step.act == "start":
                await scene.start(make(step.broker))
            elif step.act == "stop":
                await scene.stop(step.broker)
            else:
                scene.do(step.broker, effect_of(step, scene.nodes))

            def is_over(step: Step = step) -> bool:
                living = {name: node for name, node in scene.nodes.items() if name in scene.hosts}
                return step.then(living) and not any(each.waits() for each in scene.capabilities.values())

            await scene.until(is_over)
            await asyncio.sleep(0.1)  # for what should not happen
        return story(scene.nodes)


def test_both_tell_scripted_brokers_the_same(zookeeper: ZooKeeperServer) -> None:
    options = ZooKeeperOptions(f"{zookeeper.hosts}/tests/both", session_seconds=5.0)
    told_by_simulated, told_by_real = simulated(), asyncio.run(real(options))
    assert told_by_simulated == told_by_real
    assert told_by_simulated["e1"][T]  # there was something to tell
