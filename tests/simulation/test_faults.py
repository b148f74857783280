from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fieldfare.simulation import World, faults
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
