"""Where the figures are made: strategies run on workloads with several seeds, and their averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from fieldfare.experiments.placement.best_placements import BestPlacements
from fieldfare.experiments.placement.load_model import LoadModel, ServiceTime, TreeLoad, scaled_to
from fieldfare.experiments.placement.settings import BUSIEST_STATIC, Distribution, Scale, Testbed
from fieldfare.experiments.placement.strategies import Placed, run_grape, run_pop
from fieldfare.experiments.placement.workloads import stock_workload
from fieldfare.placement.options import DampingOptions, GrapeOptions, PopOptions, Priority

Strategy: TypeAlias = Callable[[LoadModel, int], Placed]  # of a model and a seed
STATIC, POP, LOAD, DELAY = "static", "POP", "GRAPE load 100%", "GRAPE delay 100%"
BEST_LOAD, BEST_DELAY, BEST_HOPS = "best by load", "best by delay", "best by hops"
RETURN_SECONDS = 600.0  # coming back to a broker within this is ping-pong


@dataclass(frozen=True, slots=True)
class Trial:
    """Where strategies are tried."""

    testbed: Testbed
    distribution: Distribution = "enterprise"
    spread: int = 16  # brokers with subscribers of a publisher
    fan_out: int = 2
    service: ServiceTime | None = None  # None: scaled, so that static's busiest broker is near saturation


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Averages over seeds. Rates are at the end of a run; what placement itself took is that of the whole run."""

    message_rate: float  # events that a broker receives, per second
    own_rate: float  # placement's own messages, per broker and second
    input_utilisation: float
    output_utilisation: float
    busiest: float
    overloaded: float
    delay_seconds: float
    hops: float
    relocations: float
    returns: float
    overhead: float
    pings_overhead: float  # of that, pings
    frame_bytes: float  # of an average frame between brokers
    state_bytes: float
    relocations_by_minute: Sequence[float]  # up to the end of each minute


class Laboratory:
    """What the figures share."""

    def __init__(self, scale: Scale, progress: Callable[[str], None]) -> None:
        self.scale, self.progress = scale, progress
        self._best: tuple[LoadModel, BestPlacements] | None = None  # of the last model

    def run(self, case: Trial, strategies: Mapping[str, Strategy]) -> dict[str, Outcomes]:
        """Each strategy with each seed."""
        found: dict[str, list[tuple[Placed, TreeLoad]]] = {name: [] for name in strategies}
        for seed in range(1, case.testbed.runs + 1):
            model = self.model(case, seed)
            for name, strategy in strategies.items():
                self.progress(f"{case.testbed.name}, {case.distribution}, {case.spread} brokers, seed {seed}: {name}")
                placed = strategy(model, seed)
                found[name].append((placed, model.load(placed.places)))
        return {name: _average(runs, self.scale.minutes) for name, runs in found.items()}

    def model(self, case: Trial, seed: int) -> LoadModel:
        """The workload of a case, and its service times."""
        minutes = self.scale.minutes
        workload = stock_workload(
            case.testbed, case.distribution, case.spread, fan_out=case.fan_out, minutes=minutes, seed=seed
        )
        return LoadModel(workload, case.service or scaled_to(workload, BUSIEST_STATIC))

    def strategies(self, testbed: Testbed) -> dict[str, Strategy]:
        """Those of the paper, and the best by trying all brokers."""
        return {
            STATIC: lambda model, _: Placed(model.workload.places),
            POP: self.pop(PopOptions(traces_min=testbed.traced_min)),
            LOAD: self.grape(GrapeOptions(session_publications=testbed.traced_min, priority="load")),
            DELAY: self.grape(GrapeOptions(session_publications=testbed.traced_min, priority="delay")),
            BEST_LOAD: lambda model, _: Placed(self.best(model).by_load()),
            BEST_DELAY: lambda model, _: Placed(self.best(model).by_delay()),
            BEST_HOPS: lambda model, _: Placed(self.best(model).by_hops()),
        }

    def best(self, model: LoadModel) -> BestPlacements:
        """What can be reached at best."""
        if self._best is None or self._best[0] is not model:
            self._best = model, BestPlacements(model)
        return self._best[1]

    def pop(self, options: PopOptions, damping: DampingOptions | None = None) -> Strategy:
        """POP with some options."""
        return lambda model, seed: run_pop(model, options, damping or DampingOptions(), self.scale.minutes, seed)

    def grape(self, options: GrapeOptions, damping: DampingOptions | None = None) -> Strategy:
        """GRAPE with some options."""
        return lambda model, _: run_grape(model, options, damping or DampingOptions(), self.scale.minutes)

    def weighted(self, testbed: Testbed, priority: Priority, weight_percent: int) -> Strategy:
        """GRAPE with a priority and a weight."""
        return self.grape(
            GrapeOptions(
                session_publications=testbed.traced_min, priority=priority, weight_percent=float(weight_percent)
            )
        )


def gained(static: float, value: float, best: float) -> float | None:
    """The share of the possible gain that was reached; None if there is nothing to gain."""
    return (static - value) / (static - best) if static - best > 1e-9 * static else None


def _average(runs: list[tuple[Placed, TreeLoad]], minutes: int) -> Outcomes:
    def mean(value: Callable[[Placed, TreeLoad], float]) -> float:
        return fmean(value(*run) for run in runs)

    def relocated(until_seconds: float) -> float:
        return mean(lambda placed, _: sum(moved.at_seconds < until_seconds for moved in placed.counts.relocated))

    return Outcomes(
        mean(lambda _, load: load.message_rate),
        mean(lambda placed, load: placed.messages / len(load.rates) / (minutes * 60.0)),
        mean(lambda _, load: load.input_utilisation),
        mean(lambda _, load: load.output_utilisation),
        mean(lambda _, load: load.busiest),
        mean(lambda _, load: load.overloaded),
        mean(lambda _, load: load.delay_seconds),
        mean(lambda _, load: load.hops),
        relocated(float("inf")),
        mean(lambda placed, _: placed.counts.returns(RETURN_SECONDS)),
        mean(lambda placed, _: placed.overhead),
        mean(lambda placed, _: placed.counts.pings / placed.events if placed.events else 0.0),
        mean(lambda placed, _: placed.counts.frame_bytes / max(1, placed.counts.frames.total())),
        mean(lambda placed, _: placed.state_bytes),
        [relocated(minute * 60.0) for minute in range(minutes + 1)],
    )
