"""An edge with a limit on its clients, alone and among others."""

from __future__ import annotations

import pytest
from tests.overlay.directory import Directory
from tests.routing.harness import Harness

from fieldfare.messages import Close, List, Listed, Refused
from fieldfare.routing.options import EdgeOptions
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World


def test_beyond_the_limit_a_client_is_turned_away_and_another_may_come_when_one_has_gone() -> None:
    harness = Harness(EdgeOptions(connections_max=2))
    closed: list[Close] = []
    harness.kernel.provide(Close, closed.append)
    first, _, third = (harness.connect() for _ in range(3))
    assert [(each.code, each.edges) for each in third.frames if isinstance(each, Refused)] == [("full", ())]
    assert [each.link for each in closed] == [third.id]
    assert len(harness.edge.parts.links) == 2
    first.close()
    fourth = harness.connect()
    assert fourth.frames == []
    assert harness.edge.load == 1.0


def test_an_edge_without_others_lists_itself() -> None:
    client = Harness(EdgeOptions(connections_max=4)).connect()
    client.send(List(1, "edges"))
    answer = client.answer(1)
    assert isinstance(answer, Listed)
    assert answer.items == [{"edge": "edge", "url": "", "load": 0.25, "is_this": True}]


class Network:
    """Two edges of one network and one of another, each with places for few clients."""

    def __init__(self, connections_max: int = 5) -> None:
        self.world = World(1)
        self.directory = Directory()
        deployment = Deployment(self.world, self.directory)
        deployment.routing("routing")
        options = EdgeOptions(connections_max=connections_max)
        self.first = deployment.edge("first", options, network="here")
        self.second = deployment.edge("second", options, network="here")
        self.far = deployment.edge("far", options, network="there")
        self.world.run_for(1.0)

    def fill(self, edge: SimulatedHost, count: int) -> None:
        for _ in range(count):
            self.world.client(f"client-{len(self.world.machines)}", edge)
        self.world.run_for(2.0)

    def clients_of(self, edge: SimulatedHost) -> int:
        return len({stream.there for stream in self.world.network.streams(edge.name)} - {"routing"})


@pytest.fixture
def network() -> Network:
    return Network()


def test_a_full_edge_sends_clients_on_to_another_of_its_network(network: Network) -> None:
    network.fill(network.first, 7)
    assert [network.clients_of(edge) for edge in (network.first, network.second, network.far)] == [5, 2, 0]
    late = network.world.client("late", network.first)
    network.world.run_for(2.0)
    assert late.edge == "second"
    publication = late.publish("news", {"n": 1})
    network.world.run_for(2.0)
    assert (publication.outcome, publication.edge) == ("accepted", "second")


def test_when_all_edges_are_full_clients_wait_for_a_place(network: Network) -> None:
    network.fill(network.first, 5)
    network.fill(network.second, 5)
    late = network.world.client("late", network.first)
    publication = late.publish("news", {"n": 1})
    network.world.run_for(20.0)
    assert not publication.answered_at
    gone = next(stream.there for stream in network.world.network.streams("second") if stream.there != "routing")
    network.world.crash(network.world.machines[gone])
    network.world.run_for(20.0)
    assert publication.outcome == "accepted"


def test_the_load_is_told_when_it_has_changed_by_more_than_a_tenth() -> None:
    network = Network(connections_max=20)
    loads = []
    for _ in range(6):
        loads.append(network.directory.members["first"].load)
        network.fill(network.first, 1)
    assert loads == [0.0, 0.0, 0.0, 0.15, 0.15, 0.15]


def test_that_an_edge_is_full_is_told_however_small_the_change() -> None:
    network = Network(connections_max=20)
    network.fill(network.first, 19)
    network.fill(network.first, 1)
    assert network.directory.members["first"].load == 1.0


def test_edges_of_the_network_are_listed_with_their_load(network: Network) -> None:
    network.fill(network.second, 2)
    client = network.world.client("asks", network.first)
    listing = client.ask_list("edges")
    network.world.run_for(2.0)
    assert listing.items == [
        {"edge": "first", "url": "first", "load": 0.2, "is_this": True},
        {"edge": "second", "url": "second", "load": 0.4, "is_this": False},
    ]
