"""An index inside the program. While a batch is matched, events gather; they are the next batch."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fieldfare.experiments.revisiting.measured import Run, percentiles, rate_for
from fieldfare.experiments.revisiting.settings import SEED, Scale
from fieldfare.experiments.revisiting.workloads import Workload

_BATCH_EVENTS = 2_048


def run_in_process(workload: Workload, scale: Scale) -> Run:
    """Match as fast as possible; then match events that arrive at the application's rate, as a Poisson process."""
    index, events = workload.index, workload.events
    batch = events.slice(0, _BATCH_EVENTS)
    index.match_table(batch)  # warms up
    done, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < scale.saturating_seconds:
        index.match_table(batch)
        done += len(batch)
    throughput = done / passed
    rate = rate_for(workload.application.events_per_second, throughput)
    p50, p99 = percentiles(_waits(lambda start, count: index.match_table(events.slice(start, count)), rate, scale))
    return Run(throughput, rate, p50, p99, cpu_seconds_per_event=1.0 / throughput)


def _waits(match: Callable[[int, int], object], rate: float, scale: Scale) -> np.typing.NDArray[np.float64]:
    """Seconds from each event's coming until it is matched; whatever has come is one batch."""
    rng = np.random.default_rng(SEED)
    count = max(20, int(rate * scale.pacing_seconds))
    arrivals = np.cumsum(rng.exponential(1.0 / rate, count))
    waits = np.empty(count)
    began, next_event, room = time.perf_counter(), 0, min(_BATCH_EVENTS, scale.pool_events)
    while next_event < count:
        now = time.perf_counter() - began
        come = int(np.searchsorted(arrivals, now, side="right"))
        if come == next_event:
            continue  # a program that waits for its events would be told of them; this one asks
        come = min(come, next_event + room)
        match(next_event % (scale.pool_events - room + 1), come - next_event)
        waits[next_event:come] = time.perf_counter() - began - arrivals[next_event:come]
        next_event = come
    return waits[count // 5 :]
