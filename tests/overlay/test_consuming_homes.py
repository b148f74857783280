"""Shared subscriptions, seek and the rest across edges: one home, times that are portable, positions that are not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.overlay.test_homes import Networks, home_in

from fieldfare.errors import FieldfareError, RefusedError
from fieldfare.messages import Change, DropDeadLetters, PauseDelivery, Redrive, ResumeDelivery, Seek, Start
from fieldfare.qos import Consuming
from fieldfare.simulation.client import EndingByName, SimulatedClient
from fieldfare.simulation.history import Reception

SHARED = Consuming(is_shared=True)


@pytest.fixture
def networks() -> Networks:
    return Networks()


def asked(networks: Networks, client: SimulatedClient, frame: Any) -> EndingByName:
    """A request by name, whose outcome is noted as that of an ending is."""
    asking = EndingByName()
    client._do(client._living().request(asking, frame, networks.world.clock.now))
    networks.world.run_for(5.0)
    return asking


def numbers(reception: Reception) -> list[int]:
    return [int(bytes(event.event).partition(b":")[2].strip(b" }")) for event in reception.events]


def test_what_is_asked_of_a_subscription_is_asked_at_its_home(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(first)
    for make in (PauseDelivery, ResumeDelivery, Redrive, DropDeadLetters):
        assert home_in(asked(networks, second, make(0, "mine", topic="news")).error) == "a"
        assert asked(networks, first, make(0, "mine")).is_done
    changing = Change(0, "mine", condition="n > 1", topic="news")
    assert home_in(asked(networks, second, changing).error) == "a"
    assert asked(networks, first, changing).is_done
    error = asked(networks, second, Seek(0, "none", Start(beginning=True), topic="news")).error
    assert isinstance(error, FieldfareError)
    assert "there is no subscription" in str(error)


def test_consumers_at_other_edges_go_to_the_home(networks: Networks) -> None:
    second, third = networks.clients[1:]
    first = networks.client(networks.edges[0])
    for client in (first, second, third):
        client.follows = True
    receptions = []
    for client in (first, second, third):
        receptions.append(client.subscribe("news", "n >= 0", name="shared", consuming=SHARED))
        networks.world.run_for(5.0)
    networks.clients[0].publish("news", *({"n": n} for n in range(9)))
    networks.clients[1].publish("news", *({"n": n} for n in range(9, 12)))
    networks.world.run_for(5.0)
    got = [numbers(reception) for reception in receptions]
    assert sorted(number for each in got for number in each) == list(range(12))
    assert all(got)


def test_a_changed_condition_gets_what_is_published_at_other_edges(networks: Networks) -> None:
    first, second, _ = networks.clients
    reception = first.subscribe("news", "n < 10", name="mine")
    networks.world.run_for(5.0)
    assert asked(networks, first, Change(0, "mine", condition="n >= 10")).is_done
    second.publish("news", {"n": 1}, {"n": 11})
    networks.world.run_for(5.0)
    assert numbers(reception) == [11]


def test_a_time_is_portable_and_a_position_is_not(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(second, "keeps")  # so that what is published here is kept for others
    second.publish("news", {"n": 1})
    networks.world.run_for(5.0)
    middle = networks.world.clock.now
    networks.world.run_for(5.0)
    second.publish("news", {"n": 2})
    networks.world.run_for(5.0)
    for name, start, expected in (("all", Start(beginning=True), [1, 2]), ("late", Start(time=middle), [2])):
        reception = first.subscribe("news", "n >= 0", name=name, start=start)
        networks.world.run_for(20.0)
        assert numbers(reception) == expected, name
    foreign = Start(position=0, log="another")
    error = asked(networks, first, Seek(0, "all", foreign)).error
    assert isinstance(error, RefusedError)
    assert "another log" in str(error)
