"""Publishers that move between real processes, beside the same brokers in the simulator.

On one machine's loopback a hop takes less than what a busy machine adds by chance, so delays are told, not compared.
What must agree is what placement decides: where the publishers end, and that every event comes once and in order.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fieldfare.experiments.placement.laboratory import DELAY, LOAD, POP, Laboratory
from fieldfare.experiments.placement.live_tree import LiveMeasured, LiveTree
from fieldfare.experiments.placement.load_model import LoadModel, ServiceTime, TreeLoad
from fieldfare.experiments.placement.settings import LiveScale
from fieldfare.experiments.placement.tree_simulation import StockTree
from fieldfare.experiments.placement.workloads import StockWorkload, stock_workload
from fieldfare.experiments.results import Cell, Figure
from fieldfare.placement.options import GrapeOptions, PopOptions, Priority
from fieldfare.routing.tree.publisher_placement import PlacementOptions

_TRACES_MAX = 10_000  # POP's, in a window: so that it need not wait for the next one


@dataclass(frozen=True, slots=True)
class LiveComparison:
    """One algorithm, live and simulated."""

    before: TreeLoad  # by the model, where the publishers begin
    live: LiveMeasured
    live_load: TreeLoad  # by the model, where they ended
    simulated_places: dict[str, str]
    simulated_load: TreeLoad

    @property
    def is_complete(self) -> bool:
        """Whether every event came live, once and in order."""
        return len(self.live.deliveries) == self.live.expected and not self.live.repeated


def options_of(strategy: str, traced_min: int) -> PlacementOptions:
    """As the simulated brokers are told."""
    if strategy == POP:
        return PlacementOptions(algorithm="pop", pop=PopOptions(traces_min=traced_min, traces_max=_TRACES_MAX))
    priority: Priority = "delay" if strategy == DELAY else "load"
    return PlacementOptions(algorithm="grape", grape=GrapeOptions(session_publications=traced_min, priority=priority))


def settings_of(options: PlacementOptions) -> dict[str, str]:
    """The same as real brokers are told, in their environment."""
    return {
        "BROKER_PLACEMENT": options.algorithm or "",
        "PLACEMENT_TRACES_MIN": str(options.pop.traces_min),
        "PLACEMENT_TRACES_MAX": str(options.pop.traces_max),
        "PLACEMENT_SESSION_PUBLICATIONS": str(options.grape.session_publications),
        "PLACEMENT_PRIORITY": options.grape.priority,
    }


def workload_of(scale: LiveScale) -> StockWorkload:
    """The same for both."""
    return stock_workload(scale.testbed, "enterprise", scale.spread, fan_out=2, minutes=1, seed=scale.seed)


def compare(scale: LiveScale, strategy: str) -> LiveComparison:
    """Start the brokers, let publishers move, and simulate the same."""
    workload, options = workload_of(scale), options_of(strategy, scale.testbed.traced_min)
    model = LoadModel(workload, ServiceTime(0.0, 0.0, scale.testbed.link_seconds))
    with LiveTree(workload, settings_of(options)) as live_tree:
        live = asyncio.run(live_tree.run(scale.seconds))
    tree = StockTree(workload, workload.places, model.service, options)
    tree.begin()
    tree.measure(0.0, scale.seconds)
    tree.check()
    return LiveComparison(
        model.load(workload.places), live, model.load(live.places), tree.places, model.load(tree.places)
    )


def figure_live(lab: Laboratory) -> Figure:
    """All algorithms."""
    scale, rows = lab.scale.live, dict[str, list[Cell]]()
    for strategy in (POP, LOAD, DELAY):
        lab.progress(f"Real processes: {strategy}")
        found = compare(scale, strategy)
        first = min(sent_at for sent_at, _ in found.live.deliveries)
        rows[strategy] = [
            found.before.message_rate,
            found.simulated_load.message_rate,
            found.live_load.message_rate,
            found.before.hops,
            found.simulated_load.hops,
            found.live_load.hops,
            sum(found.simulated_places[name] == place for name, place in found.live.places.items()),
            found.live.moved,
            found.live.median_seconds(first, first + scale.first_seconds) * 1e3,
            found.live.median_seconds(first + scale.seconds * 0.75, first + scale.seconds) * 1e3,
            max(delay for _, delay in found.live.deliveries) * 1e3,
            f"{len(found.live.deliveries):,} of {found.live.expected:,}",
            found.live.repeated,
        ]
    testbed = scale.testbed
    return Figure(
        "live",
        "publishers that move between real processes, beside the simulator",
        f"Enterprise, {testbed.brokers} brokers on loopback, {testbed.publishers} publishers with "
        f"{testbed.publications_per_minute[0] / 60:g} events/s, "
        f"{testbed.publishers * testbed.subscribers_per_publisher} subscribers at {scale.spread} brokers, "
        f"{scale.seconds:g} s. Rates and hops are the model's, for where the publishers ended. Delays are medians of "
        "real deliveries.",
        (
            "messages/s before",
            "after, simulated",
            "live",
            "hops before",
            "after, simulated",
            "live",
            "publishers at the same broker",
            "moved",
            "delay ms, at first",
            "in the end",
            "longest",
            "delivered",
            "twice or out of order",
        ),
        rows,
        "",
    )
