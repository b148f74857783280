"""How an application would do in a way to run it.

Stable: `predict(application, way, costs, nodes)`, the fields of `Prediction` and their units; a latency is infinite
where the way is saturated. Everything is per the application's events, of which `carried_events_per_second` are due.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate

import msgspec
import numpy as np

from fieldfare.planning.application import Application, Destination
from fieldfare.planning.costs import Costs
from fieldfare.planning.live_ways import in_process, one_edge, peers, star, tree
from fieldfare.planning.nodes import Nodes, NodeSize
from fieldfare.planning.spark_ways import on_spark
from fieldfare.planning.stations import Floats, Station, in_groups, latencies, mixed, total
from fieldfare.planning.ways import Way, WayKind
from fieldfare.planning.work import Work

_LEFT_MIN = 1e-6  # of a core: where changes of subscriptions take it all, so little is left for events
_NETWORK_SHARE = 0.7  # of a link, that is planned to be used


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be expected."""

    way: Way
    latency_p50_seconds: float  # from publishing to delivery; infinite above saturation
    latency_p99_seconds: float
    throughput_events: float  # per second, that can be sustained on these nodes
    memory_bytes_per_node: float  # of the node that needs most
    network_bytes_per_node: float  # per second, in or out, of the node that carries most
    nodes: int  # machines that are needed
    processes: int  # members and helpers, each on a core
    limited_by: str  # what would be too small first, if there were more events
    utilisation: float  # of what limits it, at the application's rate; above 1 it is saturated
    fits_memory: bool
    delivers: bool  # whether matches go where the application needs them, with its durability
    average_hops: float
    unmet: tuple[str, ...] = ()  # what the application needs and does not get
    notes: tuple[str, ...] = ()
    extrapolated: tuple[str, ...] = ()  # where costs were not measured, but continued

    @property
    def is_saturated(self) -> bool:
        """Whether more events come than it can carry."""
        return self.utilisation > 1.0

    @property
    def is_enough(self) -> bool:
        """Whether the application gets all that it needs."""
        return not self.unmet


def predict(application: Application, way: Way, costs: Costs, nodes: Nodes) -> Prediction:
    """What this way would do for the application, on the first of the nodes."""
    work = work_of(application, way, costs)
    rate = application.carried_events_per_second
    used = processes_on(work, nodes, rate)
    speed = _mean_speed(used)
    limits = _limits(work, used, speed)
    limit = min(limits, key=limits.__getitem__)
    throughput = limits[limit]
    together = application.events_per_publication
    p50, p99 = (math.inf, math.inf) if rate > throughput else _percentiles(work, rate, together, speed)
    memory, spare = _memory(work, used)
    found = Prediction(
        way=way,
        latency_p50_seconds=p50,
        latency_p99_seconds=p99,
        throughput_events=throughput,
        memory_bytes_per_node=memory,
        network_bytes_per_node=rate * max(_carried(work, members, helpers) for _, members, helpers in used),
        nodes=len(used),
        processes=work.members + work.helpers,
        limited_by=limit,
        utilisation=rate / throughput,
        fits_memory=spare >= 0,
        delivers=_delivers(application, way.kind),
        average_hops=work.average_hops,
        notes=work.notes,
        extrapolated=_extrapolated(application, way, costs),
    )
    cores = sum(size.cores for size, _, _ in used)
    return msgspec.structs.replace(found, unmet=_unmet(application, found, cores))


def work_of(application: Application, way: Way, costs: Costs) -> Work:
    """The stations and needs of a way."""
    match way.kind:
        case WayKind.PROCESS:
            return in_process(application, costs)
        case WayKind.EDGE:
            return one_edge(application, costs)
        case WayKind.STAR:
            return star(application, costs, way.nodes)
        case WayKind.TREE:
            return tree(application, costs, way.nodes)
        case WayKind.PEERS:
            return peers(application, costs, way.nodes)
    return on_spark(application, way, costs)


Placed = list[tuple[NodeSize, int, int]]  # a node, and the members and helpers on it


def processes_on(work: Work, nodes: Nodes, events_per_second: float) -> Placed:
    """The fewest nodes, the fastest first, on which processes have a core each, and memory and network are enough.

    Where no number of nodes is enough, all are taken, and what is too small is shared.
    """
    processes = work.members + work.helpers
    ordered = list(nodes.in_order(processes))
    cores = list(accumulate(size.cores for size in ordered))
    least = min(bisect_left(cores, processes) + 1, len(ordered))
    for count in range(least, min(len(ordered), processes) + 1):
        placed = _spread(work, ordered[:count])
        if _memory(work, placed)[1] >= 0 and events_per_second <= _NETWORK_SHARE * _network_limit(work, placed):
            return placed
    return _spread(work, ordered[: max(least, min(len(ordered), processes))])


