"""Copies of regions: who has them, and what is not confirmed or answered without them."""

from __future__ import annotations

import pytest
from tests.dmm.perfect_ring import PerfectRing
from tests.dmm.scenario import Run

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.messages import Activate, Install, encode
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.region import RegionState
from fieldfare.dmm.spaces import RegionName, Space, Spaces
from fieldfare.pastry.options import PastryOptions
from fieldfare.simulation.peers import SimulatedPeers
from fieldfare.simulation.world import World

ROOT = Space("t", ("a0",)).root
KEY = Spaces().key(ROOT)
FAR = (KEY + 2**127) % 2**128


@pytest.fixture
def ring() -> PerfectRing:
    """Five peers. The first has the region of a0; it is alone with what its neighbours keep of it."""
    ring = PerfectRing(1)
    for number, name in enumerate(["owner", "p1", "p2", "p3", "p4"]):
        ring.add(name, node_id=(KEY + number) if name == "owner" else FAR + number)
        ring.clock.run_for(1)
    return ring


def test_a_subscription_is_confirmed_only_when_the_copies_are(ring: PerfectRing) -> None:
    partition = ring.network.partition(["owner"], ["p2", "p3", "p4"])
    ring.subscribe("p1", "s", "a0 > 3")
    ring.clock.run_for(5)
    owner = ring.peers["owner"].keeper.book.regions[ROOT]
    assert owner.size == 1
    assert "s" not in ring.active, "the visit was repeated, but nobody else has the entry yet"
    ring.network.heal(partition)
    ring.run_until(lambda: "s" in ring.active)
    assert all(peer.keeper.book.regions[ROOT].size == 1 for peer in ring.peers.values())


def test_who_has_missed_that_a_region_is_forgotten_keeps_the_new_one_right(ring: PerfectRing) -> None:
    for number in range(3):
        ring.subscribe("p1", f"s{number}", f"a0 > {3 - number}")
        ring.run_until(lambda: f"s{number}" in ring.active)  # noqa: B023 - it is called at once
    partition = ring.network.partition(["owner"], ["p2"])
    for number in range(3):
        ring.unsubscribe(f"s{number}")
    ring.clock.run_for(200)
    assert ROOT not in ring.peers["owner"].keeper.book.regions
    assert ROOT in ring.peers["p2"].keeper.book.regions
    ring.network.heal(partition)
    ring.subscribe("p1", "again", "a0 > 5")
    ring.run_until(lambda: "again" in ring.active)
    for peer in ring.peers.values():
        table = peer.keeper.book.regions[ROOT].table
        assert table is not None
        assert [entry.condition for entry in table.entries(ring.clock.now)] == ["a0 > 5"]


def test_a_newcomer_answers_only_when_it_has_the_copies(ring: PerfectRing) -> None:
    ring.crash("owner")
    ring.subscribe("p1", "s", "a0 > 3")
    ring.run_until(lambda: "s" in ring.active)
    partition = ring.network.partition(["newcomer"], ["p1", "p2", "p3"])
    ring.add("newcomer", node_id=KEY)
    ref = ring.publish("p4", {"a0": 5})
    ring.subscribe("p4", "later", "a0 > 7")
    ring.clock.run_for(5)
    assert not ring.peers["newcomer"].is_ready
    assert ring.peers["newcomer"].keeper.load() <= 1, "it may have a copy of one entry, but takes no other"
    assert ref not in ring.outcomes
    ring.network.heal(partition)
    ring.run_until(lambda: ref in ring.outcomes)
    assert ring.deliveries[ref] == {"s": 1}
    assert ring.outcomes[ref].is_vouched


def test_neighbours_keep_the_same_after_peers_have_come_and_gone() -> None:
    run = Run(6, 14, options=DmmOptions(entries_max=8, replicas_each_side=2))
    for _ in range(70):
        run.subscribe()
    run.settle_subscriptions()
    run.crash(4)
    run.ring.clock.run_for(3)
    run.join()
    run.ring.clock.run_for(5)
    copies = inner = 0
    for name, peer in run.ring.peers.items():
        for region in peer.keeper.book.primaries():
            for neighbour in peer.keeper.book.neighbours().values():
                copy = run.ring.peers[neighbour.name].keeper.book.regions.get(region.name)
                assert copy is not None, (name, neighbour.name, str(region.name))
                assert (copy.version, copy.size, copy.is_primary) == (region.version, region.size, False)
                copies += 1
                inner += copy.state is RegionState.INNER
    assert copies > 20
    assert inner > 4


