"""A subscription that begins with what is alive gets it from every origin, once."""

from __future__ import annotations

import pytest
from tests.overlay.test_two_networks import TwoNetworks, numbers

from fieldfare.messages import EventsStored, Record
from fieldfare.qos import Requested

FROM_THE_BEGINNING = Requested(durability="transient")


def test_living_events_of_another_edge_come_first() -> None:
    networks = TwoNetworks()
    (_, publisher), (_, subscriber) = networks.here, networks.there
    for number in range(20):
        publisher.publish("news", {"n": number})
    networks.world.run_for(2.0)
    some = subscriber.subscribe("news", "n % 2 = 0 AND n >= 10")
    networks.world.run_for(3.0)
    for number in range(20, 40):
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.05)
    everything = subscriber.subscribe("news", "n >= 5", qos=FROM_THE_BEGINNING)
    for number in range(40, 60):
        publisher.publish("news", {"n": number})
        networks.world.run_for(0.05)
    networks.world.run_for(5.0)
    assert numbers(some) == list(range(20, 60, 2))
    assert numbers(everything) == list(range(5, 60)), "each once, and in order"
    networks.world.check()


def test_they_come_once_also_after_a_crash() -> None:
    networks = TwoNetworks()
    (_, publisher), (edge, subscriber) = networks.here, networks.there
    for number in range(20):
        publisher.publish("news", {"n": number})
    networks.world.run_for(2.0)
    subscriber.subscribe("news", "n >= 15")
    networks.world.run_for(3.0)
    everything = subscriber.subscribe("news", "n >= 5", qos=FROM_THE_BEGINNING, name="all")
    networks.world.run_for(3.0)
    for number in range(20, 60):
        publisher.publish("news", {"n": number})
        if number == 30:
            networks.world.crash(edge)
        if number == 40:
            networks.world.restart(edge)
        networks.world.run_for(0.05)
    networks.world.run_for(15.0)
    assert numbers(everything) == list(range(5, 60))
    networks.world.check()


@pytest.mark.parametrize("name", [None, "all"])
def test_what_was_read_for_a_subscription_is_stored_before_it_is_acknowledged(name: str | None) -> None:
    """The disk stops to flush when the events are stored, and before it is stored for whom they were read."""
    networks = TwoNetworks()
    world, (_, publisher), (edge, subscriber) = networks.world, networks.here, networks.there
    subscriber.subscribe("news", "n > 100")
    world.run_for(3.0)
    for number in range(20):
        publisher.publish("news", {"n": number})
    world.run_for(0.3)

    def written(records: list[Record], _: bool) -> None:
        if any(isinstance(record, EventsStored) and record.subscriptions for record in records):
            edge.log.flush_failure = "the disk does not flush"

    edge.log.on_written = written
    everything = subscriber.subscribe("news", "n >= 5", qos=FROM_THE_BEGINNING, name=name)
    world.run_for(1.0)
    assert edge.log.flush_failure is not None
    assert everything.confirmed_at is None
    flushed = edge.snapshot_disk()
    world.crash(edge)
    edge.restore_disk(flushed)  # nothing else survives
    edge.log.flush_failure, edge.log.on_written = None, lambda *_: None
    world.restart(edge)
    world.run_for(20.0)
    assert numbers(everything) == list(range(5, 20)), "each once, and in order"
    world.check()


def test_an_edge_that_does_not_answer_is_left_out_and_said_so() -> None:
    networks = TwoNetworks()
    (_, publisher), (_, subscriber) = networks.here, networks.there
    publisher.publish("news", {"n": 1})
    networks.world.run_for(2.0)
    subscriber.subscribe("news", "n > 100")
    networks.world.run_for(3.0)
    networks.world.network.pause("here") if hasattr(networks.world.network, "pause") else None
    cut = networks.world.partition({"here"}, {"routing-1"})
    everything = subscriber.subscribe("news", "n >= 0", qos=FROM_THE_BEGINNING)
    networks.world.run_for(30.0)
    assert everything.confirmed_at is not None
    networks.world.heal(cut)
