from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fieldfare.errors import RefusedError
from fieldfare.simulation import World, faults
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.faults import Fault


def world() -> World:
    made = World(seed=4)
    edge = made.edge("edge")
    made.client("alice", edge)
    made.client("bob", edge)
    made.run_for(1.0)
    return made


def test_a_plan_comes_from_its_seed_and_has_ended_in_time() -> None:
    plan = faults.plan(random.Random(1), world(), seconds=10.0, count=100)
    assert plan == faults.plan(random.Random(1), world(), seconds=10.0, count=100)
    assert plan != faults.plan(random.Random(2), world(), seconds=10.0, count=100)
    assert all(fault.after_seconds + fault.seconds <= 10.0 for fault in plan)
    assert {fault.kind for fault in plan} == {*faults.KINDS_OF_EDGE, *faults.KINDS_OF_CLIENT}


@pytest.mark.parametrize(
    ("fault", "is_felt"),
    [
        (Fault(1.0, "crash", "edge", 2.0, clock_ahead_seconds=5.0), lambda made: not made.machines["edge"].is_up),
        (Fault(1.0, "crash", "alice", 2.0), lambda made: not made.machines["alice"].is_up),
        (Fault(1.0, "partition", "alice", 2.0), lambda made: made.network.is_cut("edge", "alice")),
        (Fault(1.0, "full", "edge", 2.0), lambda made: made.machines["edge"].log.failure is not None),
        (Fault(1.0, "slow", "edge", 2.0), lambda made: made.machines["edge"].log.stall_seconds > 0),
        (Fault(1.0, "flush", "edge", 2.0), lambda made: made.machines["edge"].log.flush_failure is not None),
        (Fault(1.0, "compiler", "edge", 2.0), lambda made: made.compilers["edge"].seconds_max > 0.1),
        (Fault(1.0, "checks_slow", "edge", 2.0), lambda made: made.webhooks.check_seconds > 0),
        (Fault(1.0, "checks_busy", "edge", 2.0), lambda made: made.webhooks.is_busy),
        (Fault(1.0, "answers", "alice", 2.0), lambda made: made.machines["alice"].answers_to_lose > 0),
        (Fault(1.0, "lossy", "alice", 2.0), lambda made: made.network.link_quality("alice", "edge").loss > 0),
        (Fault(1.0, "pipeline", "edge", 2.0), lambda made: made.pipelines["edge"].failure is not None),
    ],
)
def test_a_fault_begins_and_ends(fault: Fault, is_felt: Callable[[World], bool]) -> None:
    made = world()
    faults.inject(made, [fault])
    assert not is_felt(made)
    made.run_for(2.0)
    assert is_felt(made)
    made.run_for(2.0)
    assert not is_felt(made)


def test_a_reset_breaks_the_connections_of_a_client_only() -> None:
    made = world()
    alices, bobs = made.network.streams("alice"), made.network.streams("bob")
    faults.inject(made, [Fault(0.0, "reset", "alice", 1.0)])
    made.run_for(0.1)
    assert not any(stream.is_open for stream in alices)
    assert all(stream.is_open for stream in bobs)


def test_a_client_has_no_disk_to_fail() -> None:
    made = world()
    faults.inject(made, [Fault(0.0, "full", "alice", 1.0)])
    with pytest.raises(TypeError, match="no disk"):
        made.run_for(1.0)


def test_a_client_that_is_paused_gets_its_events_later() -> None:
    made = world()
    alice, bob = (made.machines[name] for name in ("alice", "bob"))
    assert isinstance(alice, SimulatedClient)
    assert isinstance(bob, SimulatedClient)
    all_of_it = alice.subscribe("traffic", "TRUE", window=2)
    faults.inject(made, [Fault(1.0, "pause", "alice", 2.0)])
    made.run_for(2.0)
    for speed in range(5):
        bob.publish("traffic", {"speed": speed})
    made.run_for(0.9)
    assert not all_of_it.events
    made.run_for(2.0)
    assert len(all_of_it.events) == 5
    made.check()


def test_webhooks_that_may_not_be_called_are_refused_until_they_may() -> None:
    made = world()
    alice = made.machines["alice"]
    assert isinstance(alice, SimulatedClient)
    made.webhook("https://hook.example", lambda _: None)
    faults.inject(made, [Fault(0.0, "checks_refused", "edge", 2.0)])
    made.run_for(1.0)
    refused = alice.subscribe("traffic", "TRUE", name="hook", webhook="https://hook.example")
    made.run_for(2.0)
    assert isinstance(refused.error, RefusedError)
    allowed = alice.subscribe("traffic", "TRUE", name="hook", webhook="https://hook.example")
    made.run_for(1.0)
    assert allowed.confirmed_at is not None


def test_what_a_disk_does_not_flush_is_not_accepted() -> None:
    made = world()
    edge, bob = made.machines["edge"], made.machines["bob"]
    assert isinstance(bob, SimulatedClient)
    faults.inject(made, [Fault(1.0, "flush", "edge", 3.0), Fault(2.0, "crash", "edge", 0.5)])
    made.run_for(1.1)
    publication = bob.publish("traffic", {"speed": 1})
    made.run_for(2.5)
    assert publication.answered_at is None
    made.run_for(10.0)
    assert edge.is_up
    assert publication.outcome == "accepted"