def test_a_part_that_is_prepared_twice_keeps_its_entries() -> None:
    ring = PerfectRing(1)
    place = ring.add("p1")
    entry = Entry("e", 1, 60.0, peer=place.me.card, condition="a0 > 3")
    part = ROOT.at("1")
    for message in (
        Install(1, part, "", 2, is_inner=False, entries=(entry,), complete_in_seconds=0.0),
        Install(2, part, "", 2, is_inner=False, entries=(), complete_in_seconds=30.0),
        Activate(3, part, 2),
    ):
        place.send(place.me, encode(message), ring.clock.now)
        ring.clock.run_for(0.1)
    region = place.peer.keeper.book.regions[part]
    assert (region.state, region.size) == (RegionState.LEAF, 1)
    assert region.complete_at <= ring.clock.now


def test_four_neighbours_on_each_side_keep_copies_unless_somebody_says_otherwise() -> None:
    ring = PerfectRing(2)
    for number in range(14):
        ring.add(f"p{number}")
        ring.clock.run_for(0.5)
    ring.subscribe("p1", "s", "a0 > 3")
    ring.run_until(lambda: "s" in ring.active)
    having = [name for name, peer in ring.peers.items() if ROOT in peer.keeper.book.regions]
    assert len(having) == 1 + 2 * 4


def test_who_is_asked_unexpectedly_takes_over_long_before_a_heartbeat_is_missed() -> None:
    """The peer that kept a region has crashed, and nobody looks for it. The first event finds that out."""
    peers = SimulatedPeers(World(1), pastry_options=PastryOptions(heartbeat_seconds=10_000.0))
    peers.add_acquainted({f"p{number}": DmmOptions() for number in range(40)})
    peers.clock.run_for(DmmOptions().complete_seconds + 1)  # all began at once: nobody could know what there was
    keeper = peers.ring.closest(KEY)
    wanting, giving = [name for name in peers.peers if name != keeper][:2]
    peers.subscribe(wanting, "s", "a0 > 3")
    peers.run_until(lambda: "s" in peers.active)
    peers.crash(keeper)
    ref = peers.publish(giving, {"a0": 5})
    assert peers.run_until(lambda: ref in peers.outcomes, 20.0) < 10.0
    assert peers.deliveries[ref] == {"s": 1}
    assert peers.outcomes[ref].is_vouched, "a copy is as good as the table"


def split_ring() -> tuple[PerfectRing, RegionName]:
    """Five peers, a space that has split, and one of its leaves."""
    ring = PerfectRing(3)
    for number in range(5):
        ring.add(f"p{number}", DmmOptions(entries_max=8, refresh_seconds=6.0, entry_seconds=18.0))
        ring.clock.run_for(1)
    for number in range(30):
        ring.subscribe(f"p{number % 5}", f"s{number}", f"a0 BETWEEN {10 * number} AND {10 * number + 4}")
    ring.run_until(lambda: len(ring.active) == 30)
    ring.clock.run_for(10)
    regions = (region for peer in ring.peers.values() for region in peer.keeper.book.primaries())
    leaf = max(
        (each for each in regions if each.state is RegionState.LEAF), key=lambda each: (each.size, each.name.code)
    )
    assert leaf.name.code != ""
    return ring, leaf.name


def test_a_leaf_that_is_lost_with_all_its_copies_is_made_again_and_events_come_late_rather_than_never() -> None:
    ring, leaf = split_ring()
    parts = [peer.keeper.book.regions.pop(leaf, None) for peer in ring.peers.values()]
    table = next(part.table for part in parts if part is not None and part.table is not None)
    entry = table.entries(ring.clock.now)[0]
    low = int((entry.condition or "").split()[2])
    ref = ring.publish("p0", {"a0": low})
    ring.run_until(lambda: bool(ring.deliveries[ref]), 30.0)
    ring.run_until(lambda: ref in ring.outcomes)
    assert ring.deliveries[ref] == {f"s{low // 10}": 1}
    assert ring.outcomes[ref].is_vouched


def test_a_region_whose_parts_find_no_room_stays_a_leaf_and_serves() -> None:
    ring = PerfectRing(3)
    for number in range(5):
        ring.add(f"p{number}", DmmOptions(entries_max=8, entries_kept_max=30 if number else 200_000))
        ring.clock.run_for(1)
    refs = [f"s{number}" for number in range(30)]
    for number, ref in enumerate(refs):
        ring.subscribe(f"p{number % 5}", ref, f"a0 BETWEEN {10 * number} AND {10 * number + 4}")
        ring.clock.run_for(0.2)
    ring.run_until(lambda: len(ring.active) + len(ring.refused) == 30)
    events = {ref: ring.publish("p1", {"a0": 10 * number}) for number, ref in enumerate(refs)}
    ring.run_until(lambda: len(ring.outcomes) == 30)
    for ref, event in events.items():
        assert ring.deliveries[event] == ({ref: 1} if ref in ring.active else {})
    assert 5 < len(ring.active) < 30
