"""Flows with a latency budget have a direct link beside the way by the routing broker."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from tests.overlay.test_two_networks import TwoNetworks, numbers

from fieldfare.qos import Requested
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.history import Reception

CRITICAL = Requested(latency_budget_seconds=0.1)


def publish(networks: TwoNetworks, publisher: SimulatedClient, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.1)


def notices(reception: Reception) -> list[str]:
    return [notice.detail for notice in reception.notices if notice.kind == "latency_budget"]


def test_events_come_by_either_path_and_once() -> None:
    networks = TwoNetworks()
    reception = networks.there[1].subscribe("news", "n >= 0", qos=CRITICAL)
    networks.world.run_for(3.0)
    publish(networks, networks.here[1], 20)
    networks.world.crash(networks.routing)
    publish(networks, networks.here[1], 20, 20)
    assert numbers(reception)[:39] == list(range(39)), "the second path does not wait for a routing broker"
    networks.world.restart(networks.routing)
    publish(networks, networks.here[1], 20, 40)
    networks.world.run_for(5.0)
    assert numbers(reception) == list(range(60))
    assert not notices(reception)
    networks.world.check()


def test_a_second_path_that_breaks_opens_again() -> None:
    networks = TwoNetworks()
    reception = networks.there[1].subscribe("news", "n >= 0", qos=CRITICAL)
    networks.world.run_for(3.0)
    cut = networks.world.partition({"here"}, {"there"})
    publish(networks, networks.here[1], 100)
    networks.world.heal(cut)
    networks.world.run_for(20.0)
    networks.world.crash(networks.routing)
    publish(networks, networks.here[1], 10, 100)
    networks.world.run_for(0.5)
    assert numbers(reception) == list(range(110))
    networks.world.check()


def test_an_edge_admits_few_second_paths_and_says_so() -> None:
    networks = TwoNetworks(change=lambda options: replace(options, second_paths_max=0))
    reception = networks.there[1].subscribe("news", "n >= 0", qos=CRITICAL)
    networks.world.run_for(3.0)
    publish(networks, networks.here[1], 3)
    assert notices(reception) == [
        "there is no second path to here: this edge has 0 second paths already, which is all that it admits"
    ]
    assert numbers(reception)[:2] == [0, 1]


def behind_translation(options: OverlayOptions) -> OverlayOptions:
    return replace(options, member=msgspec.structs.replace(options.member, address=""))


def test_an_origin_behind_address_translation_dials_back() -> None:
    networks = TwoNetworks(
        change=lambda options: behind_translation(options) if options.member.name == "here" else options
    )
    reception = networks.there[1].subscribe("news", "n >= 0", qos=CRITICAL)
    networks.world.run_for(3.0)
    publish(networks, networks.here[1], 5)
    networks.world.run_for(3.0)
    networks.world.crash(networks.routing)
    publish(networks, networks.here[1], 5, 5)
    networks.world.run_for(0.5)
    assert numbers(reception) == list(range(10))


def test_between_edges_that_nobody_can_dial_there_is_no_second_path() -> None:
    networks = TwoNetworks(change=behind_translation)
    reception = networks.there[1].subscribe("news", "n >= 0", qos=CRITICAL)
    networks.world.run_for(3.0)
    publish(networks, networks.here[1], 3)
    assert notices(reception) == [
        "there is no second path to here: neither edge can be dialled: both seem to be behind address translation"
    ]
    assert numbers(reception)[:2] == [0, 1]
