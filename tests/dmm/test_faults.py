"""Partitions that heal, and peers that send nonsense."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dmm.perfect_ring import PerfectRing
from tests.dmm.scenario import Run, pastry_ring

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.leaf_walk import RegionKind
from fieldfare.dmm.messages import (
    Activate,
    Answer,
    AskForCopies,
    AskPrimary,
    Copy,
    EventTaken,
    Fulfilled,
    Give,
    Given,
    Install,
    MatchWork,
    MulticastEvent,
    OwedEvent,
    PlaceWork,
    Primary,
    Release,
    RemoveWork,
    Report,
    Retire,
    Visit,
    encode,
)
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.peer_messages import PeerDelivered, PeerSubscribed
from fieldfare.dmm.spaces import RegionName, Space
from fieldfare.messages import Effect
from fieldfare.pastry.ports import Card
from fieldfare.simulation.peers import SimulatedPeers


def test_both_sides_of_a_partition_serve_their_own_and_all_is_one_again_when_it_heals() -> None:
    options = DmmOptions(entries_max=10, refresh_seconds=5.0, entry_seconds=20.0)
    run = Run(4, 12, options=options, make_ring=pastry_ring)
    ring = run.ring
    assert isinstance(ring, SimulatedPeers)
    for _ in range(20):
        run.subscribe()
    run.settle_subscriptions()
    names = sorted(ring.peers)
    one, other = names[:6], names[6:]
    partition = ring.ring.world.partition(one, other)
    ring.clock.run_for(60)
    event = {"a0": 100, "a1": 100, "a2": 100, "a3": 100}
    inside = ring.publish("p1", event, lifespan_seconds=300.0)
    ring.clock.run_for(20)
    near = {ref for ref in run.matching(event) if ring.wanted[ref].peer in one}
    assert near == ring.deliveries[inside].keys() < run.matching(event)
    ring.ring.world.heal(partition)
    ring.run_until(ring.is_right, 400)
    ring.clock.run_for(2 * options.refresh_seconds)
    for _ in range(15):
        run.publish()
        ring.clock.run_for(0.2)
    run.settle_events()
    run.check()
    assert sum(map(len, run.expected.values())) > 10
    assert run.matching(event) == ring.deliveries[inside].keys(), "living events reach the other side, late"
    assert set(ring.deliveries[inside].values()) == {1}


CARD = Card("stranger", "stranger", 1)
spaces = st.builds(Space, st.just("t"), st.sampled_from([(), ("a0",), ("a0", "a1"), ("zz", "zz")]))
regions = st.builds(RegionName, spaces, st.text("01", max_size=20))
numbers = st.integers(-5, 5) | st.integers(0, 2**40)
entries = st.builds(
    Entry,
    st.text(max_size=3),
    numbers,
    st.floats(-5, 500),
    st.none() | st.just(CARD),
    st.none() | regions,
    st.none() | st.sampled_from(["a0 > 3", "a0 >", "TRUE"]),
    st.none() | st.binary(max_size=9),
)
tables = st.lists(entries, max_size=3).map(tuple)
events = st.sampled_from([b"{}", b'{"a0": 5, "a1": 7}', b"[", b'{"a0": 1e999}'])
works = (
    st.builds(PlaceWork, tables) | st.builds(RemoveWork, st.text(max_size=3), numbers) | st.builds(MatchWork, events)
)
flags = st.booleans()
messages = st.one_of(
    st.builds(Visit, numbers, regions, works, st.none() | st.text("01", max_size=20)),
    st.builds(Answer, numbers, regions, st.none() | st.sampled_from(RegionKind), numbers, flags, st.just((CARD,))),
    st.builds(Install, numbers, regions, st.text("01", max_size=5), numbers, flags, tables, st.floats(-1, 50)),
    st.builds(Activate, numbers, regions, numbers),
    st.builds(Give, numbers, regions),
    st.builds(Given, numbers, st.none() | tables, numbers, numbers, st.floats(-1, 50)),
    st.builds(Retire, numbers, regions, numbers, numbers),
    st.builds(Release, numbers, regions),
    st.builds(Report, regions, numbers, st.none() | numbers),
    st.builds(
        Copy,
        numbers,
        regions,
        numbers,
        numbers,
        st.sampled_from(["leaf", "inner", "prepared", "prepared inner", "gone"]),
        flags,
        tables,
        st.lists(st.text(max_size=3), max_size=2).map(tuple),
        st.floats(-1, 50),
        st.text("01", max_size=5),
    ),
    st.builds(AskForCopies, numbers),
    st.builds(AskPrimary, numbers, regions, st.just(((0, 5),)), st.sampled_from(["a0", "q"]), numbers),
    st.builds(Primary, numbers, st.sampled_from(["a0", "q"]), numbers),
    st.builds(Fulfilled, numbers, flags),
    st.builds(OwedEvent, st.just("o"), numbers, numbers, st.just("t"), events),
    st.builds(MulticastEvent, st.text(max_size=3), spaces, events),
    st.builds(EventTaken, st.just("o"), numbers),
)


class Deaf(PerfectRing):
    """Events of strangers may be delivered, too."""

    def told(self, effect: Effect) -> None:
        assert isinstance(effect, PeerSubscribed | PeerDelivered)


@settings(max_examples=40, deadline=None)
@given(st.lists(messages, max_size=25), st.integers(0, 2**32))
def test_no_message_makes_a_peer_fail(sent: list[Visit], seed: int) -> None:
    ring = Deaf(1)
    for name in ("p1", "p2", "p3"):
        ring.add(name)
    ring.clock.run_for(1)
    rng = random.Random(seed)
    ring.subscribe("p1", "s", "a0 > 3 AND a1 < 9")
    for message in sent:
        sender, receiver = rng.choice(list(ring.places.values())), rng.choice(list(ring.places.values()))
        sender.send(receiver.me, encode(message), ring.clock.now)
        ring.clock.run_for(0.02)
    ring.clock.run_for(100)
