"""What an application can rely on: acknowledgements, repeats, large messages, notices, messages stopped on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fieldfare.errors import MessageTooLargeError
from fieldfare.messages import Input, SetTimer, TimerDue
from fieldfare.pastry.ids import key_of
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.pastry_frames import Acknowledge, Arrived, Hop, Note, Piece
from fieldfare.pastry.ports import MESSAGE_BYTES_MAX, Application, Assurance, Contact, RoutedMessage
from fieldfare.pastry.recent import Age, LatestNumbers, Recent
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.pastry import NotingApplication, SimulatedRing

KEY = key_of(b"apple")


def make_ring(
    count: int, seed: int = 0, quality: LinkQuality | None = None, *, with_packets: bool = False
) -> SimulatedRing:
    ring = SimulatedRing(World(seed, quality or LinkQuality()), with_packets=with_packets)
    ring.add_acquainted([f"p{number:04}" for number in range(count)])
    return ring


def filtered(ring: SimulatedRing, is_lost: Callable[[str, str, Any], bool]) -> None:
    """From now on the network loses what a test says."""
    send = ring.world.network.send

    def send_some(source: str, target: str, message: Any) -> None:
        if not is_lost(source, target, message):
            send(source, target, message)

    ring.world.network.send = send_some  # type: ignore[method-assign]


def far(ring: SimulatedRing) -> tuple[str, int]:
    """A node and a key between which a message takes at least two hops."""
    for number in range(1000):
        key = key_of(b"%d" % number)
        for name in ring.living:
            step = ring.nodes[name].next_hop(key)
            if step is not None and ring.nodes[step.name].next_hop(key) is not None:
                return name, key
    raise AssertionError("all are near")


# To a node


def test_a_message_to_a_node_arrives_once_however_lossy_the_network_is() -> None:
    ring = make_ring(2, 1, LinkQuality(loss=0.3, duplication=0.2))
    for number in range(100):
        ring.send("p0000", "p0001", b"%d" % number)
        ring.world.run_for(0.2)
    ring.world.run_for(30.0)
    got = [message for _, message in ring.applications["p0001"].received]
    assert len(set(got)) == len(got)
    missing = {b"%d" % number for number in range(100)} - set(got)
    told = {notice.message for notice in ring.applications["p0000"].undelivered_notices}
    assert missing <= told
    assert ring.nodes["p0000"].counts.retransmissions > 10
    assert ring.nodes["p0001"].counts.repeats > 10


def test_a_message_to_itself_arrives() -> None:
    ring = make_ring(2)
    ring.send("p0000", "p0000", b"note to self")
    assert ring.applications["p0000"].received == [("p0000", b"note to self")]


def test_a_message_to_a_dead_node_is_given_back() -> None:
    ring = make_ring(5)
    ring.hosts["p0003"].crash()
    ring.send("p0000", "p0003", b"hello?")
    ring.world.run_for(20.0)
    (notice,) = ring.applications["p0000"].undelivered_notices
    assert (notice.message, notice.key) == (b"hello?", None)
    assert notice.target is not None
    assert notice.target.name == "p0003"
    assert "does not answer" in notice.reason


def test_without_assurance_nothing_is_acknowledged_or_noticed() -> None:
    ring = make_ring(5)
    seen: list[Any] = []

    def note(_source: str, _target: str, message: Any) -> bool:
        seen.append(message)
        return False

    filtered(ring, note)
    ring.send("p0000", "p0003", b"by the way", Assurance.NONE)
    ring.route("p0000", ring.group.id_of("p0003"), b"by the way", Assurance.NONE)
    ring.world.run_for(0.5)
    assert ring.applications["p0003"].received == [("p0000", b"by the way")]
    assert len(ring.deliveries) == 1
    kinds = [type(message) for message in seen]
    assert (kinds.count(Note), kinds.count(Hop)) == (1, ring.deliveries[0].routed.hops)
    assert not any(isinstance(message, Acknowledge) for message in seen)


def test_waiting_times_follow_round_trips() -> None:
    """Over a slow link a frame is not sent again too early; over a fast one it is, soon."""
    for seconds in (0.005, 0.5):
        ring = make_ring(2, 0, LinkQuality(latency_seconds=seconds, jitter_seconds=0.0))
        for _ in range(20):
            ring.send("p0000", "p0001", b"x")
            ring.world.run_for(5 * seconds)
        counts = ring.nodes["p0000"].counts
        assert counts.retransmissions == 0
        filtered(ring, lambda _source, _target, message: isinstance(message, Note))
        ring.send("p0000", "p0001", b"lost")
        ring.world.run_for(1.9 * seconds)
        assert counts.retransmissions == 0
        ring.world.run_for(2.5 * seconds + 0.1)
        assert counts.retransmissions > 0


# Large messages


@pytest.mark.parametrize("size_bytes", [0, 1_150, 1_151, 30_000, MESSAGE_BYTES_MAX])
def test_large_messages_travel_in_pieces(size_bytes: int) -> None:
    ring = make_ring(40, 1, LinkQuality(loss=0.02, duplication=0.02), with_packets=True)
    message = random.Random(size_bytes).randbytes(size_bytes)
    source, key = far(ring)
    ring.route(source, key, message)
    ring.send(source, "p0001", message)
    ring.world.run_for(40.0)
    assert [(each.node, each.routed.message) for each in ring.deliveries] == [(ring.closest(key), message)]
    assert ring.applications["p0001"].received == [(source, message)]
    assert ring.packets is not None
    assert ring.packets.bytes_max < 2_500


def test_what_is_too_large_is_refused() -> None:
    ring = make_ring(2)
    with pytest.raises(MessageTooLargeError, match="at most 1,048,576") as caught:
        ring.route("p0000", KEY, bytes(MESSAGE_BYTES_MAX + 1))
    assert caught.value.size_bytes == MESSAGE_BYTES_MAX + 1


def test_a_large_message_to_a_dead_node_is_given_back_once() -> None:
    ring = make_ring(5)
    ring.hosts["p0003"].crash()
    ring.send("p0000", "p0003", bytes(100_000))
    ring.world.run_for(20.0)
    assert [len(notice.message) for notice in ring.applications["p0000"].undelivered_notices] == [100_000]


def test_pieces_of_frames_that_never_end_are_held_within_a_bound() -> None:
    ring = make_ring(3)
    options, node = ring.options, ring.nodes["p0001"]
    sender = ring.nodes["p0000"].me.card
    for number in range(options.assembly_bytes_max // 1_000 + 50):
        ring.world.network.send(
            "p0000",
            "p0001",
            Piece(sender.name, sender.life, 2**62 + 2 * number, 2**62 + 2 * number + 1, 0, 2, bytes(1_000)),
        )
    ring.world.run_for(1.0)
    assert node.counts.refused >= 50


# To a key


def test_a_hop_is_repeated_to_the_last_node_until_it_is_given_up_for_dead() -> None:
    ring = make_ring(40, 1)
    source, key = far(ring)
    root, lost = ring.closest(key), 0

    def is_lost(_source: str, target: str, message: Any) -> bool:
        nonlocal lost
        if isinstance(message, Hop) and target == root and lost < 3:
            lost += 1
            return True
        return False

    filtered(ring, is_lost)
    ring.route(source, key, b"patience")
    ring.world.run_for(20.0)
    assert [each.node for each in ring.deliveries] == [root]


def test_a_node_on_the_way_that_does_not_answer_is_gone_around_soon() -> None:
    ring = make_ring(60, 2)
    source, key = far(ring)
    step = ring.nodes[source].next_hop(key)
    assert step is not None
    filtered(ring, lambda _source, target, message: isinstance(message, Hop) and target == step.name)
    ring.route(source, key, b"around")
    ring.world.run_for(1.0)  # long before anybody is given up
    assert [each.node for each in ring.deliveries] == [ring.closest(key)]
    assert step.id in ring.nodes[source].place.table
    ring.world.run_for(5.0)
    assert not ring.nodes[source].place.suspected  # it has answered a ping


def test_an_acknowledged_message_that_its_holder_takes_down_is_routed_again_by_the_source() -> None:
    """The last node takes the message and crashes before it says so: with END_TO_END the next closest gets it."""
    ring = make_ring(40, 3)
    source, key = far(ring)
    root = ring.closest(key)
    filtered(ring, lambda sender, _target, message: isinstance(message, Arrived) and sender == root)
    ring.route(source, key, b"important", Assurance.END_TO_END)
    ring.world.run_for(1.0)
    assert [each.node for each in ring.deliveries] == [root]
    ring.hosts[root].crash()
    ring.world.run_for(60.0)
    assert [each.node for each in ring.deliveries] == [root, ring.closest(key)]
    assert not ring.applications[source].undelivered_notices


def test_a_lost_confirmation_is_repeated_and_the_message_is_not() -> None:
    ring = make_ring(40, 3)
    source, key = far(ring)
    root, lost = ring.closest(key), 0

    def is_lost(_sender: str, _target: str, message: Any) -> bool:
        nonlocal lost
        lost += isinstance(message, Arrived)
        return isinstance(message, Arrived) and lost <= 2

    filtered(ring, is_lost)
    ring.route(source, key, b"once", Assurance.END_TO_END)
    ring.world.run_for(100.0)
    assert lost == 3
    assert [each.node for each in ring.deliveries] == [root]
    assert not ring.applications[source].undelivered_notices


def test_a_message_whose_arrival_nobody_confirms_is_given_back() -> None:
    ring = make_ring(40, 3)
    filtered(ring, lambda _sender, _target, message: isinstance(message, Arrived))
    source, key = far(ring)
    ring.route(source, key, b"in doubt", Assurance.END_TO_END)
    ring.world.run_for(300.0)
    (notice,) = ring.applications[source].undelivered_notices
    assert (notice.key, notice.target, notice.message) == (key, None, b"in doubt")
    assert len(ring.deliveries) == 1


def test_messages_beyond_a_bound_are_given_back_at_once() -> None:
    ring = SimulatedRing(World(1), PastryOptions(under_way_max=10, waiting_max=5))
    ring.add_acquainted(["a", "b"])
    for number in range(15):
        ring.send("a", "b", b"%d" % number)
    assert [notice.message for notice in ring.applications["a"].undelivered_notices] == [
        b"10",
        b"11",
        b"12",
        b"13",
        b"14",
    ]
    ring.world.run_for(1.0)
    assert len(ring.applications["b"].received) == 10
    ring.add("late", ["nowhere"])
    for number in range(7):
        ring.route("late", KEY, b"%d" % number)
    assert [notice.message for notice in ring.applications["late"].undelivered_notices] == [b"5", b"6"]


# What the application may do


class Changing(NotingApplication):
    """Adds its name to messages, stops those that say so, and sets a timer."""

    def forward(self, routed: RoutedMessage, next_hop: Contact, now: float) -> bytes | None:
        assert next_hop.name != self.name
        if routed.message.startswith(b"stop") and routed.hops:
            self.received.append((routed.previous.name, routed.message))
            return None
        del now
        return routed.message + b" " + self.name.encode()

    def handle(self, message: Input, now: float) -> Sequence[Any]:
        if isinstance(message, TimerDue):
            self.received.append(("a timer", str(message.key).encode()))
            return ()
        return [*super().handle(message, now), SetTimer("mine", now + 1.0)]


def changing_ring(seed: int = 1) -> SimulatedRing:
    ring = SimulatedRing(World(seed))

    def make(name: str) -> Application:
        ring.applications[name] = made = Changing(name, ring)
        return made

    ring._make_application = make
    ring.add_acquainted([f"p{number:04}" for number in range(60)])
    return ring


def test_nodes_on_the_way_may_change_a_message() -> None:
    ring = changing_ring()
    source, key = far(ring)
    ring.route(source, key, b"path:")
    ring.world.run_for(1.0)
    (delivery,) = ring.deliveries
    path = delivery.routed.message.decode().split()[1:]
    assert path[0] == source
    assert len(path) == delivery.routed.hops >= 2
    assert delivery.routed.previous.name == path[-1]
    assert delivery.node not in path
    assert delivery.routed.source.name == source


@pytest.mark.parametrize("assurance", list(Assurance))
def test_a_node_on_the_way_may_stop_a_message_which_then_counts_as_arrived(assurance: Assurance) -> None:
    ring = changing_ring()
    source, key = far(ring)
    ring.route(source, key, b"stop", assurance)
    ring.world.run_for(100.0)
    assert not ring.deliveries
    stops = [(name, each) for name, notes in ring.applications.items() for each in notes.received if b"stop" in each[1]]
    assert len(stops) == 1
    assert stops[0][1][0] == source
    assert not ring.applications[source].undelivered_notices


def test_timers_of_the_application_come_to_it() -> None:
    ring = changing_ring()
    ring.world.run_for(2.0)
    assert ring.applications["p0005"].received == [("a timer", b"mine")]


def test_replicas_belong_on_the_closest_nodes() -> None:
    ring = make_ring(60)
    for name in ring.living[:20]:
        key = ring.group.id_of(name) + 1
        expected = sorted(ring.living, key=lambda each: _distance(ring.group.id_of(each), key))[:5]
        assert [each.name for each in ring.nodes[name].closest(key, 5)] == expected


def _distance(one: int, other: int) -> int:
    return min((one - other) % 2**128, (other - one) % 2**128)


def test_what_came_is_remembered_for_as_long_as_it_may_be_repeated() -> None:
    recent = Recent(30.0)
    assert recent.is_new("first", 100.0)
    assert not any(recent.is_new("first", 100.0 + later) for later in range(30) if recent.is_new(later, 100.0 + later))
    assert "first" in recent
    assert recent.is_new("second", 131.0)
    assert recent.is_new("third", 162.0)
    assert "first" not in recent
    assert "second" in recent


def test_numbers_far_behind_the_senders_clock_are_too_old() -> None:
    latest = LatestNumbers()

    def number(seconds: float) -> int:
        return int(seconds * 1000) << 20

    assert latest.age(1, number(500.0), 10.0) is Age.NEWEST
    assert latest.age(1, number(490.0), 10.0) is Age.LATE
    assert latest.age(1, number(490.0), 40.0) is Age.TOO_OLD  # half a minute later it is a recording
    assert latest.age(1, number(470.0), 10.0) is Age.TOO_OLD
    assert latest.age(2, number(470.0), 10.0) is Age.NEWEST
    assert latest.age(1, number(501.0), 4000.0) is Age.NEWEST  # its clock stood still
