"""Real brokers in a WAN in a box, beside the simulator with the same settings: events take the same ways.

Hops are longer than in the paper: half of one, by which they may be apart, is then far more than a busy machine
adds, and far less than a hop that is missing or one too many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fieldfare.experiments.pubsubcoord.latency_budgets import LinkCase, way
from fieldfare.experiments.pubsubcoord.live import Comparison, compare_case, compare_locality
from fieldfare.experiments.pubsubcoord.live_brokers import LiveBrokers
from fieldfare.experiments.wan import why_unavailable

SAMPLES = 30
HOP = way(0.15, loss=0.0)
LOSSY_HOP = way(0.15, loss=0.02)


@pytest.fixture(scope="module")
def brokers() -> Iterator[LiveBrokers]:
    if (reason := why_unavailable()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with LiveBrokers() as started:
        yield started


def check(comparison: Comparison, samples: int) -> None:
    assert len(comparison.live) == samples, "every event arrives, once"
    assert comparison.agrees, f"{comparison.name}: {comparison.live}, simulated {comparison.simulated}"


def test_local_events_stay_and_others_take_two_hops(brokers: LiveBrokers) -> None:
    local, other = compare_locality(brokers, topics_per_network=2, samples=SAMPLES, wan=HOP)
    check(local, 2 * SAMPLES)
    check(other, 2 * SAMPLES)


def test_a_second_path_takes_one_hop_and_does_not_wait_for_what_the_first_has_lost(brokers: LiveBrokers) -> None:
    case = LinkCase("a direct link without loss", LOSSY_HOP, LOSSY_HOP, HOP)
    check(compare_case(brokers, case, SAMPLES, has_second_path=True), SAMPLES)


def test_an_additional_hop_would_be_seen(brokers: LiveBrokers) -> None:
    """Real edges that cannot reach each other have no second path; the simulated ones have it."""
    brokers.wan.cut("here", "there")
    try:
        comparison = compare_case(brokers, LinkCase("cut", HOP, HOP, HOP), SAMPLES, has_second_path=True)
    finally:
        brokers.wan.heal()
    assert len(comparison.live) == SAMPLES, "the first path serves"
    assert not comparison.agrees
