"""How an application would do in a way to run it.

Stable: `predict(application, way, costs, nodes)`, the fields of `Prediction` and their units; a latency is infinite
where the way is saturated. Everything is per the application's events, of which `carried_events_per_second` are due.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from fieldfare.planning.application import Application, Delivery
from fieldfare.planning.costs import Costs
from fieldfare.planning.live_ways import in_process, one_edge, peers, star, tree
from fieldfare.planning.nodes import Nodes, NodeSize
from fieldfare.planning.spark_ways import on_spark
from fieldfare.planning.stations import Floats, Station, latencies, mixed, total
from fieldfare.planning.ways import Way, WayKind
from fieldfare.planning.work import Work


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
    used = _nodes_used(work, nodes)
    speed = _mean_speed(work, used)
    limits = _limits(work, used, speed)
    limit = min(limits, key=limits.__getitem__)
    throughput = limits[limit]
    p50, p99 = _percentiles(work, rate, speed, is_saturated=rate > throughput)
    memory, spare = _memory(work, used)
    found = Prediction(
        way=way,
        latency_p50_seconds=p50,
        latency_p99_seconds=p99,
        throughput_events=throughput,
        memory_bytes_per_node=memory,
        network_bytes_per_node=rate * _network_per_event(work, used),
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
    return msgspec.structs.replace(found, unmet=_unmet(application, found, nodes))


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


def _nodes_used(work: Work, nodes: Nodes) -> tuple[NodeSize, ...]:
    """The fewest nodes, the fastest first, whose cores are enough for the processes; all, if they are not."""
    processes, count, cores = work.members + work.helpers, 0, 0
    ordered = nodes.first(max(len(nodes.sizes), processes))
    while cores < processes and count < min(nodes.most, len(ordered)):
        cores += ordered[count].cores
        count += 1
    return ordered[:count]


def _mean_speed(work: Work, used: tuple[NodeSize, ...]) -> float:
    """Of the cores that processes get. Where there are too few cores, processes share them."""
    processes = work.members + work.helpers
    speeds = [size.speed for size in used for _ in range(size.cores)][:processes]
    return sum(speeds) / processes


def _limits(work: Work, used: tuple[NodeSize, ...], speed: float) -> dict[str, float]:
    """Events per second that each station and the network allow, by its name and what it is busiest with."""
    limits = {_limit_name(station): station.throughput * speed for station in work.stations}
    carried = _network_per_event(work, used)
    if carried > 0:
        limits["the network of a node"] = min(size.network_bytes_per_second for size in used) / carried
    return limits


def _limit_name(station: Station) -> str:
    return f"{station.busiest_with} at the {station.name}"


def _percentiles(work: Work, rate: float, speed: float, *, is_saturated: bool) -> tuple[float, float]:
    if is_saturated:
        return math.inf, math.inf
    at: dict[str, Floats] = {one.name: latencies(at_speed(one, speed), rate) for one in work.stations}
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
    )


def _memory(work: Work, used: tuple[NodeSize, ...]) -> tuple[float, float]:
    """Of the node that needs most; and of the node with the least to spare, what is left."""
    members, helpers = work.members, work.helpers
    needs, left = 0.0, math.inf
    cores = sum(size.cores for size in used)
    crowding = max(1.0, (members + helpers) / cores)  # processes on a core
    for size in used:
        room = math.ceil(size.cores * crowding)
        helping = min(helpers, room)
        serving = min(members, room - helping)
        helpers, members = helpers - helping, members - serving
        need = work.node_bytes + helping * work.helper_bytes + serving * work.member_bytes
        needs, left = max(needs, need), min(left, size.memory_bytes - need)
    return needs, left


def _network_per_event(work: Work, used: tuple[NodeSize, ...]) -> float:
    """Bytes of the node that carries most; nothing, where everything is on one and clients are, too."""
    each = math.ceil(work.members / len(used))
    return max(each * work.member_network, work.helper_network)


def _delivers(application: Application, kind: WayKind) -> bool:
    match application.delivery:
        case Delivery.CLIENTS:
            return kind is not WayKind.PROCESS
        case Delivery.TABLE:
            return kind.is_spark
        case Delivery.PROCESS:
            return True


def _unmet(application: Application, found: Prediction, nodes: Nodes) -> tuple[str, ...]:
    problems = []
    if not found.delivers:
        problems.append(f"it does not deliver to {application.delivery}")
    if found.is_saturated:
        problems.append(f"saturated: {found.limited_by}")
    elif found.latency_p99_seconds > application.latency_seconds_max:
        problems.append("too slow")
    if not found.fits_memory:
        problems.append("too much memory")
    if found.processes > sum(size.cores for size in nodes.first(found.nodes)):
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
