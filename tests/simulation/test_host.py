from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from msgspec import Raw

from fieldfare.messages import (
    Accepted,
    Append,
    CallWebhook,
    Close,
    Closed,
    DeclareTopic,
    Done,
    EdgeFrame,
    Effect,
    EventsStored,
    Fetch,
    Fetched,
    Input,
    List,
    Listed,
    NotStored,
    Opened,
    Publish,
    Received,
    Record,
    Refused,
    Send,
    SetTimer,
    Started,
    Stored,
    TimerDue,
    Unsubscribe,
    WebhookCalled,
    stream_of,
)
from fieldfare.simulation.clock import START, Clock
from fieldfare.simulation.history import History
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream
from fieldfare.simulation.webhooks import Failure, Hang, Webhooks


class Counting:
    """A node that counts events, durably, and answers when they are in the log."""

    def __init__(self) -> None:
        self.count = 0
        self.told: list[Input] = []
        self._numbers = 0
        self._asked: dict[int, tuple[str, int]] = {}

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        self.told.append(message)
        return list(self._effects(message, now))

    def _effects(self, message: Input, now: float) -> Iterator[Effect]:
        match message:
            case Received(connection, Publish(ref=ref)):
                self._asked[self._numbers] = connection, ref
                yield Append(self._numbers, EventsStored(self.count + len(self._asked), "x", "t", now, now, [b"{}"]))
                self._numbers += 1
            case Stored(number):
                for asked in [each for each in self._asked if each <= number]:
                    connection, ref = self._asked.pop(asked)
                    self.count += 1
                    yield Send(connection, Accepted(ref, self.count))
            case NotStored(number, reason):
                for asked in [each for each in self._asked if each <= number]:
                    connection, ref = self._asked.pop(asked)
                    yield Send(connection, Refused(ref, "storage", reason))
            case Received(connection, List()):
                yield Fetch(connection, stream_of("x", "t"), 0)
            case Fetched(str(reader), records):
                yield Send(reader, Listed(0, [{"count": len(records)}]))
            case Received(connection, DeclareTopic(ref=ref)):
                yield SetTimer((connection, ref), now + 60.0)
            case TimerDue((str(connection), int(ref))):
                yield Send(connection, Done(ref))
            case Received(connection, Unsubscribe(ref=ref)):
                yield Send(connection, Done(ref))
                yield Close(connection, "as you wish")

    def recover(self, record: Record) -> None:
        assert isinstance(record, EventsStored)
        self.count += 1

    def checkpoint(self) -> Sequence[Record]:
        return [EventsStored(0, "x", "t", 0.0, 0.0, [])] * self.count