def _spread(work: Work, sizes: list[NodeSize]) -> Placed:
    """Processes on all of these nodes, by their cores."""
    processes, cores = work.members + work.helpers, sum(size.cores for size in sizes)
    helpers, placed, given, seen = work.helpers, [], 0, 0
    for size in sizes:
        seen += size.cores
        here = round(processes * seen / cores) - given
        given += here
        helping = min(helpers, here)
        helpers -= helping
        placed.append((size, here - helping, helping))
    return placed


def _mean_speed(used: Placed) -> float:
    """Of the cores that processes get: work is shared by speed. Where processes share cores, each gets less."""
    processes = sum(members + helpers for _, members, helpers in used)
    speeds = [size.speed for size, members, helpers in used for _ in range(min(size.cores, members + helpers))]
    return sum(speeds) / processes


def _limits(work: Work, used: Placed, speed: float) -> dict[str, float]:
    """Events per second that each station and the network allow, by its name and what it is busiest with."""
    limits = {_limit_name(each, speed): each.throughput * _left_of(each, speed) for each in work.stations}
    return limits | {"a node's network": _network_limit(work, used)}


def _limit_name(station: Station, speed: float) -> str:
    is_changing = station.other_share > speed / 2
    return f"{'changes of subscriptions' if is_changing else station.busiest_with} at the {station.name}"


def _left_of(station: Station, speed: float) -> float:
    """Of a core's speed, what is left for events beside subscriptions that come and go."""
    return max(_LEFT_MIN, speed - station.other_share)


def _percentiles(work: Work, rate: float, together: float, speed: float) -> tuple[float, float]:
    at: dict[str, Floats] = {
        one.name: latencies(in_groups(at_speed(one, _left_of(one, speed)), together), rate / together)
        for one in work.stations
    }
    paths = [
        (path.share, total([at[one.name] for one in path.stations]) + path.delay_seconds)
        for path in work.paths
        if path.share > 0
    ]
    p50, p99 = np.quantile(mixed(paths), (0.5, 0.99)).tolist()
    return p50, p99


def at_speed(station: Station, speed: float) -> Station:
    """The same station on faster cores, or slower ones; what a disk or an interval takes stays."""
    if speed == 1.0:
        return station
    return msgspec.structs.replace(
        station,
        round_seconds=station.round_seconds / speed,
        costs={name: seconds / speed for name, seconds in station.costs.items()},
        write_seconds=station.write_seconds / speed,
        frame_seconds=station.frame_seconds / speed,
    )


def _memory(work: Work, used: Placed) -> tuple[float, float]:
    """Of the node that needs most; and of the node with the least to spare, what is left."""
    needs = [
        (size, work.node_bytes + members * work.member_bytes + helpers * work.helper_bytes)
        for size, members, helpers in used
    ]
    return max(need for _, need in needs), min(size.memory_bytes - need for size, need in needs)


def _network_limit(work: Work, used: Placed) -> float:
    """Events of the application per second that the links of the nodes carry."""
    carried = [(size, _carried(work, members, helpers)) for size, members, helpers in used]
    return min((size.network_bytes_per_second / each for size, each in carried if each > 0), default=math.inf)


def _carried(work: Work, members: int, helpers: int) -> float:
    """Bytes that a node with this number of processes carries for an event of the application."""
    return members * work.member_network + helpers * work.helper_network


def _delivers(application: Application, kind: WayKind) -> bool:
    match application.delivery:
        case Destination.CLIENTS:
            return kind is not WayKind.PROCESS
        case Destination.TABLE:
            return kind.is_spark
        case Destination.PROCESS:
            return True


def _unmet(application: Application, found: Prediction, cores: int) -> tuple[str, ...]:
    problems = []
    if not found.delivers:
        problems.append(f"no delivery to {application.delivery}")
    if found.is_saturated:
        problems.append(f"saturated: {found.limited_by}")
    elif found.latency_p99_seconds > application.latency_seconds_max:
        problems.append("too slow")
    if not found.fits_memory:
        problems.append("too much memory")
    if found.processes > cores:
        problems.append("too few cores")
    return tuple(problems)


def _extrapolated(application: Application, way: Way, costs: Costs) -> tuple[str, ...]:
    match = costs.match[application.shape]
    found = []
    if not match.is_measured(application.subscriptions) and way.kind in _WHOLE:
        found.append(f"matching {application.subscriptions:,} {application.shape}")
    if way.nodes > 2 and way.kind not in {WayKind.PROCESS, WayKind.EDGE}:
        found.append(f"{way.nodes} nodes: costs are those of one machine")
    return tuple(found)


_WHOLE = {WayKind.PROCESS, WayKind.EDGE, WayKind.REPLICATED}
