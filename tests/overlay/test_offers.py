"""What a topic offers holds at every edge, whichever coordination there is."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from tests.overlay.directory import Directory

from fieldfare.messages import DeclareTopic, Effect, Node, OfferAnswered, OfferTopic
from fieldfare.qos import Offered
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.ports import LogPort
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.topic import Topic, TopicChange
from fieldfare.routing.topic_offers import OfferPorts, TopicOffers
from fieldfare.simulation.deployment import Coordination, Deployment
from fieldfare.simulation.history import TENANT
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World
from fieldfare.simulation.zookeeper import SimulatedZooKeeper


class Noting:
    """A coordination that remembers the nodes of a deployment."""

    def __init__(self, coordination: Coordination) -> None:
        self.nodes: dict[str, Node] = {}
        self._coordination = coordination

    def serve(self, host: SimulatedHost) -> None:
        self._coordination.serve(host)

    def wrapped(self, name: str, node: Node) -> Node:
        self.nodes[name] = node
        return node


@pytest.mark.parametrize("make", [lambda _: Directory(), lambda world: SimulatedZooKeeper(world.network)])
def test_an_offer_and_its_changes_hold_at_every_edge(make: Callable[[World], Coordination]) -> None:
    world = World(5)
    coordination = Noting(make(world))
    deployment = Deployment(world, coordination)
    deployment.routing("routing")
    clients = [world.client(f"client-{name}", deployment.edge(name)) for name in ("here", "there")]
    clients[1].subscribe("news", "n >= 0")
    world.run_for(5.0)

    def offered(edge: str) -> Offered:
        node = coordination.nodes[edge]
        assert isinstance(node, Edge)
        return node.parts.topics[TENANT, "news"].offered

    for client, seconds in zip((*clients, *clients), (60.0, 50.0, 40.0, 30.0), strict=True):
        client.declare("news", Offered(lifespan_seconds=seconds))
        world.run_for(5.0)
        assert [offered(edge).lifespan_seconds for edge in ("here", "there")] == [seconds, seconds]


class Away(Directory):
    """A coordination that answers no offer while it is away, but has them all when it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self._late: list[Callable[[], None]] = []

    def _offer(self, host: SimulatedHost, effect: OfferTopic) -> None:
        if self.is_away:
            self._late.append(functools.partial(super()._offer, host, effect))
        else:
            super()._offer(host, effect)

    def come_back(self) -> None:
        self.is_away = False
        for late in self._late:
            late()


@pytest.mark.parametrize("is_client_there", [True, False])
def test_who_changes_a_topic_while_coordination_is_away_is_not_kept_waiting(is_client_there: bool) -> None:
    world, directory = World(5), Away()
    deployment = Deployment(world, directory)
    deployment.routing("routing")
    here, there = (world.client(f"client-{name}", deployment.edge(name)) for name in ("here", "there"))
    there.subscribe("news", "n >= 0")
    world.run_for(5.0)

    def topic(edge: str) -> Topic:
        node = deployment.nodes[edge]
        assert isinstance(node, Edge)
        return node.parts.topics[TENANT, "news"]

    directory.is_away = True
    here.declare("news", Offered(lifespan_seconds=60.0))
    world.run_for(5.0)
    assert topic("here").change_count == 1
    if not is_client_there:
        here.crash()
    world.run_for(6.0)
    assert topic("here").change_count == 0  # others may subscribe again
    before = topic("here").offered
    directory.come_back()
    world.run_for(20.0)
    assert before == Offered()
    assert [topic(edge).offered.lifespan_seconds for edge in ("here", "there")] == [60.0, 60.0]
    assert topic("here").offer_version == topic("there").offer_version
    assert topic("here").change_count == 0


def test_a_change_is_refused_once_and_a_late_answer_is_for_nobody() -> None:
    effects: list[Effect] = []
    refused: list[tuple[TopicChange, str]] = []
    ports = OfferPorts(effects.append, LogPort(effects.append), lambda _: None, lambda *told: refused.append(told))
    offers = TopicOffers("here", 10.0, ports)
    topic = Topic((TENANT, "news"), EdgeOptions(), effects.append, lambda *_: None)
    changes = [TopicChange(topic, "link", DeclareTopic(ref, "news")) for ref in range(3)]
    for now, change in enumerate(changes):
        offers.offer(change, float(now))
    asked = [effect for effect in effects if isinstance(effect, OfferTopic)]
    assert [effect.offer.version for effect in asked] == [0, 0, 0]
    assert offers.answered(OfferAnswered(asked[1].number)) is changes[1]
    assert topic.offer_version == 0
    offers.tidy(9.9)
    assert refused == []
    offers.tidy(11.5)
    offers.tidy(11.6)
    assert [change for change, _ in refused] == [changes[0]]
    assert "try again" in refused[0][1]
    with pytest.raises(Refusal, match="try again"):
        offers.check_none_late(topic)
    assert offers.answered(OfferAnswered(asked[0].number)) is None
    offers.check_none_late(topic)
    assert offers.answered(OfferAnswered(asked[2].number, "it has changed")) is changes[2]
    assert (topic.offer_version, offers.waits()) == (0, [])
