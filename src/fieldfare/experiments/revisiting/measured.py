"""What a run of an application in a way came to, and how several runs are summed up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fieldfare.errors import InputError


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement. Seconds are from publishing to delivery, or to the commit of what was matched."""

    throughput: float  # events per second, pushed as fast as they are taken
    rate: float  # events per second at which latency was looked at
    p50_seconds: float
    p99_seconds: float
    cpu_seconds_per_event: float | None = None  # of the brokers, saturated
    generator_seconds_per_event: float = 0.0  # of the processes that publish and subscribe
    busiest_client_seconds_per_event: float = 0.0  # of the one of them that has most to do
    cores_of_others: float = 0.0  # that other programs used meanwhile, and the system for nobody in particular


def others_beside() -> Callable[[float], float]:
    """Begin to watch the machine. The function tells how many cores others used since, of those that are not ours."""
    busy, began = _busy_seconds(), time.perf_counter()

    def cores(own_cpu_seconds: float) -> float:
        now = _busy_seconds()
        if busy is None or now is None:
            return 0.0
        return max(0.0, (now - busy - own_cpu_seconds) / (time.perf_counter() - began))

    return cores


def _busy_seconds() -> float | None:
    """Of all cores since the machine was started, where Linux tells; what another virtual machine took counts."""
    try:
        fields = [int(text) for text in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    idle, waiting = fields[3:5]
    return (sum(fields) - idle - waiting) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Middle:
    """The median of several runs, and how far they lie apart: half the distance of the extremes, as a share."""

    median: float
    spread: float

    @staticmethod
    def of(values: list[float]) -> Middle:
        """Of some values."""
        median = float(np.median(values))
        return Middle(median, (max(values) - min(values)) / 2 / median if median else 0.0)

    def agrees(self, predicted: float, share: float) -> bool:
        """Whether a prediction lies within a share of the median, beyond the spread of what was measured."""
        if not np.isfinite(predicted) or predicted <= 0:
            return False
        apart = max(predicted / self.median, self.median / predicted)
        return apart <= (1.0 + share) * (1.0 + self.spread)


def rate_for(wanted: float, throughput: float) -> float:
    """The rate at which latency is looked at: the application's, unless it is too near to saturation."""
    return min(wanted, throughput / 2)


def percentiles(seconds: np.typing.NDArray[np.float64]) -> tuple[float, float]:
    """The median and the 99th."""
    if not len(seconds):
        raise InputError("no event was delivered, so there is no latency: nobody wanted one of the few that were sent")
    p50, p99 = np.quantile(seconds, [0.5, 0.99]).tolist()
    return p50, p99
