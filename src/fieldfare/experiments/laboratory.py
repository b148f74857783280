"""Workloads, layouts and measured speeds, each made once and kept for the figures that share them.

A regime says what matchers do with an event. The paper's ratios fit a linear scan over ranges so narrow that each lies
in one segment; with ranges of 250, as its text says, a part of 20 holds three tenths of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache

import numpy as np

from fieldfare.experiments.bluedove_workload import ATTRIBUTES, NARROW_WIDTH, BluedoveWorkload, Spec, generate
from fieldfare.experiments.costs import IndexedParts, index_seconds, scan_seconds_per_subscription, service_by_scan
from fieldfare.experiments.deployment import Deployment, deploy
from fieldfare.experiments.pushing import Pushing
from fieldfare.experiments.queues import Cluster, Saturation, saturation
from fieldfare.forwarding import Policy
from fieldfare.partitioning.cuts import Cutting
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.layouts import multi_dimensional, single_dimension

CALIBRATIONS = 2


class Regime(StrEnum):
    """How a matcher finds an event's subscriptions, and how wide these are."""

    NARROW_SCAN = "scan, width 1"
    SCAN = "scan, width 250"
    INDEX = "index, width 250"


REGIMES = tuple(Regime)
USUAL = Spec()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do."""

    spec: Spec = USUAL
    matchers: tuple[int, ...] = (5, 10, 15, 20)
    parts_measured: int = 80
    parts_sampled: int = 8  # of workloads other than the usual one
    held_sizes: tuple[int, ...] = (10_000, 40_000, 160_000, 400_000)
    large_sizes: tuple[int, ...] = (40_000, 200_000, 1_000_000, 4_000_000)
    large_width: float = 50.0
    timeline_seconds: int = 120
    reports: int = 24  # seconds that are looked at to find out whether work piles up
    pushing: Pushing = field(default_factory=Pushing)


QUICK = Scale(
    Spec(subscriptions=2_000, events=8_192), (2, 4), 4, 4, (1_000, 4_000), (2_000, 8_000), 50.0, 48, 8,
    Pushing(seconds=40, events_per_second=512, bisections=5),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """mPartition along some attributes; along a single one it is the peer-to-peer baseline."""

    matchers: int
    attributes: tuple[str, ...] = ATTRIBUTES

    @staticmethod
    def peer_to_peer(matchers: int) -> Shape:
        """Along an attribute whose hot spot is one of the milder ones."""
        return Shape(matchers, ATTRIBUTES[1:2])

    def layout(self, workload: BluedoveWorkload) -> Layout:
        """With the paper's segments: as wide as each other, so that hot spots stay hot."""
        table, cutting = workload.table, Cutting("equal")
        if len(self.attributes) == 1:
            return single_dimension(table, self.matchers, dimension=self.attributes[0], cutting=cutting)
        return multi_dimensional(table, self.matchers, dimensions=self.attributes, cutting=cutting)


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured: a shape of matchers, the workload they get, and how they match it."""

    regime: Regime
    spec: Spec
    shape: Shape


class Laboratory:
    """Where experiments are run; `progress` is told what is being done."""

    def __init__(self, scale: Scale, progress: Callable[[str], None]) -> None:
        self.scale = scale
        self.progress = progress
        self.saturation = cache(self._saturation)
        self._generate = lru_cache(maxsize=2)(generate)
        self.parts = lru_cache(maxsize=1)(self._indexed_parts)  # the indexes of one deployment take some 100 MB
        self._whole_seconds = cache(self._measure_whole)
        self._scan_seconds = cache(self._measure_scan)

    def setup(self, regime: Regime, shape: Shape, spec: Spec | None = None) -> Setup:
        """Matchers of a shape with the usual workload, or another."""
        return Setup(regime, self.scale.spec if spec is None else spec, shape)

    def workload(self, setup: Setup) -> BluedoveWorkload:
        """The subscriptions and events."""
        narrow = setup.regime is Regime.NARROW_SCAN
        return self._generate(replace(setup.spec, width=NARROW_WIDTH) if narrow else setup.spec)

    def rate(self, setup: Setup, policy: Policy = Policy.ADAPTIVE) -> float:
        """Events per second at saturation."""
        return self.saturation(setup, policy).rate

    def replicated_rate(self, setup: Setup) -> float:
        """Events per second where every matcher holds everything and gets its share of the events."""
        if setup.regime is Regime.INDEX:
            return setup.shape.matchers / self._whole_seconds(setup.spec)
        return setup.shape.matchers / (setup.spec.subscriptions * self._scan_seconds(setup.regime))

    def _saturation(self, setup: Setup, policy: Policy) -> Saturation:
        count = f"{setup.spec.subscriptions:,} subscriptions, {setup.shape.matchers} matchers"
        self.progress(f"{setup.regime}, {policy}: {count}")
        if setup.regime is Regime.INDEX:
            return self._calibrated(*self.parts(setup), policy)
        return saturation(self.scanning(setup), policy, self.scale.reports)

    def scanning(self, setup: Setup) -> Cluster:
        """The matchers at work, where they scan."""
        workload = self.workload(setup)
        return self._scanning(setup.regime, deploy(workload, setup.shape.layout(workload)))

    def reshaped(self, setup: Setup, layout: Layout) -> Cluster:
        """The matchers at work after a change of the layout."""
        deployment = deploy(self.workload(setup), layout)
        if setup.regime is not Regime.INDEX:
            return self._scanning(setup.regime, deployment)
        self.progress(f"{setup.regime}: {len(layout.matchers)} matchers, layout {layout.version}")
        parts = IndexedParts(self.workload(setup), deployment, self.scale.parts_measured)
        return self._calibrated(deployment, parts, Policy.ADAPTIVE).cluster

    def _scanning(self, regime: Regime, deployment: Deployment) -> Cluster:
        return Cluster(deployment, service_by_scan(deployment, self._scan_seconds(regime)))

    def _indexed_parts(self, setup: Setup) -> tuple[Deployment, IndexedParts]:
        workload = self.workload(setup)
        deployment = deploy(workload, setup.shape.layout(workload))
        usual = setup.spec == self.scale.spec
        most = self.scale.parts_measured if usual else self.scale.parts_sampled
        return deployment, IndexedParts(workload, deployment, most)

    def _measure_whole(self, spec: Spec) -> float:
        self.progress(f"{Regime.INDEX}: {spec.subscriptions:,} subscriptions, replicated")
        workload = self._generate(spec)
        return index_seconds(workload.index(np.arange(spec.subscriptions)), workload, np.arange(spec.events))

    def _measure_scan(self, regime: Regime) -> float:
        return scan_seconds_per_subscription(self.workload(self.setup(regime, Shape(1))))

    def _calibrated(self, deployment: Deployment, parts: IndexedParts, policy: Policy) -> Saturation:
        """Saturation with the service times of the events that the policy sends to each part, as matchers report."""
        found = saturation(Cluster(deployment, parts.service()), policy, self.scale.reports)
        for _ in range(CALIBRATIONS):
            service = parts.service_of_sent(found.rows, found.parts)
            found = saturation(Cluster(deployment, service), policy, self.scale.reports)
        return found
