"""Members that lie to other members, whose names they cannot take: who answers, confirms or publishes for others."""

from __future__ import annotations

import pytest
from tests.dmm.perfect_ring import PerfectRing

from fieldfare.dmm.messages import EventTaken, Fulfilled, OwedEvent, encode
from fieldfare.dmm.spaces import Space


@pytest.fixture
def ring() -> PerfectRing:
    ring = PerfectRing(1)
    for number in range(6):
        ring.add(f"p{number}")
        ring.clock.run_for(1)
    return ring


def keepers(ring: PerfectRing) -> list[str]:
    """The peers that answer for the space of a0, and for the empty one."""
    roots = [Space("t", ("a0",)).root, Space("t", ()).root]
    return [name for root in roots for name, peer in ring.peers.items() if peer.keeper.book.is_responsible(root)]


def test_an_event_is_owed_until_the_peer_that_wants_it_says_that_it_took_it(ring: PerfectRing) -> None:
    wanting, giving, lying, *_ = [name for name in ring.peers if name not in keepers(ring)]
    ring.subscribe(wanting, "s", "a0 > 3")
    ring.run_until(lambda: "s" in ring.active)
    partition = ring.network.partition([wanting], [giving])
    ref = ring.publish(giving, {"a0": 5})
    ring.clock.run_for(5)
    outbox, number = ring.accepted[ref].event_id.rsplit(":", 1)
    liar, publisher = ring.places[lying], ring.places[giving]
    liar.send(publisher.me, encode(EventTaken(outbox, int(number))), ring.clock.now)
    ring.clock.run_for(5)
    assert publisher.peer.publishing.outstanding(ref) == (wanting,)
    ring.network.heal(partition)
    ring.run_until(lambda: ref in ring.outcomes)
    assert ring.deliveries[ref] == {"s": 1}
    assert (ring.outcomes[ref].taken, ring.outcomes[ref].missed) == (1, ())


def test_nobody_confirms_a_copy_for_another(ring: PerfectRing) -> None:
    keeper = keepers(ring)[0]
    others = [name for name in ring.peers if name != keeper]
    partition = ring.network.partition([keeper], others[:1])
    ring.subscribe(others[1], "s", "a0 > 3")
    ring.clock.run_for(1)
    for number in range(1_000):
        ring.places[others[2]].send(ring.places[keeper].me, encode(Fulfilled(number)), ring.clock.now)
    ring.clock.run_for(5)
    assert ring.peers[keeper].requests.false_answers > 0
    assert "s" not in ring.active
    ring.network.heal(partition)
    ring.run_until(lambda: "s" in ring.active)


def test_nobody_publishes_in_the_name_of_another(ring: PerfectRing) -> None:
    ring.subscribe("p1", "s", "a0 > 3")
    ring.run_until(lambda: "s" in ring.active)
    target = ring.places["p1"]
    forged = OwedEvent("p0@0", 7, 7, "t", b'{"a0": 5, "ref": ["forged"]}')
    ring.published_at["forged"] = ring.clock.now
    ring.places["p2"].send(target.me, encode(forged), ring.clock.now)
    ring.clock.run_for(1)
    assert not ring.deliveries["forged"]
    assert target.peer.taking.misattributed == 1
    ring.places["p0"].send(target.me, encode(forged), ring.clock.now)
    ring.clock.run_for(1)
    assert ring.deliveries["forged"] == {"s": 1}
