"""Topics that Spark matches at one edge, their home: events go there, and matches come back, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from tests.overlay.directory import Directory

from fieldfare.qos import Requested
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.history import TENANT, Reception
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World

TOPIC = (TENANT, "big")
RELIABLE = Requested(reliability="reliable")


class Networks:
    """A routing broker between edges, each with a client. The first edge is the home of a topic."""

    def __init__(self, *, count: int = 3, home_seconds: float = 10.0, not_told: str = "") -> None:
        self.world = World(1)
        directory = Directory()
        directory.not_told.add(not_told)
        self.deployment = Deployment(self.world, directory)
        self.routing = self.deployment.routing("routing-1")
        self.edges: list[SimulatedHost] = []
        self.clients: list[SimulatedClient] = []
        for number in range(count):
            options = EdgeOptions(has_pipeline=number == 0)
            edge = self.deployment.edge(
                f"edge{number}", options, lambda overlay: replace(overlay, home_seconds=home_seconds)
            )
            self.edges.append(edge)
            self.clients.append(self.world.client(f"client{number}", edge))
        self.world.run_for(1.0)
        self.clients[0].declare("big", matching="spark")
        self.world.run_for(1.0)

    @property
    def home(self) -> SimulatedHost:
        return self.edges[0]

    def conditions(self) -> dict[str, str]:
        """What the home's pipeline matches."""
        topic = self.world.pipelines["edge0"]._topics[TOPIC]
        return {str(name): condition for name, condition in topic.conditions.items()}

    def subscribe(self, number: int, condition: str = "n >= 0", name: str | None = "mine") -> Reception:
        if name == "mine":  # a durable subscription has one home
            name = f"mine-{number}"
        qos = RELIABLE if name is not None else Requested(reliability="best_effort")
        reception = self.clients[number].subscribe("big", condition, name=name, qos=qos)
        self.world.run_for(4.0)
        assert reception.confirmed_at is not None
        return reception

    def publish(self, numbers: range, seconds: float = 0.1, *, by: int | None = None) -> None:
        for number in numbers:
            publisher = number % len(self.clients) if by is None else by
            self.clients[publisher].publish("big", {"n": number})
            self.world.run_for(seconds)

    def settle(self, seconds: float = 20.0) -> None:
        self.world.run_for(seconds)
        self.world.check()


def numbers(reception: Reception) -> list[int]:
    return sorted(msgspec.json.decode(delivery.event)["n"] for delivery in reception.events)


def node(edge: SimulatedHost) -> Edge:
    assert edge._kernel is not None
    assert isinstance(edge._kernel.node, Edge)
    return edge._kernel.node


def test_an_edge_hears_from_the_others_that_spark_matches_a_topic() -> None:
    networks = Networks(not_told="edge1")
    networks.clients[1].subscribe("big", "n >= 100", name="first")
    networks.world.run_for(4.0)
    assert node(networks.edges[1]).parts.topics[TOPIC].home == "edge0"
    reception = networks.subscribe(1)
    networks.publish(range(10), by=1)
    networks.settle()
    assert numbers(reception) == list(range(10))


def test_matches_reach_subscribers_at_every_edge() -> None:
    networks = Networks()
    receptions = [networks.subscribe(0, "n >= 5"), networks.subscribe(1, "n < 20"), networks.subscribe(2, "n = 7")]
    networks.publish(range(30))
    networks.settle()
    assert [numbers(each) for each in receptions] == [list(range(5, 30)), list(range(20)), [7]]


def test_two_edges_may_use_the_same_name() -> None:
    networks = Networks()
    receptions = [networks.subscribe(1, "n < 3", "same"), networks.subscribe(2, "n >= 3", "other")]
    again = networks.subscribe(0, "n = 3", "again")
    assert len(networks.conditions()) == 3
    networks.publish(range(6))
    networks.settle()
    assert [numbers(each) for each in (*receptions, again)] == [[0, 1, 2], [3, 4, 5], [3]]
    assert {name.partition("/")[2] for name in networks.conditions() if "/" in name} == {"same", "other"}


