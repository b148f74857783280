"""Replicas that hold only who sent entries, as in the paper: smaller, slower to recover, and nothing is lost either."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.dmm.scenario import Run, pastry_ring

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.sender_replicas import ReplicaContent, senders_of
from fieldfare.dmm.spaces import RegionName, Space
from fieldfare.pastry.ports import Card

OPTIONS = DmmOptions(
    entries_max=10,
    replicas_each_side=2,
    replicas_hold=ReplicaContent.SENDERS,
    refresh_seconds=5.0,
    entry_seconds=15.0,
)


@pytest.mark.parametrize("seed", range(2))
def test_peers_that_come_and_crash_lose_nothing(seed: int) -> None:
    run = Run(seed, 12, options=replace(OPTIONS, entries_max=20))
    for _ in range(25):
        run.subscribe()
    run.settle_subscriptions()
    for step in range(18):
        if step % 3 == 0:
            run.join()
        elif step % 3 == 1:
            run.crash(1)
        run.subscribe()
        run.publish(lifespan_seconds=30.0)
        run.ring.clock.run_for(run.rng.uniform(0, 1.5))
    run.settle_events()
    run.check()


def test_on_a_real_ring_after_a_crash_of_many_events_come_late_rather_than_never() -> None:
    run = Run(5, 24, options=OPTIONS, make_ring=pastry_ring)
    for _ in range(50):
        run.subscribe()
    run.settle_subscriptions()
    run.crash(5)
    for _ in range(15):
        run.publish(lifespan_seconds=60.0)
        run.ring.clock.run_for(0.3)
    run.settle_events()
    run.check()
    assert sum(map(len, run.expected.values())) > 15


def test_a_peer_that_takes_over_has_the_entries_again_before_anybody_refreshes() -> None:
    """Nobody crashes that sent entries, so all of them are sent again at once."""
    options = replace(OPTIONS, refresh_seconds=100.0, entry_seconds=300.0, entries_max=1_000)
    run = Run(1, 12, options=options)
    ring = run.ring
    ring.clock.run_for(options.complete_seconds)
    space = Space("t", ("a0",))
    keeper = min(ring.peers, key=lambda name: not ring.peers[name].keeper.book.is_responsible(space.root))
    for number, name in enumerate([name for name in sorted(ring.peers) if name != keeper] * 3):
        ring.subscribe(name, f"s{number}", f"a0 BETWEEN {number} AND {number + 5}")
    ring.run_until(lambda: len(ring.active) == 33)
    copies = [
        entry
        for peer in ring.peers.values()
        for region in peer.keeper.book.regions.values()
        if region.name == space.root and not region.is_primary and region.table is not None
        for entry in (*region.table.lines, *region.table.entries(ring.clock.now))
    ]
    assert all(entry.is_line for entry in copies)
    assert len(copies) == 4 * 11, "a line for each of 11 peers at each of 4 neighbours, however many entries these have"
    ring.crash(keeper)
    ring.run_until(ring.is_right)
    ref = ring.publish(min(ring.peers), {"a0": 12}, lifespan_seconds=500.0)
    ring.run_until(lambda: ref in ring.outcomes, 30.0)
    assert ring.outcomes[ref].is_vouched
    assert len(ring.deliveries[ref]) == 6


def test_there_is_one_line_for_each_peer_and_each_linked_region() -> None:
    card, again = Card("alice", "somewhere", 7), Card("alice", "elsewhere", 8)
    link = RegionName(Space("t", ("a0", "a1")), "01")
    lines = senders_of(
        [
            Entry("1", 7, 10.0, card, condition="a0 > 3"),
            Entry("2", 8, 20.0, again, condition="a0 > 4"),
            Entry("3", 5, 30.0, region=link, covering=b""),
        ]
    )
    assert [(line.peer, line.region, line.seconds_left, line.is_line) for line in lines] == [
        (again, None, 20.0, True),
        (None, link, 30.0, True),
    ]
    assert senders_of(lines) == lines
