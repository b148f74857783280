"""Gossip in a simulated world: as the coordination of a deployment, and brokers that do nothing else but gossip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count

from fieldfare.coordination.gossip import Gossip
from fieldfare.coordination.gossip_messages import AnyGossipMessage, Tell
from fieldfare.coordination.gossip_options import GossipOptions
from fieldfare.coordination.gossiping_node import GossipingNode, with_gossip
from fieldfare.coordination.packing import news_of, parts
from fieldfare.messages import (
    Announce,
    DatagramReceived,
    Effect,
    Input,
    LeaderSeen,
    Member,
    MemberGone,
    MemberSeen,
    Node,
    PacketCodec,
    Role,
    Started,
    TopicGone,
    TopicKey,
    TopicSeen,
)
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World

_DEFAULT_OPTIONS = GossipOptions()
_SECRET = b"the secret of a simulated deployment"


class Do(Input, frozen=True):
    """Have a broker ask for effects."""

    effects: tuple[Effect, ...]


class IdleBroker:
    """Announces itself, and keeps what it is told."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.members: dict[str, Member] = {}
        self.topics: dict[TopicKey, TopicSeen] = {}
        self.leader: str | None = None
        self.told: list[Input] = []

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        """What to do about something that happened."""
        match message:
            case Started():
                return [Announce(self.member)]
            case Do():
                return message.effects
            case MemberSeen():
                self.members[message.member.name] = message.member
            case MemberGone():
                del self.members[message.name]
            case TopicSeen():
                self.topics[message.topic] = message
            case TopicGone():
                self.topics.pop(message.topic, None)
            case LeaderSeen():
                self.leader = message.name
        self.told.append(message)
        return ()


class CountingCodec(PacketCodec[AnyGossipMessage]):
    """The codec of a gossip, which counts what is sent."""

    def __init__(self) -> None:
        super().__init__(AnyGossipMessage, _SECRET)
        self.packets = self.bytes = 0
        self.bytes_max = 0  # of one packet

    def encode_line(self, frame: AnyGossipMessage) -> bytes:
        """A message as a packet."""
        packet = super().encode_line(frame)
        self.packets += 1
        self.bytes += len(packet)
        self.bytes_max = max(self.bytes_max, len(packet))
        return packet


class SimulatedGossip:
    """The coordination of a `Deployment` whose brokers gossip. They join through the first two of them."""

    def __init__(self, world: World, options: GossipOptions = _DEFAULT_OPTIONS) -> None:
        self.codec = CountingCodec()
        self._world, self._options = world, options
        self._seeds: list[str] = []
        self._lives = count(1)

    def serve(self, host: SimulatedHost) -> None:
        """Let a broker send and take the datagrams of the gossip."""
        host.datagram_lines = self.codec
        if len(self._seeds) < 2:
            self._seeds.append(host.name)

    def wrapped(self, name: str, node: Node) -> Node:
        """A broker's node with its gossip."""
        rng = self._world.rng(f"{name}'s gossip, life {next(self._lives)}")
        return with_gossip(node, Gossip(name, rng, self._seeds, name, self._options))


class GossipingBrokers:
    """Brokers by name, which join through the first of them."""

    def __init__(self, world: World, options: GossipOptions = _DEFAULT_OPTIONS) -> None:
        self.world = world
        self.codec = CountingCodec()
        self.hosts: dict[str, SimulatedHost] = {}
        self.nodes: dict[str, GossipingNode] = {}
        self._options = options
        self._lives = 0

    def add(self, name: str, role: Role = "edge", seeds: Iterable[str] | None = None) -> SimulatedHost:
        """One more; it starts at once."""
        chosen = tuple(seeds if seeds is not None else list(self.hosts)[:1])
        host = self.hosts[name] = self.world.node(name, lambda: self.make_node(name, chosen, name, role))
        host.datagram_lines = self.codec
        host.start()
        return host

    def add_acquainted(self, roles: dict[str, Role]) -> None:
        """Several that know each other from the start: to join one by one takes a simulator long."""
        for name, role in roles.items():
            self.add(name, role, seeds=())
        states = [node.gossip.myself.state for node in self.nodes.values()]
        introductions = list(parts(news_of(state, 0, 1)[0] for state in states))
        for name, host in self.hosts.items():
            for introduction in introductions:
                host.tell(DatagramReceived(name, Tell(name, introduction)))

    def make_node(self, name: str, seeds: tuple[str, ...], address: str, role: Role = "edge") -> GossipingNode:
        """A broker with its gossip, in one life."""
        self._lives += 1
        rng = self.world.rng(f"life {self._lives}, of {name}")
        broker = IdleBroker(Member(name, role, address=name))
        node = self.nodes[name] = with_gossip(broker, Gossip(name, rng, seeds, address, self._options))
        return node

    def do(self, name: str, *effects: Effect) -> None:
        """Have a broker ask for effects."""
        self.hosts[name].tell(Do(effects))

    def broker(self, name: str) -> IdleBroker:
        """What a broker was told in this life."""
        inner = self.nodes[name].inner
        if not isinstance(inner, IdleBroker):
            raise TypeError(name)
        return inner

    @property
    def living(self) -> list[str]:
        """The names of those that are up."""
        return [name for name, host in self.hosts.items() if host.is_up]

    def agree(self, names: Iterable[str] | None = None) -> bool:
        """Whether each of some, or all that are up, sees all the others, and nobody else."""
        chosen = set(self.living if names is None else names)
        return all(self.broker(name).members.keys() == chosen - {name} for name in chosen)

    def run_until(self, is_reached: Callable[[], bool], seconds_max: float, step_seconds: float = 0.1) -> float:
        """Let time pass until something holds; how long that took, or an AssertionError."""
        began_at = self.world.clock.now
        while not is_reached():
            if self.world.clock.now - began_at > seconds_max:
                raise AssertionError(f"seed {self.world.seed}: not within {seconds_max} s")
            self.world.run_for(step_seconds)
        return self.world.clock.now - began_at
