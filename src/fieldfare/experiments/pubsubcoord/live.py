"""The same experiments at a small size on real processes, beside the simulator; and what a process adds to a node.

The simulator knows delays, losses and flushes to disk, but not a busy machine: so real events are never earlier than
the ways allow, and may be somewhat later than simulated ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldfare.experiments.pubsubcoord.laboratory import Laboratory
from fieldfare.experiments.pubsubcoord.latency_budgets import BUDGETED, CASES, LinkCase, simulate
from fieldfare.experiments.pubsubcoord.live_brokers import NETWORKS, LiveBrokers
from fieldfare.experiments.pubsubcoord.locality import flows_of
from fieldfare.experiments.pubsubcoord.metering import Size
from fieldfare.experiments.pubsubcoord.networks import CLOUD, Flow, Networks
from fieldfare.experiments.pubsubcoord.service_times import ServiceTimes
from fieldfare.experiments.pubsubcoord.settings import LAN, PERIOD_SECONDS, REQUESTED, WAN, LiveScale
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.experiments.wan import WayQuality
from fieldfare.simulation.network import LinkQuality

HOP_SHARE_MAX = 0.5  # of the shortest hop between brokers: so far may latencies be apart
QUICK_SHARE = 0.1  # of the events: a hop more or less delays all of them, a stalled disk or processor only some
_WARM_SAMPLES = 60  # not counted: meanwhile a second path opens, which takes longer where packets are lost
_HERE, _THERE = NETWORKS
_CALIBRATION_TOPICS, _CALIBRATION_SECONDS = 20, 6.0
_MESSAGES_OF_EDGES, _MESSAGES_OF_ROUTING = 8, 4  # for an event from one edge to another


@dataclass(frozen=True, slots=True)
class Comparison:
    """One experiment in the simulator and on real processes: latencies in seconds, and bytes for each event."""

    name: str
    least_seconds: float  # that the ways alone take
    hop_seconds: float  # of the shortest hop between brokers: what one hop more or less changes at least
    simulated: npt.NDArray[np.float64]
    live: npt.NDArray[np.float64]
    simulated_bytes: float | None = None
    live_bytes: float | None = None  # with TLS and the headers of TCP and IP

    @property
    def agrees(self) -> bool:
        """Whether events took as many hops as in the simulator: those that nothing held up took about as long."""
        simulated, live = _quick(self.simulated), _quick(self.live)
        return live >= self.least_seconds and abs(live - simulated) <= HOP_SHARE_MAX * self.hop_seconds


def compare(scale: LiveScale, progress: Callable[[str], None]) -> list[Comparison]:
    """Run each experiment both ways."""
    progress("Starting real brokers")
    with LiveBrokers() as brokers:
        progress("Figure 5 on real processes")
        found = compare_locality(brokers, scale.locality_topics, scale.samples)
        for number in scale.cases:
            for has_second_path in (True, False):
                progress(f"Figure 7 on real processes: {CASES[number].name}")
                found.append(compare_case(brokers, CASES[number], scale.samples, has_second_path=has_second_path))
    return found


def compare_locality(
    brokers: LiveBrokers, topics_per_network: int, samples: int, wan: LinkQuality = WAN
) -> list[Comparison]:
    """Figure 5 with two networks, of whose topics one half is local: local topics, and the others."""
    flows = flows_of(NETWORKS, topics_per_network, 0.5)
    brokers.set_ways({(network, CLOUD): _way(wan) for network in NETWORKS} | {NETWORKS: WayQuality(is_cut=True)})
    live = asyncio.run(brokers.send(flows, samples, REQUESTED))
    found = []
    for name, hops, is_local in (("figure 5: local topics", 0, True), ("figure 5: global topics", 2, False)):
        chosen = [flow for flow in flows if (flow.origin in flow.receivers) is is_local]
        networks = Networks(NETWORKS, 1, chosen, wan=wan)
        networks.begin()
        simulated = networks.measure(1.0, samples * PERIOD_SECONDS).latencies
        latencies = np.concatenate([live[flow.topic] for flow in chosen])
        least_seconds = 2 * LAN.latency_seconds + hops * wan.latency_seconds
        found.append(Comparison(name, least_seconds, wan.latency_seconds, simulated, latencies))
    return found


def compare_case(brokers: LiveBrokers, case: LinkCase, samples: int, *, has_second_path: bool) -> Comparison:
    """A case of figure 7, with a second path or without."""
    brokers.set_ways({(_HERE, CLOUD): _way(case.l1), (_THERE, CLOUD): _way(case.l2), NETWORKS: _way(case.l3)})
    before = brokers.wan.counts()
    flow = Flow.to(f"case-{time.time_ns()}", _HERE, _THERE)  # a topic of its own: nothing is left of those before
    sent = _WARM_SAMPLES + samples
    (live,) = asyncio.run(brokers.send([flow], sent, BUDGETED if has_second_path else REQUESTED)).values()
    sent_bytes = brokers.bytes_between(before)
    simulated = simulate(case, samples, has_second_path=has_second_path)
    least_seconds = case.least_seconds if has_second_path else case.l1.latency_seconds + case.l2.latency_seconds
    return Comparison(
        f"figure 7, {case.name}, {'second path' if has_second_path else 'single path'}",
        2 * LAN.latency_seconds + least_seconds,
        min(link.latency_seconds for link in (case.l1, case.l2, case.l3)),
        simulated.latencies,
        live[_WARM_SAMPLES:],
        simulated.bytes / samples,
        sent_bytes / sent,
    )


def _way(quality: LinkQuality) -> WayQuality:
    return WayQuality(latency_seconds=quality.latency_seconds, loss=quality.loss)


def _median(latencies: npt.NDArray[np.float64]) -> float:
    return float(np.median(latencies)) if len(latencies) else float("inf")


def _quick(latencies: npt.NDArray[np.float64]) -> float:
    return float(np.quantile(latencies, QUICK_SHARE)) if len(latencies) else float("inf")


def _average(latencies: npt.NDArray[np.float64]) -> float:
    return float(np.mean(latencies)) if len(latencies) else float("inf")


def figure_live(lab: Laboratory) -> Figure:
    """The simulator beside real processes."""
    found = compare(lab.scale.live, lab.progress)
    rows: dict[str, list[Cell]] = {
        each.name: [
            each.least_seconds * 1e3,
            _median(each.simulated) * 1e3,
            _median(each.live) * 1e3,
            "yes" if each.agrees else "no",
            _average(each.simulated) * 1e3,
            _average(each.live) * 1e3,
            len(each.live),
            each.simulated_bytes,
            each.live_bytes,
        ]
        for each in found
    }
    names = [_short_name(each.name) for each in found]
    return Figure(
        "live",
        "the simulator beside real processes",
        "Real: ZooKeeper, a routing broker and two edges as processes in network namespaces of their own, with delays "
        "and losses on the packets between them, mutual TLS between brokers, events on disk at both edges. They agree "
        "if the 10th percentiles are less than half of the shortest hop apart, so that a hop more or less would be "
        "seen, and no real one is below what the ways take.",
        (
            "ways, ms",
            "simulated median ms",
            "real median ms",
            "agree",
            "simulated average ms",
            "real average ms",
            "samples",
            "simulated bytes",
            "real bytes",
        ),
        rows,
        "What real processes add is their scheduling on a busy machine, a few milliseconds at each of three brokers. "
        "Real bytes are with TLS, TCP and IP, keep-alives and the setting up of the topic.",
        [
            Panel(
                "median latency",
                "",
                "ms",
                [
                    Series("simulated", names, [_median(each.simulated) * 1e3 for each in found]),
                    Series("real", names, [_median(each.live) * 1e3 for each in found]),
                ],
            )
        ],
    )


def _short_name(name: str) -> str:
    """For an axis: the figure, and below it the case, its links and the path, or the topics."""
    return name.replace(" topics", "").replace(" path", "").replace(": ", "\n").replace(", ", "\n")


# What a process adds to a node


def host_seconds(times: ServiceTimes, progress: Callable[[str], None]) -> dict[str, float]:
    """CPU seconds that the processes of an edge and of a routing broker take for a message, beside their nodes."""
    progress("Measuring what processes add, on real brokers")
    flows = [Flow.to(f"calibration-{number}", _HERE, _THERE) for number in range(_CALIBRATION_TOPICS)]
    samples = round(_CALIBRATION_SECONDS / PERIOD_SECONDS)
    with LiveBrokers() as brokers:
        asyncio.run(brokers.send(flows, 20, REQUESTED))  # warms up
        idle = _used(brokers, lambda: time.sleep(_CALIBRATION_SECONDS))
        busy = _used(brokers, lambda: asyncio.run(brokers.send(flows, samples, REQUESTED)))
    edges = [name for name in busy if name.startswith("edge")]
    routing = [name for name in busy if name.startswith("routing")]
    events = samples * len(flows)
    edge_node = sum(times.edge[kind].of(size) for kind, size in _OF_EDGES)
    routing_node = sum(times.routing[kind].of(size) for kind, size in _OF_ROUTING)
    return {
        "edge": _beside(busy, idle, edges, events, edge_node, _MESSAGES_OF_EDGES),
        "routing": _beside(busy, idle, routing, events, routing_node, _MESSAGES_OF_ROUTING),
    }


_OF_EDGES = (("Publish", Size(1, 1)), ("Taken", Size()), ("Ranges", Size(1, 1)), ("Ack", Size()))
_OF_ROUTING = (("Ranges", Size(1, 1)), ("Taken", Size()))


def _used(brokers: LiveBrokers, action: Callable[[], object]) -> dict[str, float]:
    """The CPU seconds of each broker in the time that something takes."""
    before = brokers.cpu_seconds()
    action()
    return {name: seconds - before[name] for name, seconds in brokers.cpu_seconds().items()}


def _beside(
    busy: Mapping[str, float], idle: Mapping[str, float], names: Sequence[str], events: int, node: float, messages: int
) -> float:
    used = sum(busy[name] - idle[name] for name in names) / events
    return max(0.0, used - node) / messages
