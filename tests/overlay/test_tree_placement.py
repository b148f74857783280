"""Publishers of a tree that POP or GRAPE places: they move to their subscribers, and nothing is lost on the way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from fieldfare.client.options import SessionOptions
from fieldfare.placement.options import UNDAMPED, DampingOptions, GrapeOptions, PopOptions
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.publisher_placement import Algorithm, PlacementOptions
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.history import Reception
from fieldfare.simulation.tree import SimulatedTree
from fieldfare.simulation.world import World

NAMES = ("b0", "b1", "b2", "b3", "b4")


@dataclass
class Row:
    """Five brokers in a row; publishers that can move are connected at the first."""

    world: World
    tree: SimulatedTree
    clients: dict[str, SimulatedClient]

    def publish(self, *publishers: SimulatedClient, count: int = 200) -> None:
        for number in range(count):
            for publisher in publishers:
                publisher.publish("news", {"n": number, "of": publisher.name})
            self.world.run_for(0.05)
        self.world.run_for(3.0)

    def placed_at(self, client: str) -> list[str]:
        """The brokers that have traced a client's publisher and did not see it leave."""
        found = [name for name in NAMES if any(client in each for each in self.tree.brokers[name].placement.publishers)]
        return [name for name in found if self.tree.brokers[name].placement.publishers]


def row(algorithm: Algorithm | None, damping: DampingOptions = UNDAMPED, busy_share: float = 0.0, **grape: Any) -> Row:
    world = World(3)
    placement = PlacementOptions(
        algorithm=algorithm,
        pop=PopOptions(traces_min=20, window_seconds=5.0, gather_seconds=0.5),
        grape=GrapeOptions(session_publications=20, **grape),
        damping=damping,
    )
    linked = {name: (Neighbour(other, other),) for other, name in pairwise(NAMES)}
    tree = SimulatedTree(world.rng, linked, TreeOptions(placement=placement), lambda: busy_share)
    deployment = Deployment(world, tree)
    hosts = {name: deployment.edge(name) for name in NAMES}
    clients = {name: world.client(f"at-{name}", host) for name, host in hosts.items()}
    for number in range(4):
        name = f"mover-{number}"
        clients[name] = world.client(name, hosts["b0"], options=SessionOptions(is_movable=True))
    world.run_for(2.0)
    return Row(world, tree, clients)


def numbers(reception: Reception, publisher: str) -> list[int]:
    events = [msgspec.json.decode(delivery.event) for delivery in reception.events]
    return [event["n"] for event in events if event["of"] == publisher]


@pytest.mark.parametrize(("algorithm", "grape"), [("pop", {}), ("grape", {}), ("grape", {"priority": "delay"})])
def test_a_publisher_moves_to_its_subscribers(algorithm: Algorithm, grape: dict[str, Any]) -> None:
    scene = row(algorithm, **grape)
    reception = scene.clients["b4"].subscribe("news", "n >= 0")
    scene.world.run_for(3.0)
    scene.publish(scene.clients["mover-0"])
    assert scene.placed_at("mover-0") == ["b4"]
    assert numbers(reception, "mover-0") == list(range(200))
    (known,) = scene.tree.brokers["b4"].placement.listed("simulated")
    assert (known["source"], known["broker"]) == ("b0", "b4")
    assert known["cost_before"] > known["cost_predicted"]
    scene.world.check()


def test_it_stays_where_it_is_without_placement() -> None:
    scene = row(None)
    scene.clients["b4"].subscribe("news", "n >= 0")
    scene.world.run_for(3.0)
    scene.publish(scene.clients["mover-0"], count=50)
    assert scene.placed_at("mover-0") == []
    assert scene.tree.brokers["b0"].placement.frame_count == 0


def test_one_whose_client_does_not_advertise_cannot_be_moved() -> None:
    scene = row("grape")
    reception = scene.clients["b4"].subscribe("news", "n >= 0")
    scene.world.run_for(3.0)
    scene.publish(scene.clients["b0"], count=60)
    assert scene.placed_at("at-b0") == ["b0"]
    assert numbers(reception, "at-b0") == list(range(60))
    verdicts = [each["verdict"] for each in scene.tree.brokers["b0"].placement.listed("simulated")]
    assert "stays: its client cannot move it" in verdicts


def test_a_broker_takes_in_few_at_once_and_others_go_to_the_next_best() -> None:
    scene = row("grape", DampingOptions(errors_min=0.0, arrivals_max=1, arrivals_seconds=1e6))
    scene.clients["b4"].subscribe("news", "n >= 0")
    scene.world.run_for(3.0)
    movers = [scene.clients[f"mover-{number}"] for number in range(4)]
    scene.publish(*movers, count=100)
    places = [place for mover in movers for place in scene.placed_at(mover.name)]
    assert "b4" in places
    assert len(set(places)) == len(places) == 4  # one at each broker


def test_a_busy_broker_takes_in_nobody() -> None:
    scene = row("grape", DampingOptions(errors_min=0.0, busy_share_max=0.0), busy_share=0.5)
    scene.clients["b4"].subscribe("news", "n >= 0")
    scene.world.run_for(3.0)
    scene.publish(scene.clients["mover-0"], count=60)
    (known,) = scene.tree.brokers["b0"].placement.listed("simulated")
    assert known["verdict"] == "stays: too many publishers go there at once"


def test_a_publisher_does_not_come_back_soon() -> None:
    scene = row("grape", DampingOptions(errors_min=0.0, return_seconds=1e6))
    there = scene.clients["b4"].subscribe("news", "n >= 0")
    scene.world.run_for(3.0)
    mover = scene.clients["mover-0"]
    scene.publish(mover)
    assert scene.placed_at("mover-0") == ["b4"]
    scene.clients["b4"].unsubscribe(there)
    here = scene.clients["b0"].subscribe("news", "n >= 0")
    scene.world.run_for(10.0)
    scene.publish(mover)
    assert "b0" not in scene.placed_at("mover-0")
    assert len(here.events) == 200
    scene.world.check()


def test_what_passes_brokers_is_less_after_the_move() -> None:
    """The events themselves: after the move none crosses the brokers in between."""
    scene = row("grape")
    scene.clients["b4"].subscribe("news", "n >= 0")
    scene.world.run_for(3.0)
    scene.publish(scene.clients["mover-0"])
    relayed = [scene.tree.brokers[name].relayed_count for name in ("b1", "b2", "b3")]
    scene.publish(scene.clients["mover-0"], count=50)
    assert [scene.tree.brokers[name].relayed_count for name in ("b1", "b2", "b3")] == relayed
    assert min(relayed) > 0
