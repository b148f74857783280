from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from fieldfare.errors import BrokenPromiseError, RefusedError
from fieldfare.messages import EventsStored
from fieldfare.simulation import World, faults
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.faults import Fault
from fieldfare.simulation.host import SimulatedHost


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
        (Fault(1.0, "node_pause", "edge", 2.0), lambda made: made.machines["edge"].is_paused),
        (Fault(1.0, "deaf", "alice", 2.0), lambda made: made.network.is_cut("edge", "alice")),
        (Fault(1.0, "mute", "edge", 2.0), lambda made: made.network.is_cut("edge", "alice")),
        (Fault(1.0, "split", "edge", 2.0, others=("bob",)), lambda made: made.network.is_cut("edge", "bob")),
        (Fault(1.0, "drift", "edge", 2.0, clock_rate=1.1), lambda made: made.machines["edge"].machine_clock.rate > 1),
        (Fault(1.0, "wipe", "edge", 2.0), lambda made: not made.machines["edge"].is_up),
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


def test_plans_have_more_kinds_only_where_they_are_wanted() -> None:
    plan = faults.plan(random.Random(1), world(), seconds=10.0, count=500, also=faults.ALSO)
    assert {fault.kind for fault in plan} == {*faults.KINDS_OF_EDGE, *faults.KINDS_OF_CLIENT, *faults.ALSO}
    assert {fault.machine for fault in plan if fault.kind in ("node_pause", "drift", "wipe", "old_disk")} == {"edge"}
    assert {fault.machine for fault in plan if fault.kind == "deaf"} == {"edge", "alice", "bob"}
    assert all(fault.others for fault in plan if fault.kind == "split")
    assert all(fault.clock_rate != 1.0 for fault in plan if fault.kind == "drift")


def test_a_broker_without_clients_has_no_disk_to_fail() -> None:
    made = World()
    made.broker("routing", lambda: pytest.fail("nothing starts"))
    plan = faults.plan(random.Random(1), made, seconds=10.0, count=100, also=faults.ALSO)
    assert {fault.kind for fault in plan} == {
        *faults.KINDS_OF_BROKER,
        *(kind for kind in faults.ALSO if kind not in ("wipe", "old_disk")),
    }


def test_one_way_faults_let_the_other_direction_pass() -> None:
    made = world()
    faults.inject(made, [Fault(0.0, "deaf", "alice", 1.0), Fault(0.0, "mute", "bob", 1.0)])
    made.run_for(0.5)
    network = made.network
    assert not network.is_cut("alice", "edge")
    assert not network.is_cut("edge", "bob")
    assert network.is_cut("bob", "edge")


def test_a_fault_that_lasts_harms_its_machine_and_the_clients_of_its_edge() -> None:
    made = world()
    made.client("carol", made.edge("other"))
    lasting = faults.plan_lasting(random.Random(1), ["edge"], seconds=10.0)
    assert [(fault.machine, fault.seconds) for fault in lasting] == [("edge", math.inf)]
    passing = faults.plan(random.Random(1), made, seconds=10.0, count=50, sparing=["edge", "alice"])
    assert {fault.machine for fault in passing} == {"bob", "carol", "other"}
    assert faults.unharmed(made, [*lasting, *passing]) == {"other", "carol"}
    faults.inject(made, [Fault(1.0, "partition", "edge", math.inf)])
    made.run_for(1000.0)
    assert made.network.is_cut("edge", "alice")


def test_promises_are_kept_to_those_whom_a_lasting_fault_does_not_harm() -> None:
    made = world()
    carol = made.client("carol", made.edge("other"))
    dave = made.client("dave", made.edge("third"))
    bob = made.machines["bob"]
    assert isinstance(bob, SimulatedClient)
    lasting = [Fault(1.0, "crash", "edge", math.inf)]
    faults.inject(made, lasting)
    local = carol.subscribe("traffic", "TRUE")
    made.run_for(2.0)
    bob.publish("traffic", {"speed": 1})
    carol.publish("traffic", {"speed": 2})
    made.run_for(60.0)
    with pytest.raises(BrokenPromiseError, match="unanswered"):
        made.check()
    made.check(faults.unharmed(made, lasting))
    assert len(local.events) == 1
    dave.publish("traffic", {"speed": 3})  # at an edge that is well, but there is no way between edges here
    made.run_for(60.0)
    with pytest.raises(BrokenPromiseError, match="lost"):
        made.check(faults.unharmed(made, lasting))


def test_an_old_disk_is_as_it_was_when_the_fault_began() -> None:
    made = world()
    edge, bob = made.machines["edge"], made.machines["bob"]
    assert isinstance(bob, SimulatedClient)
    assert isinstance(edge, SimulatedHost)
    bob.publish("traffic", {"speed": 1})
    made.run_for(1.0)
    faults.inject(made, [Fault(0.0, "old_disk", "edge", 2.0)])
    made.run_for(1.0)
    bob.publish("traffic", {"speed": 2})
    made.run_for(0.5)
    stored = [each for each in edge.log.read() if isinstance(each, EventsStored)]
    made.run_for(1.0)
    assert [each for each in edge.log.read() if isinstance(each, EventsStored)] == stored[:1]
    assert edge.is_up
    (lost,) = made.history.lost_disks
    assert (lost.edge, round(lost.at - lost.since, 6)) == ("edge", 2.0)


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
