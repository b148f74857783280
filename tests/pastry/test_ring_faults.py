"""Rings in trouble: crashes, departures, loss, churn, pauses, restarts, and rings that split and merge again."""

from __future__ import annotations

import pytest
from tests.pastry.test_messages_on_the_ring import filtered
from tests.pastry.test_ring import LONG_SECONDS, check_routing

from fieldfare.messages import Withdraw
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.pastry_frames import Acknowledge, LeafCards
from fieldfare.pastry.ports import Assurance
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.pastry import SimulatedRing

LOSSY = LinkQuality(loss=0.05, duplication=0.02)


def acquainted(count: int, seed: int = 0, quality: LinkQuality | None = None) -> SimulatedRing:
    ring = SimulatedRing(World(seed, quality or LinkQuality()))
    ring.add_acquainted([f"p{number:04}" for number in range(count)])
    ring.world.run_for(1.0)
    return ring


def test_a_fifth_crashes_and_the_others_close_the_ring() -> None:
    ring = acquainted(120, 1, LinkQuality(loss=0.01))
    dead = ring.world.rng("the dead").sample(ring.living, 24)
    for name in dead:
        ring.hosts[name].crash()
    assert ring.run_until(ring.is_right, LONG_SECONDS) < 30.0
    check_routing(ring, 100)
    gone = {each.name for notes in ring.applications.values() for change in notes.changes for each in change.gone}
    assert set(dead) <= gone
    for name in dead:
        ring.hosts[name].start()
    ring.run_until(ring.is_right, LONG_SECONDS)
    check_routing(ring, 100)


def test_messages_go_around_nodes_that_have_just_crashed() -> None:
    """Nobody has noticed anything yet: each message finds out by itself, and still ends at the closest that lives."""
    ring = acquainted(80, 4)
    for name in ring.world.rng("the dead").sample(ring.living, 16):
        ring.hosts[name].crash()
    check_routing(ring, 100)


def test_all_leaves_of_one_side_crash_at_once() -> None:
    ring = acquainted(80, 3)
    for each in ring.nodes["p0000"].leaves.after:
        ring.hosts[each.name].crash()
    ring.run_until(ring.is_right, LONG_SECONDS)
    check_routing(ring, 50)


def test_who_says_goodbye_is_missed_at_once_and_not_asked_for() -> None:
    ring = acquainted(60, 5)
    for name in ("p0007", "p0020", "p0021"):
        ring.leave(name)
    ring.world.run_for(3.0)
    assert len(ring.living) == 57
    assert ring.is_right()
    assert all(len(ring.nodes[name].membership.former) == 0 for name in ring.living)
    check_routing(ring, 50)


def test_who_has_said_goodbye_passes_on_what_still_comes() -> None:
    ring = acquainted(30, 6)
    key = ring.group.id_of("p0009")
    ring.route("p0001", key, b"just in time")
    ring.hosts["p0009"].tell(Withdraw())
    ring.world.run_for(5.0)
    others = [name for name in ring.living if name != "p0009"]
    assert [each.node for each in ring.deliveries] == [ring.closest(key, others)]


@pytest.mark.parametrize("seed", range(3))
def test_lookups_during_churn_are_right_or_repeated(seed: int) -> None:
    ring = SimulatedRing(World(seed, LOSSY))
    ring.add_acquainted([f"p{number:04}" for number in range(60)])
    rng, names, sent = ring.world.rng("churn"), ring.living, {}
    for number in range(60):
        name = rng.choice(names)
        host = ring.hosts[name]
        if not host.is_up:
            host.start()
        elif len(ring.living) > 40:
            ring.leave(name) if rng.random() < 0.5 else host.crash()
        for _ in range(3):
            source = rng.choice([each for each in ring.living if ring.nodes[each].is_joined])
            key = rng.getrandbits(128)
            sent[key] = source, ring.nodes[source], b"%d" % number
            ring.route(source, key, sent[key][2], Assurance.END_TO_END)
        ring.world.run_for(1.0)
    ring.run_until(ring.is_right, LONG_SECONDS)
    ring.world.run_for(LONG_SECONDS)
    delivered = {each.routed.key for each in ring.deliveries}
    lost = [
        source
        for key, (source, node, _) in sent.items()
        if key not in delivered and ring.nodes[source] is node and ring.hosts[source].is_up
    ]
    assert not lost, seed
    assert len(ring.deliveries) < 1.05 * len(delivered)
    ring.deliveries.clear()
    check_routing(ring, 50, Assurance.END_TO_END)


@pytest.mark.parametrize(("seed", "share"), [(1, 0.5), (2, 0.15)])
def test_rings_that_split_serve_their_own_and_merge_again(seed: int, share: float) -> None:
    ring = acquainted(70, seed, LinkQuality(loss=0.01))
    rng = ring.world.rng("sides")
    one = rng.sample(ring.living, int(share * 70))
    other = [name for name in ring.living if name not in one]
    partition = ring.world.partition(one, other)
    ring.run_until(lambda: ring.is_right(one) and ring.is_right(other), LONG_SECONDS)
    for names in (one, other):
        ring.deliveries.clear()
        keys = {rng.getrandbits(128): rng.choice(names) for _ in range(20)}
        for key, source in keys.items():
            ring.route(source, key, b"within a side")
        ring.world.run_for(10.0)
        assert {each.routed.key: each.node for each in ring.deliveries} == {
            key: ring.closest(key, names) for key in keys
        }
    ring.world.run_for(300.0)  # long enough for former members to be tried rarely
    ring.world.heal(partition)
    ring.run_until(ring.is_right, 600.0)
    check_routing(ring, 60)


