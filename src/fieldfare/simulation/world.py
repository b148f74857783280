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

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from fieldfare.messages import Identity, Node
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.simulation.checkers import check_liveness, check_safety
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.clock import Clock
from fieldfare.simulation.compiling import SimulatedCompiler
from fieldfare.simulation.history import TENANT, History
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

    def edge(self, name: str = "edge", options: EdgeOptions = _DEFAULT_OPTIONS) -> SimulatedHost:
        """An edge broker, which starts at once."""
        rng = self.rng(f"{name}'s node")
        host = self.node(name, lambda: Edge(name, rng=rng, options=options))
        host.identify = self._identify
        self.webhooks.serve(host)
        self.compilers[name] = SimulatedCompiler(host, self.rng(f"{name}'s compiler"))
        self.pipelines[name] = SimulatedPipeline(host, self.rng(f"{name}'s pipeline"))
        host.start()
        return host

    def client(self, name: str, edge: SimulatedHost, tenant: str = TENANT) -> SimulatedClient:
        """A client of an edge; it begins to connect."""
        client = SimulatedClient(name, edge.name, self.network, self.rng(name), self.history)
        client.tenant = tenant
        self.machines[name] = client
        client.start()
        return client

    def _identify(self, place: str) -> Identity:
        """Who connects to an edge from a place: a client of some tenant, with all rights."""
        machine = self.machines.get(place)
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

    def restart(self, machine: Machine) -> None:
        """A machine that crashed comes back."""
        if not machine.is_up:
            machine.start()

    def partition(self, one: Iterable[str], other: Iterable[str]) -> Partition:
        """Nothing passes between two groups of names, until `heal`."""
        return self.network.partition(frozenset(one), frozenset(other))

    def heal(self, partition: Partition | None = None) -> None:
        """End a partition, or all of them."""
        self.network.heal(partition)

    def check(self) -> None:
        """Raise a BrokenPromiseError if the clients did not get what they were promised; call it when all is quiet."""
        check_safety(self.history)
        check_liveness(self.history, self.clock.now)
