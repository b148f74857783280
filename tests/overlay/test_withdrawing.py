"""Topics that move from one living routing broker to another: because it will end, or because the leader says so."""

from __future__ import annotations

import msgspec
from tests.overlay.directory import Directory

from fieldfare.messages import Announce, CountEndpoints, Member, Withdraw
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.gossip import GossipingBrokers
from fieldfare.simulation.history import TENANT
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World
from fieldfare.simulation.zookeeper import SimulatedZooKeeper

TOPIC = (TENANT, "news")
STEP_SECONDS = 0.1  # from one event to the next, and the longest that one may take


def node_of(host: SimulatedHost) -> RoutingBroker:
    assert host._kernel is not None
    node = host._kernel.node
    assert isinstance(node, RoutingBroker)
    return node


def topics_at(host: SimulatedHost) -> dict[tuple[str, str], int]:
    return node_of(host).topics


def test_nobody_notices_that_a_routing_broker_ends() -> None:
    world = World(1)
    deployment = Deployment(world, SimulatedZooKeeper(world.network))
    routing = [deployment.routing(f"routing-{number}") for number in (1, 2)]
    world.run_for(3.0)
    here, there = (world.client(f"client-{name}", deployment.edge(name)) for name in ("here", "there"))
    reception = there.subscribe("news", "n >= 0")
    here.publish("news", {"n": -1})  # from now on both edges know each other
    world.run_for(5.0)
    (owner,) = [host for host in routing if TOPIC in topics_at(host)]
    (other,) = [host for host in routing if host is not owner]
    leaving = node_of(owner)
    assert leaving.can_withdraw
    for number in range(200):
        if number == 20:
            owner.tell(Withdraw())
        if number > 20 and not leaving.topics and owner.is_up:
            world.crash(owner)
        here.publish("news", {"n": number})
        world.run_for(STEP_SECONDS)
        assert [msgspec.json.decode(each.event)["n"] for each in reception.events] == list(range(number + 1))
    assert not owner.is_up, "its topics did not move"
    assert topics_at(other) == {TOPIC: 2}
    world.check()


def test_a_routing_broker_that_is_alone_keeps_its_topics() -> None:
    world = World(1)
    deployment = Deployment(world, SimulatedZooKeeper(world.network))
    routing = deployment.routing("routing-1")
    world.run_for(3.0)
    assert not node_of(routing).can_withdraw


def test_edges_leave_the_former_owner_also_if_they_heard_of_the_new_one_late() -> None:
    world, directory = World(1), Directory()
    deployment = Deployment(world, directory)
    former = deployment.routing("routing-1")
    client = world.client("client", deployment.edge("here"))
    client.subscribe("news", "n >= 0")
    world.run_for(5.0)
    assert topics_at(former) == {TOPIC: 1}
    directory.give(TOPIC, "routing-2")
    world.run_for(1.0)
    present = deployment.routing("routing-2")
    world.run_for(10.0)
    assert topics_at(present) == {TOPIC: 1}
    assert topics_at(former) == {}


def test_gossip_moves_the_topics_of_a_routing_broker_that_withdraws() -> None:
    world = World(1)
    brokers = GossipingBrokers(world)
    for name in ("routing-1", "routing-2"):
        brokers.add(name, "routing")
    brokers.add("here")
    brokers.run_until(brokers.agree, 60.0)
    brokers.do("here", CountEndpoints(TOPIC, 1, 1))
    brokers.run_until(lambda: TOPIC in brokers.broker("here").topics, 10.0)
    before = brokers.broker("here").topics[TOPIC]
    brokers.do(before.owner, Announce(Member(before.owner, "routing")))
    brokers.run_until(lambda: brokers.broker("here").topics[TOPIC].owner not in (before.owner, ""), 60.0)
    assert brokers.broker("here").topics[TOPIC].epoch > before.epoch
