"""`fieldfare bench flood`: two pipelines in one process, of which one is flooded, and what the other notices.

The steady one gets events evenly; its latency is measured alone, beside a pipeline with a backlog that does not end,
and beside the same where Spark schedules both first in, first out, as it does by itself.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from rich.table import Table

from fieldfare.bench.spatial import bluedove
from fieldfare.bench.streaming import Batches, Producer, conditions_of
from fieldfare.bench.workload import Size, Workload
from fieldfare.errors import FieldfareError, InputError
from fieldfare.pipeline.run import Pipeline, PipelineOptions
from fieldfare.pipeline.several import Pipelines
from fieldfare.pipeline.source import FolderSource
from fieldfare.pipeline.spark_session import spark_session
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.store.subscription_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STEADY, _FLOODED = "steady", "flooded"
_INTERVAL_SECONDS = 0.25
_FLOOD_FILE_EVENTS = 100_000
_WARM_UP_SECONDS = 6.0
_CATCH_UP_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class FloodOptions:
    """How large the workload is, and for how long each phase lasts."""

    subscriptions: int = 40_000
    width: float = 106.0  # about 5 matches per event
    rate: int = 1_000  # of the steady one
    seconds: float = 15.0
    events_per_batch: int = 500_000  # of the flooded one, at most
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.subscriptions, self.rate, self.events_per_batch) < 1 or self.seconds <= 0:
            raise InputError("numbers of subscriptions, events and seconds must be above 0")


@dataclass(frozen=True, slots=True)
class Phase:
    """What both pipelines did in a phase."""

    name: str
    p50_seconds: float  # of the steady one's events, from append to commit
    p99_seconds: float
    flooded_events_per_second: float


@dataclass(frozen=True, slots=True)
class FloodResult:
    """The phases: alone, beside a flood with a fair share, and beside a flood first in, first out."""

    options: FloodOptions
    phases: Sequence[Phase]


def run(options: FloodOptions, progress: Callable[[str], None]) -> FloodResult:
    """Measure each phase; `progress` is told what is being done."""
    with tempfile.TemporaryDirectory(prefix="fieldfare-bench-") as scratch:
        folder = Path(scratch)
        progress("generating the workload")
        size = Size(options.subscriptions, options.width, _FLOOD_FILE_EVENTS)
        workload = bluedove("bluedove", size, np.random.default_rng(options.seed))
        with open_store(folder / "store.db") as store:
            store.add(conditions_of(workload), now_seconds=time.time())
        with spark_session("fieldfare-bench", folder / "spark.log") as spark:
            bench = _Bench(spark, options, workload, folder)
            phases = []
            for name, runs in (("alone", _alone), ("flood, fair", _fair), ("flood, first in, first out", _fifo)):
                progress(f"streaming: {name}")
                phases.append(bench.phase(name, runs))
        return FloodResult(options, phases)


_Named = dict[str, tuple[FolderSource, PipelineOptions, Batches]]


@contextmanager
def _alone(spark: SparkSession, named: _Named) -> Iterator[None]:
    with _fair(spark, {_STEADY: named[_STEADY]}):
        yield


@contextmanager
def _fair(spark: SparkSession, named: _Named) -> Iterator[None]:
    """As `pipeline run --config` runs them."""
    pipelines = Pipelines(spark)
    for name, (source, options, batches) in named.items():
        pipelines.add(name, source, options, watcher=batches)
    with _stopped_at_the_end([pipelines.run], [pipelines.stop]):
        yield


@contextmanager
def _fifo(spark: SparkSession, named: _Named) -> Iterator[None]:
    """Two threads of one session, as one would write it at first: their jobs are in one queue."""
    pipelines = {name: Pipeline(spark, options, watcher=batches) for name, (_, options, batches) in named.items()}
    runs = [lambda name=name, pipeline=pipeline: pipeline.run(named[name][0]) for name, pipeline in pipelines.items()]
    with _stopped_at_the_end(runs, [pipeline.stop for pipeline in pipelines.values()]):
        yield


@contextmanager
def _stopped_at_the_end(runs: Sequence[Callable[[], object]], stops: Sequence[Callable[[], None]]) -> Iterator[None]:
    threads = [threading.Thread(target=run, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for stop in stops:
            stop()
        for thread in threads:
            thread.join()


class _Bench:
    """What the phases share."""

    def __init__(self, spark: SparkSession, options: FloodOptions, workload: Workload, folder: Path) -> None:
        self._spark, self._options, self._workload, self._folder = spark, options, workload, folder
        pq.write_table(workload.events, folder / "flood.parquet")

    def phase(self, name: str, runs: Callable[..., object]) -> Phase:
        """One phase, on folders of its own."""
        folder = self._folder / name
        steady = self._pipeline(folder / _STEADY, 20 * self._options.rate)
        flooded = self._pipeline(folder / _FLOODED, self._options.events_per_batch)
        self._flood(folder / _FLOODED / "in")
        producer = Producer(self._workload, folder / _STEADY / "in", self._options.rate)
        producer.append(1)
        with runs(self._spark, {_STEADY: steady, _FLOODED: flooded}):  # type: ignore[attr-defined]
            batches = steady[2]
            batches.first.wait(_CATCH_UP_SECONDS)
            producer.produce(min(_WARM_UP_SECONDS, self._options.seconds))
            since = time.monotonic()
            measured_from = len(batches.batches)
            producer.produce(self._options.seconds)
            _await_events(batches, producer.events)
            measured = [batch for _, batch in batches.batches[measured_from:]]
            flooded_events = sum(batch.events for moment, batch in flooded[2].batches if moment > since)
            seconds = time.monotonic() - since
        return Phase(name, *_quantiles(measured), flooded_events / seconds)

    def _pipeline(self, folder: Path, events_max: int) -> tuple[FolderSource, PipelineOptions, Batches]:
        (folder / "in").mkdir(parents=True)
        options = PipelineOptions(
            str(self._folder / "store.db"),
            folder / "out",
            folder / "state",
            interval_seconds=_INTERVAL_SECONDS,
            layout="replicated",
        )
        source = FolderSource(folder / "in", folder / "ledger", events_per_batch_max=events_max)
        return source, options, Batches()

    def _flood(self, folder: Path) -> None:
        """More events than can be matched in the time, one file under many names."""
        files = int(10 * (self._options.seconds + _WARM_UP_SECONDS))
        for number in range(files):
            os.link(self._folder / "flood.parquet", folder / f"{number:06}.parquet")


def _await_events(batches: Batches, events: int) -> None:
    """Wait until all events are committed; what is committed more than once, or not at all, is an error."""
    end = time.monotonic() + _CATCH_UP_SECONDS
    while (found := sum(batch.events for _, batch in batches.batches)) < events and time.monotonic() < end:
        time.sleep(0.05)
    if found != events:
        raise FieldfareError(f"{events:,} events were appended to the steady pipeline, and {found:,} were committed")


def _quantiles(batches: Sequence[BatchSummary]) -> tuple[float, float]:
    waits = np.concatenate(
        [np.repeat(list(batch.latencies_ms), list(batch.latencies_ms.values())) for batch in batches]
    )
    return float(np.quantile(waits, 0.5)) / 1000, float(np.quantile(waits, 0.99)) / 1000


def to_json(result: FloodResult) -> str:
    """The result as one JSON object."""
    return json.dumps(asdict(result))


def render(result: FloodResult) -> Table:
    """The result as a table; ratios are to the steady pipeline alone."""
    options, alone = result.options, result.phases[0]
    table = Table(
        title=f"Two pipelines, {options.subscriptions:,} subscriptions; one steady, {options.rate:,} events/s"
    )
    table.add_column("phase")
    for heading in ("steady p50", "p99", "p99 to alone", "flooded events/s"):
        table.add_column(heading, justify="right")
    for phase in result.phases:
        table.add_row(
            phase.name,
            f"{phase.p50_seconds:.2f} s",
            f"{phase.p99_seconds:.2f} s",
            f"{phase.p99_seconds / alone.p99_seconds:.1f} x",
            f"{phase.flooded_events_per_second:,.0f}",
        )
    return table
