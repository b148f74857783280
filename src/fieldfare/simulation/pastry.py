"""A Pastry ring in a simulated world: nodes with an application that notes what it gets, and the truth to compare with.

ring = SimulatedRing(World(seed=7))
ring.add_many(100)
ring.run_until(ring.is_right, 60.0)
ring.route("p007", key_of(b"apple"), b"hello")
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from fieldfare.messages import Effect, Input, Node, PacketCodec, RecordCodec, Withdraw
from fieldfare.pastry.admission import ClosedGroup, Ids
from fieldfare.pastry.bulk import DRAWN, acquaint
from fieldfare.pastry.ids import is_closer
from fieldfare.pastry.node import Acquainted, NodeStart, PastryNode, node_for
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.pastry_frames import AnyPastryFrame
from fieldfare.pastry.ports import (
    Application,
    Assurance,
    Card,
    Contact,
    Key,
    NeighboursChanged,
    NodeId,
    Ring,
    RoutedMessage,
    Undelivered,
)
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World

if TYPE_CHECKING:  # it needs an optional package
    from fieldfare.pastry.sealing import SealedNode

_DEFAULT_OPTIONS = PastryOptions()
_SECRET = b"the secret of a simulated ring"


class RouteMessage(Input, frozen=True):
    """Have a node route a message."""

    key: Key
    message: bytes
    assurance: Assurance = Assurance.EACH_HOP


class SendMessage(Input, frozen=True):
    """Have a node send a message to another."""

    target: Contact
    message: bytes
    assurance: Assurance = Assurance.EACH_HOP


class ArrivedMessage(NamedTuple):
    """A message that came to its end."""

    node: str
    routed: RoutedMessage
    at: float


class NotingApplication:
    """Notes what it gets, for all nodes of a ring in common lists."""

    def __init__(self, name: str, ring: SimulatedRing) -> None:
        self.name = name
        self.is_joined = False
        self.changes: list[NeighboursChanged] = []
        self.undelivered_notices: list[Undelivered] = []
        self.received: list[tuple[str, bytes]] = []
        self._simulated = ring
        self._ring: Ring | None = None

    def started(self, ring: Ring, now: float) -> None:  # noqa: ARG002 - it is called with it
        """The node begins."""
        self._ring = ring

    def joined(self, now: float) -> None:  # noqa: ARG002
        """The node is on the ring."""
        self.is_joined = True

    def deliver(self, routed: RoutedMessage, now: float) -> None:
        """Note a message."""
        self._simulated.deliveries.append(ArrivedMessage(self.name, routed, now))

    def forward(self, routed: RoutedMessage, next_hop: Contact, now: float) -> bytes | None:  # noqa: ARG002
        """Let it pass."""
        return routed.message

    def receive(self, source: Contact, message: bytes, now: float) -> None:  # noqa: ARG002
        """Note a message from a node."""
        self.received.append((source.name, message))

    def neighbours_changed(self, change: NeighboursChanged, now: float) -> None:  # noqa: ARG002
        """Note a change."""
        self.changes.append(change)

    def undelivered(self, notice: Undelivered, now: float) -> None:  # noqa: ARG002
        """Note a notice."""
        self.undelivered_notices.append(notice)

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """Do what a test asks for."""
        if self._ring is not None:
            if isinstance(message, RouteMessage):
                self._ring.route(message.key, message.message, now, message.assurance)
            elif isinstance(message, SendMessage):
                self._ring.send(message.target, message.message, now, message.assurance)
        return ()


class CountingPackets(PacketCodec[AnyPastryFrame]):
    """Sealed packets as on a real network, counted; those that cannot be read are dropped."""

    def __init__(self, packets: PacketCodec[AnyPastryFrame]) -> None:
        super().__init__(AnyPastryFrame)
        self._packets = packets
        self.count = self.bytes = self.bytes_max = self.unreadable = 0

    def encode_line(self, frame: AnyPastryFrame) -> bytes:
        """A frame as a packet."""
        packet = self._packets.encode_line(frame)
        self.count += 1
        self.bytes += len(packet)
        self.bytes_max = max(self.bytes_max, len(packet))
        return packet

    def decode(self, message: bytes | str) -> list[AnyPastryFrame]:
        """The frame of a packet, if it is one."""
        try:
            return self._packets.decode(message)
        except msgspec.MsgspecError:
            self.unreadable += 1
            return []


class SealByCertificates(Protocol):
    """How the nodes of a ring prove themselves by certificates (see `fieldfare.pastry.sealing`)."""

    @property
    def group(self) -> Ids:
        """Where names have their places."""
        ...

    def around(self, name: str, node: Node) -> SealedNode:
        """What seals the packets of a node."""
        ...


class SimulatedRing:
    """Nodes by name.

    Frames travel as objects, which is faster; or as bytes: `with_packets` that are sealed with the group's secret, or,
    with `seal`, for each receiver.
    `make_application` makes what runs on each node; without it, what nodes get is noted in `deliveries` and in
    `applications`.
    """

    def __init__(
        self,
        world: World,
        options: PastryOptions = _DEFAULT_OPTIONS,
        make_application: Callable[[str], Application] | None = None,
        *,
        with_packets: bool = False,
        seal: SealByCertificates | None = None,
    ) -> None:
        self.world = world
        self.options = options
        group = ClosedGroup(_SECRET)
        self.group: Ids = group if seal is None else seal.group
        self.packets = CountingPackets(group.codec()) if with_packets else None
        self.sealed: dict[str, SealedNode] = {}  # with certificates, what is around each node
        self._seal = seal
        self.records: RecordCodec[Any] | None = None  # of the application's log, if it keeps one
        self.hosts: dict[str, SimulatedHost] = {}
        self.nodes: dict[str, PastryNode] = {}
        self.applications: dict[str, NotingApplication] = {}
        self.deliveries: list[ArrivedMessage] = []
        self._make_application = make_application or self._noting
        self._lives = 0
        self._acquainted: dict[str, Acquainted] = {}

    # Nodes

    def add(self, name: str, seeds: Iterable[str] | None = None) -> SimulatedHost:
        """One more, which joins over the first node that is up; it starts at once."""
        chosen = tuple(self.living[:1] if seeds is None else seeds)
        host = self.hosts[name] = self.world.node(name, partial(self._make_node, name, chosen))
        host.datagram_lines = self.packets
        if self.records is not None:
            host.records = self.records
        host.start()
        return host

    def add_many(self, count: int, apart_seconds: float = 0.1) -> None:
        """So many more, one after the other, each over a random node that is up."""
        rng = self.world.rng(f"seeds of {count} after {len(self.hosts)}")
        for number in range(len(self.hosts), len(self.hosts) + count):
            living = [name for name in self.living if self.nodes[name].is_joined]
            self.add(f"p{number:04}", [rng.choice(living)] if living else [])
            self.world.run_for(apart_seconds)

    def add_acquainted(
        self, names: Sequence[str], drawn: int = DRAWN, seconds: Callable[[str, str], float] | None = None
    ) -> None:
        """Nodes that begin with right tables, rather than join: for each slot the nearest of so many that are drawn.

        `seconds` says how far it is from a place to another, where that is found faster than by the network's quality.
        """
        life, quality = int(self.world.clock.now * 1000), self.world.network.link_quality
        contacts = [self.group.contact(Card(name, name, life)) for name in names]

        def round_trip_seconds(one: Contact, other: Contact) -> float:
            if seconds is not None:
                return 2.0 * seconds(one.card.address, other.card.address)
            there = quality(one.address, other.address)
            return 2.0 * (there.latency_seconds + there.jitter_seconds / 2)

        rng = self.world.rng("tables")
        for contact, tables in acquaint(contacts, round_trip_seconds, self.options, rng, drawn):
            self._acquainted[contact.name] = tables
        for name in names:
            self.add(name, seeds=())
        self._acquainted.clear()

    def _make_node(self, name: str, seeds: tuple[str, ...]) -> Node:
        self._lives += 1
        if name in self.nodes:  # it comes back, and its seeds may be gone
            others = (each for each in self.living if each != name and self.nodes[each].is_joined)
            seeds = (*islice(others, 1), *seeds)
        rng = self.world.rng(f"life {self._lives}, of {name}")
        start = NodeStart(name, self.group, address=name, seeds=seeds)
        node = node_for(start, self._make_application(name), rng, self.options)
        self.nodes[name] = node
        if name in self._acquainted:
            node.begin_with(self._acquainted[name])
        if self._seal is None:
            return node
        sealed = self.sealed[name] = self._seal.around(name, node)
        return sealed

    def _noting(self, name: str) -> NotingApplication:
        made = self.applications[name] = NotingApplication(name, self)
        return made

    @property
    def living(self) -> list[str]:
        """The names of those that are up."""
        return [name for name, host in self.hosts.items() if host.is_up]

    def leave(self, name: str) -> None:
        """A node says goodbye, and stops a little later."""
        host = self.hosts[name]
        host.tell(Withdraw())
        host.later(1.0, host.crash)

    def route(self, name: str, key: Key, message: bytes, assurance: Assurance = Assurance.EACH_HOP) -> None:
        """Have a node route a message."""
        self.hosts[name].tell(RouteMessage(key, message, assurance))

    def send(self, name: str, target: str, message: bytes, assurance: Assurance = Assurance.EACH_HOP) -> None:
        """Have a node send a message to another."""
        self.hosts[name].tell(SendMessage(self.nodes[target].me, message, assurance))

    # The truth

    def closest(self, key: Key, among: Iterable[str] | None = None) -> str:
        """The name of the living node that is closest to a key, found by looking at all."""
        best: str | None = None
        for name in self.living if among is None else among:
            if best is None or is_closer(self.group.id_of(name), self.group.id_of(best), key):
                best = name
        if best is None:
            raise ValueError("no node is up")
        return best

    def wrong_leaves(self, among: Iterable[str] | None = None) -> list[str]:
        """Those whose leaf set is not made of the nodes next to them, as far as these live."""
        names = sorted(self.living if among is None else among, key=self.group.id_of)
        size, count = min(self.options.leaves_each_side, len(names) - 1), len(names)
        wrong = []
        for index, name in enumerate(names):
            after = [names[(index + step) % count] for step in range(1, size + 1)]
            before = [names[(index - step) % count] for step in range(1, size + 1)]
            leaves = self.nodes[name].leaves
            if [each.name for each in leaves.after] != after or [each.name for each in leaves.before] != before:
                wrong.append(name)
        return wrong

    def is_right(self, among: Iterable[str] | None = None) -> bool:
        """Whether all have joined, and all leaf sets are right."""
        names = list(self.living if among is None else among)
        return all(self.nodes[name].is_joined for name in names) and not self.wrong_leaves(names)

    def empty_slots(self) -> tuple[int, int]:
        """How many slots of all prefix tables could be filled, and how many of those are empty."""
        ids = sorted(self.group.id_of(name) for name in self.living)
        fillable = empty = 0
        for name in self.living:
            table = self.nodes[name].place.table
            for slot, nodes in _by_slot(table.slot_of, ids, self.group.id_of(name)).items():
                fillable += 1
                empty += table.at(nodes) is None
                del slot
        return fillable, empty

    def run_until(self, is_reached: Callable[[], bool], seconds_max: float, step_seconds: float = 0.5) -> float:
        """Let time pass until something holds; how long that took, or an AssertionError."""
        began_at = self.world.clock.now
        while not is_reached():
            if self.world.clock.now - began_at > seconds_max:
                raise AssertionError(f"seed {self.world.seed}: not within {seconds_max} s; {self.wrong_leaves()[:5]}")
            self.world.run_for(step_seconds)
        return self.world.clock.now - began_at


def _by_slot(slot_of: Callable[[NodeId], int], ids: Sequence[NodeId], me: NodeId) -> dict[int, NodeId]:
    """For each slot that can be filled, one node that belongs there."""
    place = bisect_left(ids, me)
    return {slot_of(each): each for each in (*ids[:place], *ids[place + 1 :])}
