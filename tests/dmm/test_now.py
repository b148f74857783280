"""The time of now among peers is the instant at which the publisher published, whoever matches the event, and when."""

from __future__ import annotations

import datetime

import pytest
from tests.dmm.scenario import EXPERIMENT

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.peers import SimulatedPeers
from fieldfare.simulation.world import World


@pytest.mark.parametrize("is_reliable", [True, False])
def test_leaves_hops_and_receivers_match_as_of_the_publication(*, is_reliable: bool) -> None:
    peers = SimulatedPeers(World(3, LinkQuality()), {"t": TopicScheme(EXPERIMENT.domains, is_reliable=is_reliable)})
    peers.add_acquainted({f"p{number}": DmmOptions() for number in range(30)})
    peers.clock.run_for(2)
    published_at = peers.clock.now + 20
    instant = datetime.datetime.fromtimestamp(published_at, datetime.UTC).isoformat()
    for number, condition in enumerate(
        (f"now() <= '{instant}'", f"now() > '{instant}'", "until > now() + INTERVAL 1 SECOND")
    ):
        peers.subscribe(f"p{number}", f"s{number}", f"a0 >= 0 AND {condition}")
    peers.run_until(lambda: len(peers.active) == 3)
    peers.clock.run_for(published_at - peers.clock.now)
    until = datetime.datetime.fromtimestamp(published_at + 1.001, datetime.UTC).isoformat()
    ref = peers.publish("p29", {"a0": 5, "until": until})
    peers.clock.run_for(10)
    assert set(peers.deliveries[ref]) == {"s0", "s2"}
