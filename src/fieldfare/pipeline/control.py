"""What the driver learns from batches, and what it changes: forwarding, the number of matchers, the layout.

Dispatchers of the next batch know how fast matchers were in the last ones. When batches take longer than their
interval, the most loaded matcher is split; when they are idle, one is merged away. And where the layout is left to
Fieldfare, it tries partitions once the index is large, measures both ways, and keeps the faster.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import numpy.typing as npt

from fieldfare.forwarding import Load, Policy, busiest, idlest
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan, Reshape
from fieldfare.partitioning.replicas import by_load, work_of_busiest
from fieldfare.pipeline.dispatch import DispatchRule
from fieldfare.pipeline.reports import BatchReport
from fieldfare.store.catalog import Catalog

_RATE_MEMORY = 0.5  # how much of an earlier rate stays when a new one is measured
_LATE_BATCHES = 2  # batches in a row that are late before a matcher is added
_IDLE_BATCHES = 10  # batches in a row that are idle before one is merged away
_IDLE_SHARE = 0.3  # of the interval
_BUSY_SHARE = 0.25  # of a late batch, that a matcher must have worked for another one to be of help
_INDEX_BYTES_MIN = 16 << 20  # a smaller index stays in the processor's caches, where partitions save nothing
_TRIAL_BATCHES = 3
_TRIAL_EVENTS_MIN = 2_000  # a smaller batch says more about Spark than about matching
_RELIEF_MIN = 1.3  # times that the busiest matcher's work must shrink for replicas to be divided anew
_GROWTH = 2.0  # the layouts are compared again when the number of subscriptions has grown by this factor


@dataclass(frozen=True, slots=True)
class Elasticity:
    """Between how many matchers to choose, and how long a batch should take."""

    matchers_min: int
    matchers_max: int
    interval_seconds: float

    @property
    def is_fixed(self) -> bool:
        """The number of matchers was given."""
        return self.matchers_min == self.matchers_max


@dataclass(slots=True)
class _Trial:
    """Seconds per event that batches took with each kind of layout, at about the same number of subscriptions."""

    subscriptions: int
    costs: dict[LayoutKind, deque[float]] = field(default_factory=dict)
    is_over: bool = False


class Control:
    """The driver's memory of load, and its decisions, which it tells as sentences."""

    def __init__(self, catalog: Catalog, policy: Policy, elasticity: Elasticity, *, auto: bool) -> None:
        self._catalog = catalog
        self._policy = policy
        self._elasticity = elasticity
        self._auto = auto
        self._trial = _Trial(0)
        self._layout = ""  # the base whose parts the rates belong to
        self._rates = np.zeros(0)
        self._late = self._idle = 0
        self._work: deque[npt.NDArray[np.float64]] = deque(maxlen=_TRIAL_BATCHES)  # of the segments of clusters

    def forwarding(self, batch_id: int) -> DispatchRule:
        """How the dispatchers of a batch choose."""
        self._follow_layout()
        return DispatchRule(self._policy, self._load(np.zeros(len(self._rates))), batch_id)

    def _load(self, arrivals: npt.NDArray[np.float64]) -> Load:
        """What is known of the matchers. No event waits between batches: a batch is matched whole."""
        sizes = np.array(self._catalog.base.manifest.part_sizes, np.int64)
        return Load(np.zeros(len(self._rates)), arrivals, self._rates, sizes)

    def observe(self, report: BatchReport, seconds: float) -> list[str]:
        """Take in what a batch reported; return what was decided, in words."""
        self._follow_layout()
        for part in report.parts:
            if part.events and part.seconds > 0:
                measured, known = part.events / part.seconds, self._rates[part.part]
                self._rates[part.part] = (
                    measured if known == 0 else _RATE_MEMORY * known + (1 - _RATE_MEMORY) * measured
                )
        decisions = [self._catalog.problem] if self._catalog.problem else []
        self._catalog.problem = None
        return [*decisions, *self._compare(report, seconds), *self._scale(report, seconds), *self._replicate(report)]

    def _follow_layout(self) -> None:
        if self._layout != self._catalog.base.manifest.layout:
            self._layout = self._catalog.base.manifest.layout
            self._rates = np.zeros(self._catalog.layout.part_count)
            self._work.clear()

    def _scale(self, report: BatchReport, seconds: float) -> list[str]:
        interval = self._elasticity.interval_seconds
        busiest_seconds = max(report.seconds_by_matcher().values(), default=0.0)
        self._late = self._late + 1 if seconds > interval and busiest_seconds > _BUSY_SHARE * seconds else 0
        self._idle = self._idle + 1 if seconds < _IDLE_SHARE * interval else 0
        layout = self._catalog.layout
        if self._elasticity.is_fixed or layout.kind not in {"multi", "single"} or self._catalog.is_building:
            return []
        load = self._load(report.events_by_part(len(self._rates)))
        if self._late >= _LATE_BATCHES and len(layout.matchers) < self._elasticity.matchers_max:
            loaded = busiest(layout, load)
            self._catalog.rebuild(Reshape(layout.to_json(), split=loaded))
            self._late = 0
            return [
                f"batches take {seconds:.1f} s: splitting matcher {loaded}, the most loaded of {len(layout.matchers)}"
            ]
        if self._idle >= _IDLE_BATCHES and len(layout.matchers) > self._elasticity.matchers_min:
            idle = idlest(layout, load)
            self._catalog.rebuild(Reshape(layout.to_json(), merge=idle))
            self._idle = 0
            return [f"batches take {seconds:.1f} s: merging matcher {idle}, the idlest of {len(layout.matchers)}, away"]
        return []

    def _replicate(self, report: BatchReport) -> list[str]:
        """Give clusters that have more to do more of the replicas, once that would relieve the busiest matcher."""
        layout = self._catalog.layout
        segments = layout.starts[-1]
        if layout.kind != "clusters" or segments == len(layout.matchers) or self._catalog.is_building:
            return []
        if report.events < _TRIAL_EVENTS_MIN:
            return []
        seconds = np.bincount([part.part for part in report.parts], [part.seconds for part in report.parts], segments)
        self._work.append(seconds[:segments].astype(np.float64))
        if len(self._work) < _TRIAL_BATCHES:
            return []
        loads = np.sum(self._work, axis=0).tolist()
        before = work_of_busiest(layout, loads)
        after = work_of_busiest(by_load(layout, loads), loads)
        if before < _RELIEF_MIN * after:
            return []
        self._catalog.rebuild(Reshape(layout.to_json(), loads=tuple(loads)))
        self._work.clear()
        return [f"replicas by load: the busiest matcher gets {after / before:.0%} of what it has now"]

    def _compare(self, report: BatchReport, seconds: float) -> list[str]:
        """Try the other kind of layout when the index is large, and keep the faster."""
        if not self._auto or self._catalog.is_building or report.events < _TRIAL_EVENTS_MIN:
            return []
        count, kind = self._catalog.subscriptions, LayoutKind(self._catalog.layout.kind)
        if count > _GROWTH * self._trial.subscriptions:
            self._trial = _Trial(max(1, count))
        if self._trial.is_over or self._catalog.base.manifest.nbytes < _INDEX_BYTES_MIN:
            return []
        costs = self._trial.costs.setdefault(kind, deque(maxlen=_TRIAL_BATCHES))
        costs.append(seconds / report.events)
        if len(costs) < _TRIAL_BATCHES:
            return []
        if len(self._trial.costs) == 1:
            other = self._other(kind)
            self._catalog.rebuild(plan=other)
            megabytes = self._catalog.base.manifest.nbytes / 1e6
            return [f"the index has grown to {megabytes:.0f} MB: trying the layout {other.kind} beside {kind}"]
        self._trial.is_over = True
        return self._decide(kind)

    def _decide(self, kind: LayoutKind) -> list[str]:
        micros = {name: 1e6 * median(costs) for name, costs in self._trial.costs.items()}
        best = min(micros, key=lambda name: micros[name])
        if best != kind:
            self._catalog.rebuild(plan=self._other(kind))
        measured = ", ".join(f"{name} {cost:.1f}" for name, cost in sorted(micros.items()))
        return [f"layout {best}: microseconds per event, as measured: {measured}"]

    def _other(self, kind: LayoutKind) -> LayoutPlan:
        if kind is LayoutKind.REPLICATED:
            return LayoutPlan(LayoutKind.MULTI, self._elasticity.matchers_min)
        return LayoutPlan(LayoutKind.REPLICATED, self._elasticity.matchers_min)
