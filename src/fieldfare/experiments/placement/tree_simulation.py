"""The brokers of a tree as they run live, in the simulator: what they receive, and how long deliveries take.

Nothing is counted by a model here: quotes are published by clients, matched at every broker with what is wanted beyond
its links, and delivered to clients that subscribed with the paper's conditions. Publishers are where they are put.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fieldfare.client.events import Event
from fieldfare.client.options import SessionOptions
from fieldfare.experiments.placement.load_model import ServiceTime
from fieldfare.experiments.placement.stock_quotes import CONDITIONS
from fieldfare.experiments.placement.workloads import StockPublisher, StockWorkload
from fieldfare.messages import Echo, Effect, Input, LoggingNode, Node, PassOn, Publish, Received, Stream, TreeFrame
from fieldfare.placement.placement_frames import PlacementFrame
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.publisher_placement import NO_PLACEMENT, PlacementOptions
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.tree import SimulatedTree
from fieldfare.simulation.world import World

TOPIC = "stocks"
_BROKERS_SECONDS = 5.0  # until all brokers of the tree know each other
_SETTLE_SECONDS = 10.0
_PATIENCE_SECONDS = 300.0


@dataclass(slots=True)
class BrokerCounts:
    """What one broker has received, and what handling it took."""

    events: int = 0  # of publishers and of neighbours
    others: int = 0  # frames of neighbours without events: what is wanted, taken, passed over
    placing: int = 0  # frames of placement
    echoes: int = 0  # frames that measure how long a hop takes, which placement asks for
    cpu_seconds: float = 0.0  # of its node, for all that came with events


@dataclass(frozen=True, slots=True)
class TreeMeasured:
    """Averages over all brokers, or over all deliveries."""

    message_rate: float  # events that a broker receives, per second
    other_rate: float  # frames without events that it receives from neighbours, but for those of placement
    placing_rate: float  # frames of placement
    echo_rate: float  # frames that measure hops for it
    delay_seconds: float
    longest_seconds: float  # a delay; a publisher that moves lets its publications wait
    deliveries: int
    utilisation: float
    busiest: float
    cpu_seconds: float  # of a broker's node, for each event that it receives


def events_in(message: Input) -> int:
    """How many events come with an input."""
    match message:
        case Received(_, Publish(events=events)) | Received(_, Stream(events=events)):
            return len(events)
    return 0


class CountingNode:
    """A broker's node that counts what comes."""

    def __init__(self, node: LoggingNode, counts: BrokerCounts) -> None:
        self._node, self._counts = node, counts

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """As the node does."""
        events = events_in(message)
        if not events:
            self._count(message)
            return self._node.handle(message, now)
        begin = time.process_time()
        effects = self._node.handle(message, now)
        self._counts.cpu_seconds += time.process_time() - begin
        self._counts.events += events
        return effects

    def _count(self, message: Input) -> None:
        """A frame of a neighbour without events."""
        match message:
            case Received(_, PlacementFrame() | PassOn(frame=PlacementFrame())):
                self._counts.placing += 1
            case Received(_, Echo()):
                self._counts.echoes += 1
            case Received(_, TreeFrame()):
                self._counts.others += 1

    def recover(self, record: Any) -> None:
        """As the node does."""
        self._node.recover(record)

    def checkpoint(self) -> Sequence[Any]:
        """As the node does."""
        return self._node.checkpoint()


class CountingTree(SimulatedTree):
    """A tree that counts what its brokers receive."""

    def __init__(
        self,
        rng: Callable[[str], random.Random],
        neighbours: Mapping[str, tuple[Neighbour, ...]],
        options: TreeOptions,
    ) -> None:
        super().__init__(rng, neighbours, options)
        self.counts: dict[str, BrokerCounts] = {}

    def wrapped(self, name: str, node: Node) -> Node:
        """A broker of the tree, counted."""
        broker = super().wrapped(name, node)
        self.counts[name] = BrokerCounts()
        return CountingNode(self.brokers[name], self.counts[name]) if isinstance(broker, LoggingNode) else broker


