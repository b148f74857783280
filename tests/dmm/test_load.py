"""Peers that differ in what they keep: who is full gives to others, and what is beyond all limits is refused."""

from __future__ import annotations

import random

from tests.dmm.perfect_ring import PerfectRing
from tests.dmm.scenario import ATTRIBUTES, EXPERIMENT

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.peer_load import Spread
from fieldfare.matching import oracle


def narrow_condition(rng: random.Random) -> str:
    name, low = rng.choice(ATTRIBUTES), rng.randint(1, 240)
    return f"{name} BETWEEN {low} AND {low + rng.randint(0, 16)}"


def test_peers_keep_what_they_want_to_keep_and_delegate_the_rest() -> None:
    rng, ring = random.Random(1), PerfectRing(1, {"t": EXPERIMENT})
    limits = {f"p{number}": (10, 40, 160)[number % 3] for number in range(60)}
    for name, entries_max in limits.items():
        ring.add(name, DmmOptions(entries_max=entries_max, replicas_each_side=1))
    ring.run_until(ring.is_right)
    conditions = {f"s{number}": narrow_condition(rng) for number in range(600)}
    for ref, condition in conditions.items():
        ring.subscribe(rng.choice(list(limits)), ref, condition)
        ring.clock.run_for(0.01)
    ring.run_until(lambda: len(ring.active) == len(conditions))
    ring.clock.run_for(40)
    loads = {name: peer.load() for name, peer in ring.peers.items()}
    assert sum(load.entries for load in loads.values()) >= len(conditions)
    for name, load in loads.items():
        assert load.entries <= 2 * limits[name], (name, load)
    of_small, of_large = (
        Spread.of(load.entries for load in loads.values() if load.entries_max == entries_max)
        for entries_max in (10, 160)
    )
    assert of_small.mean < of_large.mean
    event = {"a0": 100, "a1": 7}
    ref = ring.publish("p0", event)
    ring.run_until(lambda: ref in ring.outcomes)
    assert ring.deliveries[ref].keys() == {name for name, text in conditions.items() if oracle.holds(text, event)}
    assert sum(peer.load().matched_events for peer in ring.peers.values()) >= 2


def test_who_can_keep_no_more_refuses_and_the_program_is_told() -> None:
    ring = PerfectRing(2, {"t": EXPERIMENT})
    for number in range(4):
        ring.add(f"p{number}", DmmOptions(entries_max=1_000, entries_kept_max=30, replicas_each_side=1))
    ring.run_until(ring.is_right)
    for number in range(100):
        ring.subscribe(f"p{number % 4}", f"s{number}", f"a0 BETWEEN {number} AND {number + 1}")
        ring.clock.run_for(0.1)
    ring.run_until(lambda: len(ring.active) + len(ring.refused) == 100)
    assert 10 <= len(ring.active) <= 30
    assert all("full" in reason for reason in ring.refused.values())
    for peer in ring.peers.values():
        load = peer.load()
        assert load.entries + load.copied_entries <= 30
    event = {"a0": 3}
    ref = ring.publish("p1", event)
    ring.run_until(lambda: ref in ring.outcomes)
    expected = {name for name in ring.active if oracle.holds(ring.wanted[name].condition, event)}
    assert ring.deliveries[ref].keys() == expected
    ring.clock.run_for(100)
    kept = sorted(ring.active)[:5]
    for ref in set(ring.active) - set(kept):
        ring.unsubscribe(ref)
    ring.clock.run_for(10)
    ring.subscribe("p2", "again", "a0 BETWEEN 90 AND 91")
    ring.run_until(lambda: "again" in ring.active)


def test_regions_count_too_and_those_in_which_nobody_wants_anything_are_forgotten() -> None:
    ring = PerfectRing(4)
    limits = DmmOptions(entries_kept_max=50, replicas_each_side=1, refresh_seconds=5.0, entry_seconds=15.0)
    for number in range(3):
        ring.add(f"p{number}", limits)
    ring.run_until(ring.is_right)
    for number in range(120):
        ring.subscribe("p0", f"s{number}", f"x{number} > 3")
        ring.clock.run_for(0.2)
        if f"s{number}" in ring.active:
            ring.unsubscribe(f"s{number}")
        assert all(len(peer.keeper.book.regions) <= 50 for peer in ring.peers.values())
    assert ring.refused
    for ref in list(ring.active):
        ring.unsubscribe(ref)
    ring.clock.run_for(60)
    assert not any(peer.keeper.book.regions for peer in ring.peers.values()), "what is empty is forgotten"
    ring.subscribe("p0", "again", "x7 > 3")
    ring.run_until(lambda: "again" in ring.active)


def test_a_spread_says_how_uneven_numbers_are() -> None:
    assert Spread.of([]) == Spread(0.0, 0.0, 0.0, 0.0, 0.0)
    even, uneven = Spread.of([5] * 20), Spread.of([0] * 18 + [50, 50])
    assert (even.mean, even.median, even.largest, even.share_of_top_tenth) == (5, 5, 5, 0.1)
    assert (uneven.mean, uneven.median, uneven.nine_tenths, uneven.share_of_top_tenth) == (5, 0, 50, 1.0)


def test_tables_of_long_conditions_fit_into_messages() -> None:
    """Each region is copied in one message. So a table is divided by its bytes, too; what cannot be is refused."""
    ring = PerfectRing(3, {"t": EXPERIMENT})
    for number in range(6):
        ring.add(f"p{number}", DmmOptions(replicas_each_side=1))
    ring.run_until(ring.is_right)
    padding = "x" * 12_000
    for number in range(120):
        ring.subscribe(f"p{number % 6}", f"s{number}", f"a0 = {2 * number} AND s != '{padding}'")
        ring.clock.run_for(0.05)
    ring.run_until(lambda: len(ring.active) == 120)
    assert sum(peer.keeper.splitting.splits for peer in ring.peers.values()) > 0
    for number in range(120):
        ring.subscribe(f"p{number % 6}", f"same{number}", f"a1 = 7 AND a2 = 7 AND s != '{padding}{number}'")
        ring.clock.run_for(0.05)
    ring.run_until(lambda: len(ring.active) + len(ring.refused) == 240)
    assert ring.refused
    assert all("full" in reason for reason in ring.refused.values())
    ref = ring.publish("p1", {"a0": 8, "a1": 7, "a2": 7, "s": "x"})
    ring.run_until(lambda: ref in ring.outcomes)
    assert ring.deliveries[ref].keys() == ring.active.keys() - {f"s{number}" for number in range(120) if number != 4}
    ring.clock.run_for(100)
    for ref in list(ring.active):
        ring.unsubscribe(ref)
    ring.clock.run_for(100)
    assert sum(peer.load().entries for peer in ring.peers.values()) == 0
