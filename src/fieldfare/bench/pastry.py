"""Pastry rings in the simulator: what it costs to make them, how many hops messages take, how fast a crash is healed.

Nodes begin with right tables, or join one by one. Every message is checked: it has to end once, at the node closest to
its key, or there is no result. No peer is measured beside it: none runs our nodes.
"""

from __future__ import annotations

import gc
import json
import math
import time
import tracemalloc
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.errors import InputError
from fieldfare.pastry.ids import is_closer
from fieldfare.simulation import World
from fieldfare.simulation.pastry import SimulatedRing

_JOINED_AT_ONCE = 20  # nodes that join within a tenth of a second
_HEALING_SECONDS_MAX = 120.0
_QUIET_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PastryBenchOptions:
    """What to measure."""

    nodes: int = 5_000
    lookups: int = 10_000
    do_join: bool = False  # all nodes join by the protocol, in place of beginning with right tables
    seed: int = 1

    def __post_init__(self) -> None:
        if self.nodes < 20:
            raise InputError("nodes must be at least 20, so that a leaf set does not hold all of them")
        if self.lookups < 1:
            raise InputError("lookups must be above 0")


@dataclass(frozen=True, slots=True)
class PastryResult:
    """One ring. Times of CPU are this machine's; seconds that a ring took are simulated."""

    nodes: int
    lookups: int
    is_joined: bool
    making_cpu_seconds: float
    bytes_per_node: float
    datagrams_per_join: float | None
    quiet_datagrams_per_node_second: float
    quiet_cpu_seconds_per_second: float
    hops_mean: float
    hops_max: int
    hops_logarithm: float  # to the base of 16 of the number of nodes
    microseconds_per_hop: float  # of CPU, with the acknowledgement, without what a quiet ring does
    crashed: int
    healing_seconds: float  # until all leaf sets are right again
    healing_datagrams_per_node: float