def test_rings_merge_after_all_have_given_up_the_other_side() -> None:
    """Only former members are left to ask: nothing in the tables leads to the other ring."""
    options = PastryOptions(upkeep_periods=2, exchange_periods=2)  # so that the dead in prefix tables are found sooner
    ring = SimulatedRing(World(4), options)
    ring.add_acquainted([f"p{number:04}" for number in range(24)])
    one, other = ring.living[:12], ring.living[12:]
    partition = ring.world.partition(one, other)

    def are_apart() -> bool:
        return all(
            each.name in side for side in (one, other) for name in side for each in ring.nodes[name].place.contacts()
        )

    ring.run_until(are_apart, 2_000.0, step_seconds=10.0)
    ring.world.heal(partition)
    ring.run_until(ring.is_right, 600.0)


def test_a_lost_one_comes_back_though_all_have_given_it_up() -> None:
    ring = acquainted(20, 1)
    others = [name for name in ring.living if name != "p0004"]
    partition = ring.world.partition(["p0004"], others)
    ring.run_until(lambda: ring.is_right(others) and ring.is_right(["p0004"]), 300.0)
    ring.world.heal(partition)
    ring.run_until(ring.is_right, 600.0)


def test_a_node_that_was_paused_is_taken_back_and_drops_nobody() -> None:
    ring = acquainted(30, 2)
    ring.hosts["p0003"].pause()
    others = [name for name in ring.living if name != "p0003"]
    ring.run_until(lambda: ring.is_right(others), LONG_SECONDS)
    ring.hosts["p0003"].resume()
    ring.run_until(ring.is_right, LONG_SECONDS)
    check_routing(ring, 30)


def test_a_node_that_was_given_up_wrongly_is_back_as_soon_as_it_is_heard() -> None:
    """One node hears no acknowledgement of its neighbour any more, and gives it up; then it hears them again."""
    ring = acquainted(30, 2)
    neighbour = ring.nodes["p0003"].leaves.after[0].name
    is_deaf = True
    filtered(
        ring,
        lambda source, target, message: (
            is_deaf and (source, target) == (neighbour, "p0003") and isinstance(message, Acknowledge | LeafCards)
        ),
    )
    ring.send("p0003", neighbour, b"can you hear me?")
    ring.world.run_for(9.0)
    assert ring.nodes["p0003"].leaves.after[0].name != neighbour
    assert ring.applications["p0003"].undelivered_notices
    is_deaf = False
    assert ring.run_until(ring.is_right, LONG_SECONDS) < 6.0


def test_a_node_that_starts_again_before_anybody_noticed_gets_its_place_again() -> None:
    ring = acquainted(40, 2)
    for name in ("p0003", "p0004", "p0005"):
        host = ring.hosts[name]
        host.crash()
        host.later(0.0, host.start)
        host.start()
    ring.run_until(ring.is_right, LONG_SECONDS)
    check_routing(ring, 40)
    life = ring.nodes["p0003"].me.card.life
    assert all(
        each.card.life == life for name in ring.living for each in ring.nodes[name].leaves.after if each.name == "p0003"
    )


def test_a_node_that_starts_again_is_let_in_by_those_who_remember_it_though_its_seed_is_gone() -> None:
    ring = SimulatedRing(World(2))
    ring.add_many(12)
    ring.add("late", ["p0004"])
    ring.run_until(ring.is_right, LONG_SECONDS)
    for name in ("p0004", "late"):
        ring.hosts[name].crash()
    ring.run_until(ring.is_right, LONG_SECONDS)
    del ring.nodes["late"]  # it knows nothing but its seed
    ring.hosts["late"].start()
    ring.run_until(ring.is_right, 600.0)


def test_who_has_not_joined_yet_stands_in_nobodys_tables() -> None:
    """It answers everything, but no leaf set reaches it: nobody may believe that it is responsible for keys."""
    ring = acquainted(30, 2)
    is_cut = True
    filtered(ring, lambda _source, target, message: is_cut and target == "late" and isinstance(message, LeafCards))
    ring.add("late", ["p0004"])
    ring.world.run_for(20.0)
    late = ring.group.id_of("late")
    assert not any(late in ring.nodes[name].place for name in ring.living)
    is_cut = False
    ring.run_until(ring.is_right, LONG_SECONDS)
    assert sum(late in ring.nodes[name].place.leaf_set for name in ring.living) == 16


def test_neighbours_next_to_each_other_that_both_start_again_do_not_wait_for_each_other() -> None:
    ring = acquainted(40, 2)
    pair = ["p0003", ring.nodes["p0003"].leaves.after[0].name]
    for name in pair:
        ring.hosts[name].crash()
    for name in pair:
        ring.hosts[name].start()
    ring.run_until(ring.is_right, LONG_SECONDS)
    check_routing(ring, 40)


def test_with_longer_periods_a_crash_is_noticed_later() -> None:
    took = {}
    for seconds in (2.0, 8.0):
        ring = SimulatedRing(World(1), PastryOptions(heartbeat_seconds=seconds))
        ring.add_acquainted([f"p{number:04}" for number in range(40)])
        ring.world.run_for(20.0)
        ring.hosts["p0011"].crash()
        took[seconds] = ring.run_until(ring.is_right, LONG_SECONDS)
    assert took[2.0] < took[8.0]
