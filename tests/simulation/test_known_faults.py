"""Faults that are known and not yet mended: each test turns red when its fault is."""

from __future__ import annotations

import pytest

from fieldfare.errors import BrokenPromiseError
from fieldfare.simulation import World


@pytest.mark.xfail(
    raises=BrokenPromiseError, strict=True, reason="a repetition is accepted before its number is stored"
)
def test_numbers_of_publishers_to_a_spark_topic_survive_a_full_disk_and_a_crash() -> None:
    """The pipeline has the events, but the log could not take the publisher's number.

    The publisher sends them again, and is told that they are accepted, still without the number in the log. After a
    crash the edge asks the publisher to go on with a number that it has used, and takes the new events for the old.
    """
    world = World(seed=1)
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    bob.declare("traffic", matching="spark")
    world.run_for(1.0)
    alice.subscribe("traffic", "speed >= 0", name="all")
    world.run_for(1.0)
    bob.publish("traffic", {"speed": 1})
    world.run_for(1.0)
    edge.log.failure = "the disk is full"
    bob.publish("traffic", {"speed": 2})
    world.run_for(3.0)
    world.crash(edge)
    edge.log.failure = None
    world.restart(edge)
    bob.publish("traffic", {"speed": 3})
    world.run_for(30.0)
    world.check()
