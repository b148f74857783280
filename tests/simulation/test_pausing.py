"""A paused machine: its node handles nothing, its sockets stay open, and all that waited is handled when it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import (
    Append,
    BrokerIdentity,
    Closed,
    DatagramReceived,
    Dial,
    Effect,
    EventsStored,
    Input,
    Opened,
    Received,
    Record,
    Send,
    SendDatagram,
    SetTimer,
    Started,
    Stored,
    TimerDue,
    Unreachable,
)
from fieldfare.messages.lines import LineCodec
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.clock import START
from fieldfare.simulation.host import SimulatedHost


class Word(msgspec.Struct, frozen=True, tag="word"):
    text: str


LINES: LineCodec[Word, Word] = LineCodec(Word)
LINK = LinkQuality(latency_seconds=0.01, jitter_seconds=0.0, patience_seconds=2.0)


class Noting:
    """Notes what it is told and when. What it does when it starts, and about each input, is given."""

    def __init__(self, *at_start: Effect, reaction: Callable[[Input], Sequence[Effect]] = lambda _: ()) -> None:
        self.told: list[tuple[float, Input]] = []
        self.inputs_at_checkpoint: list[Input] | None = None
        self._at_start = at_start
        self._reaction = reaction

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        self.told.append((round(now - START, 6), message))
        return self._at_start if isinstance(message, Started) else self._reaction(message)

    def recover(self, record: Record) -> None:
        self.told.append((-1.0, DatagramReceived("log", record)))

    def checkpoint(self) -> Sequence[Record]:
        self.inputs_at_checkpoint = self.inputs
        return []

    @property
    def inputs(self) -> list[Input]:
        return [message for _, message in self.told]


def say(message: Input) -> Sequence[Effect]:
    """Whoever is told to say something says it."""
    return [Send("link", Word(message.message))] if isinstance(message, DatagramReceived) else ()


def machine(world: World, name: str, node: Noting) -> SimulatedHost:
    host = world.node(name, lambda: node)
    host.lines, host.identify = LINES, BrokerIdentity
    host.start()
    return host


def record(position: int) -> EventsStored:
    return EventsStored(position, "x", "t", 0.0, 1.0, [b"{}"])


def test_what_comes_meanwhile_is_handled_later_and_then_the_timers() -> None:
    world = World(link=LINK)
    slow, fast = Noting(SetTimer("late", START + 2.0)), Noting(Dial("link", "slow"), reaction=say)
    paused = machine(world, "slow", slow)
    talking = machine(world, "fast", fast)
    world.run_for(1.0)
    before = len(slow.told)
    world.pause(paused)
    assert paused.is_paused
    assert paused.is_up
    for text in ("one", "two"):
        talking.tell(DatagramReceived("say", text))
    world.network.send("fast", "slow", "datagram")
    world.run_for(4.0)
    assert len(slow.told) == before
    assert not [each for each in fast.inputs if isinstance(each, Closed)]
    assert "it is paused" in paused.waits()
    world.resume(paused)
    at, link = 5.0, "fast-1"
    assert slow.told[before:] == [
        (at, Received(link, Word("one"))),
        (at, Received(link, Word("two"))),
        (at, DatagramReceived("fast", "datagram")),
        (at, TimerDue("late")),
    ]
    world.run_for(10.0)
    assert len(slow.told) == before + 4
    assert world.clock.is_idle


def test_what_it_sent_before_still_arrives() -> None:
    world = World(link=LINK)
    receiving = Noting()
    machine(world, "receiver", receiving)
    paused = machine(world, "sender", Noting(SendDatagram("receiver", "before")))
    world.pause(paused)
    world.run_for(1.0)
    assert receiving.inputs[1:] == [DatagramReceived("sender", "before")]


def test_a_link_that_breaks_meanwhile_is_told_later() -> None:
    world = World(link=LINK)
    slow = Noting(Dial("link", "other"))
    other = machine(world, "other", Noting())
    paused = machine(world, "slow", slow)
    world.run_for(1.0)
    world.pause(paused)
    world.crash(other)
    world.run_for(1.0)
    assert slow.inputs[1:] == [Opened("link", BrokerIdentity("other"))]
    world.resume(paused)
    assert slow.inputs[2:] == [Closed("link")]


def test_who_dials_a_paused_machine_gets_through_if_it_goes_on_in_time() -> None:
    world = World(link=LINK)
    paused = machine(world, "slow", Noting())
    world.pause(paused)
    patient, impatient = Noting(Dial("link", "slow")), Noting(Dial("link", "slow"))
    machine(world, "impatient", impatient)
    world.run_for(1.9)
    machine(world, "patient", patient)
    world.run_for(1.0)
    world.resume(paused)
    world.run_for(1.0)
    assert impatient.inputs[1:] == [Unreachable("link", "no answer")]
    assert patient.inputs[1:] == [Opened("link", BrokerIdentity("slow"))]


def test_one_that_is_paused_while_it_dials_is_told_later() -> None:
    world = World(link=LINK)
    node = Noting(Dial("there", "other"), Dial("nowhere", "nothing"))
    machine(world, "other", Noting())
    paused = machine(world, "slow", node)
    world.pause(paused)
    world.run_for(1.0)
    assert node.inputs == [Started()]
    world.resume(paused)
    world.run_for(1.0)
    assert node.inputs[1:] == [Opened("there", BrokerIdentity("other")), Unreachable("nowhere", "refused")]


def test_its_log_waits_too() -> None:
    world = World(link=LINK)
    node = Noting(Append(0, record(0)), Append(1, record(1)))
    host = machine(world, "slow", node)
    world.pause(host)
    world.run_for(5.0)
    assert node.inputs == [Started()]
    assert host.log.read() == []
    world.resume(host)
    assert node.inputs[1:] == [Stored(0)]
    world.run_for(1.0)
    assert node.inputs[1:] == [Stored(0), Stored(1)]
    assert host.log.read() == [record(0), record(1)]


def test_a_checkpoint_is_made_when_its_node_has_heard_what_is_stored() -> None:
    world = World(link=LINK)
    node = Noting(Append(0, record(0)))
    host = machine(world, "slow", node)
    host.checkpoint_records = 1
    world.pause(host)
    world.run_for(1.0)
    assert node.inputs_at_checkpoint is None
    world.resume(host)
    assert node.inputs_at_checkpoint == [Started(), Stored(0)]


def test_a_crash_ends_a_pause() -> None:
    world = World(link=LINK)
    node = Noting(Append(0, record(0)), SetTimer("late", START + 1.0))
    host = machine(world, "slow", node)
    world.pause(host)
    world.run_for(2.0)
    world.crash(host)
    assert not host.is_paused
    world.restart(host)
    world.resume(host)  # it does nothing
    world.run_for(1.0)
    assert [each for each in node.inputs if isinstance(each, Stored | TimerDue)] == [TimerDue("late"), Stored(0)]


def test_one_that_is_down_cannot_be_paused() -> None:
    world = World(link=LINK)
    host = machine(world, "slow", Noting())
    world.crash(host)
    world.pause(host)
    assert not host.is_paused
    world.restart(host)
    assert host.is_up


def test_a_machine_that_is_paused_in_the_middle_of_a_round_handles_no_further_one() -> None:
    world = World(link=LINK)
    node = Noting(reaction=lambda message: [SendDatagram("here", None)] if message == DatagramReceived("a", 1) else ())
    host = machine(world, "slow", node)
    host.perform_with(SendDatagram, lambda _: host.pause())
    host.tell(DatagramReceived("a", 1))
    host.tell(DatagramReceived("a", 2))
    world.run_for(1.0)
    assert node.inputs == [Started(), DatagramReceived("a", 1)]
    host.resume()
    assert node.inputs[2:] == [DatagramReceived("a", 2)]


def test_what_is_being_served_is_interrupted_and_goes_on() -> None:
    world = World(link=LINK)
    node = Noting()
    host = world.node("slow", lambda: node)
    host.serve_in(lambda message: 0.0 if isinstance(message, Started) else 1.0)
    host.start()
    world.run_for(1.0)
    for number in range(2):
        host.tell(DatagramReceived("a", number))
    world.run_for(0.25)
    world.pause(host)
    host.tell(DatagramReceived("a", 2))
    world.run_for(10.0)
    assert (node.inputs, host.service_report().queue_length) == ([Started()], 2)
    world.resume(host)
    world.run_for(10.0)
    assert node.told[1:] == [(12.0 + number, DatagramReceived("a", number)) for number in range(3)]
    assert host.service_report().busy_seconds == pytest.approx(3.0)


def test_a_crash_takes_what_a_pause_interrupted() -> None:
    world = World(link=LINK)
    node = Noting()
    host = world.node("slow", lambda: node)
    host.serve_in(lambda message: 0.0 if isinstance(message, Started) else 1.0)
    host.start()
    world.run_for(1.0)
    host.tell(DatagramReceived("a", 0))
    world.pause(host)
    world.crash(host)
    world.restart(host)
    world.run_for(10.0)
    assert node.inputs == [Started(), Started()]


def test_clients_of_a_paused_edge_wait_and_miss_nothing() -> None:
    world = World(seed=3)
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    all_of_it = alice.subscribe("traffic", "TRUE")
    world.run_for(1.0)
    world.pause(edge)
    publication = bob.publish("traffic", {"speed": 1})
    world.run_for(60.0)
    assert publication.answered_at is None
    with pytest.raises(BrokenPromiseError):
        world.check()
    world.resume(edge)
    world.run_for(30.0)
    assert publication.outcome == "accepted"
    assert len(all_of_it.events) == 1
    world.check()
