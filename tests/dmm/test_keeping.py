"""Copies of regions: who has them, and what is not confirmed or answered without them."""

from __future__ import annotations

import pytest
from tests.dmm.perfect_ring import PerfectRing
from tests.dmm.scenario import Run

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.messages import Activate, Install, encode
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.region import State
from fieldfare.dmm.spaces import Space, Spaces

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
    for _ in range(25):
        run.subscribe()
    run.settle_subscriptions()
    run.crash(4)
    run.ring.clock.run_for(3)
    run.join()
    run.ring.clock.run_for(5)
    copies = 0
    for name, peer in run.ring.peers.items():
        for region in peer.keeper.book.primaries():
            for neighbour in peer.keeper.book.neighbours().values():
                copy = run.ring.peers[neighbour.name].keeper.book.regions.get(region.name)
                assert copy is not None, (name, neighbour.name, str(region.name))
                assert (copy.version, copy.size, copy.is_primary) == (region.version, region.size, False)
                copies += 1
    assert copies > 20


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
    assert (region.state, region.size) == (State.LEAF, 1)
    assert region.complete_at <= ring.clock.now
