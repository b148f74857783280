"""Who is heard on a ring: members of the group, from where they are. Outsiders, recordings and lies change nothing."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pastry.test_ring import check_routing

from fieldfare.pastry.admission import ClosedGroup
from fieldfare.pastry.pastry_frames import (
    Acknowledge,
    AnyPastryFrame,
    Goodbye,
    Heartbeat,
    Hop,
    LeafCards,
    Note,
    Piece,
    Ping,
    RowAsk,
    SomeCards,
)
from fieldfare.pastry.ports import Assurance, Card
from fieldfare.simulation import World
from fieldfare.simulation.pastry import SimulatedRing

GROUP = ClosedGroup(b"a secret")
CARD = Card("somebody", "somewhere", 7)


def sealed_ring(count: int = 20) -> SimulatedRing:
    ring = SimulatedRing(World(1), with_packets=True)
    ring.add_acquainted([f"p{number:04}" for number in range(count)])
    ring.world.run_for(5.0)
    return ring


def recorded(ring: SimulatedRing) -> list[tuple[str, str, Any]]:
    """From now on somebody records all packets, with the places that they come from and go to."""
    send, packets = ring.world.network.send, []

    def send_and_record(source: str, target: str, message: Any) -> None:
        packets.append((source, target, message))
        send(source, target, message)

    ring.world.network.send = send_and_record  # type: ignore[method-assign]
    return packets


def addresses(ring: SimulatedRing) -> set[str]:
    """Where nodes believe that others are."""
    return {each.address for name in ring.living for each in ring.nodes[name].place.contacts()}


def count_of(ring: SimulatedRing, what: str) -> int:
    return sum(getattr(ring.nodes[name].counts, what) for name in ring.living)


# Ids


def test_a_place_follows_from_the_name_and_the_secret() -> None:
    again, other = ClosedGroup(b"a secret"), ClosedGroup(b"another")
    assert GROUP.id_of("alice") == again.id_of("alice") != other.id_of("alice")
    assert GROUP.id_of("alice") != GROUP.id_of("bob")
    assert 0 <= GROUP.id_of("alice") < 2**128
    contact = GROUP.contact(CARD)
    assert (contact.id, contact.name, contact.address) == (GROUP.id_of("somebody"), "somebody", "somewhere")
    assert GROUP.contact(Card("somebody", "elsewhere", 8)).id == contact.id


def test_places_are_spread_evenly() -> None:
    tenths = [GROUP.id_of(f"peer {number}") * 10 >> 128 for number in range(2_000)]
    assert all(150 < tenths.count(tenth) < 250 for tenth in range(10))


# Packets


@pytest.mark.parametrize(
    "frame",
    [
        Acknowledge("a", 1, 2, is_joined=True),
        Hop("a", 1, 2, bytes(16), CARD, 3, 1, Assurance.END_TO_END, b"x"),
        LeafCards("a", 1, 2, 0, wants_answer=True, is_joined=True, cards=(CARD, CARD)),
        Heartbeat("a", 1, 2, is_to_successor=True, leaves_hash=2**62 - 1),
        Piece("a", 1, 2**62, 3, 0, 2, b"y"),
    ],
)
def test_frames_travel_in_sealed_packets(frame: Any) -> None:
    codec = GROUP.codec()
    packet = codec.encode_line(frame)
    assert codec.decode(packet) == [frame]
    with pytest.raises(msgspec.MsgspecError):
        ClosedGroup(b"another").codec().decode(packet)
    for place in range(len(packet)):
        changed = bytearray(packet)
        changed[place] ^= 1
        with pytest.raises(msgspec.MsgspecError):
            codec.decode(bytes(changed))


@pytest.mark.parametrize(
    "frame",
    [
        Hop("a", 1, 2, bytes(15), CARD, 3, 1, Assurance.NONE, b"x"),
        Hop("a", 1, -1, bytes(16), CARD, 3, 1, Assurance.NONE, b"x"),
        Hop("", 1, 2, bytes(16), CARD, 3, 1, Assurance.NONE, b"x"),
        Hop("a", 1, 2, bytes(16), CARD, 3, 300, Assurance.NONE, b"x"),
        Hop("a", 2**43, 2, bytes(16), CARD, 3, 1, Assurance.NONE, b"x"),
        SomeCards("a", 1, 2, 0, (CARD,) * 200),
        RowAsk("a", 1, 2, 32),
        Piece("a", 1, 2, 3, 0, 1, b"y"),
        Piece("a", 1, 2, 3, 0, 2, bytes(2_000)),
        Note("a" * 201, 1, 2, is_acknowledged=True, message=b"x"),
    ],
)
def test_malformed_frames_are_not_read_even_from_members(frame: Any) -> None:
    codec = GROUP.codec()
    with pytest.raises(msgspec.ValidationError):
        codec.decode(codec.encode_line(frame))


@given(st.binary(max_size=200))
def test_garbage_is_no_packet(garbage: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        GROUP.codec().decode(garbage)


# Outsiders


def test_outsiders_are_not_heard() -> None:
    ring = sealed_ring()
    outsiders = ClosedGroup(b"another secret").codec()
    rng = random.Random(1)
    for number in range(200):
        name = rng.choice(ring.living)
        frames: list[AnyPastryFrame] = [
            LeafCards("evil", 2**40, 2**60 + number, 0, wants_answer=True, is_joined=True, cards=(CARD,)),
            Note("p0001", 2**40, 2**60 + number, is_acknowledged=True, message=b"evil"),
            Goodbye("p0001", 2**40, 2**60 + number, ()),
        ]
        ring.world.network.send("evil", name, outsiders.encode_line(rng.choice(frames)))
        ring.world.network.send("evil", name, rng.randbytes(60))
    ring.world.run_for(20.0)
    assert ring.packets is not None
    assert ring.packets.unreadable == 400
    assert not any(notes.received for notes in ring.applications.values())
    assert ring.is_right()
    assert "evil" not in addresses(ring)


@pytest.mark.parametrize("later_seconds", [1.0, 100.0])
def test_who_plays_recorded_packets_again_from_elsewhere_changes_nothing(later_seconds: float) -> None:
    ring = sealed_ring()
    packets = recorded(ring)
    for number in range(10):
        ring.send("p0001", "p0002", b"%d" % number)
    ring.add("newcomer", ["p0004"])
    check_routing(ring, 20)
    played = packets.copy()
    ring.world.run_for(later_seconds)
    deliveries, received = len(ring.deliveries), list(ring.applications["p0002"].received)
    assert len(received) == 10
    for _, target, packet in played:
        ring.world.network.send("evil", target, packet)
    ring.world.run_for(60.0)
    assert len(ring.deliveries) == deliveries
    assert ring.applications["p0002"].received == received
    assert ring.is_right()
    assert "evil" not in addresses(ring)
    assert count_of(ring, "misplaced") > 0
    assert count_of(ring, "repeats") + count_of(ring, "too_old") > 0


def test_recorded_heartbeats_do_not_keep_a_dead_node_alive() -> None:
    """Somebody plays them again and again, and even forges the address that they come from."""
    ring = sealed_ring()
    packets = recorded(ring)
    victim = "p0005"
    ring.world.run_for(10.0)
    beats = [(target, packet) for source, target, packet in packets if source == victim]
    assert beats
    ring.hosts[victim].crash()
    for _ in range(24):
        for target, packet in beats:
            ring.world.network.send(victim, target, packet)
        ring.world.run_for(1.0)
    assert ring.is_right()


# Members that lie


def test_an_acknowledgement_of_somebody_else_does_not_count() -> None:
    ring = SimulatedRing(World(1))
    ring.add_acquainted([f"p{number:04}" for number in range(8)])
    packets = recorded(ring)
    ring.hosts["p0002"].crash()
    ring.send("p0001", "p0002", b"are you there?")
    (note,) = [frame for _, _, frame in packets if isinstance(frame, Note)]
    liar = ring.nodes["p0003"].me.card
    for _ in range(5):
        ring.world.network.send("p0003", "p0001", Acknowledge(liar.name, liar.life, note.number, is_joined=True))
        ring.world.run_for(0.1)
    assert ring.nodes["p0001"].counts.false_answers == 5
    ring.world.run_for(20.0)
    assert [notice.message for notice in ring.applications["p0001"].undelivered_notices] == [b"are you there?"]


def test_nodes_that_are_only_told_of_do_not_get_into_tables() -> None:
    ring = SimulatedRing(World(1))
    ring.add_acquainted([f"p{number:04}" for number in range(12)])
    liar = ring.nodes["p0003"].me.card
    lies = tuple(Card(f"nobody{number}", f"nowhere{number}", 2**40) for number in range(30))
    lies += tuple(Card(name, "evil", 2**41) for name in ring.living[4:8])  # and that others have moved
    for name in ring.living:
        if name != "p0003":
            number = ring.nodes["p0003"].courier.next_number(ring.world.clock.now)
            frame = LeafCards(liar.name, liar.life, number, 0, wants_answer=False, is_joined=True, cards=lies)
            ring.world.network.send("p0003", name, frame)
    ring.world.run_for(40.0)
    assert addresses(ring) == set(ring.living)
    assert ring.is_right()
    check_routing(ring, 20)


def test_whoever_speaks_in_a_members_name_from_elsewhere_does_not_take_its_place() -> None:
    ring = SimulatedRing(World(1))
    ring.add_acquainted([f"p{number:04}" for number in range(12)])
    victim = ring.nodes["p0005"].me.card
    for name in ring.living:
        number = ring.nodes["p0005"].courier.next_number(ring.world.clock.now)
        ring.world.network.send("evil", name, Ping(victim.name, victim.life, number))
        beat = Heartbeat(victim.name, victim.life, number + 1, is_to_successor=True, leaves_hash=1)
        ring.world.network.send("evil", name, beat)
    ring.world.run_for(20.0)
    assert count_of(ring, "misplaced") >= 2 * 11
    assert "evil" not in addresses(ring)
    assert ring.is_right()


def test_a_member_that_moves_to_another_address_is_found_there() -> None:
    """The same life from another address: asked there, it answers, and is reached there from then on."""
    ring = SimulatedRing(World(1))
    ring.add_acquainted([f"p{number:04}" for number in range(12)])
    network, old = ring.world.network, "p0005"
    receiver = network._receivers.pop(old)
    network.receive("new", receiver)
    send = network.send
    network.send = lambda source, target, message: send("new" if source == old else source, target, message)  # type: ignore[method-assign]
    ring.world.run_for(60.0)
    ring.run_until(ring.is_right, 120.0)
    others = [name for name in ring.living if name != old]
    assert {
        each.address
        for name in others
        for each in (*ring.nodes[name].leaves.after, *ring.nodes[name].leaves.before)
        if each.name == old
    } == {"new"}