def run(options: PastryBenchOptions, progress: Callable[[str], None]) -> PastryResult:
    """Make a ring, let it be quiet, route messages, crash a fifth. `progress` is told what is done."""
    progress(f"{options.nodes:,} nodes")
    ring, making_seconds, bytes_per_node = _make(options)
    network = ring.world.network
    joining = network.datagrams_sent
    gc.freeze()  # the ring stays: looking at it again and again would take most of the time
    try:
        progress("a quiet ring")
        quiet_cpu_seconds = _cpu(lambda: ring.world.run_for(_QUIET_SECONDS))
        quiet = network.datagrams_sent - joining
        progress(f"{options.lookups:,} messages")
        began_at = ring.world.clock.now
        hops, lookup_seconds = _look_up(ring, options)
        lookup_seconds -= quiet_cpu_seconds / _QUIET_SECONDS * (ring.world.clock.now - began_at)
        progress("a fifth crashes")
        crashed = ring.world.rng("crash").sample(ring.living, options.nodes // 5)
        before = network.datagrams_sent
        for name in crashed:
            ring.hosts[name].crash()
        healing_seconds = ring.run_until(ring.is_right, _HEALING_SECONDS_MAX, step_seconds=1.0)
    finally:
        gc.unfreeze()
    return PastryResult(
        nodes=options.nodes,
        lookups=options.lookups,
        is_joined=options.do_join,
        making_cpu_seconds=making_seconds,
        bytes_per_node=bytes_per_node,
        datagrams_per_join=joining / options.nodes if options.do_join else None,
        quiet_datagrams_per_node_second=quiet / _QUIET_SECONDS / options.nodes,
        quiet_cpu_seconds_per_second=quiet_cpu_seconds / _QUIET_SECONDS,
        hops_mean=sum(hops) / len(hops),
        hops_max=max(hops),
        hops_logarithm=math.log(options.nodes, 16),
        microseconds_per_hop=1e6 * lookup_seconds / sum(hops),
        crashed=len(crashed),
        healing_seconds=healing_seconds,
        healing_datagrams_per_node=(network.datagrams_sent - before) / options.nodes,
    )


def _make(options: PastryBenchOptions) -> tuple[SimulatedRing, float, float]:
    """A ring, the time of CPU that it took, and the memory for each node, measured on a smaller ring: that is slow."""
    sample = PastryBenchOptions(min(options.nodes, 500), 1, options.do_join, options.seed)
    gc.collect()
    tracemalloc.start()
    try:
        kept = _ring(sample)
        gc.collect()
        bytes_per_node = tracemalloc.get_traced_memory()[0] / len(kept.nodes)
    finally:
        tracemalloc.stop()
    began = time.process_time()
    ring = _ring(options)
    return ring, time.process_time() - began, bytes_per_node


def _ring(options: PastryBenchOptions) -> SimulatedRing:
    ring = SimulatedRing(World(options.seed))
    if options.do_join:
        while (missing := options.nodes - len(ring.hosts)) > 0:
            ring.add_many(min(missing, _JOINED_AT_ONCE), apart_seconds=0.1 / _JOINED_AT_ONCE if ring.hosts else 0.1)
        ring.run_until(ring.is_right, _HEALING_SECONDS_MAX)
    else:
        ring.add_acquainted([f"p{number:04}" for number in range(options.nodes)])
    return ring


def _look_up(ring: SimulatedRing, options: PastryBenchOptions) -> tuple[list[int], float]:
    """The hops of each message, and the time of CPU. Messages are sent within a few seconds."""
    rng, names, truth = ring.world.rng("keys"), ring.living, _Truth(ring)
    keys = [rng.getrandbits(128) for _ in range(options.lookups)]

    def route_all() -> None:
        for number, key in enumerate(keys):
            ring.route(rng.choice(names), key, b"%d" % number)
            if number % 100 == 0:
                ring.world.run_for(0.05)
        ring.world.run_for(10.0)

    cpu_seconds = _cpu(route_all)
    if sorted(each.routed.key for each in ring.deliveries) != sorted(keys):
        raise BenchVerificationError("the ring", "lookups", 0, f"{len(ring.deliveries)} messages of {len(keys)} ended")
    for number, each in enumerate(ring.deliveries):
        if each.node != (closest := truth.closest(each.routed.key)):
            raise BenchVerificationError("the ring", "lookups", number, f"it ended at {each.node}, not at {closest}")
    return [each.routed.hops for each in ring.deliveries], cpu_seconds


class _Truth:
    """The closest node to a key, found among the sorted ids of all."""

    def __init__(self, ring: SimulatedRing) -> None:
        self._ring = sorted((ring.group.id_of(name), name) for name in ring.living)

    def closest(self, key: int) -> str:
        place = bisect_left(self._ring, (key, ""))
        (below, name_below), (above, name_above) = self._ring[place - 1], self._ring[place % len(self._ring)]
        return name_above if is_closer(above, below, key) else name_below


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


# Reports


def to_json(results: Sequence[PastryResult]) -> str:
    """One object. What was not measured is left out."""
    rings = [{name: value for name, value in asdict(each).items() if value is not None} for each in results]
    return json.dumps({"rings": rings, "peers": {}}, indent=2)


def render(results: Sequence[PastryResult]) -> Table:
    """One row for each measure, one column for each ring."""
    table = Table(title="Pastry rings in the simulator, on one core", caption=_CAPTION)
    table.add_column("measure")
    for each in results:
        table.add_column(f"{each.nodes:,} nodes, {'joined' if each.is_joined else 'made at once'}", justify="right")
    for title, shown in _ROWS:
        table.add_row(title, *map(shown, results))
    return table


_ROWS: tuple[tuple[str, Callable[[PastryResult], str]], ...] = (
    ("CPU to make it, s", lambda each: f"{each.making_cpu_seconds:.1f}"),
    ("memory for each node, kB", lambda each: f"{each.bytes_per_node / 1000:.1f}"),
    (
        "datagrams for each join",
        lambda each: "-" if each.datagrams_per_join is None else f"{each.datagrams_per_join:.0f}",
    ),
    ("quiet: datagrams for each node and second", lambda each: f"{each.quiet_datagrams_per_node_second:.2f}"),
    ("quiet: CPU for each simulated second, s", lambda each: f"{each.quiet_cpu_seconds_per_second:.3f}"),
    ("hops on average", lambda each: f"{each.hops_mean:.2f}"),
    ("logarithm of the nodes to the base of 16", lambda each: f"{each.hops_logarithm:.2f}"),
    ("hops at most", lambda each: f"{each.hops_max}"),
    ("CPU for each hop, µs", lambda each: f"{each.microseconds_per_hop:.0f}"),
    ("a fifth crashed: leaf sets right after, s", lambda each: f"{each.healing_seconds:.0f}"),
    ("a fifth crashed: datagrams for each node", lambda each: f"{each.healing_datagrams_per_node:.0f}"),
)
_CAPTION = "Every message ended at the node closest to its key. There is no peer: nothing else runs these nodes."
