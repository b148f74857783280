"""Isolated networks in the simulator: each has an edge and clients, and they meet through routing brokers in a cloud.

One simulated client holds all publishers of a network, and another one all its subscribers: what an edge does for them
is the same, and ten thousand clients would take memory only. Coordination is the simulated ZooKeeper.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fieldfare.client.events import Event
from fieldfare.experiments.pubsubcoord.settings import (
    EVERYTHING,
    LAN,
    OFFERED,
    PERIOD_SECONDS,
    REQUESTED,
    VALUES,
    WAN,
    sample,
)
from fieldfare.messages import Node
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.qos import Requested
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.network import LinkQuality, lan_and_wan
from fieldfare.simulation.world import World
from fieldfare.simulation.zookeeper import SimulatedZooKeeper

CLOUD = "cloud"
_BROKERS_SECONDS = 4.0  # until all brokers have found each other
_SETTLE_SECONDS = 6.0  # for what is under way when the last subscription has been confirmed
_APART_SECONDS = 5.25  # about how often edges tell each other how far they are, for each topic
_PATIENCE_SECONDS = 300.0  # of the simulated clock


@dataclass(frozen=True, slots=True)
class Flow:
    """A topic with one publisher, and a subscriber in each of some networks."""

    topic: str
    origin: str
    receivers: Mapping[str, str] = field(default_factory=dict)  # the subscriber's condition, by its network

    @staticmethod
    def to(topic: str, origin: str, *receivers: str) -> Flow:
        """A topic of which every subscriber wants everything."""
        return Flow(topic, origin, dict.fromkeys(receivers, EVERYTHING))


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The share of the time in which brokers were busy."""

    mean: float
    highest: float

    @staticmethod
    def of(shares: Sequence[float]) -> BrokerLoad:
        """Of some brokers."""
        return BrokerLoad(float(np.mean(shares)), float(np.max(shares))) if shares else BrokerLoad(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What happened in the time that was measured."""

    latencies: npt.NDArray[np.float64]  # seconds from publisher to subscriber, of each event that was delivered
    published: int
    events_between: int  # that routing brokers passed on, each counted for every edge that got it
    bytes_between: int  # between edges and routing brokers, without what TCP and IP add
    load: Mapping[str, float]  # the utilisation of each broker that has a service time

    def load_of(self, networks: Sequence[str]) -> BrokerLoad:
        """Of the edges of some networks."""
        return BrokerLoad.of([self.load[edge_of(network)] for network in networks])

    @property
    def routing_load(self) -> BrokerLoad:
        """Of the routing brokers."""
        return BrokerLoad.of([share for name, share in self.load.items() if name.startswith(f"{CLOUD}.")])


def edge_of(network: str) -> str:
    """The edge of a network, by name."""
    return f"{network}.edge"


def network_of(place: str) -> str:
    """Where a place is: names begin with it."""
    return place.partition(".")[0]


class NotingCoordination:
    """The simulated ZooKeeper; it also notes the nodes of the brokers, and may wrap them."""

    def __init__(self, zookeeper: SimulatedZooKeeper, wrap: Callable[[str, Node], Node] = lambda _, node: node) -> None:
        self.nodes: dict[str, Node] = {}
        self._zookeeper, self._wrap = zookeeper, wrap

    def serve(self, host: SimulatedHost) -> None:
        """Perform what a broker asks of its coordination."""
        self._zookeeper.serve(host)

    def wrapped(self, name: str, node: Node) -> Node:
        """A broker's node as its host runs it."""
        self.nodes[name] = node
        return self._wrap(name, node)


class Networks:
    """Networks with flows between them. `begin` lets all subscribe, `measure` publishes, and may be called again."""

    def __init__(
        self,
        networks: Sequence[str],
        routing_count: int,
        flows: Sequence[Flow],
        *,
        requested: Requested = REQUESTED,
        wan: LinkQuality = WAN,
        wrap: Callable[[str, Node], Node] = lambda _, node: node,
    ) -> None:
        self.world = world = World(seed=1)
        self._rng = random.Random("samples")  # noqa: S311 - for a simulation
        self.flows, self._requested = flows, requested
        world.network.quality_of = lan_and_wan(network_of, LAN, wan)
        self.coordination = NotingCoordination(SimulatedZooKeeper(world.network, f"{CLOUD}.zookeeper"), wrap)
        deployment = Deployment(world, self.coordination)
        self.routing = [deployment.routing(f"{CLOUD}.routing-{number}") for number in range(routing_count)]
        self.edges = {network: deployment.edge(edge_of(network), network=network) for network in networks}
        self._latencies: list[float] = []
        self._published = 0
        self._is_over = False

    @property
    def brokers(self) -> list[SimulatedHost]:
        """All of them."""
        return [*self.routing, *self.edges.values()]

    # Beginning

    def begin(self) -> None:
        """Declare the topics and subscribe; returns when all has settled."""
        with _without_garbage_collection():
            self._begin()

    def _begin(self) -> None:
        world = self.world
        world.run_for(_BROKERS_SECONDS)
        self._publishers = {
            origin: self._client(origin, "publisher") for origin in {flow.origin for flow in self.flows}
        }
        subscribing = {network for flow in self.flows for network in flow.receivers}
        subscribers = {network: self._client(network, "subscriber") for network in sorted(subscribing)}
        world.run_for(1.0)
        for flow in self.flows:
            self._publishers[flow.origin].declare(flow.topic, OFFERED)
        world.run_for(2.0)
        receptions = [
            subscribers[network].subscribe(flow.topic, condition, self._received, qos=self._requested)
            for flow in self.flows
            for network, condition in flow.receivers.items()
        ]
        until = world.clock.now + _PATIENCE_SECONDS
        while any(reception.confirmed_at is None for reception in receptions):
            if world.clock.now > until:
                raise RuntimeError("the subscriptions were not confirmed")
            world.run_for(1.0)
        world.run_for(_SETTLE_SECONDS)
        self._move_apart()

    def _move_apart(self) -> None:
        """Publish one sample of each topic, at some time: from then on edges tell each other of it in their own time.

        Else all edges would do so for all topics at once, soon after the beginning and every five seconds.
        """
        clock = self.world.clock
        for flow in self.flows:
            clock.call_at(clock.now + _APART_SECONDS * self._rng.random(), self._publish_sample, flow)
        self.world.run_for(_APART_SECONDS)

    def _client(self, network: str, role: str) -> SimulatedClient:
        return self.world.client(f"{network}.{role}", self.edges[network])

    def _received(self, event: Event[dict[str, Any]]) -> None:
        self._latencies.append(self.world.clock.now - event.attributes["t"])

    # Publishing

    def measure(self, warm_seconds: float, measured_seconds: float) -> Measured:
        """Publish a sample of every flow again and again; what happens first is not measured."""
        self._is_over = False
        clock = self.world.clock
        for flow in self.flows:
            clock.call_at(clock.now + PERIOD_SECONDS * self._rng.random(), self._publish_again, flow)
        with _without_garbage_collection():
            self.world.run_for(warm_seconds)
            before = self._counts()
            self._latencies.clear()
            self.world.run_for(measured_seconds)
            after = self._counts()
        self._is_over = True
        load = {
            name: report.since(before.reports[name]).utilisation
            for name, report in after.reports.items()
            if name in before.reports
        }
        return Measured(
            np.array(self._latencies),
            after.published - before.published,
            after.events_between - before.events_between,
            after.bytes_between - before.bytes_between,
            load,
        )

    def publish(self, flow: Flow, *events: msgspec.Raw) -> None:
        """Publish events of a flow together."""
        self._publishers[flow.origin].publish(flow.topic, *events)
        self._published += 1

    def _publish_again(self, flow: Flow) -> None:
        if self._is_over:
            return
        self._publish_sample(flow)
        clock = self.world.clock
        clock.call_at(clock.now + PERIOD_SECONDS, self._publish_again, flow)

    def _publish_sample(self, flow: Flow) -> None:
        self.publish(flow, msgspec.Raw(sample(self.world.clock.now, self._rng.randrange(VALUES))))

    def _counts(self) -> _Counts:
        nodes = [node for node in self.coordination.nodes.values() if isinstance(node, RoutingBroker)]
        brokers = {host.name for host in self.brokers}
        return _Counts(
            self._published,
            sum(node.counts.events for node in nodes),
            sum(
                count
                for (here, there), count in self.world.network.stream_bytes.items()
                if here in brokers and there in brokers
            ),
            {host.name: host.service_report() for host in self.brokers if host.has_service_time},
        )


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A world is a large graph without garbage, and to look through it takes long."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True, slots=True)
class _Counts:
    published: int
    events_between: int
    bytes_between: int
    reports: Mapping[str, Any]
