"""A random deployment in which much goes wrong, from a seed: edges, routing brokers, clients, and which faults come."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from tests.overlay.directory import Directory

from fieldfare.client.options import SessionOptions
from fieldfare.placement.options import UNDAMPED, GrapeOptions, PopOptions
from fieldfare.qos import Offered, Requested
from fieldfare.routing.exporting import ExportOptions
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.publisher_placement import PlacementOptions
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.simulation import World, faults
from fieldfare.simulation.checkers import check_safety
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Coordination, Deployment
from fieldfare.simulation.disk import OPTIONS
from fieldfare.simulation.gossip import SimulatedGossip
from fieldfare.simulation.history import TENANT, Reception
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.overlay_checker import OverlayChecker
from fieldfare.simulation.tiny import tiny_edge_options, tiny_journal_options
from fieldfare.simulation.tree import SimulatedTree
from fieldfare.simulation.zookeeper import SimulatedZooKeeper
from fieldfare.simulation.zookeeper_faults import ZooKeeperFault, inject_into_zookeeper, plan_for_zookeeper

BUSY_SECONDS = 20.0
QUIET_SECONDS = 120.0  # longer than any patience, wait and backoff

TOPICS = {
    "kept": Offered(),
    "other": Offered(),
    "written": Offered(reliability="best_effort"),
    "brief": Offered(lifespan_seconds=1.0),
    "loose": Offered(reliability="best_effort", durability="volatile"),
}
SPARK_TOPICS = {"spark": Offered(), "spark-too": Offered(lifespan_seconds=30.0)}  # each at the edge that declares it
ALL_TOPICS = TOPICS | SPARK_TOPICS
CONDITIONS = (
    "speed >= 0",
    "speed < 25",
    "speed BETWEEN 10 AND 60 AND road = 'A1'",
    "road IN ('A1', 'A2') OR speed > 90",
    "road IS NULL",
    "lanes * 20 > speed",
    "road LIKE 'A%' AND NOT speed < 50",
    "speed > 1000",
)
HARSH_KINDS: tuple[faults.Kind, ...] = ("deaf", "mute", "split", "node_pause", "drift")
AWAY: tuple[faults.Kind, ...] = ("crash", "partition")
LOST_DISKS: tuple[faults.Kind, ...] = ("wipe", "old_disk")
# What coordinates the brokers; the directory is perfect. A tree has no coordination, and no routing brokers.
By: TypeAlias = Literal["directory", "zookeeper", "gossip", "tree"]


def random_tree(rng: random.Random, names: list[str], *, has_bridges: bool) -> dict[str, tuple[Neighbour, ...]]:
    """Who dials whom: one end of each link, or both. All may be bridged over, or none."""
    links = [(rng.choice(names[:number]), name) for number, name in enumerate(names) if number]
    dialling = [rng.choice((link[:1], link[1:], link)) for link in links]
    linked: dict[str, tuple[Neighbour, ...]] = {}
    for link, diallers in zip(links, dialling, strict=True):
        for name, other in (link, link[::-1]):
            others = sorted(each for pair in links if other in pair for each in pair if each < name and each != other)
            bridges = {each: each for each in others} if has_bridges else {}
            linked[name] = (*linked.get(name, ()), Neighbour(other, other if name in diallers else "", bridges))
    return linked


def coordination(by: By, world: World, rng: random.Random, names: list[str], *, has_bridges: bool) -> Coordination:
    match by:
        case "tree":
            placement = PlacementOptions(  # at the first chance, and without damping
                algorithm=rng.choice((None, "pop", "grape")),
                pop=PopOptions(traces_min=3, gather_seconds=0.1),
                grape=GrapeOptions(session_publications=3, priority=rng.choice(("load", "delay"))),
                damping=UNDAMPED,
            )
            options = TreeOptions(
                boxes_max=rng.choice((1, 2, 64)),
                window_bytes=rng.choice((1, 1000, 1024 * 1024)),
                bridge_seconds=rng.choice((0.3, 1.0, 10.0)),
                placement=placement,
            )
            return SimulatedTree(
                world.rng, random_tree(rng, names, has_bridges=has_bridges or rng.random() < 0.5), options
            )
        case "directory":
            return Directory()
        case "zookeeper":
            return SimulatedZooKeeper(world.network)
        case "gossip":
            return SimulatedGossip(world)


class Scenario:
    """One run. Safety is checked all along, the rules of edges at every step, liveness when all is quiet.

    A harsh one has more kinds of faults, and limits that are reached. In one that loses disks, edges come back with an
    empty disk, or with an old one.
    """

    def __init__(
        self,
        seed: int,
        by: By = "directory",
        *,
        is_harsh: bool = False,
        has_spark: bool = False,
        loses_disks: bool = False,
        moves_publishers: bool = False,
        has_bridges: bool = False,
    ) -> None:
        self.rng = rng = random.Random(f"overlay scenario {seed}")
        self.world = World(seed)
        self.is_harsh, self.loses_disks = is_harsh, loses_disks
        self.moves_publishers, self.has_bridges = moves_publishers, has_bridges
        names = [f"edge{number}" for number in range(rng.randint(2, 6 if by == "tree" else 4))]
        self.coordination = coordination(by, self.world, rng, names, has_bridges=has_bridges)
        self.deployment = Deployment(self.world, self.coordination)
        self.checker = OverlayChecker(self.deployment)
        routing = 0 if by == "tree" else rng.randint(1, 3)
        self.routing = [self.deployment.routing(f"routing{number}") for number in range(routing)]
        self.edges = [self._edge(name) for name in names]
        self.clients: dict[SimulatedClient, SimulatedHost] = {}
        for number, edge in enumerate([*self.edges, *rng.choices(self.edges, k=rng.randint(1, 3))]):
            is_movable = by == "tree" and rng.random() < 0.5
            client = self.world.client(f"client{number}", edge, options=SessionOptions(is_movable=is_movable))
            client.take_seconds = rng.choice((0.0, 0.0, 0.05, 0.5))
            self.clients[client] = edge
        self.topics = rng.sample(list(TOPICS), k=rng.choice((1, 2, len(TOPICS))))
        self.receptions: list[tuple[SimulatedClient, Reception]] = []
        self.faults: list[faults.Fault] = []
        self.zookeeper_faults: list[ZooKeeperFault] = []
        self.events = self.names = 0
        self.topics += list(SPARK_TOPICS) if has_spark else []

    def _edge(self, name: str) -> SimulatedHost:
        rng = self.rng
        options = EdgeOptions(waiting_max=rng.choice((2, 8, 1024)), frame_bytes_max=rng.choice((200, 512 * 1024)))
        if self.is_harsh and rng.random() < 0.5:
            options = tiny_edge_options(rng)
        exports = ExportOptions(
            window_bytes=rng.choice((1, 300, 1024 * 1024)), piece_events_max=rng.choice((1, 7, 1024))
        )

        def change(overlay: OverlayOptions) -> OverlayOptions:
            return replace(
                overlay,
                exports=exports,
                boxes_max=rng.choice((1, 2, 64)),
                return_seconds=rng.choice((5.0, 60.0)),
                confirm_seconds=rng.choice((0.1, 2.0)),
            )

        edge = self.deployment.edge(name, options, change)
        self.checker.watch(edge)
        edge.checkpoint_records = rng.choice((1, 5, 30, 1000))
        edge.read_seconds = rng.choice((0.001, 0.1))
        edge.log.flush_seconds = rng.choice((0.002, 0.05))
        edge.log.options = replace(OPTIONS, segment_bytes=rng.choice((400, 64 * 1024)))
        if self.is_harsh and rng.random() < 0.25:
            edge.log.options, edge.checkpoint_records = tiny_journal_options(rng), 5
        return edge

    def run(self) -> None:
        """All of it."""
        for topic in self.topics:  # what they offer holds at every edge
            matching = "spark" if topic in SPARK_TOPICS else "edge"
            self.rng.choice(list(self.clients)).declare(topic, ALL_TOPICS[topic], matching=matching)
        self.world.run_for(2.0)
        for _ in range(self.rng.randint(2, 8)):
            self.subscribe()
        self.world.run_for(self.rng.choice((0.0, 3.0)))
        self.faults = self._plan()
        faults.inject(self.world, self.faults)
        if isinstance(self.coordination, SimulatedZooKeeper):
            brokers, count = list(self.deployment.brokers), self.rng.randint(0, 8)
            self.zookeeper_faults = plan_for_zookeeper(self.rng, brokers, BUSY_SECONDS, count)
            inject_into_zookeeper(self.world, self.coordination, self.zookeeper_faults)
        self._plan_actions()
        for _ in range(5):
            self.world.run_for(BUSY_SECONDS / 5)
            check_safety(self.world.history)
            self.checker.check()
        for client in self.clients:
            client.take_seconds = 0.0
        for edge in self.edges:
            edge.read_seconds = 0.001
        self.world.run_for(QUIET_SECONDS)
        self.world.check()
        self.checker.check()

    def _plan_actions(self) -> None:
        clock = self.world.clock
        for fault in self.faults:  # they show most when something is just under way
            for _ in range(2):
                clock.after(fault.after_seconds - self.rng.uniform(0.0, 0.3), self.publish)
            if self.rng.random() < 0.3:
                clock.after(fault.after_seconds + self.rng.uniform(-0.1, 0.3), self.subscribe)
            for _ in range(2):
                clock.after(fault.after_seconds + self.rng.uniform(0.0, fault.seconds), self.publish)
            if self.moves_publishers:
                clock.after(fault.after_seconds + self.rng.uniform(-0.3, 0.3), self.move_publisher)
        for _ in range(self.rng.randint(1, 60)):
            clock.after(self.rng.uniform(0, BUSY_SECONDS), self.act)

    def _plan(self) -> list[faults.Fault]:
        rng, also = self.rng, HARSH_KINDS if self.is_harsh else ()
        planned = faults.plan(rng, self.world, BUSY_SECONDS, rng.randint(0, 16), also=also)
        for _ in range(rng.randint(1, 4) if self.has_bridges else 0):
            after, edge, kind = rng.uniform(0, BUSY_SECONDS - 6.0), rng.choice(self.edges), rng.choice(AWAY)
            planned.append(faults.Fault(after, kind, edge.name, rng.uniform(1.0, 6.0)))
        for _ in range(rng.randint(1, 3) if self.loses_disks else 0):
            after, edge = rng.uniform(0, BUSY_SECONDS - 2.0), rng.choice(self.edges)
            planned.append(faults.Fault(after, rng.choice(LOST_DISKS), edge.name, rng.uniform(0.1, 2.0)))
        return sorted(planned, key=lambda fault: fault.after_seconds)

    def act(self) -> None:
        """Something that a client does, or a topic that moves."""
        what = self.rng.random()
        if what < 0.75:
            self.publish()
        elif what < 0.9:
            self.subscribe()
        elif what < 0.95:
            self.unsubscribe()
        elif what < 0.975 or self.moves_publishers:
            self.move_publisher()
        elif isinstance(self.coordination, Directory):
            self.coordination.give((TENANT, self.rng.choice(self.topics)), self.rng.choice(self.routing).name)

    def publish(self) -> None:
        client = self.rng.choice(list(self.clients))
        topic = self.rng.choice(self.topics)
        for number in range(self.rng.choice((1, 2, 10))):
            events = [self.event() for _ in range(self.rng.choice((1, 1, 3, 10)))]
            self.world.clock.after(number * 0.02, functools.partial(_publish, client, topic, events))

    def event(self) -> dict[str, object]:
        self.events += 1
        event: dict[str, object] = {"number": self.events, "speed": self.rng.randint(0, 100)}
        if self.rng.random() < 0.8:
            event["road"] = self.rng.choice(("A1", "A2", "B3"))
        if self.rng.random() < 0.5:
            event["lanes"] = self.rng.randint(1, 4)
        return event

    def subscribe(self) -> None:
        client = self.rng.choice(list(self.clients))
        topic = self.rng.choice(self.topics)
        reliability = self.rng.choice(("best_effort", ALL_TOPICS[topic].reliability))
        offered = ALL_TOPICS[topic]
        durability = offered.durability if self.rng.random() < 0.3 else "volatile"
        qos = Requested(
            reliability,
            durability,
            latency_budget_seconds=self.rng.choice((None, None, 0.2)),
        )
        options: dict[str, Any] = {"qos": qos, "window": self.rng.choice((1, 4, 1024))}
        if self.rng.random() < 0.5 or (topic in SPARK_TOPICS and reliability == "reliable"):
            self.names += 1
            options["name"] = f"named{self.names}"
        if client.is_up:
            self.receptions.append((client, client.subscribe(topic, self.rng.choice(CONDITIONS), **options)))

    def unsubscribe(self) -> None:
        alive = [(client, each) for client, each in self.receptions if client.is_up and each.ended_at is None]
        if alive:
            client, reception = self.rng.choice(alive)
            client.unsubscribe(reception)

    def move_publisher(self) -> None:
        client = self.rng.choice(list(self.clients))
        if client.is_up:
            client.move_publisher(self.rng.choice(self.edges).name)


def _publish(client: SimulatedClient, topic: str, events: list[dict[str, object]]) -> None:
    if client.is_up:
        client.publish(topic, *events)
