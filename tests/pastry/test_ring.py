"""Nodes that join one after the other, or at once: their tables, and where messages end. A seed replays a run."""

from __future__ import annotations

import math
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.pastry.ids import digit, key_of, shared_digits
from fieldfare.pastry.ports import Assurance
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.pastry import SimulatedRing

LONG_SECONDS = 120.0  # far more than anything here should take
MANY = int(os.environ.get("FIELDFARE_NODES", "800"))  # FIELDFARE_NODES=5000 tries a larger ring


def joined(count: int, seed: int = 0, quality: LinkQuality | None = None) -> SimulatedRing:
    """So many nodes that have joined by the protocol."""
    ring = SimulatedRing(World(seed, quality or LinkQuality()))
    ring.add_many(count)
    ring.run_until(ring.is_right, LONG_SECONDS)
    return ring


def check_routing(ring: SimulatedRing, count: int, assurance: Assurance = Assurance.EACH_HOP) -> float:
    """Route messages between random places; each ends once, at the closest node. Returns the hops on average."""
    rng = ring.world.rng("keys")
    ring.deliveries.clear()
    wanted = {}
    for number in range(count):
        key = rng.getrandbits(128)
        wanted[key] = ring.closest(key), b"message %d" % number
        ring.route(rng.choice(ring.living), key, wanted[key][1], assurance)
    ring.world.run_for(20.0)
    assert len(ring.deliveries) == count
    assert {each.routed.key: (each.node, each.routed.message) for each in ring.deliveries} == wanted
    return sum(each.routed.hops for each in ring.deliveries) / count


def check_tables(ring: SimulatedRing) -> None:
    """Each entry shares the prefix of its row, and lives."""
    living = {ring.group.id_of(name) for name in ring.living}
    for name in ring.living:
        node = ring.nodes[name]
        for row, value, entry in node.place.table.items():
            assert shared_digits(entry.id, node.me.id) == row, ring.world.seed
            assert digit(entry.id, row) == value
            assert entry.id in living


@pytest.mark.parametrize("count", [1, 2, 3, 17, 18, 60])
def test_all_who_join_find_their_place(count: int) -> None:
    ring = joined(count)
    check_tables(ring)
    check_routing(ring, 50)
    assert all(application.is_joined for application in ring.applications.values())


@settings(max_examples=8)
@given(st.integers(1, 40), st.integers(0, 2**32))
def test_whoever_is_a_member_messages_end_at_the_closest(count: int, seed: int) -> None:
    ring = joined(count, seed)
    check_tables(ring)
    check_routing(ring, 20)
    fillable, empty = ring.empty_slots()
    assert empty <= fillable // 20, seed


def test_nodes_that_join_at_the_same_moment_over_one_seed_do_not_wait_for_each_other() -> None:
    ring = SimulatedRing(World(3, LinkQuality(loss=0.03)))
    ring.add("first")
    for number in range(40):
        ring.add(f"n{number}", ["first"])
    ring.run_until(ring.is_right, LONG_SECONDS)
    check_routing(ring, 40)


def test_many_nodes_some_of_which_come_and_go() -> None:
    ring = SimulatedRing(World(1))
    ring.add_acquainted([f"p{number:04}" for number in range(MANY)])
    rng = ring.world.rng("churn")
    for number in range(6):
        ring.leave(rng.choice(ring.living))
        ring.add(f"newcomer {number}", [rng.choice(ring.living)])
        ring.world.run_for(0.2)
    ring.run_until(ring.is_right, LONG_SECONDS)
    for name in rng.sample(ring.living, 20):
        ring.hosts[name].crash()  # which messages find out by themselves
    hops = check_routing(ring, 500)
    assert hops <= math.ceil(math.log(MANY, 16))
    assert max(each.routed.hops for each in ring.deliveries) <= 6


def test_tables_that_are_made_at_once_are_like_those_of_nodes_that_joined() -> None:
    made = SimulatedRing(World(5))
    made.add_acquainted([f"p{number:04}" for number in range(90)])
    protocol = joined(90, 5)
    assert made.is_right()
    assert made.living == protocol.living
    for name in made.living:
        assert made.nodes[name].leaves.after == tuple(
            made.nodes[each.name].me for each in protocol.nodes[name].leaves.after
        )
    assert made.empty_slots()[1] == 0
    fillable, empty = protocol.empty_slots()
    assert empty < 0.05 * fillable
    check_tables(made)
    assert check_routing(made, 200) == pytest.approx(check_routing(protocol, 200), abs=0.15)


def test_near_nodes_are_preferred() -> None:
    """Two sites, between which it is far: most entries that could be of one's own site are."""
    near, far = LinkQuality(0.002, 0.0), LinkQuality(0.08, 0.0)

    def site(name: str) -> int:
        return int(name[1:]) % 2

    ring = SimulatedRing(World(2))
    ring.world.network.quality_of = lambda one, other: near if site(one) == site(other) else far
    ring.add_many(50, apart_seconds=0.5)
    ring.run_until(ring.is_right, LONG_SECONDS)
    ring.world.run_for(400.0)
    for what in ("table", "neighbourhood"):
        entries = [(name, entry.name) for name in ring.living for entry in getattr(ring.nodes[name].place, what)]
        at_home = sum(site(here) == site(there) for here, there in entries)
        assert at_home > 0.75 * len(entries), what


def test_a_node_alone_keeps_all_messages() -> None:
    ring = joined(1)
    ring.route("p0000", key_of(b"anything"), b"to myself", Assurance.END_TO_END)
    assert [each.routed.hops for each in ring.deliveries] == [0]
    ring.world.run_for(60.0)
    assert len(ring.deliveries) == 1


def test_what_is_routed_before_a_node_has_joined_waits() -> None:
    ring = joined(10)
    ring.add("late", ["p0003"])
    key = key_of(b"early")
    ring.route("late", key, b"early")
    assert not ring.deliveries
    ring.world.run_for(10.0)
    assert [(each.node, each.routed.source.name) for each in ring.deliveries] == [(ring.closest(key), "late")]


def test_the_same_seed_is_the_same_run() -> None:
    one, other = joined(30, 8, LinkQuality(loss=0.02)), joined(30, 8, LinkQuality(loss=0.02))
    assert one.world.network.datagrams_sent == other.world.network.datagrams_sent
    assert one.world.network.rng.random() == other.world.network.rng.random()


def test_a_quiet_ring_sends_little() -> None:
    ring = joined(60, 1)
    ring.world.run_for(60.0)
    before = ring.world.network.datagrams_sent
    ring.world.run_for(100.0)
    assert (ring.world.network.datagrams_sent - before) / 60 / 100 < 1.0


def test_a_node_that_left_its_random_numbers_alone_draws_none_of_its_own() -> None:
    """Chance is an argument: two nodes with the same do the same."""
    state = random.getstate()
    joined(5)
    assert random.getstate() == state
