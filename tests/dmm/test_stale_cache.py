"""A leaf that a publishing peer remembers may be at a peer that is gone: then the ring is asked, at once."""

from __future__ import annotations

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.requests import Patience
from fieldfare.dmm.spaces import RegionName
from fieldfare.simulation.peers import SimulatedPeers
from fieldfare.simulation.world import World

PATIENCE_SECONDS = 30.0  # before a request is repeated: nothing here may wait for that
OPTIONS = DmmOptions(patience=Patience(PATIENCE_SECONDS, PATIENCE_SECONDS), cache_seconds=1_000.0)
PEERS = 24


def _leaf_peers(peers: SimulatedPeers, publisher: str) -> set[str]:
    """The peers that answer for the leaves that a publisher remembers."""
    cache, now = peers.peers[publisher].walks.cache, peers.clock.now
    spaces = peers.peers[publisher].spaces.entrances("t", {"speed": 120})
    cards = (cache.card(RegionName(space, code), now) for space in spaces for code in ("", "0", "1"))
    return {card.name for card in cards if card is not None}


def test_an_event_does_not_wait_for_a_leaf_that_is_gone() -> None:
    peers = SimulatedPeers(World(seed=4))
    names = [f"p{number}" for number in range(PEERS)]
    peers.add_acquainted(dict.fromkeys(names, OPTIONS))
    peers.subscribe("p1", "fast", "speed > 100")
    peers.run_until(lambda: "fast" in peers.active)
    first = peers.publish("p2", {"speed": 120})
    peers.run_until(lambda: "fast" in peers.deliveries[first])
    leaves = _leaf_peers(peers, "p2") - {"p1", "p2"}
    assert leaves
    peers.crash(*leaves)
    peers.clock.run_for(PATIENCE_SECONDS)  # the others know by now; but what is remembered is not looked at
    second = peers.publish("p2", {"speed": 120})
    assert peers.run_until(lambda: "fast" in peers.deliveries[second]) < PATIENCE_SECONDS / 2
