"""How long a broker takes for an input: measured once on this machine, then a function of the input for the simulator.

A kind of input costs a constant, so much for each event, for each receiving edge, and for each event to each edge; the
four are fitted to what was measured for several sizes. Timers that look at all topics of an edge cost so much for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from fieldfare.experiments.pubsubcoord.metering import Cost, Meter, Size, kind_of, metered, size_of
from fieldfare.experiments.pubsubcoord.networks import Flow, Networks
from fieldfare.experiments.pubsubcoord.settings import sample
from fieldfare.experiments.results import Cell, Figure
from fieldfare.messages import Input, Node, Publish, Received

# CPU seconds that the process of a broker takes for a message that comes or goes, beside what its node takes: TLS or
# WebSocket, sockets, the event loop, the log's thread. Measured by `live.host_seconds`; --calibrate measures it again.
HOST_SECONDS = {"edge": 60e-6, "routing": 30e-6}
EVENT_COUNTS = (1, 8)
RECEIVER_COUNTS = (1, 3, 6)
TOPICS = 12
_GAP_SECONDS = 0.3  # between publications, so that each is handled alone


@dataclass(frozen=True, slots=True)
class InputCost:
    """What one kind of input costs a broker, in CPU seconds, and the messages that it makes it send."""

    seconds: tuple[float, float, float, float]  # constant, per event, per receiver, per event to a receiver
    messages: float
    samples: int

    def of(self, size: Size) -> float:
        """For an input of a size."""
        constant, per_event, per_receiver, per_both = self.seconds
        events, receivers = size
        return constant + per_event * events + per_receiver * receivers + per_both * events * receivers


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """The costs of all inputs of edges and routing brokers."""

    edge: Mapping[str, InputCost]
    routing: Mapping[str, InputCost]
    host_seconds: Mapping[str, float] = field(default_factory=lambda: HOST_SECONDS)

    def of_routing(self) -> Callable[[Input], float]:
        """For a routing broker."""
        costs, host_seconds = self.routing, self.host_seconds["routing"]

        def seconds(message: Input) -> float:
            cost = costs.get(kind_of(message))
            if cost is None:
                return 0.0
            size = size_of(message)
            return cost.of(size) + host_seconds * (1 + max(size.receivers, cost.messages))

        return seconds

    def of_edge(self, topics: int, receivers_of: Mapping[str, int]) -> Callable[[Input], float]:
        """For an edge with so many topics; how many other edges want each topic's events."""
        costs, host_seconds, factor = self.edge, self.host_seconds["edge"], topics / TOPICS

        def seconds(message: Input) -> float:
            kind = kind_of(message)
            cost = costs.get(kind)
            if cost is None:
                return 0.0
            if kind.startswith("TimerDue"):
                return cost.of(Size()) * (factor if kind.endswith("TIDY") else 1.0)
            size = size_of(message)
            match message:
                case Received(_, Publish() as frame):
                    size = Size(size.events, receivers_of.get(frame.topic, 0))
            return cost.of(size) + host_seconds * (1 + cost.messages)

        return seconds

    def figure(self) -> Figure:
        """The costs as a table."""
        rows: dict[str, list[Cell]] = {}
        for role, costs in (("edge", self.edge), ("routing broker", self.routing)):
            for kind, cost in sorted(costs.items()):
                rows[f"{role}: {kind}"] = [*(1e6 * second for second in cost.seconds), cost.messages, cost.samples]
            host_seconds = self.host_seconds["edge" if role == "edge" else "routing"]
            rows[f"{role}: its process, for each message"] = [1e6 * host_seconds, None, None, None, None, None]
        return Figure(
            "times",
            "service times that were measured, µs of CPU",
            "Around the real nodes, with their frames decoded and encoded, for publications of "
            f"{' and '.join(map(str, EVENT_COUNTS))} events to {', '.join(map(str, RECEIVER_COUNTS))} edges; a timer's "
            f"for {TOPICS} topics. What the process adds for a message was measured on real brokers.",
            ("input", "+ per event", "+ per edge", "+ per event and edge", "messages out", "measured"),
            rows,
            "",
        )


def measure(rounds: int) -> ServiceTimes:
    """Measure all of them, with so many publications of each size."""
    meters = {"edge": Meter(), "routing": Meter()}

    def wrap(name: str, node: Node) -> Node:
        return metered(node, meters["edge" if name.endswith(".edge") else "routing"])

    receivers = [f"s{number}" for number in range(RECEIVER_COUNTS[-1])]
    flows = [
        Flow.to(f"t{count}-{number}", "p", *receivers[:count])
        for count in RECEIVER_COUNTS
        for number in range(TOPICS // len(RECEIVER_COUNTS))
    ]
    networks = Networks(["p", *receivers], 1, flows, wrap=wrap)
    networks.begin()
    for number in range(-3, rounds):  # the first of each are not counted
        for meter in meters.values():
            meter.is_on = number >= 0
        for flow in flows:
            for events in EVENT_COUNTS:
                meters["edge"].receivers = len(flow.receivers)
                now = networks.world.clock.now
                networks.publish(flow, *(msgspec.Raw(sample(now, value)) for value in range(events)))
                networks.world.run_for(_GAP_SECONDS / len(flows))
    return ServiceTimes(_fitted(meters["edge"]), _fitted(meters["routing"]))


def _fitted(meter: Meter) -> dict[str, InputCost]:
    by_kind: dict[str, dict[Size, list[Cost]]] = {}
    for (kind, size), costs in meter.costs.items():
        by_kind.setdefault(kind, {})[size] = costs
    return {kind: _fit(sizes) for kind, sizes in by_kind.items()}


def _fit(sizes: Mapping[Size, list[Cost]]) -> InputCost:
    """Least squares over the typical cost of each size; where a part came out below zero, without it."""
    rows = np.array([[1, size.events, size.receivers, size.events * size.receivers] for size in sizes], np.float64)
    typical = np.array([np.median([cost.seconds for cost in costs]) for costs in sizes.values()])
    varied = [column for column in range(3) if column == 0 or len(np.unique(rows[:, column])) > 1]
    used = [*varied, 3] if len(varied) == 3 else varied
    while True:
        found = np.linalg.lstsq(rows[:, used], typical, rcond=None)[0]
        if len(used) == 1 or (found >= 0).all():
            break
        used.remove(used[1 + int(np.argmin(found[1:]))])
    seconds = np.zeros(4)
    seconds[used] = np.maximum(found, 0.0)
    messages = float(np.mean([cost.messages for costs in sizes.values() for cost in costs]))
    constant, per_event, per_receiver, per_both = seconds.tolist()
    return InputCost((constant, per_event, per_receiver, per_both), messages, sum(map(len, sizes.values())))
