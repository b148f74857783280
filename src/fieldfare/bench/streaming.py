"""The streaming pipeline at a given rate of events: its latency, and what a large change of subscriptions costs."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.bench.workload import WantedRanges, Workload, conditions_table
from fieldfare.pipeline.run import Pipeline, PipelineOptions
from fieldfare.pipeline.source import FolderSource
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.pipeline.watching import Watcher
from fieldfare.store.subscription_store import SubscriptionStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES_PER_SECOND = 10
_WARM_UP_SECONDS = 8.0  # or as long as the measurement, if that is shorter
_CHANGES_MAX = 10_000
_CHANGE_SECONDS = 4.0
INTERVAL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the pipeline did. Latency is from the append of an event to the commit of its batch."""

    events_per_second: float
    latency_p50_seconds: float
    latency_p99_seconds: float
    batch_seconds: float  # the median
    changed_subscriptions: int
    changed_batch_seconds: float  # of the batch that took the change up


def stream(spark: SparkSession, workload: Workload, folder: Path, rate: int, seconds: float) -> Streamed:
    """Append events at a rate, warm up, measure, and change subscriptions near the end."""
    (folder / "in").mkdir(parents=True)
    store_address = str(folder / "store.db")
    changed = min(_CHANGES_MAX, len(workload) // 4)
    with open_store(store_address) as store:
        conditions = conditions_of(workload)
        store.add(conditions.slice(changed), now_seconds=time.time())
        producer = Producer(workload, folder / "in", rate)
        producer.append(1)
        watcher = Batches()
        options = PipelineOptions(
            store_address, folder / "out", folder / "state", interval_seconds=INTERVAL_SECONDS, layout="replicated"
        )
        pipeline = Pipeline(spark, options, watcher=watcher)
        source = FolderSource(folder / "in", folder / "ledger", events_per_batch_max=20 * rate)
        runner = threading.Thread(target=pipeline.run, args=(source,), daemon=True)
        runner.start()
        try:
            watcher.first.wait()
            producer.produce(min(_WARM_UP_SECONDS, seconds))
            measured_from = len(watcher.batches)
            producer.produce(seconds)
            time.sleep(2.0)  # what is under way
            measured_to = len(watcher.batches)
            changed_at = _change(store, conditions.slice(0, changed))
            producer.produce(min(_CHANGE_SECONDS, seconds))
            watcher.wait_after(changed_at)
        finally:
            pipeline.stop()
            runner.join()
    before = watcher.batches[measured_from:measured_to]
    later = [batch for moment, batch in watcher.batches[measured_to:] if moment > changed_at]
    return _summed([batch for _, batch in before], later, seconds, changed)


def _change(store: SubscriptionStore, added: pa.Table) -> float:
    """Add some subscriptions; return when they were acknowledged."""
    store.add(added, now_seconds=time.time())
    return time.monotonic()


def _summed(before: Sequence[BatchSummary], later: Sequence[BatchSummary], seconds: float, changed: int) -> Streamed:
    latencies: dict[int, int] = {}
    for batch in before:
        for milliseconds, count in batch.latencies_ms.items():
            latencies[milliseconds] = latencies.get(milliseconds, 0) + count
    waits = np.repeat(sorted(latencies), [latencies[wait] for wait in sorted(latencies)]) / 1000
    return Streamed(
        events_per_second=sum(batch.events for batch in before) / seconds,
        latency_p50_seconds=float(np.quantile(waits, 0.5)),
        latency_p99_seconds=float(np.quantile(waits, 0.99)),
        batch_seconds=statistics.median(batch.seconds for batch in before),
        changed_subscriptions=changed,
        changed_batch_seconds=max(batch.seconds for batch in later[:2]),
    )


def conditions_of(workload: Workload) -> pa.Table:
    """The subscriptions of a workload of boxes, as SQL."""
    columns = [
        [f"{name} >= {low!r} AND {name} < {high!r}" for low, high in zip(c.low.tolist(), c.high.tolist(), strict=True)]
        for name, c in workload.columns.items()
        if isinstance(c, WantedRanges) and c.high is not None
    ]
    return conditions_table(workload.ids, [" AND ".join(parts) for parts in zip(*columns, strict=True)])


class Producer:
    """Appends files of events, evenly over time."""

    def __init__(self, workload: Workload, folder: Path, rate: int) -> None:
        self._events = workload.events
        self._folder = folder
        self._rows = max(1, rate // _FILES_PER_SECOND)
        self._number = 0
        self.events = 0  # appended so far

    def produce(self, seconds: float) -> None:
        """Append files for so long."""
        started = time.monotonic()
        for step in range(int(seconds * _FILES_PER_SECOND)):
            time.sleep(max(0.0, started + step / _FILES_PER_SECOND - time.monotonic()))
            self.append(self._rows)

    def append(self, rows: int) -> None:
        """Append one file."""
        start = self._number * self._rows % max(1, len(self._events) - rows)
        name = f"{self._number:08}.parquet"
        pq.write_table(self._events.slice(start, rows), self._folder / f".{name}")
        (self._folder / f".{name}").touch()
        (self._folder / f".{name}").rename(self._folder / name)
        self._number += 1
        self.events += rows


class Batches(Watcher):
    """Keeps the batches, with the moments of their commits."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, BatchSummary]] = []
        self.first = threading.Event()

    def batch(self, summary: BatchSummary) -> None:
        """A batch was committed."""
        self.batches.append((time.monotonic(), summary))
        self.first.set()

    def wait_after(self, moment: float) -> None:
        """Wait until a batch is committed after a moment."""
        while not self.batches or self.batches[-1][0] <= moment:
            time.sleep(0.05)
