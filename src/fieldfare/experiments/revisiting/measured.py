"""What a run of an application in a way came to, and how several runs are summed up."""

from __future__ import annotations

from dataclasses import dataclass

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
