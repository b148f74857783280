"""What is measured of an overlay, and how: each scenario on ours and on every peer that is installed, in one run.

Events are published at the first edge, and wanted at all others. NATS and Zenoh route by subject only: every event
goes to every edge with a subscriber, and on to every subscriber, whose client filters. No number is reported unless
every subscriber received exactly the events that it wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfare.bench.broker.load import Load, make_load
from fieldfare.bench.broker.workers import Pace, Saturate
from fieldfare.bench.overlay.crew import OverlayCrew, overlay_crew
from fieldfare.bench.overlay.fieldfare_system import BEST_EFFORT, DURABLE
from fieldfare.bench.overlay.nats_system import NATS
from fieldfare.bench.overlay.results import Result, Speed, render, to_json
from fieldfare.bench.overlay.systems import System
from fieldfare.bench.overlay.zenoh_system import ZENOH
from fieldfare.errors import InputError, MissingDependencyError

__all__ = ["SCENARIOS", "SYSTEMS", "OverlayBenchOptions", "Result", "render", "run", "to_json"]

SYSTEMS = {system.name: system for system in (BEST_EFFORT, DURABLE, NATS, ZENOH)}
EDGE_COUNT_MAX = 64
WARM_UP_SHARE = 0.2  # of the seconds, before any of them counts
BATCH_EVENTS = (250, 1_000)  # whichever suits a system better
BATCHES_UNDER_WAY = 4
QUICK_EDGE_COUNTS = (1, 2)
QUICK_SECONDS = 0.1
QUICK_SUBSCRIBERS_MAX = 10
QUICK_SHARE_MIN = 0.1  # so that a short run has deliveries, too


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who wants how much."""

    subscribers_per_edge: int  # each has a connection
    share: float  # of the events that a subscriber wants
    edge_counts: tuple[int, ...] = (1, 2, 8)

    @property
    def title(self) -> str:
        """It in words."""
        return f"{self.subscribers_per_edge} subscribers at each edge, each wants {self.share * 100:g}% of the events"

    def quick(self) -> Scenario:
        """The same with fewer subscribers, who want more."""
        return Scenario(
            subscribers_per_edge=min(self.subscribers_per_edge, QUICK_SUBSCRIBERS_MAX),
            share=max(self.share, QUICK_SHARE_MIN),
            edge_counts=QUICK_EDGE_COUNTS,
        )

    def load(self, edge_count: int) -> Load:
        """The subscribers at all edges but the first, or at the only one."""
        subscribers = self.subscribers_per_edge * max(1, edge_count - 1)
        return make_load(subscribers, subscribers, self.share)


SCENARIOS = {
    "selective": Scenario(100, 0.001, (1, 2, 4, 8)),
    "few": Scenario(10, 0.01),
    "single": Scenario(1, 0.01),
    "everything": Scenario(1, 1.0),
}


@dataclass(frozen=True, slots=True)
class OverlayBenchOptions:
    """What to measure."""

    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    systems: tuple[str, ...] = tuple(SYSTEMS)
    edge_counts: tuple[int, ...] = ()  # none: the scenario's own
    seconds: float = 2.0  # for each system in each scenario with each number of edges, and as long for its latency
    subscriber_processes: int = 1
    is_quick: bool = False  # sizes that only show that it works

    def __post_init__(self) -> None:
        for names, known, what in ((self.scenarios, SCENARIOS, "scenario"), (self.systems, SYSTEMS, "system")):
            for name in names:
                if name not in known:
                    raise InputError(f"there is no {what} {name!r}; there are {', '.join(known)}")
        if not all(1 <= count <= EDGE_COUNT_MAX for count in self.edge_counts):
            raise InputError(f"the number of edges must be from 1 to {EDGE_COUNT_MAX}")
        if not self.seconds > 0 or self.subscriber_processes < 1:
            raise InputError("seconds and the number of processes must be above 0")

    @property
    def measured_seconds(self) -> float:
        """How long a run lasts."""
        return QUICK_SECONDS if self.is_quick else self.seconds


def run(options: OverlayBenchOptions, progress: Callable[[str], None]) -> list[Result]:
    """Measure every scenario; `progress` is told what is being done."""
    return [result for name in options.scenarios for result in _measured(name, options, progress)]


