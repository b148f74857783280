"""Where the figures are made: how much to do, whom to tell of progress, and the service times, measured once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from fieldfare.experiments.pubsubcoord.networks import Flow, Measured, Networks
from fieldfare.experiments.pubsubcoord.service_times import HOST_SECONDS, ServiceTimes, measure
from fieldfare.experiments.pubsubcoord.settings import Scale

HostSeconds: TypeAlias = Callable[[ServiceTimes], Mapping[str, float]]
_WARM_SECONDS = 0.4  # longer than any event is under way, unless a broker is overloaded


class Laboratory:
    """What the figures share."""

    def __init__(
        self, scale: Scale, progress: Callable[[str], None], host_seconds: HostSeconds = lambda _: HOST_SECONDS
    ) -> None:
        self.scale, self.progress = scale, progress
        self.has_service_times = False
        self._host_seconds = host_seconds  # what processes add to their nodes, for each message

    @cached_property
    def service_times(self) -> ServiceTimes:
        """What an input costs a broker here."""
        self.progress("Measuring service times")
        self.has_service_times = True
        times = measure(self.scale.calibration_rounds)
        return replace(times, host_seconds=self._host_seconds(times))

    def run(
        self, networks: Sequence[str], routing_count: int, flows: Sequence[Flow], measured_seconds: float
    ) -> Measured:
        """Simulate networks whose brokers take time for each input."""
        times = self.service_times
        simulated = Networks(networks, routing_count, flows)
        simulated.begin()
        topics = Counter(network for flow in flows for network in {flow.origin, *flow.receivers})
        receivers_of = {flow.topic: len(flow.receivers.keys() - {flow.origin}) for flow in flows}
        for host in simulated.routing:
            host.serve_in(times.of_routing())
        for network, host in simulated.edges.items():
            host.serve_in(times.of_edge(topics[network], receivers_of))
        return simulated.measure(_WARM_SECONDS, measured_seconds)


def milliseconds(measured: Measured) -> tuple[float, float, float]:
    """The average, the median and the longest latency."""
    latencies = measured.latencies * 1e3
    return float(np.mean(latencies)), float(np.median(latencies)), float(np.max(latencies))
