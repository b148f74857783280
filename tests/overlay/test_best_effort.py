"""Topics that keep nothing cross the overlay too: at once, and without a log."""

from __future__ import annotations

from tests.overlay.test_two_networks import TwoNetworks, numbers

from fieldfare.qos import Offered, Requested

LOOSE = Offered(reliability="best_effort", durability="volatile")


def test_events_that_are_not_kept_reach_another_edge() -> None:
    networks = TwoNetworks()
    (_, publisher), (_, subscriber) = networks.here, networks.there
    publisher.declare("news", LOOSE)
    networks.world.run_for(1.0)
    reception = subscriber.subscribe("news", "n >= 0", qos=Requested(reliability="best_effort"))
    networks.world.run_for(3.0)
    for number in range(20):
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.05)
    networks.world.run_for(1.0)
    assert numbers(reception)[-19:] == list(range(1, 20)), "the first one may come before the edges know each other"
    networks.world.check()


def test_an_origin_that_is_met_late_begins_where_it_is() -> None:
    networks = TwoNetworks()
    (_, publisher), (_, subscriber) = networks.here, networks.there
    subscriber.declare("news", LOOSE)
    reception = subscriber.subscribe("news", "n >= 0", qos=Requested(reliability="best_effort"))
    networks.world.run_for(3.0)
    for number in range(20):
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.5)
    assert numbers(reception)[-17:] == list(range(3, 20))
    networks.world.check()


def test_they_go_on_after_some_were_lost_on_the_way() -> None:
    networks = TwoNetworks()
    world, (_, publisher), (edge, subscriber) = networks.world, networks.here, networks.there
    publisher.declare("news", LOOSE)
    world.run_for(1.0)
    reception = subscriber.subscribe("news", "n >= 0", qos=Requested(reliability="best_effort"))
    world.run_for(3.0)
    for machine in (networks.routing, edge):
        world.crash(machine)
        for number in range(20):
            publisher.publish("news", {"n": number})
            world.run_for(0.05)
        world.restart(networks.routing)
        world.restart(edge)
        world.run_for(15.0)
        count = len(reception.events)
        publisher.publish("news", {"n": 100}, {"n": 101})
        world.run_for(1.0)
        assert numbers(reception)[count:] == [100, 101]
