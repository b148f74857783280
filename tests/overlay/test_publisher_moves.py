"""A publisher that moves from one edge to another: nothing is lost, doubled or reordered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.overlay.test_two_networks import TwoNetworks, numbers

from fieldfare.client.publisher_move import PublisherMoveState
from fieldfare.messages import Candidate
from fieldfare.routing.edge import Edge
from fieldfare.simulation.history import TENANT


@pytest.fixture
def networks() -> TwoNetworks:
    return TwoNetworks()


def test_a_publisher_goes_on_at_another_edge(networks: TwoNetworks) -> None:
    _, publisher = networks.here
    there, subscriber = networks.there
    near = publisher.subscribe("news", "n >= 0")
    far = subscriber.subscribe("news", "n >= 5")
    networks.world.run_for(3.0)
    for number in range(20):
        publisher.publish("news", {"n": number})
        if number == 10:
            move = publisher.move_publisher(there.name)
        networks.world.run_for(0.01)
    networks.world.run_for(5.0)
    assert move is not None
    assert move.state is PublisherMoveState.DONE
    assert numbers(near) == list(range(20))
    assert numbers(far) == list(range(5, 20))
    published = networks.world.history.publications
    assert {each.publisher for each in published} == {published[0].publisher}
    assert [each.edge for each in published][-1] == there.name
    networks.world.check()


def test_what_the_source_has_comes_first_however_late(networks: TwoNetworks) -> None:
    """The target is cut off from the source, which goes on to serve its clients."""
    here, publisher = networks.here
    there, subscriber = networks.there
    reception = subscriber.subscribe("news", "n >= 0")
    networks.world.run_for(3.0)
    publisher.publish("news", {"n": 0})
    networks.world.run_for(1.0)
    networks.world.partition([here.name], [networks.routing.name])
    publisher.publish("news", {"n": 1})
    networks.world.run_for(0.5)
    move = publisher.move_publisher(there.name)
    publisher.publish("news", {"n": 2})
    networks.world.run_for(10.0)
    assert move is not None
    assert not move.is_over
    assert numbers(reception) == [0]
    networks.world.heal()
    networks.world.run_for(20.0)
    assert move.state is PublisherMoveState.DONE
    assert numbers(reception) == [0, 1, 2]
    networks.world.check()


def test_nobody_waits_for_a_source_that_is_retired(networks: TwoNetworks) -> None:
    here, publisher = networks.here
    there, subscriber = networks.there
    reception = subscriber.subscribe("news", "n >= 0")
    networks.world.run_for(3.0)
    publisher.publish("news", {"n": 0})
    networks.world.run_for(1.0)
    networks.world.partition([here.name], [networks.routing.name])
    publisher.publish("news", {"n": 1})
    networks.world.run_for(0.5)
    move = publisher.move_publisher(there.name)
    networks.world.run_for(2.0)
    publisher.publish("news", {"n": 2})
    networks.world.crash(here)
    networks.world.run_for(20.0)
    assert move is not None
    assert not move.is_over
    networks.directory.remove(here.name)
    networks.world.run_for(20.0)
    assert move.state is PublisherMoveState.DONE
    assert numbers(reception) == [0, 2]  # the source took the other one along


def test_a_third_edge_holds_what_comes_too_early(networks: TwoNetworks) -> None:
    here, publisher = networks.here
    there, _ = networks.there
    third = networks.deployment.edge("third")
    subscriber = networks.world.client("client-third", third)
    reception = subscriber.subscribe("news", "n >= 0")
    late = subscriber.subscribe("news", "n >= 0", name="away")
    networks.world.run_for(3.0)
    publisher.publish("news", {"n": 0})
    networks.world.run_for(1.0)
    networks.world.crash(third)
    publisher.publish("news", {"n": 1})
    move = publisher.move_publisher(there.name)
    networks.world.run_for(3.0)
    assert move is not None
    assert move.state is PublisherMoveState.DONE
    publisher.publish("news", {"n": 2})
    networks.world.run_for(1.0)
    networks.world.crash(here)
    networks.world.restart(third)
    networks.world.run_for(20.0)
    assert numbers(reception) == numbers(late) == [0]  # the second is in the log of an edge that is away
    networks.world.restart(here)
    networks.world.run_for(20.0)
    assert numbers(reception) == numbers(late) == [0, 1, 2]
    networks.world.check()


def test_the_service_asks_a_client_to_move(networks: TwoNetworks) -> None:
    here, publisher = networks.here
    there, _ = networks.there
    publisher.options = replace(publisher.options, is_movable=True)
    networks.world.crash(publisher)
    networks.world.restart(publisher)
    publisher.publish("news", {"n": 0})
    networks.world.run_for(3.0)
    edge = networks.deployment.nodes[here.name]
    assert isinstance(edge, Edge)
    name = networks.world.history.publications[-1].publisher
    assert edge.parts.asked.move((TENANT, name), Candidate(there.name, there.name))  # it goes out in the next round
    networks.world.run_for(3.0)
    last = publisher.publish("news", {"n": 1})
    networks.world.run_for(1.0)
    assert (last.publisher, last.edge, last.outcome) == (name, there.name, "accepted")