def test_only_the_pipeline_matches_and_nobody_is_sent_what_it_does_not_want() -> None:
    networks = Networks()
    mine = networks.subscribe(1, "n < 3")
    networks.publish(range(10), by=1)
    networks.settle()
    assert numbers(mine) == [0, 1, 2]
    imported = [node(edge).parts.overlay.imports.event_count for edge in networks.edges]  # type: ignore[union-attr]
    assert imported == [10, 3, 0], "all come to the home, matches to the subscriber, nothing to the third"


@pytest.mark.parametrize("crashed", ["edge0", "edge1", "routing-1"])
def test_each_event_comes_once_through_crashes(crashed: str) -> None:
    networks = Networks()
    receptions = [networks.subscribe(0), networks.subscribe(1, name="there"), networks.subscribe(2, name="far")]
    machine = networks.deployment.brokers[crashed]
    for number in range(60):
        if number in (10, 30):
            networks.world.crash(machine)
        if number in (17, 45):
            networks.world.restart(machine)
        networks.publish(range(number, number + 1))
    networks.settle(40.0)
    assert [numbers(each) for each in receptions] == [list(range(60))] * 3


def test_a_batch_that_was_on_its_way_when_the_home_crashed() -> None:
    networks = Networks(count=2)
    mine = networks.subscribe(1)
    for number in range(12):  # at a different moment of the way each time
        networks.publish(range(number, number + 1), 0.05 * number, by=1)
        networks.world.crash(networks.home)
        networks.world.run_for(0.3)
        networks.world.restart(networks.home)
        networks.world.run_for(3.0)
    networks.settle(40.0)
    assert numbers(mine) == list(range(12))


def test_events_that_are_handed_over_twice_are_delivered_once() -> None:
    """The home crashes after its pipeline took events and before its cursor is in the log, with checkpoints."""
    networks = Networks(count=2)
    networks.home.checkpoint_records = 1
    mine = networks.subscribe(1)
    pipeline = networks.world.pipelines["edge0"]
    for number in range(20):
        networks.publish(range(number, number + 1), 0.0, by=1)
        handed = len(pipeline._topics[TOPIC].waiting)
        while len(pipeline._topics[TOPIC].waiting) == handed:
            networks.world.run_for(0.01)
        networks.world.crash(networks.home)
        networks.world.restart(networks.home)
        networks.world.run_for(4.0)
    networks.settle(40.0)
    assert numbers(mine) == list(range(20))
    assert sum(len(batch.events) for batch in pipeline._topics[TOPIC].batches) > 20, "some were handed over twice"


def test_what_is_published_while_the_home_is_away_is_accepted_and_matched_later() -> None:
    networks = Networks(count=2)
    mine = networks.subscribe(1)
    networks.world.crash(networks.home)
    networks.world.run_for(5.0)
    networks.publish(range(10), by=1)
    assert all(publication.outcome == "accepted" for publication in networks.world.history.publications)
    assert numbers(mine) == []
    networks.world.restart(networks.home)
    networks.settle()
    assert numbers(mine) == list(range(10))


def test_a_subscription_is_refused_while_the_home_is_away() -> None:
    networks = Networks(count=2, home_seconds=2.0)
    networks.subscribe(1, name="first")
    networks.world.crash(networks.home)
    reception = networks.clients[1].subscribe("big", "n > 1", name="late", qos=RELIABLE)
    networks.world.run_for(10.0)
    assert reception.confirmed_at is None
    assert node(networks.edges[1]).parts.replies.refused_counts["busy"] > 0
    networks.world.restart(networks.home)
    networks.settle()
    assert reception.confirmed_at is not None, "its client tried again"
    networks.publish(range(5), by=1)
    networks.settle()
    assert numbers(reception) == [2, 3, 4]