def _measured(name: str, options: OverlayBenchOptions, progress: Callable[[str], None]) -> Iterator[Result]:
    scenario = SCENARIOS[name].quick() if options.is_quick else SCENARIOS[name]
    edge_counts = options.edge_counts or scenario.edge_counts
    speeds: dict[int, dict[str, Speed]] = {edge_count: {} for edge_count in edge_counts}
    for system in options.systems:
        for edge_count, speed in _speeds(SYSTEMS[system], scenario, edge_counts, options):
            speeds[edge_count][system] = replace(speed, note=SYSTEMS[system].note)
            progress(f"{name}: {system} with {edge_count} edges is done")
    for edge_count in edge_counts:
        yield Result(
            scenario=name,
            title=scenario.title,
            edges=edge_count,
            subscribers=scenario.load(edge_count).connections,
            share=scenario.share,
            is_full_size=not options.is_quick,
            speeds=speeds[edge_count],
        )


def _speeds(
    system: System, scenario: Scenario, edge_counts: Sequence[int], options: OverlayBenchOptions
) -> Iterator[tuple[int, Speed]]:
    """A system with each number of edges.

    One edge is measured in any case, and its processes wait beside the others, so that latency can be compared at the
    same rate and within seconds: a shared machine is not equally fast for long.
    """
    try:
        with overlay_crew(system, 1, scenario.load(1), options.subscriber_processes) as one_edge:
            alone = _saturated(one_edge, options)
            for edge_count in edge_counts:
                if edge_count == 1:
                    yield 1, _with_latency(alone, alone, one_edge, None, options)
                    continue
                load = scenario.load(edge_count)
                with overlay_crew(system, edge_count, load, options.subscriber_processes) as crew:
                    yield edge_count, _with_latency(_saturated(crew, options), alone, crew, one_edge, options)
    except MissingDependencyError as error:
        for edge_count in edge_counts:
            yield edge_count, Speed(skipped=str(error))


def _saturated(crew: OverlayCrew, options: OverlayBenchOptions) -> Speed:
    """The highest rate, and what it costs."""
    seconds = options.measured_seconds

    def rate(batch_events: int) -> float:
        return crew.run(Saturate(seconds * WARM_UP_SHARE, batch_events, BATCHES_UNDER_WAY))[0].events_per_second

    batch_events = max(BATCH_EVENTS, key=rate)
    reached, link_bytes = crew.run(Saturate(seconds, batch_events, BATCHES_UNDER_WAY))
    memory_bytes = crew.deployment.memory_bytes()
    return Speed(
        events_per_second=reached.events_per_second,
        deliveries_per_second=reached.deliveries / reached.seconds,
        brokers_cpu_us_per_event=None if reached.cpu_seconds is None else 1e6 * reached.cpu_seconds / reached.events,
        subscribers_cpu_us_per_event=1e6 * reached.subscribers_cpu_seconds / reached.events,
        link_bytes_per_event=None if link_bytes is None else link_bytes / reached.events,
        memory_megabytes=None if memory_bytes is None else memory_bytes / 1e6,
    )


def _with_latency(
    speed: Speed, alone: Speed, crew: OverlayCrew, one_edge: OverlayCrew | None, options: OverlayBenchOptions
) -> Speed:
    """Latency at half of what one edge does, or of what the overlay does if that is less; then with one edge."""
    rates = (rate for rate in (speed.events_per_second, alone.events_per_second) if rate is not None)
    rate = min(rates) / 2
    p50_ms, p99_ms = _latency_ms(crew, rate, options)
    return replace(
        speed,
        latency_events_per_second=rate,
        latency_p50_ms=p50_ms,
        latency_p99_ms=p99_ms,
        one_edge_p50_ms=None if one_edge is None else _latency_ms(one_edge, rate, options)[0],
    )


def _latency_ms(crew: OverlayCrew, rate: float, options: OverlayBenchOptions) -> tuple[float, float]:
    """The median and the 99th percentile of all deliveries but those of the beginning."""
    paced, _ = crew.run(Pace(options.measured_seconds, rate), is_recording=True)
    settled = paced.waits_ms[paced.numbers >= paced.events * WARM_UP_SHARE]
    if not len(settled):
        raise InputError(f"{paced.events} events had no delivery whose latency counts: measure for more seconds")
    p50_ms, p99_ms = np.quantile(settled, [0.5, 0.99]).tolist()
    return p50_ms, p99_ms
