"""Whole peers on a ring: what is delivered is what brute force over all subscriptions finds, whatever happens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.dmm.perfect_ring import PerfectRing
from tests.dmm.scenario import EXPERIMENT, NOTHING_DECLARED, ONE_SPACE, MakeRing, Run, pastry_ring

from fieldfare.dmm.leaf_walk import Strategy
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.simulation.network import LinkQuality

SMALL = DmmOptions(entries_max=6, replicas_each_side=2)


@pytest.mark.parametrize(
    ("scheme", "options", "loss"),
    [
        (EXPERIMENT, SMALL, 0.0),
        (EXPERIMENT, replace(SMALL, strategy=Strategy.CLIMB, cache_leaves_max=0), 0.0),
        (NOTHING_DECLARED, SMALL, 0.0),
        (ONE_SPACE, SMALL, 0.0),
        (EXPERIMENT, SMALL, 0.05),
    ],
    ids=["DMM-AR", "climbing without a cache", "nothing declared", "DMM", "losing messages"],
)
def test_events_reach_exactly_those_who_want_them(scheme: TopicScheme, options: DmmOptions, loss: float) -> None:
    run = Run(1, 20, scheme, options, LinkQuality(loss=loss))
    for _ in range(50):
        run.subscribe()
    run.settle_subscriptions()
    for _ in range(30):
        run.publish()
        run.ring.clock.run_for(0.03)
    run.settle_events()
    run.check()
    assert run.count("splitting", "splits") > 0
    assert sum(map(len, run.expected.values())) > 50
    assert all(outcome.is_vouched and not outcome.missed for outcome in run.ring.outcomes.values())


def test_splits_and_merges_under_way_hide_nothing() -> None:
    runs = [grow_and_shrink(seed) for seed in range(2)]
    assert sum(run.count("splitting", "splits") for run in runs) > 0
    assert sum(run.count("merging", "merges") for run in runs) > 0


def grow_and_shrink(seed: int) -> Run:
    options = DmmOptions(entries_max=10, replicas_each_side=1, refresh_seconds=4.0, entry_seconds=12.0)
    run = Run(seed, 12, options=options)
    refs = []
    for _ in range(60):
        refs.append(run.subscribe())
        run.publish()
        run.ring.clock.run_for(0.02)
    run.settle_subscriptions()
    for ref in refs[:56]:
        run.unsubscribe(ref)
        run.ring.clock.run_for(0.1)
    for _ in range(20):
        run.subscribe()
        run.publish()
        run.ring.clock.run_for(0.7)
    run.settle_events()
    run.check()
    return run


@pytest.mark.parametrize("seed", range(2))
def test_peers_that_come_and_crash_lose_nothing(seed: int) -> None:
    options = DmmOptions(entries_max=10, replicas_each_side=2, refresh_seconds=5.0, entry_seconds=15.0)
    run = Run(seed, 16, options=options)
    for _ in range(40):
        run.subscribe()
    run.settle_subscriptions()
    for step in range(30):
        if step % 3 == 0:
            run.join()
        elif step % 3 == 1:
            run.crash(1)
        run.subscribe()
        run.publish(lifespan_seconds=20.0)
        run.ring.clock.run_for(run.rng.uniform(0, 1.5))
    run.settle_events()
    run.check()


def test_after_a_crash_of_many_events_come_late_rather_than_never() -> None:
    options = DmmOptions(entries_max=10, replicas_each_side=1, refresh_seconds=5.0, entry_seconds=15.0)
    run = Run(5, 24, options=options)
    for _ in range(60):
        run.subscribe()
    run.settle_subscriptions()
    run.crash(8)
    for _ in range(20):
        run.publish(lifespan_seconds=30.0)
        run.ring.clock.run_for(0.1)
    run.settle_events()
    run.check()
    assert sum(map(len, run.expected.values())) > 20


@pytest.mark.parametrize("make_ring", [PerfectRing, pastry_ring])
def test_multicast_delivers_to_all_once_where_nothing_is_lost(make_ring: MakeRing) -> None:
    scheme = TopicScheme(EXPERIMENT.domains, is_reliable=False)
    run = Run(2, 20, scheme, SMALL, make_ring=make_ring)
    for _ in range(50):
        run.subscribe()
    run.settle_subscriptions()
    for _ in range(30):
        run.publish()
        run.ring.clock.run_for(0.1)
    run.settle_events()
    run.ring.clock.run_for(2)
    run.check()
    assert run.count("splitting", "splits") > 0
    assert sum(map(len, run.expected.values())) > 50


def test_on_a_real_ring_that_loses_messages_and_peers() -> None:
    options = DmmOptions(entries_max=8, refresh_seconds=10.0, entry_seconds=30.0)
    run = Run(3, 16, options=options, link=LinkQuality(loss=0.02), make_ring=pastry_ring)
    for _ in range(40):
        run.subscribe()
    run.settle_subscriptions()
    for step in range(20):
        if step in (5, 10):
            run.crash(1)
        if step in (7, 12):
            run.join()
        run.publish(lifespan_seconds=60.0)
        run.ring.clock.run_for(0.3)
    run.settle_events()
    run.check()
    assert sum(map(len, run.expected.values())) > 20
