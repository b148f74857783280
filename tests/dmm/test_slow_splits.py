"""While a region splits nobody can refresh its entries: none of them may be forgotten, however long that takes."""

from __future__ import annotations

from fieldfare.dmm.axis_codes import DomainAxis
from fieldfare.dmm.entries import Entry
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.region import RegionState
from fieldfare.dmm.spaces import RegionName, Space, TopicScheme
from fieldfare.dmm.zcodes import ROOT
from fieldfare.pastry.ports import Card
from fieldfare.simulation.peers import TOPIC, SimulatedPeers
from fieldfare.simulation.world import World

OPTIONS = DmmOptions(entries_max=10, replicas_each_side=0, refresh_seconds=30.0, entry_seconds=60.0)
ENTRIES = 40


def _kept(peers: SimulatedPeers) -> dict[str, int]:
    """At how many active leaves each entry is."""
    found: dict[str, int] = {}
    for peer in peers.peers.values():
        for region in peer.keeper.book.primaries():
            if region.answers and region.table is not None:
                for entry in region.table.entries(peers.clock.now):
                    found[entry.id] = found.get(entry.id, 0) + 1
    return found


def test_entries_that_were_due_for_refreshing_outlive_a_split() -> None:
    peers = SimulatedPeers(World(seed=3), {TOPIC: TopicScheme({"speed": DomainAxis(1, 256)})})
    peers.add_acquainted(dict.fromkeys((f"p{number}" for number in range(12)), OPTIONS))
    peers.clock.run_for(1.0)
    name, now = RegionName(Space(TOPIC, ("speed",)), ROOT), peers.clock.now
    keeper = next(each.keeper for each in peers.peers.values() if each.keeper.book.is_responsible(name))
    region = keeper.book.create(name, RegionState.LEAF, 1, now)
    assert region.table is not None
    nobody = Card("nobody", "nowhere", 1)  # it does not refresh them
    region.table.put(
        (
            Entry(f"e{number}", 1, 0.5, peer=nobody, condition=f"speed BETWEEN {6 * number + 1} AND {6 * number + 6}")
            for number in range(ENTRIES)
        ),
        now,
    )
    keeper.splitting.split_if_full(now)
    assert region.state is RegionState.SPLITTING
    peers.clock.run_for(0.8 * OPTIONS.entry_seconds)
    assert not region.answers
    assert set(_kept(peers)) == {f"e{number}" for number in range(ENTRIES)}
    peers.clock.run_for(5.0 * OPTIONS.entry_seconds)
    assert not _kept(peers), "in the end those that nobody refreshes are forgotten"
