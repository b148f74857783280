"""Nodes that are no edges on the simulated host: they dial, send datagrams, set timers, and keep no log."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from fieldfare.messages import (
    BrokerIdentity,
    Close,
    Closed,
    DatagramReceived,
    Dial,
    Effect,
    Identity,
    Input,
    Leave,
    LoggingNode,
    Opened,
    Received,
    Send,
    SendDatagram,
    SetTimer,
    Started,
    Taken,
    TimerDue,
    Unreachable,
    Unsubscribe,
    Unsubscribed,
)
from fieldfare.messages.lines import LineCodec
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.streams import Stream


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    number: int


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    number: int


class Rumour(msgspec.Struct, frozen=True, tag="rumour"):
    text: str


PING_LINES: LineCodec[Ping | Pong, Ping | Pong] = LineCodec(Ping | Pong)
RUMOUR_LINES: LineCodec[Rumour, Rumour] = LineCodec(Rumour)


class PingNode:
    """Dials a neighbour, if it has one, pings it as often as it may and then closes the link. It answers all pings."""

    def __init__(self, neighbour: str | None = None, pings: int = 3) -> None:
        self.told: list[Input] = []
        self._neighbour = neighbour
        self._pings = pings

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        self.told.append(message)
        return list(self._effects(message))

    def _effects(self, message: Input) -> Iterator[Effect]:
        match message:
            case Started() if self._neighbour is not None:
                yield Dial("neighbour", self._neighbour)
            case Opened("neighbour"):
                yield Send("neighbour", Ping(1))
            case Received(link, Ping(number)):
                yield Send(link, Pong(number))
            case Received(link, Pong(number)) if number < self._pings:
                yield Send(link, Ping(number + 1))
            case Received(link, Pong()) if self._pings:
                yield Send(link, Ping(-1))
                yield Close(link, "it answers")


class GossipNode:
    """Tells a rumour to some others, each time it comes, until it has done so a few times."""

    def __init__(self, others: Sequence[str], rng: random.Random, repeats: int = 3) -> None:
        self.heard: dict[str, int] = {}
        self._others = others
        self._rng = rng
        self._repeats = repeats

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        if not isinstance(message, DatagramReceived):
            return []
        rumour: Rumour = message.message
        self.heard[rumour.text] = self.heard.get(rumour.text, 0) + 1
        if self.heard[rumour.text] > self._repeats:
            return []
        return [SendDatagram(other, rumour) for other in self._rng.sample(self._others, 3)]


def ping_machine(world: World, name: str, node: PingNode) -> SimulatedHost:
    host = world.node(name, lambda: node)
    host.lines = PING_LINES
    host.identify = BrokerIdentity
    host.start()
    return host


# Links


def test_a_node_dials_talks_and_closes() -> None:
    world, caller, callee = World(), PingNode("b"), PingNode()
    ping_machine(world, "b", callee)
    ping_machine(world, "a", caller)
    world.run_for(1.0)
    pongs = [Received("neighbour", Pong(number)) for number in (1, 2, 3)]
    assert caller.told == [Started(), Opened("neighbour", BrokerIdentity("b")), *pongs, Closed("neighbour")]
    opened = callee.told[1]
    assert isinstance(opened, Opened)
    assert opened.identity == BrokerIdentity("a")
    pings = [Received(opened.link, Ping(number)) for number in (1, 2, 3, -1)]
    assert callee.told[2:] == [*pings, Closed(opened.link)]
    assert world.clock.is_idle
    assert world.network.streams("a") == world.network.streams("b") == []


def test_dialling_a_place_where_nothing_runs_fails() -> None:
    world, caller = World(), PingNode("b")
    callee = ping_machine(world, "b", PingNode())
    world.crash(callee)
    ping_machine(world, "a", caller)
    world.run_for(1.0)
    assert caller.told == [Started(), Unreachable("neighbour", "refused")]


def test_dialling_a_place_behind_a_partition_fails_when_patience_ends() -> None:
    world, caller = World(link=LinkQuality(patience_seconds=2.0)), PingNode("b")
    ping_machine(world, "b", PingNode())
    world.partition({"a"}, {"b"})
    ping_machine(world, "a", caller)
    world.run_for(1.9)
    assert caller.told == [Started()]
    world.run_for(0.2)
    assert caller.told == [Started(), Unreachable("neighbour", "no answer")]


def test_a_link_closes_at_the_end_that_lives_when_the_other_crashes() -> None:
    world, caller = World(), PingNode("b", pings=0)
    callee = ping_machine(world, "b", PingNode())
    ping_machine(world, "a", caller)
    world.run_for(1.0)
    world.crash(callee)
    world.run_for(1.0)
    assert caller.told[-2:] == [Received("neighbour", Pong(1)), Closed("neighbour")]


def test_a_node_that_crashes_while_it_dials_leaves_no_link_behind() -> None:
    world, caller, callee = World(), PingNode("b"), PingNode()
    ping_machine(world, "b", callee)
    host = ping_machine(world, "a", caller)
    world.run_for(0.001)
    world.crash(host)
    world.run_for(1.0)
    assert caller.told == [Started()]
    assert [type(message) for message in callee.told] == [Started, Opened, Closed]
    assert world.network.streams("b") == []


def test_an_answer_to_an_earlier_life_is_not_told() -> None:
    world, caller = World(), PingNode("b")
    host = ping_machine(world, "a", caller)
    world.run_for(0.001)
    world.crash(host)
    world.restart(host)
    world.run_for(1.0)
    assert caller.told == [Started(), Started(), Unreachable("neighbour", "refused")]


class Talkative(PingNode):
    """Sends all its pings at once."""

    def _effects(self, message: Input) -> Iterator[Effect]:
        match message:
            case Opened("neighbour"):
                yield from (Send("neighbour", Ping(number)) for number in range(100))
            case Received(_, Pong()):
                pass
            case _:
                yield from super()._effects(message)


def test_frames_of_one_round_travel_together_and_are_handled_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    world, caller, callee = World(), Talkative("b"), PingNode()
    written: list[bytes] = []
    send = Stream.send

    def noted(stream: Stream, message: bytes) -> None:
        written.append(message)
        send(stream, message)

    monkeypatch.setattr(Stream, "send", noted)
    ping_machine(world, "b", callee)
    ping_machine(world, "a", caller)
    world.run_for(1.0)
    assert [message.frame for message in callee.told if isinstance(message, Received)] == [
        Ping(number) for number in range(100)
    ]
    answers = [message for message in caller.told if isinstance(message, Received)]
    assert answers == [Received("neighbour", Pong(number)) for number in range(100)]
    assert [message.count(b"\n") for message in written] == [99, 99]


class Relay:
    """Serves clients and brokers: what a client asks for is passed on to a broker, whose answer goes back."""

    def __init__(self, broker: str) -> None:
        self.told: list[Input] = []
        self._broker = broker
        self._client = ""

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        self.told.append(message)
        match message:
            case Started():
                return [Dial("broker", self._broker)]
            case Received(link, Unsubscribe()):
                self._client = link
                return [Send("broker", Leave(("acme", "traffic"), "my log"))]
            case Received(_, Taken(position=position)):
                return [Send(self._client, Unsubscribed(0, f"{position}"))]
        return []


class Answering:
    """A broker that answers each Leave."""

    def __init__(self) -> None:
        self.told: list[Input] = []

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        self.told.append(message)
        match message:
            case Received(link, Leave(topic=topic, edge=edge)):
                return [Send(link, Taken(topic, "origin", edge, 7))] * 3
        return []


def test_one_machine_serves_clients_and_brokers_each_in_its_own_language() -> None:
    world, relay, answering = World(), Relay("routing"), Answering()
    world.broker("routing", lambda: answering).start()
    world.edge_of("edge", lambda: relay).start()
    opened: list[Stream] = []
    got: list[bytes] = []
    world.network.connect("client", "edge", opened.append, pytest.fail)
    world.run_for(1.0)
    opened[0].on_message = got.append
    opened[0].send(b'{"type":"unsubscribe","ref":1,"subscription":"s"}')
    world.run_for(1.0)
    assert got == [b"\n".join([b'{"type":"unsubscribed","ref":0,"subscription":"7"}'] * 3)]
    identities = {message.link: message.identity for message in relay.told if isinstance(message, Opened)}
    assert identities["broker"] == BrokerIdentity("routing")
    assert isinstance(identities["client-1"], Identity)
    assert isinstance(answering.told[1], Opened)
    assert answering.told[1].identity == BrokerIdentity("edge")
    assert answering.told[2] == Received("edge-1", Leave(("acme", "traffic"), "my log"))


def test_a_broker_hears_when_the_one_it_dialled_is_gone_and_can_dial_again() -> None:
    world, relay = World(), Relay("routing")
    routing = world.broker("routing", Answering)
    edge = world.edge_of("edge", lambda: relay)
    edge.start()
    world.run_for(1.0)
    routing.start()
    world.crash(edge)
    world.restart(edge)
    world.run_for(1.0)
    world.crash(routing)
    world.run_for(1.0)
    opened = Opened("broker", BrokerIdentity("routing"))
    assert relay.told == [
        Started(),
        Unreachable("broker", "refused"),
        Started(),
        opened,
        Closed("broker"),
    ]


def test_two_links_of_one_name_are_a_mistake() -> None:
    world = World()
    ping_machine(world, "b", PingNode())
    caller = ping_machine(world, "a", PingNode("b", pings=0))
    world.run_for(1.0)
    caller.tell(Started())
    with pytest.raises(RuntimeError, match="in use"):
        world.run_for(1.0)


# Datagrams


def gossip(
    seed: int, quality: LinkQuality, lines: LineCodec[Any, Any] | None = RUMOUR_LINES, count: int = 50
) -> tuple[World, list[GossipNode]]:
    """A rumour among nodes that are not linked."""
    world, names = World(seed, quality), [f"node{number}" for number in range(count)]
    nodes = [GossipNode(names, world.rng(f"{name}'s node")) for name in names]
    for name, node in zip(names, nodes, strict=True):
        host = world.node(name, lambda node=node: node)  # type: ignore[misc]
        host.datagram_lines = lines
        host.start()
    first = world.machines["node0"]
    assert isinstance(first, SimulatedHost)
    first.tell(DatagramReceived("somebody", Rumour("snow")))
    world.run_for(60.0)
    assert world.clock.is_idle
    return world, nodes


@pytest.mark.parametrize("lines", [RUMOUR_LINES, None])
def test_a_rumour_reaches_all_though_datagrams_are_lost_and_doubled(lines: LineCodec[Any, Any] | None) -> None:
    world, nodes = gossip(1, LinkQuality(loss=0.2, duplication=0.2), lines)
    assert all(node.heard == {"snow": node.heard["snow"]} for node in nodes)
    received = sum(node.heard["snow"] for node in nodes) - 1
    assert received != world.network.datagrams_sent
    assert received == pytest.approx(world.network.datagrams_sent * 1.2 * 0.8, rel=0.15)


def test_without_loss_and_doubling_each_datagram_arrives_once() -> None:
    world, nodes = gossip(2, LinkQuality())
    assert sum(node.heard.get("snow", 0) for node in nodes) - 1 == world.network.datagrams_sent


def test_gossip_is_replayed_by_its_seed() -> None:
    quality = LinkQuality(loss=0.3, duplication=0.3)

    def run(seed: int) -> list[dict[str, int]]:
        return [node.heard for node in gossip(seed, quality)[1]]

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_datagrams_as_objects_and_as_bytes_are_the_same_run() -> None:
    quality = LinkQuality(loss=0.3, duplication=0.3)
    as_objects, as_bytes = (gossip(5, quality, lines)[1] for lines in (None, RUMOUR_LINES))
    assert [node.heard for node in as_objects] == [node.heard for node in as_bytes]


def test_with_a_codec_only_what_can_travel_is_sent() -> None:
    world, node = World(), GossipNode(["a", "b", "c"], random.Random(0))
    host = world.node("a", lambda: node)
    host.datagram_lines = RUMOUR_LINES
    host.start()
    world.network.send("b", "a", b'{"type":"ping","number":1}')
    with pytest.raises(msgspec.ValidationError):
        world.run_for(1.0)
    with pytest.raises(TypeError):
        host.tell(DatagramReceived("b", Rumour(object())))  # type: ignore[arg-type]


def test_a_datagram_to_a_place_that_is_down_or_cut_off_is_lost_without_a_word() -> None:
    world, names = World(), ["a", "b", "c"]
    nodes = {name: GossipNode(names, random.Random(0)) for name in names}
    hosts = {name: world.node(name, lambda name=name: nodes[name]) for name in names}  # type: ignore[misc]
    for host in hosts.values():
        host.start()
    world.crash(hosts["b"])
    world.partition({"c"}, {"a"})
    for name in ("b", "c"):
        world.network.send("a", name, Rumour("snow"))
    world.run_for(10.0)
    assert nodes["b"].heard == nodes["c"].heard == {}
    world.heal()
    world.restart(hosts["b"])
    world.network.send("a", "b", Rumour("thaw"))
    world.run_for(10.0)
    assert all(node.heard.keys() == {"thaw"} for node in nodes.values())


# No log, and no work for those that do nothing


def test_a_node_without_a_log_does_not_pretend_and_begins_anew_after_a_crash() -> None:
    nodes: list[PingNode] = []

    def make_node() -> PingNode:
        nodes.append(PingNode())
        return nodes[-1]

    world = World()
    host = world.node("a", make_node)
    host.start()
    assert not isinstance(nodes[0], LoggingNode)
    world.crash(host)
    world.restart(host)
    assert [node.told for node in nodes] == [[Started()], [Started()]]
    assert host._log is None
    assert host._rng is None


class Patient:
    """A node that waits for silence: every datagram moves its timer."""

    def __init__(self) -> None:
        self.silent_at: list[float] = []

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        if isinstance(message, TimerDue):
            self.silent_at.append(now)
            return []
        return [SetTimer("silence", now + 10.0)]


def test_a_timer_that_every_message_moves_costs_one_place_in_the_clock() -> None:
    world, node = World(), Patient()
    host = world.node("a", lambda: node)
    host.start()
    for _ in range(1000):
        world.run_for(0.01)
        host.tell(DatagramReceived("b", None))
        assert len(world.clock._due) == 1
    last = world.clock.now
    world.run_for(100.0)
    assert node.silent_at == [pytest.approx(last + 10.0)]
    assert world.clock.is_idle


def test_an_idle_world_has_nothing_to_do() -> None:
    world = World()
    for number in range(100):
        world.node(f"node{number}", PingNode).start()
    edge = world.edge()
    alice = world.client("alice", edge)
    alice.subscribe("traffic", "speed < 25", name="slow")
    world.run_for(60.0)
    assert world.clock.is_idle
