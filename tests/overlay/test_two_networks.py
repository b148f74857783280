"""Edges that meet through a routing broker."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.overlay.directory import Directory

from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.history import TENANT, Reception
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World

TOPIC = (TENANT, "news")


class TwoNetworks:
    """A world with one routing broker between two edges, each with a client."""

    def __init__(
        self, seed: int = 1, change: Callable[[OverlayOptions], OverlayOptions] = lambda options: options
    ) -> None:
        self.world = World(seed)
        self._change = change
        self.directory = Directory()
        self.deployment = Deployment(self.world, self.directory)
        self.routing = self.deployment.routing("routing-1")
        self.here, self.there = (self._network(name) for name in ("here", "there"))
        self.world.run_for(1.0)

    def _network(self, name: str) -> tuple[SimulatedHost, SimulatedClient]:
        edge = self.deployment.edge(name, change=self._change)
        return edge, self.world.client(f"client-{name}", edge)


@pytest.fixture
def networks() -> TwoNetworks:
    return TwoNetworks()


def numbers(reception: Reception) -> list[int]:
    return [msgspec.json.decode(delivery.event)["n"] for delivery in reception.events]


def test_events_reach_subscribers_at_another_edge(networks: TwoNetworks) -> None:
    _, publisher = networks.here
    _, subscriber = networks.there
    reception = subscriber.subscribe("news", "n >= 5")
    networks.world.run_for(3.0)
    assert reception.confirmed_at is not None
    for number in range(10):
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.05)
    networks.world.run_for(2.0)
    assert numbers(reception) == [5, 6, 7, 8, 9]
    networks.world.check()


def test_nothing_is_lost_while_the_routing_broker_is_away(networks: TwoNetworks) -> None:
    _, publisher = networks.here
    _, subscriber = networks.there
    reception = subscriber.subscribe("news", "n >= 5")
    networks.world.run_for(3.0)
    for number in range(30):
        if number == 10:
            networks.world.crash(networks.routing)
        if number == 20:
            networks.world.restart(networks.routing)
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.1)
    networks.world.run_for(10.0)
    assert numbers(reception) == list(range(5, 30))
    networks.world.check()


def test_a_receiving_edge_goes_on_where_it_was_after_a_crash(networks: TwoNetworks) -> None:
    _, publisher = networks.here
    edge, subscriber = networks.there
    reception = subscriber.subscribe("news", "n >= 5", name="mine")
    networks.world.run_for(3.0)
    for number in range(30):
        if number in (10, 20):
            networks.world.crash(edge)
        if number in (13, 27):
            networks.world.restart(edge)
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.1)
    networks.world.run_for(15.0)
    assert sorted(numbers(reception)) == list(range(5, 30))
    networks.world.check()


def test_an_origin_that_crashes_goes_on_from_its_log(networks: TwoNetworks) -> None:
    edge, publisher = networks.here
    _, subscriber = networks.there
    reception = subscriber.subscribe("news", "n >= 5")
    networks.world.run_for(3.0)
    for number in range(30):
        if number in (10, 20):
            networks.world.crash(edge)
        if number in (13, 27):
            networks.world.restart(edge)
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.1)
    networks.world.run_for(15.0)
    assert numbers(reception) == list(range(5, 30))
    networks.world.check()


def test_a_topic_that_moves_to_another_routing_broker_does_not_pause(networks: TwoNetworks) -> None:
    _, publisher = networks.here
    _, subscriber = networks.there
    networks.deployment.routing("routing-2")
    reception = subscriber.subscribe("news", "n >= 0")
    networks.world.run_for(3.0)
    for number in range(100):
        if number == 30:
            networks.directory.give(TOPIC, "routing-2")
        if number == 90:
            networks.world.crash(networks.routing)
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.1)
        assert len(reception.events) >= number
    networks.world.run_for(1.0)
    assert numbers(reception) == list(range(100))
    networks.world.check()
