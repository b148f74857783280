"""A subscription inside of another one of its peer needs no entries; all are delivered whatever comes and goes."""

from __future__ import annotations

import random

import pytest
from tests.dmm.perfect_ring import PerfectRing
from tests.dmm.scenario import EXPERIMENT, meaning

from fieldfare.dmm.options import DmmOptions
from fieldfare.matching import oracle

OPTIONS = DmmOptions(entries_max=10, replicas_each_side=1, refresh_seconds=5.0, entry_seconds=15.0)


def ring_of(seed: int, count: int = 8) -> PerfectRing:
    ring = PerfectRing(seed, {"t": EXPERIMENT})
    for number in range(count):
        ring.add(f"p{number}", OPTIONS)
    ring.run_until(ring.is_right)
    return ring


def entries(ring: PerfectRing) -> int:
    return sum(peer.load().entries for peer in ring.peers.values())


def test_what_lies_inside_is_not_placed_and_comes_once() -> None:
    ring = ring_of(1)
    ring.subscribe("p1", "wide", "a0 BETWEEN 10 AND 100")
    ring.run_until(lambda: "wide" in ring.active)
    ring.subscribe("p1", "narrow", "a0 BETWEEN 20 AND 30 AND a1 > 5")
    ring.subscribe("p1", "both", "a0 BETWEEN 20 AND 30 OR a0 = 50")
    ring.run_until(lambda: len(ring.active) == 3)
    assert entries(ring) == 1
    ref = ring.publish("p2", {"a0": 25, "a1": 9})
    ring.run_until(lambda: ref in ring.outcomes)
    assert ring.deliveries[ref] == {"wide": 1, "narrow": 1, "both": 1}
    assert ring.outcomes[ref].taken == 1


def test_entries_are_taken_back_when_a_wider_subscription_comes_and_placed_again_when_it_goes() -> None:
    ring = ring_of(2)
    for number in range(5):
        ring.subscribe("p1", f"s{number}", f"a0 BETWEEN {10 * number} AND {10 * number + 5}")
    ring.subscribe("p2", "of another peer", "a0 BETWEEN 10 AND 15")
    ring.subscribe("p1", "elsewhere", "a1 > 5")
    ring.run_until(lambda: len(ring.active) == 7)
    assert entries(ring) == 7
    ring.subscribe("p1", "wide", "a0 >= 0")
    ring.run_until(lambda: entries(ring) == 3)
    ring.clock.run_for(30)
    assert entries(ring) == 3
    ring.unsubscribe("wide")
    ref = ring.publish("p3", {"a0": 12})
    ring.run_until(lambda: ref in ring.outcomes)
    assert ring.deliveries[ref] == {"s1": 1, "of another peer": 1}
    ring.run_until(lambda: entries(ring) == 7)


@pytest.mark.parametrize("seed", range(3))
def test_subscriptions_that_come_and_go_inside_of_each_other_hide_nothing(seed: int) -> None:
    ring, rng = ring_of(seed), random.Random(seed)
    expected: dict[str, set[str]] = {}
    for step in range(60):
        low = rng.randint(1, 200)
        width = rng.choice((2, 20, 100, 250))
        condition = f"a0 BETWEEN {low} AND {low + width}"
        if rng.random() < 0.3:
            condition += f" AND a1 BETWEEN {low} AND {low + width}"
        ring.subscribe(f"p{rng.randrange(3)}", f"s{step}", condition)
        if rng.random() < 0.5 and ring.active:
            gone = rng.choice(sorted(ring.active))
            ring.unsubscribe(gone)
            for refs in expected.values():
                refs.discard(gone)
        ring.clock.run_for(rng.choice((0.0, 0.01, 0.2, 1.0)))
        event = {"a0": rng.randint(1, 256), "a1": rng.randint(1, 256)}
        ref = ring.publish(f"p{rng.randrange(8)}", event)
        wanting = (name for name in ring.active if oracle.holds(ring.wanted[name].condition, meaning(event)))
        expected[ref] = set(wanting)
    ring.run_until(lambda: expected.keys() <= ring.outcomes.keys())
    for ref, refs in expected.items():
        assert refs <= ring.deliveries[ref].keys(), (ref, refs - ring.deliveries[ref].keys())
        assert set(ring.deliveries[ref].values()) <= {1}
    assert sum(map(len, expected.values())) > 50
