"""Workloads, layouts and measured speeds, each made once and kept for the figures that share them.

A regime says what matchers do with an event. The paper's ratios are those of a linear scan over ranges so narrow that a
subscription lies in one segment; with ranges of 250, as its text says, 20 matchers each hold a third of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

import numpy as np

from fieldfare.experiments import costs
from fieldfare.experiments.deployment import Deployment, deploy, m_partition, peer_to_peer
from fieldfare.experiments.queues import Cluster, Saturation, saturation
from fieldfare.experiments.workload import ATTRIBUTES, NARROW_WIDTH, Floats, Spec, Workload, generate
from fieldfare.forwarding import Policy
from fieldfare.partitioning.layout import Layout


class Regime(StrEnum):
    """How a matcher finds an event's subscriptions, and how wide these are."""

    NARROW_SCAN = "scan, width 1"
    SCAN = "scan, width 250"
    INDEX = "index, width 250"


REGIMES = tuple(Regime)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do."""

    spec: Spec = Spec()
    matchers: tuple[int, ...] = (5, 10, 15, 20)
    parts_measured: int = 80
    held_sizes: tuple[int, ...] = (10_000, 40_000, 160_000, 400_000)  # figure 6b
    held_parts_measured: int = 8
    large_sizes: tuple[int, ...] = (40_000, 200_000, 1_000_000, 2_000_000)
    large_width: float = 50.0
    timeline_seconds: int = 60


QUICK = Scale(Spec(subscriptions=2_000, events=8_192), (2, 4), 4, (1_000, 4_000), 2, (2_000, 8_000), 50.0, 24)


@dataclass(frozen=True, slots=True)
class Shape:
    """mPartition for so many matchers along some attributes; along a single one it is the peer-to-peer baseline."""

    matchers: int
    attributes: tuple[str, ...] = ATTRIBUTES

    @staticmethod
    def peer_to_peer(matchers: int) -> Shape:
        """Along an attribute whose hot spot is one of the milder ones."""
        return Shape(matchers, ATTRIBUTES[1:2])


class Laboratory:
    """Where experiments are run; `progress` is told what is being done."""

    def __init__(self, scale: Scale, progress: Callable[[str], None]) -> None:
        self.scale = scale
        self.progress = progress
        self.workload = cache(generate)
        self.cluster = cache(self._cluster)
        self.saturation = cache(self._saturation)
        self.replicated_rate = cache(self._replicated_rate)
        self._scan_seconds = cache(lambda regime: costs.scan_seconds_per_subscription(self.of(regime, scale.spec)))

    def of(self, regime: Regime, spec: Spec) -> Workload:
        """The workload of a regime."""
        return self.workload(replace(spec, width=NARROW_WIDTH) if regime is Regime.NARROW_SCAN else spec)

    def service(self, regime: Regime, workload: Workload, deployment: Deployment) -> Floats:
        """Seconds per event in each part."""
        if regime is Regime.INDEX:
            large = workload.low.shape[1] > self.scale.spec.subscriptions
            most = self.scale.held_parts_measured if large else self.scale.parts_measured
            return costs.service_by_index(workload, deployment, most)
        return costs.service_by_scan(deployment, self._scan_seconds(regime))

    def _cluster(self, regime: Regime, spec: Spec, shape: Shape) -> Cluster:
        self.progress(f"{regime}: {spec.subscriptions:,} subscriptions on {shape.matchers} matchers")
        workload = self.of(regime, spec)
        return self.cluster_of(regime, workload, _layout(workload, shape))

    def cluster_of(self, regime: Regime, workload: Workload, layout: Layout) -> Cluster:
        """Any layout at work."""
        deployment = deploy(workload, layout)
        return Cluster(deployment, self.service(regime, workload, deployment))

    def _saturation(
        self, regime: Regime, spec: Spec, shape: Shape, policy: Policy = Policy.ADAPTIVE
    ) -> Saturation:
        return saturation(self.cluster(regime, spec, shape), policy)

    def rate(self, regime: Regime, spec: Spec, shape: Shape, policy: Policy = Policy.ADAPTIVE) -> float:
        """Events per second at saturation."""
        return self.saturation(regime, spec, shape, policy).rate

    def _replicated_rate(self, regime: Regime, spec: Spec, matchers: int) -> float:
        """Events per second at saturation where every matcher holds everything and gets its share of the events."""
        workload = self.of(regime, spec)
        if regime is not Regime.INDEX:
            return matchers / (spec.subscriptions * self._scan_seconds(regime))
        self.progress(f"{regime}: {spec.subscriptions:,} subscriptions, replicated")
        everything, rows = np.arange(spec.subscriptions), np.arange(min(spec.events, costs.BATCH_EVENTS))
        return matchers / costs.index_seconds(workload, everything, rows)


def _layout(workload: Workload, shape: Shape) -> Layout:
    if len(shape.attributes) == 1:
        return peer_to_peer(workload, shape.matchers, shape.attributes[0])
    return m_partition(workload, shape.matchers, shape.attributes)
