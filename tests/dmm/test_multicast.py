"""Best effort: events go back along the paths of subscriptions, and at each hop only where they are wanted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.dmm.scenario import EXPERIMENT

from fieldfare.dmm.messages import MulticastEvent, decode
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.matching import oracle
from fieldfare.pastry.pastry_frames import Note
from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.peers import SimulatedPeers, event_ref
from fieldfare.simulation.world import World

SCHEMES = {"t": TopicScheme(EXPERIMENT.domains, is_reliable=False)}


class Watched(SimulatedPeers):
    """Peers, and which events went from whom to whom by multicast."""

    def __init__(self, world: World) -> None:
        super().__init__(world, SCHEMES)
        self.hops: Counter[tuple[str, str, str]] = Counter()  # by event, sender and receiver
        send = world.network.send

        def watch(source: str, target: str, message: Any) -> None:
            if isinstance(message, Note) and isinstance(event := decode(message.message), MulticastEvent):
                self.hops[event_ref(event.event), source, target] += 1
            send(source, target, message)

        world.network.send = watch  # type: ignore[method-assign]


@pytest.fixture
def peers() -> Watched:
    peers = Watched(World(3, LinkQuality()))
    peers.add_acquainted({f"p{number}": DmmOptions() for number in range(150)})
    peers.clock.run_for(2)
    return peers


def test_each_hop_sends_an_event_only_where_it_is_wanted(peers: Watched) -> None:
    """All want the same attribute, so all paths lead to one leaf; but an event follows only some of them."""
    for number in range(120):
        peers.subscribe(f"p{number}", f"s{number}", f"a0 BETWEEN {2 * number} AND {2 * number + 9}")
    peers.run_until(lambda: len(peers.active) == 120)
    passed_on = 0
    for a0 in (20, 90, 200, 255):
        ref = peers.publish("p149", {"a0": a0})
        peers.clock.run_for(5)
        wanted = {ref for ref, each in peers.wanted.items() if oracle.holds(each.condition, {"a0": a0})}
        assert peers.deliveries[ref] == Counter(wanted)
        hops = [hop for hop in peers.hops if hop[0] == ref]
        came_to = {target for _, _, target in hops}
        sent_by = {source for _, source, _ in hops}
        wanting = {peers.wanted[each].peer for each in wanted}
        assert came_to <= wanting | sent_by, "it came to a peer that neither wants it nor knows anybody who does"
        assert all(times == 1 for hop, times in peers.hops.items() if hop[0] == ref)
        passed_on += len(sent_by & came_to)
    assert passed_on, "there are hops between the leaf and the subscribers"


def test_an_event_that_nobody_wants_is_sent_to_nobody(peers: Watched) -> None:
    for number in range(40):
        peers.subscribe(f"p{number}", f"s{number}", f"a0 BETWEEN {number} AND {number + 50}")
    peers.run_until(lambda: len(peers.active) == 40)
    ref = peers.publish("p149", {"a0": 200})
    peers.clock.run_for(5)
    assert not peers.hops
    assert not peers.deliveries[ref]
