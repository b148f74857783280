"""What it costs a matcher to match one event: measured, on one core, for every part that a layout makes.

Two engines stand side by side: our index, and a linear scan of the part's subscriptions. The scan is the regime of the
paper, where the time to match grows with the number of subscriptions searched; ours grows far slower.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numba
import numpy as np

from fieldfare.experiments.deployment import Deployment
from fieldfare.experiments.workload import Floats, Places, Workload

BATCH_EVENTS = 2_048  # what a matcher gets of one micro-batch
REPEATS = 3
SCANNED_EVENTS = 128
LEAST_SECONDS = 1e-8  # of an event in an empty part: somebody has to look at it


@contextmanager
def one_core() -> Iterator[None]:
    """Keep the process on one core meanwhile, where the platform can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def index_seconds(workload: Workload, boxes: Places, rows: Places) -> float:
    """CPU seconds per event of an index of some subscriptions, on some events; building it is not included."""
    if not len(boxes) or not len(rows):
        return 0.0
    index, events = workload.index(boxes), workload.events(rows)
    return _cpu_seconds(lambda: index.match_table(events)) / len(rows)


def scan_seconds_per_subscription(workload: Workload) -> float:
    """CPU seconds to compare one event with one subscription, where every one is compared."""
    low, high = np.ascontiguousarray(workload.low.T), np.ascontiguousarray(workload.high.T)
    values = np.ascontiguousarray(workload.values.T[:SCANNED_EVENTS])
    return _cpu_seconds(lambda: _scan(low, high, values)) / (len(low) * len(values))


def service_by_index(workload: Workload, deployment: Deployment, parts_max: int) -> Floats:
    """Seconds per event of each part, over the events that could go there.

    Where there are more than `parts_max` parts, so many are measured, from the smallest to the largest, and the others
    lie between them by their size.
    """
    order = np.argsort(deployment.searched, kind="stable")
    measured = order[np.unique(np.linspace(0, len(order) - 1, parts_max).astype(np.int64))]
    seconds = [
        index_seconds(workload, deployment.boxes(part), deployment.rows(part)[:BATCH_EVENTS])
        for part in measured.tolist()
    ]
    service = np.interp(deployment.searched, deployment.searched[measured], seconds)
    service[measured] = seconds
    return np.maximum(service, LEAST_SECONDS)


def service_by_scan(deployment: Deployment, seconds_per_subscription: float) -> Floats:
    """The same for a linear scan, whose time is that of the subscriptions it compares; an empty part costs one."""
    return np.maximum(deployment.searched, 1.0) * seconds_per_subscription


def busy_seconds(workload: Workload, deployment: Deployment, rows: Places, parts: Places) -> Floats:
    """CPU seconds that each matcher works on the events that were sent to it: every part's batch is matched."""
    busy = np.zeros(len(deployment.layout.matchers))
    for part in range(deployment.segments):
        sent = rows[parts == part]
        busy[deployment.matcher_of[part]] += len(sent) * index_seconds(workload, deployment.boxes(part), sent)
    return busy


def _cpu_seconds(work: Callable[[], object]) -> float:
    """The least of a few runs: others on the machine can only add to it."""
    work()
    seconds = []
    for _ in range(REPEATS):
        began = time.thread_time()
        work()
        seconds.append(time.thread_time() - began)
    return min(seconds)


@numba.njit(cache=True)
def _scan(low: Floats, high: Floats, values: Floats) -> int:
    """How many pairs match: every subscription is compared, up to its first attribute that does not hold."""
    found = 0
    for event in values:
        for box in range(len(low)):
            holds = True
            for attribute in range(len(event)):
                if not low[box, attribute] <= event[attribute] < high[box, attribute]:
                    holds = False
                    break
            found += holds
    return found