def test_what_ends_leaves_the_homes_pipeline() -> None:
    networks = Networks()
    mine, unnamed = networks.subscribe(1), networks.subscribe(1, "n > 2", name=None)
    kept = networks.subscribe(2, name="kept")
    assert len(networks.conditions()) == 3
    networks.clients[1].unsubscribe(mine)
    networks.world.run_for(3.0)
    assert sorted(networks.conditions().values()) == ["n > 2", "n >= 0"]
    networks.clients[1].unsubscribe(unnamed)
    networks.world.run_for(3.0)
    assert [name.partition("/")[2] for name in networks.conditions()] == ["kept"]
    networks.publish(range(5))
    networks.settle()
    assert numbers(kept) == list(range(5))
    assert numbers(mine) == []


@pytest.mark.parametrize("away", ["edge0", "routing-1"])
def test_what_ends_while_the_home_is_away_leaves_it_later(away: str) -> None:
    networks = Networks(count=2)
    mine = networks.subscribe(1)
    networks.subscribe(1, "n = 3", "kept")
    machine = networks.deployment.brokers[away]
    networks.world.crash(machine)
    networks.clients[1].unsubscribe(mine)
    networks.world.run_for(3.0)
    networks.world.restart(machine)
    networks.settle()
    assert list(networks.conditions().values()) == ["n = 3"]


def test_what_ended_with_an_edge_leaves_the_home_when_the_edge_comes_back() -> None:
    networks = Networks(count=2)
    networks.subscribe(1, "n = 1", name=None)
    networks.subscribe(1, "n = 3", "kept")
    edge, client = networks.edges[1], networks.clients[1]
    networks.world.crash(client)
    networks.world.crash(edge)
    networks.world.run_for(1.0)
    networks.world.restart(edge)
    networks.world.run_for(10.0)
    assert list(networks.conditions().values()) == ["n = 3"]


def test_a_pipeline_that_takes_nothing_for_a_while() -> None:
    networks = Networks(count=2)
    mine = networks.subscribe(1)
    pipeline = networks.world.pipelines["edge0"]
    pipeline.failure = "its disk is full"
    networks.publish(range(10), by=1)
    late = networks.clients[1].subscribe("big", "n >= 10", name="late", qos=RELIABLE)
    networks.world.run_for(3.0)
    assert numbers(mine) == []
    assert late.confirmed_at is None
    pipeline.failure = None
    networks.world.run_for(10.0)
    assert late.confirmed_at is not None
    networks.publish(range(10, 15))
    networks.settle()
    assert numbers(mine) == list(range(15))
    assert numbers(late) == list(range(10, 15))


def test_many_subscriptions_are_registered_by_their_changes() -> None:
    networks = Networks(count=2)
    receptions = [
        networks.clients[1].subscribe("big", f"n = {number}", name=f"s{number}", qos=RELIABLE) for number in range(50)
    ]
    networks.world.run_for(5.0)
    assert all(reception.confirmed_at is not None for reception in receptions)
    assert len(networks.conditions()) == 50
    networks.publish(range(50), 0.01, by=0)
    networks.settle()
    assert [numbers(each) for each in receptions] == [[number] for number in range(50)]


def declared(networks: Networks, number: int, action: Callable[[SimulatedClient], None]) -> tuple[str, str]:
    """How an edge has a topic after a client's request."""
    action(networks.clients[number])
    networks.world.run_for(3.0)
    topic = node(networks.edges[number]).parts.topics[TOPIC]
    return topic.matching, topic.home


def test_an_edge_without_a_pipeline_may_declare_what_another_matches() -> None:
    networks = Networks()
    networks.subscribe(1)
    assert declared(networks, 1, lambda client: client.declare("big", matching="spark")) == ("spark", "edge0")
    assert node(networks.home).parts.topics[TOPIC].is_home
    refused = node(networks.edges[1]).parts.replies.refused_counts
    networks.clients[1].declare("another", matching="spark")
    networks.world.run_for(5.0)
    assert refused["invalid"] > 0


def test_an_edge_that_did_not_know_the_topic_learns_where_it_is_matched() -> None:
    networks = Networks(count=2)
    networks.clients[1].publish("big", {"n": 1})
    networks.world.run_for(3.0)
    assert node(networks.edges[1]).parts.topics[TOPIC].home == "edge0"
    mine = networks.subscribe(1)
    networks.publish(range(2, 5))
    networks.settle()
    assert numbers(mine) == [2, 3, 4]