class StockTree:
    """A workload on a tree of real brokers. `begin` lets all subscribe, `measure` publishes."""

    def __init__(
        self,
        workload: StockWorkload,
        places: Mapping[str, str],
        service: ServiceTime,
        placement: PlacementOptions = NO_PLACEMENT,
        seed: int = 1,
    ) -> None:
        self._workload, self._places, self._service = workload, places, service
        self.world = World(seed)
        link = LinkQuality(latency_seconds=service.link_seconds, jitter_seconds=0.0)
        self.world.network.quality_of = lambda _one, _other: link
        self._rng = self.world.rng("publications")
        upstream = workload.shape.upstream(next(iter(workload.shape.neighbours)))
        linked = {name: (Neighbour(other, other),) for name, other in upstream.items()}
        self.tree = CountingTree(self.world.rng, linked, TreeOptions(placement=placement))
        deployment = Deployment(self.world, self.tree)
        self._hosts: dict[str, SimulatedHost] = {name: deployment.edge(name) for name in workload.shape.neighbours}
        self._publishers: dict[str, SimulatedClient] = {}
        self._delays: list[float] = []
        self._publishes = False

    def begin(self) -> None:
        """Subscribe, and publish one quote of each stock, so that all is advertised; returns when all has settled."""
        world = self.world
        world.run_for(_BROKERS_SECONDS)
        subscribers = {name: world.client(f"subscriber at {name}", host) for name, host in self._hosts.items()}
        for publisher in self._workload.publishers:
            place = self._hosts[self._places[publisher.name]]
            self._publishers[publisher.name] = world.client(
                f"publisher of {publisher.name}", place, options=SessionOptions(is_movable=True)
            )
        world.run_for(1.0)
        receptions = [
            subscribers[broker].subscribe(TOPIC, f"symbol = '{publisher.name}' AND {CONDITIONS[rating]}", self._noted)
            for publisher in self._workload.publishers
            for rating, counts in publisher.subscribers.items()
            for broker, count in counts.items()
            for _ in range(count)
        ]
        until = world.clock.now + _PATIENCE_SECONDS
        while any(reception.confirmed_at is None for reception in receptions):
            if world.clock.now > until:
                raise RuntimeError("the subscriptions were not confirmed")
            world.run_for(1.0)
        for publisher in self._workload.publishers:
            self._publish(publisher, 0)
        world.run_for(_SETTLE_SECONDS)
        for host in self._hosts.values():
            host.serve_in(lambda message: self._service.matching_seconds * events_in(message))

    def measure(self, warm_seconds: float, measured_seconds: float) -> TreeMeasured:
        """Publish at random times, at each publisher's rate; what happens first is not measured."""
        if not self._publishes:
            self._publishes = True
            for publisher in self._workload.publishers:
                self._publish_later(publisher, 1)
        self.world.run_for(warm_seconds)
        for counts in self.tree.counts.values():
            counts.events = counts.others = counts.placing = counts.echoes = 0
            counts.cpu_seconds = 0.0
        self._delays.clear()
        before = {name: host.service_report() for name, host in self._hosts.items()}
        self.world.run_for(measured_seconds)
        shares = [host.service_report().since(before[name]).utilisation for name, host in self._hosts.items()]
        counted = self.tree.counts.values()
        events = sum(each.events for each in counted)
        return TreeMeasured(
            events / len(counted) / measured_seconds,
            sum(each.others for each in counted) / len(counted) / measured_seconds,
            sum(each.placing for each in counted) / len(counted) / measured_seconds,
            sum(each.echoes for each in counted) / len(counted) / measured_seconds,
            fmean(self._delays),
            max(self._delays),
            len(self._delays),
            fmean(shares),
            max(shares),
            sum(each.cpu_seconds for each in counted) / events,
        )

    @property
    def places(self) -> dict[str, str]:
        """The broker that each publisher publishes at."""
        return {name: client.publishes_at for name, client in self._publishers.items()}

    @property
    def relocations(self) -> int:
        """Publishers that placement has moved."""
        return sum(broker.placement.moved_count for broker in self.tree.brokers.values())

    def check(self) -> None:
        """Stop publishing, and fail if an event was lost, doubled or reordered."""
        self._publishes = False
        self.world.run_for(_SETTLE_SECONDS)
        self.world.check()

    def _noted(self, event: Event[dict[str, Any]]) -> None:
        self._delays.append(self.world.clock.now - event.attributes["t"])

    def _publish_later(self, publisher: StockPublisher, number: int) -> None:
        clock = self.world.clock
        gap_seconds = self._rng.expovariate(publisher.per_second)
        clock.call_at(clock.now + gap_seconds, self._publish_again, publisher, number)

    def _publish_again(self, publisher: StockPublisher, number: int) -> None:
        if self._publishes:
            self._publish(publisher, number)
            self._publish_later(publisher, number + 1)

    def _publish(self, publisher: StockPublisher, number: int) -> None:
        quote = publisher.quotes.event(number % len(publisher.sequence))
        event = {"symbol": publisher.name, **quote, "t": self.world.clock.now}
        self._publishers[publisher.name].publish(TOPIC, event)
