"""What a simulated node costs: memory while it does nothing, and CPU for each message between nodes.

No peer is measured beside it: none runs our nodes, and a simulator of other nodes does other work. Every run counts
its messages; no number is reported unless each of them arrived.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rich.table import Table

from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.results import compact
from fieldfare.bench.simulated_nodes import LINES, REGIONS, GossipNode, IdleNode, MatchingNode, RingNode, make_message
from fieldfare.errors import InputError
from fieldfare.matching import oracle
from fieldfare.messages import Node
from fieldfare.model import SubscriptionId
from fieldfare.simulation import World

CONDITIONS = 100
CHECKED_EVENTS = 50  # of the nodes that match, compared with the oracle
BYTES_PER_NODE_AIM = 20_000.0
MESSAGES_PER_SECOND_AIM = 100_000.0
QUICK_SHARE = 0.01  # of the nodes


@dataclass(frozen=True, slots=True)
class Result:
    """One scenario: what it is, and the one of both numbers that it measures."""

    scenario: str
    title: str
    nodes: int
    messages: int
    aim: float
    bytes_per_node: float | None = None
    messages_per_second: float | None = None  # of CPU


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """What to measure."""

    repeats: int = 3  # of each scenario; the median counts
    is_quick: bool = False  # sizes that only show that it works

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise InputError("repeats must be above 0")


# Scenarios


def run(options: SimulationOptions, progress: Callable[[str], None]) -> list[Result]:
    """Measure every scenario; `progress` is told which."""
    results = []
    for measure in (_idle, _gossip, _matching, _links):
        progress(measure.__name__.strip("_"))
        results.append(measure(options))
    return results


def _sized(options: SimulationOptions, nodes: int) -> int:
    return max(10, round(nodes * QUICK_SHARE)) if options.is_quick else nodes


def _idle(options: SimulationOptions) -> Result:
    """Each name is counted in the memory of its node."""
    count = _sized(options, 5_000)
    gc.collect()
    tracemalloc.start()
    try:
        world = World()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(count):
            world.node(f"node{number}", IdleNode).start()
        world.run_for(1.0)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if not world.clock.is_idle:
        raise _wrong("idle", "something is still to happen")
    title = f"{count:,} nodes that do nothing"
    return Result("idle", title, count, 0, BYTES_PER_NODE_AIM, bytes_per_node=(after - before) / count)


def _gossip(options: SimulationOptions) -> Result:
    count, hops = _sized(options, 5_000), 40
    names = _names(count)

    def once() -> tuple[float, int]:
        rng = _rng("gossip")
        return _cpu_of_gossip("gossip", names, [GossipNode(names, rng) for _ in names], hops)

    title = f"datagrams among {count:,} nodes, each sent on to a random node"
    return _speed(options, "gossip", title, count, once)


def _matching(options: SimulationOptions) -> Result:
    """A run before those that count: young conditions get an index when some hundred events have come."""
    count, hops = _sized(options, 100), 1_000
    names, rng = _names(count), _rng("conditions")
    nodes = [MatchingNode(names, rng, [_condition(rng) for _ in range(CONDITIONS)]) for _ in names]

    def once() -> tuple[float, int]:
        for node in nodes:
            node.received = 0
        return _cpu_of_gossip("matching", names, nodes, hops)

    once()
    _check_matches(nodes, rng)
    title = f"the same among {count:,} nodes that match each against {CONDITIONS} conditions"
    return _speed(options, "matching", title, count, once)


def _links(options: SimulationOptions) -> Result:
    count, hops = _sized(options, 1_000), 100
    names = _names(count)

    def once() -> tuple[float, int]:
        world, rng = World(), _rng("links")
        nodes = [RingNode(neighbour, make_message(rng, hops)) for neighbour in (*names[1:], names[0])]
        _start(world, names, nodes)
        return _cpu_to_rest("links", world, nodes, count * (hops + 1))

    title = f"frames over links among {count:,} nodes in a ring, as bytes"
    return _speed(options, "links", title, count, once)


def _speed(
    options: SimulationOptions, scenario: str, title: str, nodes: int, once: Callable[[], tuple[float, int]]
) -> Result:
    runs = [once() for _ in range(options.repeats)]
    rate = statistics.median(messages / cpu_seconds for cpu_seconds, messages in runs)
    messages = runs[0][1]
    return Result(scenario, title, nodes, messages, MESSAGES_PER_SECOND_AIM, messages_per_second=rate)


def _cpu_of_gossip(scenario: str, names: Sequence[str], nodes: Sequence[GossipNode], hops: int) -> tuple[float, int]:
    world, rng = World(), _rng("messages")
    _start(world, names, nodes)
    for name in names:
        world.network.send("outside", name, make_message(rng, hops))
    return _cpu_to_rest(scenario, world, nodes, len(nodes) * (hops + 1))


def _rng(purpose: str) -> random.Random:
    return random.Random(purpose)  # noqa: S311 - for a simulation


def _names(count: int) -> list[str]:
    return [f"node{number}" for number in range(count)]


def _start(world: World, names: Iterable[str], nodes: Iterable[Node]) -> None:
    for name, node in zip(names, nodes, strict=True):
        host = world.node(name, partial(_same, node))
        host.lines = LINES
        host.start()


def _same(node: Node) -> Node:
    return node


def _cpu_to_rest(
    scenario: str, world: World, nodes: Sequence[GossipNode] | Sequence[RingNode], expected: int
) -> tuple[float, int]:
    """The CPU time until nothing more happens, and the messages that arrived, which have to be as many as expected."""
    gc.collect()
    began = time.process_time()
    world.run_for(3600.0)
    cpu_seconds = time.process_time() - began
    received = sum(node.received for node in nodes)
    if not world.clock.is_idle or received != expected:
        raise _wrong(scenario, f"{received} messages arrived, not {expected}")
    return cpu_seconds, received


def _condition(rng: random.Random) -> str:
    low = rng.uniform(0.0, 950.0)
    return f"price BETWEEN {low:.2f} AND {low + 50.0:.2f} AND region = 'r{rng.randrange(REGIONS)}'"


def _check_matches(nodes: Sequence[MatchingNode], rng: random.Random) -> None:
    if not sum(node.matches for node in nodes):
        raise _wrong("matching", "nothing matched")
    node = nodes[0]
    conditions: dict[SubscriptionId, str] = dict(enumerate(node.conditions))
    for event in range(CHECKED_EVENTS):
        message = make_message(rng, 0)
        expected = oracle.match(conditions, {"price": message.price, "region": message.region})
        if (found := sorted(node.match(message))) != sorted(expected, key=int):
            raise BenchVerificationError("the simulation", "matching", event, f"{found} where {expected} match")


def _wrong(scenario: str, reason: str) -> BenchVerificationError:
    return BenchVerificationError("the simulation", scenario, 0, reason)


# Reports


def to_json(results: Sequence[Result]) -> str:
    """One object. What a scenario does not measure is left out."""
    return json.dumps({"scenarios": [_to_object(result) for result in results], "peers": {}}, indent=2)


def _to_object(result: Result) -> dict[str, Any]:
    return {name: value for name, value in asdict(result).items() if value is not None}


def render(results: Sequence[Result]) -> Table:
    """One row for each scenario."""
    table = Table(title="Simulated nodes on one core", caption=_CAPTION)
    table.add_column("scenario")
    for heading in ("messages", "bytes/node", "messages/s of CPU", "aim"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            result.title,
            f"{result.messages:,}",
            "-" if result.bytes_per_node is None else f"{result.bytes_per_node:,.0f}",
            "-" if result.messages_per_second is None else compact(result.messages_per_second),
            ("at most " if result.bytes_per_node is not None else "at least ") + compact(result.aim),
        )
    return table


_CAPTION = "Every message counted. There is no peer: nothing else runs these nodes."
