"""The time of now travels with an event: at another edge, and for who comes later, it is that of the first edge."""

from __future__ import annotations

import datetime

from tests.overlay.test_two_networks import TwoNetworks, numbers

from fieldfare.qos import Requested


def test_another_edge_and_late_subscribers_see_the_instant_of_the_edge_that_stored_the_event() -> None:
    networks = TwoNetworks()
    world, (_, publisher), (edge, subscriber) = networks.world, networks.here, networks.there
    fresh = "sent > now() - INTERVAL 5 SECONDS"
    live = subscriber.subscribe("news", fresh)
    world.run_for(3.0)
    for number in range(6):
        if number == 3:
            world.crash(edge)
        sent = datetime.datetime.fromtimestamp(world.clock.now - 4 * (number % 2) * 2, datetime.UTC)
        publisher.publish("news", {"n": number, "sent": sent.isoformat()})
        world.run_for(1.0)
    world.run_for(30.0)  # the edge hears of the last three events half a minute after they were published
    world.restart(edge)
    world.run_for(10.0)
    late = subscriber.subscribe("news", fresh, qos=Requested(durability="transient"))
    old = subscriber.subscribe("news", f"NOT ({fresh})", qos=Requested(durability="transient"))
    world.run_for(10.0)
    assert [numbers(each) for each in (live, late, old)] == [[0, 2, 4], [0, 2, 4], [1, 3, 5]]
