"""What it costs a matcher to match one event: measured, on one core, for every part that a layout makes.

Two engines stand side by side: our index, and a linear scan of the part's subscriptions. The scan is the regime of the
paper, where the time to match grows with the number of subscriptions searched; ours grows far slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numba
import numpy as np

from fieldfare.experiments.bluedove_workload import BluedoveWorkload, Floats, Places
from fieldfare.experiments.deployment import Deployment
from fieldfare.matching.index import Index

BATCH_EVENTS = 2_048  # what a matcher gets of one micro-batch
EVENTS_MIN = 32  # fewer are no sample of what is sent to a part
REPEATS = 6
SCANNED_EVENTS = 128


def index_seconds(index: Index, workload: BluedoveWorkload, rows: Places) -> float:
    """CPU seconds per event of an index on some events, batch after batch, so that a large index stays out of caches.

    The least of them counts: others on the machine can only add to it.
    """
    count = max(REPEATS, len(rows) // BATCH_EVENTS)
    events = workload.events(np.resize(rows, count * BATCH_EVENTS))
    batches = [events.slice(number * BATCH_EVENTS, BATCH_EVENTS) for number in range(count)]
    index.match_table(batches[-1])  # warms up
    return min(_cpu_seconds(index.match_table, batch) for batch in batches) / BATCH_EVENTS


def scan_seconds_per_subscription(workload: BluedoveWorkload) -> float:
    """CPU seconds to compare one event with one subscription, where every one is compared."""
    low, high = np.ascontiguousarray(workload.low.T), np.ascontiguousarray(workload.high.T)
    values = np.ascontiguousarray(workload.values.T[:SCANNED_EVENTS])
    _scan(low, high, values)
    return min(_cpu_seconds(_scan, low, high, values) for _ in range(REPEATS)) / (len(low) * len(values))


def service_by_scan(deployment: Deployment, seconds_per_subscription: float) -> Floats:
    """Seconds per event in each part: those of the subscriptions that are compared; an empty part costs one."""
    return np.maximum(deployment.searched, 1.0) * seconds_per_subscription


class IndexedParts:
    """An index for each part of a deployment or, where there are more than `most`, for `most` parts of all sizes."""

    def __init__(self, workload: BluedoveWorkload, deployment: Deployment, most: int) -> None:
        self._workload, self._deployment = workload, deployment
        order = np.argsort(deployment.searched, kind="stable")
        measured = order[np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).astype(np.int64))]
        self._indexes = {part: workload.index(deployment.boxes(part)) for part in measured.tolist()}

    def service(self) -> Floats:
        """Seconds per event in each part, over the events that could be sent there."""
        return self._service({part: self._deployment.rows(part) for part in self._indexes})

    def service_of_sent(self, rows: Places, parts: Places) -> Floats:
        """The same over the events that were sent there, as matchers report it: a policy is no random sample."""
        return self._service({part: rows[parts == part] for part in self._indexes})

    def _service(self, rows: Mapping[int, Places]) -> Floats:
        """Parts that were not measured lie between the others by their size."""
        measured = [part for part in self._indexes if len(rows[part]) >= EVENTS_MIN]
        seconds = [index_seconds(self._indexes[part], self._workload, rows[part]) for part in measured]
        searched = self._deployment.searched
        service = np.interp(searched, searched[measured], seconds)
        service[measured] = seconds
        return service


def _cpu_seconds(work: Callable[..., object], *arguments: object) -> float:
    began = time.thread_time()
    work(*arguments)
    return time.thread_time() - began


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
