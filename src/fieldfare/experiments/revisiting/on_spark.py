"""The pipeline on a local Spark session, with each layout: files of events in, Parquet out, each batch once."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from fieldfare.bench.workload import conditions_table
from fieldfare.experiments.revisiting.measured import Run, percentiles, rate_for
from fieldfare.experiments.revisiting.settings import BATCHES, FILES_PER_SECOND, Scale
from fieldfare.experiments.revisiting.workloads import Workload
from fieldfare.pipeline.run import Pipeline, PipelineOptions
from fieldfare.pipeline.source import FolderSource
from fieldfare.pipeline.spark_session import spark_session
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.pipeline.watching import Watcher
from fieldfare.planning.ways import Way
from fieldfare.store.subscription_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_SECONDS = 0.2
_FILES_OF_BATCH = 4
_SETTLING_SECONDS = 1.0
_STARTING_SECONDS_MAX = 300.0


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A session for all applications and layouts."""
    with spark_session("fieldfare-revisiting", folder / "spark.log") as spark:
        yield spark


def run_on_spark(spark: SparkSession, way: Way, workload: Workload, scale: Scale) -> Run:
    """A backlog, as fast as it goes; then files that come at a rate."""
    with tempfile.TemporaryDirectory(prefix="fieldfare-revisiting-") as scratch:
        folder = Path(scratch)
        with open_store(str(folder / "store.db")) as store:
            conditions = conditions_table(np.arange(len(workload.conditions)), workload.conditions)
            store.add(conditions, now_seconds=time.time())
        watcher = _Batches()
        options = PipelineOptions(
            str(folder / "store.db"),
            folder / "out",
            folder / "state",
            layout=way.kind.value,
            matchers=way.nodes,
            replicas=way.replicas,
            hops=way.hops,
            interval_seconds=INTERVAL_SECONDS,
        )
        files = _Files(workload, folder / "in")
        for _ in range(BATCHES * _FILES_OF_BATCH):
            files.append(scale.spark_events // (BATCHES * _FILES_OF_BATCH))
        source = FolderSource(folder / "in", folder / "ledger", events_per_batch_max=scale.spark_events // BATCHES)
        pipeline = Pipeline(spark, options, watcher=watcher)
        runner = threading.Thread(target=pipeline.run, args=(source,), daemon=True)
        runner.start()
        try:
            watcher.wait_for(files.events)
            throughput = watcher.events_per_second()
            rate = rate_for(workload.application.events_per_second, throughput)
            measured_from = len(watcher.batches)
            _pace(files, rate, scale.spark_pacing_seconds)
            watcher.wait_for(files.events)
        finally:
            pipeline.stop()
            runner.join()
        p50, p99 = percentiles(_waits(watcher.batches[measured_from:]))
        return Run(throughput, rate, p50, p99)


def _pace(files: _Files, rate: float, seconds: float) -> None:
    """Append files evenly over time; of few events there are fewer files."""
    steps = max(1, int(seconds * min(FILES_PER_SECOND, rate)))
    started = time.monotonic()
    for step in range(steps):
        time.sleep(max(0.0, started + step * seconds / steps - time.monotonic()))
        files.append(max(1, round(rate * seconds / steps)))


def _waits(batches: list[BatchSummary]) -> np.typing.NDArray[np.float64]:
    """Seconds from arrival to commit, event by event; the first batch may still wait for what was before."""
    latencies = [(wait, count) for batch in (batches[1:] or batches) for wait, count in batch.latencies_ms.items()]
    waits, counts = zip(*latencies, strict=True)
    return np.repeat(np.array(waits) / 1e3, counts)


class _Files:
    """Appends files of events, from the pool."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        folder.mkdir()
        self._table, self._folder = workload.table, folder
        self._number = self.events = 0

    def append(self, rows: int) -> None:
        """One more file."""
        table = self._table.take(np.arange(self.events, self.events + rows) % len(self._table))
        hidden = self._folder / f".{self._number:08}.parquet"
        pq.write_table(table, hidden)
        hidden.touch()  # the time from which latency counts
        hidden.rename(self._folder / hidden.name[1:])
        self._number += 1
        self.events += rows


class _Batches(Watcher):
    """Keeps the batches."""

    def __init__(self) -> None:
        self.batches: list[BatchSummary] = []
        self.ended: list[float] = []  # time.monotonic() of each commit
        self.notices: list[str] = []

    def batch(self, summary: BatchSummary) -> None:
        self.ended.append(time.monotonic())
        self.batches.append(summary)

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def events_per_second(self) -> float:
        """From the commit of the first batch to that of the last: with all that Spark does between batches."""
        events = sum(batch.events for batch in self.batches[1:])
        return events / (self.ended[len(self.batches) - 1] - self.ended[0])

    def wait_for(self, events: int) -> None:
        """Wait until this many events have been matched."""
        until = time.monotonic() + _STARTING_SECONDS_MAX
        while sum(batch.events for batch in self.batches) < events:
            if time.monotonic() > until:
                taken = sum(batch.events for batch in self.batches)
                told = "; ".join(self.notices)
                raise TimeoutError(
                    f"the pipeline has taken {taken:,} of {events:,} events in {len(self.batches)} batches: {told}"
                )
            time.sleep(0.01)
