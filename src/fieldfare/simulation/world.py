"""The door to the simulator: a world of edges, clients and webhooks, in which a seed replays any run.

world = World(seed=7)
edge = world.edge("edge")
alice, bob = world.client("alice", edge), world.client("bob", edge)
slow = alice.subscribe("traffic", "speed < 25")
bob.publish("traffic", {"speed": 10})
world.crash(edge)
world.restart(edge)
world.run_for(5.0)
assert [event.event for event in slow.events] == [b'{"speed":10}']
world.check()
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from fieldfare.client.options import SessionOptions
from fieldfare.messages import BrokerIdentity, Identity, LinkIdentity, Node, names_of
from fieldfare.messages.broker_codec import BROKER_FRAMES
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.simulation.checkers import check_liveness, check_safety
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.clock import Clock
from fieldfare.simulation.compiling import SimulatedCompiler
from fieldfare.simulation.disk import DiskSnapshot
from fieldfare.simulation.gap_checker import check_gaps
from fieldfare.simulation.history import TENANT, Crash, History, LostDisk, Removal
from fieldfare.simulation.host import EVERYTHING, SimulatedHost
from fieldfare.simulation.network import LinkQuality, Network, Partition
from fieldfare.simulation.pipeline import SimulatedPipeline
from fieldfare.simulation.webhooks import Endpoint, Webhooks

Machine: TypeAlias = SimulatedHost | SimulatedClient

_DEFAULT_LINK = LinkQuality()
_DEFAULT_OPTIONS = EdgeOptions()


class World:
    """Everything that is simulated together. All chance in it comes from the seed."""

    def __init__(self, seed: int = 0, link: LinkQuality = _DEFAULT_LINK) -> None:
        self.seed = seed
        self.clock = Clock()
        self.network = Network(self.clock, self.rng("network"), link)
        self.history = History()
        self.webhooks = Webhooks(self.network, self.history)
        self.machines: dict[str, Machine] = {}
        self.pipelines: dict[str, SimulatedPipeline] = {}
        self.compilers: dict[str, SimulatedCompiler] = {}

    def rng(self, purpose: str) -> random.Random:
        """Chance for one purpose: what is drawn for one changes nothing for the others."""
        return random.Random(f"{self.seed} {purpose}")  # noqa: S311 - for a simulation

    # Machines

    def node(self, name: str, make_node: Callable[[], Node]) -> SimulatedHost:
        """A machine that runs any node. It begins with `host.start()`, when all that it can do has been provided."""
        host = SimulatedHost(name, make_node, self.network, partial(self.rng, name))
        self.machines[name] = host
        return host

    def broker(self, name: str, make_node: Callable[[], Node]) -> SimulatedHost:
        """A machine that runs a broker without clients, such as a routing broker. It begins with `host.start()`."""
        host = self.node(name, make_node)
        host.identify = BrokerIdentity
        host.lines = BROKER_FRAMES
        return host

    def edge_of(self, name: str, make_node: Callable[[], Node]) -> SimulatedHost:
        """A machine that runs an edge broker that the caller makes. It begins with `host.start()`.

        It serves clients and links to other brokers, has webhooks, a compiler and a pipeline, and what leaves its log
        is noted in the history.
        """
        host = self.node(name, make_node)
        host.identify = self._identify
        host.codecs = {BrokerIdentity: BROKER_FRAMES}
        host.log.on_removed = partial(self._note_removed, name)
        self.webhooks.serve(host)
        self.compilers[name] = SimulatedCompiler(host, self.rng(f"{name}'s compiler"))
        self.pipelines[name] = SimulatedPipeline(host, self.rng(f"{name}'s pipeline"))
        return host

    def edge(self, name: str = "edge", options: EdgeOptions = _DEFAULT_OPTIONS) -> SimulatedHost:
        """An edge broker, which starts at once."""
        rng = self.rng(f"{name}'s node")
        host = self.edge_of(name, lambda: Edge(name, rng=rng, options=options))
        host.start()
        return host

    def client(
        self,
        name: str,
        edge: SimulatedHost | Sequence[SimulatedHost],
        tenant: str = TENANT,
        options: SessionOptions | None = None,
    ) -> SimulatedClient:
        """A client of an edge, or of one of several at a time; it begins to connect."""
        names = [each.name for each in ([edge] if isinstance(edge, SimulatedHost) else edge)]
        client = SimulatedClient(name, names, self.network, self.rng(name), self.history)
        client.tenant, client.log_of = tenant, self.log_of
        client.options = options or client.options
        self.machines[name] = client
        client.start()
        return client

    def log_of(self, edge: str) -> str | None:
        """The id of an edge's log, which an edge tells to those who connect."""
        machine = self.machines.get(edge)
        return machine.log_id if isinstance(machine, SimulatedHost) else None

    def _identify(self, place: str) -> LinkIdentity:
        """Who connects to an edge from a place: another broker, or a client of some tenant, with all rights."""
        machine = self.machines.get(place)
        if isinstance(machine, SimulatedHost):
            return BrokerIdentity(place)
        tenant = machine.tenant if isinstance(machine, SimulatedClient) else TENANT
        return Identity(tenant, EVERYTHING.rights)

    def webhook(self, url: str, endpoint: Endpoint) -> None:
        """An endpoint that is called with events."""
        self.webhooks.add(url, endpoint)

    # Time and faults

    def run_for(self, seconds: float) -> None:
        """Let time pass; what is due meanwhile happens."""
        self.clock.run_for(seconds)

    def crash(self, machine: Machine) -> None:
        """A machine stops here and now; what it had not made durable is gone."""
        machine.crash()
        if machine.name in self.compilers:
            self.history.crashes.append(Crash(machine.name, self.clock.now))

    def restart(self, machine: Machine) -> None:
        """A machine that crashed comes back."""
        if not machine.is_up:
            machine.start()

    def pause(self, machine: SimulatedHost) -> None:
        """A machine handles nothing until `resume`, as a process does after SIGSTOP; its sockets stay open."""
        machine.pause()

    def resume(self, machine: SimulatedHost) -> None:
        """A paused machine handles all that has waited for it, and its timers late."""
        machine.resume()

    def partition(self, one: Iterable[str], other: Iterable[str], *, is_one_way: bool = False) -> Partition:
        """Nothing passes between two groups of names, until `heal`; or nothing from the first to the second."""
        return self.network.partition(frozenset(one), frozenset(other), is_one_way=is_one_way)

    def heal(self, partition: Partition | None = None) -> None:
        """End a partition, or all of them."""
        self.network.heal(partition)

    # Disks

    def wipe_disk(self, edge: SimulatedHost) -> None:
        """An edge that has crashed comes back with an empty log."""
        edge.wipe_disk()
        self._note_lost_disk(edge.name, since=-math.inf)

    def restore_disk(self, edge: SimulatedHost, snapshot: DiskSnapshot) -> None:
        """An edge that has crashed comes back with the log that `edge.snapshot_disk()` found at an earlier moment."""
        edge.restore_disk(snapshot)
        self._note_lost_disk(edge.name, since=snapshot.taken_at)

    def _note_lost_disk(self, edge: str, since: float) -> None:
        now = self.clock.now
        self.history.lost_disks.append(LostDisk(edge, since, now))
        for reception in self.history.receptions:
            if reception.edge == edge:
                reception.restart(now)

    def _note_removed(self, edge: str, stream: str) -> None:
        tenant, topic = names_of(stream)
        self.history.removals.append(Removal(edge, tenant, topic, self.clock.now))

    # Promises

    def check(self, among: Collection[str] | None = None) -> None:
        """Raise a BrokenPromiseError if the clients did not get what they were promised; call it when all is quiet.

        With `among`, ask only what the clients and edges of these names missed: the others suffer from faults that
        have not ended.
        """
        check_safety(self.history)
        check_liveness(self.history, self.clock.now, among, self.clock_error_seconds)
        check_gaps(self.history, self.clock.now, among, self.clock_error_seconds)

    @property
    def clock_error_seconds(self) -> float:
        """By how much two edges together, that of a publisher and that of a subscriber, may misjudge an event's age."""
        hosts = [machine for machine in self.machines.values() if isinstance(machine, SimulatedHost)]
        return sum(sorted(host.machine_clock.error_seconds for host in hosts)[-2:])