class Machine:
    """A host with a counting node, and one client that speaks frames."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[Counting] = []
        self.network = Network(Clock(), random.Random(seed))
        self.host = SimulatedHost("node", self._node, self.network, lambda: random.Random(seed))
        self.host.start()
        self.got: list[EdgeFrame] = []
        self.closed: list[str] = []

    def _node(self) -> Counting:
        self.nodes.append(Counting())
        return self.nodes[-1]

    def connect(self) -> Stream:
        opened: list[Stream] = []
        self.network.connect("client", "node", opened.append, self.closed.append)
        self.run(1.0)
        stream = opened[0]
        stream.on_message = self._take
        stream.on_close = self.closed.append
        return stream

    def _take(self, message: bytes) -> None:
        self.got += msgspec.json.Decoder(EdgeFrame).decode_lines(message)

    def run(self, seconds: float = 1.0) -> None:
        self.network.clock.run_for(seconds)


def say(stream: Stream, *frames: msgspec.Struct) -> None:
    stream.send(msgspec.json.Encoder().encode_lines(frames))


def publish(ref: int) -> Publish:
    return Publish(ref, "t", [Raw(b"{}")])


def test_a_node_is_told_of_connections_frames_and_their_end() -> None:
    machine = Machine()
    stream = machine.connect()
    say(stream, publish(1), publish(2))
    machine.run()
    assert machine.got == [Accepted(1, 1), Accepted(2, 2)]
    stream.close("bye")
    machine.run()
    told = machine.nodes[0].told
    assert told[0] == Started()
    assert isinstance(told[1], Opened)
    assert told[-1] == Closed(told[1].link)


def test_what_a_node_says_before_it_closes_a_connection_still_arrives() -> None:
    machine = Machine()
    say(machine.connect(), Unsubscribe(5, "s"))
    machine.run()
    assert (machine.got, machine.closed) == ([Done(5)], ["as you wish"])
    assert isinstance(machine.nodes[0].told[-1], Closed)


def test_what_was_answered_survives_a_crash() -> None:
    for seed in range(20):
        machine = Machine(seed)
        stream = machine.connect()
        for ref in range(30):
            say(stream, publish(ref))
            machine.run(0.001)
        machine.host.crash()
        assert not machine.host.is_up
        machine.run()
        assert machine.closed == ["the other end crashed"]
        machine.host.start()
        assert machine.nodes[1].count >= len(machine.got)
        assert machine.nodes[1].told == [Started()]


def test_a_crashed_machine_does_nothing_until_it_starts_again() -> None:
    machine = Machine()
    stream = machine.connect()
    say(stream, DeclareTopic(1, "t"))
    machine.run()
    told = len(machine.nodes[0].told)
    machine.host.crash()
    machine.run(100.0)
    machine.host.start()
    machine.run(100.0)
    assert len(machine.nodes[0].told) == told
    assert machine.nodes[1].told == [Started()]


def test_a_full_disk_is_told_and_nothing_is_kept() -> None:
    machine = Machine()
    stream = machine.connect()
    machine.host.log.failure = "full"
    say(stream, publish(1))
    machine.run()
    assert machine.got == [Refused(1, "storage", "full")]
    assert machine.host.log.read() == []


def test_a_node_reads_its_log() -> None:
    machine = Machine()
    stream = machine.connect()
    say(stream, publish(1))
    machine.run()
    say(stream, List(2, "topics"))
    machine.run()
    assert machine.got[-1] == Listed(0, [{"count": 1}])


def test_timers_go_by_the_machine_s_own_clock_and_the_same_key_moves_one() -> None:
    machine = Machine()
    machine.host.clock_ahead_seconds = 1000.0
    assert machine.host.now == START + 1000.0
    stream = machine.connect()
    say(stream, DeclareTopic(1, "t"))
    machine.run(30.0)
    say(stream, DeclareTopic(1, "t"))
    machine.run(45.0)
    assert machine.got == []
    machine.run(30.0)
    assert machine.got == [Done(1)]


def test_timers_follow_a_clock_that_drifts_also_when_its_rate_changes() -> None:
    machine = Machine()
    clock = machine.host.machine_clock
    stream = machine.connect()
    say(stream, DeclareTopic(1, "t"))  # a timer of a minute
    clock.rate = 0.5
    machine.run(100.0)
    assert machine.got == []
    clock.rate = 2.0
    machine.run(4.0)
    assert machine.got == []
    machine.run(2.0)
    assert machine.got == [Done(1)]
    assert machine.host.now == pytest.approx(START + 1.0 + 50.0 + 12.0)


def test_a_disk_is_changed_only_while_its_machine_is_down() -> None:
    machine = Machine()
    stream = machine.connect()
    say(stream, publish(1))
    machine.run()
    snapshot = machine.host.snapshot_disk()
    with pytest.raises(RuntimeError, match="crash it first"):
        machine.host.wipe_disk()
    with pytest.raises(RuntimeError, match="crash it first"):
        machine.host.restore_disk(snapshot)
    machine.host.crash()
    machine.host.wipe_disk()
    machine.host.start()
    assert machine.nodes[1].count == 0
    machine.host.crash()
    machine.host.restore_disk(snapshot)
    machine.host.start()
    assert machine.nodes[2].count == 1


def test_checkpoints_keep_the_log_short() -> None:
    machine = Machine()
    machine.host.checkpoint_records = 10
    stream = machine.connect()
    for ref in range(95):
        say(stream, publish(ref))
        machine.run(0.05)
    machine.run()
    machine.host.crash()
    machine.host.start()
    assert machine.nodes[1].count == 95


class Calling(Counting):
    """A node that calls a webhook when it is told to."""

    def _effects(self, message: Input, now: float) -> Iterator[Effect]:  # noqa: ARG002 - it is called with it
        if isinstance(message, TimerDue):
            yield CallWebhook(
                3, "acme", "s", "https://hook", "t", 7, [Raw(b'{"position":7,"id":"e","at":1.0,"event":{}}')]
            )


def test_webhooks_take_refuse_hang_or_are_out_of_reach() -> None:
    network = Network(Clock(), random.Random(0))
    node = Calling()
    host = SimulatedHost("node", lambda: node, network, lambda: random.Random(0))
    webhooks = Webhooks(network, History(), timeout_seconds=10.0)
    webhooks.serve(host)
    host.start()
    took: list[int] = []
    answers: list[Failure | Hang | None] = [None, Failure("gone", is_permanent=True, retry_after_seconds=3.0), Hang()]

    def endpoint(events: Sequence[object]) -> Failure | Hang | None:
        took.append(len(events))
        return answers.pop(0)

    def outcome() -> WebhookCalled:
        host.tell(TimerDue("call"))
        network.clock.run_for(20.0)
        assert isinstance(node.told[-1], WebhookCalled)
        return node.told[-1]

    assert outcome().failure == "nobody listens there"
    webhooks.add("https://hook", endpoint)
    assert outcome() == WebhookCalled(3, "acme", "s", 7)
    assert outcome() == WebhookCalled(3, "acme", "s", 7, "gone", is_permanent=True, retry_after_seconds=3.0)
    assert outcome() == WebhookCalled(3, "acme", "s", 7, "no answer in time")
    network.partition({"node"}, {"https://hook"})
    assert outcome() == WebhookCalled(3, "acme", "s", 7, "no answer in time")
    assert took == [1, 1, 1]
