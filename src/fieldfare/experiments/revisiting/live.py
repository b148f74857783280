"""One edge, a star and a tree: real brokers as processes, with a publisher and subscribers in two more.

The star is two edges and a routing broker, the tree three brokers of which one is the root; the publisher is at the
first, and subscribers are spread over all edges or brokers.
"""

from __future__ import annotations

import multiprocessing
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fieldfare.bench.broker.connections import connect_by_wire
from fieldfare.bench.broker.crew import Crew, Measurable, working
from fieldfare.bench.broker.fieldfare_wire import FieldfareWire
from fieldfare.bench.broker.servers import HOST, Program, Running, free_port, started
from fieldfare.bench.broker.workers import Pace, Publisher, Saturate, Site, Subscribers
from fieldfare.experiments.revisiting.measured import Run, others_beside, percentiles, rate_for
from fieldfare.experiments.revisiting.settings import Scale
from fieldfare.experiments.revisiting.workloads import Workload
from fieldfare.planning.application import Durability
from fieldfare.planning.ways import WayKind

BATCH_EVENTS, BATCHES_UNDER_WAY = 250, 4
STAR_EDGES, TREE_BROKERS = 2, 3
_WARM_UP_SHARE = 0.2
# Best effort drops what waits for a subscriber beyond this: as much as the publisher has under way.
_ENVIRONMENT = {"FIELDFARE_LIMITS_WAITING_MAX": "10000", "FIELDFARE_LIMITS_CONNECTIONS_MAX": "15000"}


@dataclass(frozen=True, slots=True)
class Brokers:
    """Running brokers; the first takes the publisher, all in `ports` take subscribers."""

    running: tuple[Running, ...]
    ports: tuple[int, ...]

    def cpu_seconds(self) -> float | None:
        """Of all together, where the platform tells."""
        each = [broker.cpu_seconds() for broker in self.running]
        return None if None in each else sum(seconds for seconds in each if seconds is not None)

    def memory_bytes(self) -> int | None:
        """Of all together, where the platform tells."""
        each = [broker.memory_bytes() for broker in self.running]
        return None if None in each else sum(size for size in each if size is not None)


def _command(role: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "fieldfare", role, *arguments]


@contextmanager
def _edge(folder: Path) -> Iterator[Brokers]:
    program = Program(
        _command("serve", "--port", "0", "--data", str(folder / "edge")), 0, folder / "edge.log", _ENVIRONMENT
    )
    with started([program]) as running:
        yield Brokers(tuple(running), (running[0].port,))


@contextmanager
def _star(folder: Path) -> Iterator[Brokers]:
    hub = f"{HOST}:{free_port()}"
    common = _with_secret(folder)
    routing = ["--name", "routing", "--data", str(folder / "routing"), "--role", "routing", "--listen", hub]
    first = Program(
        _command("broker", *common, *routing, "--gossip-listen", hub),
        int(hub.rpartition(":")[2]),
        folder / "routing.log",
        _ENVIRONMENT,
    )
    others = [
        ["--name", f"edge-{number}", "--data", str(folder / f"edge-{number}"), "--role", "edge", "--gossip", hub]
        for number in range(STAR_EDGES)
    ]
    edges = [
        Program(_command("broker", *common, *other, "--port", "0"), 0, folder / f"{other[1]}.log", _ENVIRONMENT)
        for other in others
    ]
    with started([first]) as relays, started(edges) as running:
        yield Brokers((*relays, *running), tuple(edge.port for edge in running))


@contextmanager
def _tree(folder: Path) -> Iterator[Brokers]:
    root = f"{HOST}:{free_port()}"
    common = _with_secret(folder)

    def program(number: int, *more: str) -> Program:
        name = f"broker-{number}"
        own = ["--name", name, "--data", str(folder / name), "--role", "tree", "--port", "0"]
        return Program(_command("broker", *common, *own, *more), 0, folder / f"{name}.log", _ENVIRONMENT)

    children = [program(number, "--neighbours", root) for number in range(1, TREE_BROKERS)]
    with started([program(0, "--listen", root)]) as roots, started(children) as running:
        brokers = (*roots, *running)
        yield Brokers(brokers, tuple(broker.port for broker in brokers))


def _with_secret(folder: Path) -> list[str]:
    file = folder / "secret"
    file.write_text(secrets.token_urlsafe())
    return ["--secret-file", str(file)]


_STARTS: dict[WayKind, Callable[[Path], AbstractContextManager[Brokers]]] = {
    WayKind.EDGE: _edge,
    WayKind.STAR: _star,
    WayKind.TREE: _tree,
}


def run_live(kind: WayKind, workload: Workload, scale: Scale) -> Run:
    """Start brokers and their clients, push as fast as deliveries come back, then publish at a rate."""
    context = multiprocessing.get_context("spawn")
    wire = partial(FieldfareWire, is_durable=workload.application.durability is Durability.DISK)
    connect = partial(connect_by_wire, wire)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldfare-revisiting-")))
        brokers = stack.enter_context(_STARTS[kind](folder))
        counters = context.RawArray("q", 1)
        publisher = Publisher(Site(HOST, brokers.ports[:1], connect, workload.load, counters))
        publishing = stack.enter_context(working(context, publisher))
        site = Site(HOST, brokers.ports, connect, workload.load, counters)
        subscribing = stack.enter_context(working(context, Subscribers(site, 0, 1, is_filtering=False)))
        measurable: Measurable = brokers
        crew = Crew(str(kind), True, measurable, workload.load, publishing, [subscribing])  # noqa: FBT003
        crew.await_subscriptions()
        return _measured(crew, workload, scale)


def _measured(crew: Crew, workload: Workload, scale: Scale) -> Run:
    crew.run(Saturate(scale.saturating_seconds * _WARM_UP_SHARE, BATCH_EVENTS, BATCHES_UNDER_WAY))
    others = others_beside()
    reached = crew.run(Saturate(scale.saturating_seconds, BATCH_EVENTS, BATCHES_UNDER_WAY))
    clients = reached.subscribers_cpu_seconds + reached.publisher_cpu_seconds
    cores_of_others = others(clients + (reached.cpu_seconds or 0.0))
    rate = rate_for(workload.application.events_per_second, reached.events_per_second)
    paced = crew.run(Pace(scale.pacing_seconds, rate, is_random=True), is_recording=True)
    settled = paced.waits_ms[paced.numbers >= paced.events * _WARM_UP_SHARE]
    p50, p99 = percentiles(settled / 1e3)
    return Run(
        reached.events_per_second,
        rate,
        p50,
        p99,
        None if reached.cpu_seconds is None else reached.cpu_seconds / reached.events,
        clients / reached.events,
        max(reached.subscribers_cpu_seconds, reached.publisher_cpu_seconds) / reached.events,
        cores_of_others,
    )
