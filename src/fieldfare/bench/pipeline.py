"""`fieldfare bench pipeline`: BlueDove's workload on local Spark, beside the engine's floor and Spark's own join.

The floor is the same job with lists of the same length that nobody had to find: what is left is Spark and Arrow. A
sample of the matches is compared with brute force before any number is printed.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.spatial import bluedove
from fieldfare.bench.streaming import Streamed, stream
from fieldfare.bench.workload import Size, WantedRanges, Workload
from fieldfare.errors import InputError
from fieldfare.forwarding import Load, Policy
from fieldfare.matching.bounds import box_table
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan
from fieldfare.pipeline.dispatch import DispatchRule
from fieldfare.pipeline.matcher import Matched, ReturnRows, TaskTally
from fieldfare.pipeline.output import OutputFolder, WriteOptions
from fieldfare.pipeline.reports import BatchReport
from fieldfare.pipeline.spark_session import spark_session
from fieldfare.pipeline.stages import INTEGER_IDS, BatchInput, BatchPlan, matched, written
from fieldfare.store.base import ALL, Contents, Order, save_base
from fieldfare.store.parts import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILES = 8
_VERIFIED_EVENTS = 200
_PEER_PAIRS = 100_000_000  # comparisons that the join is measured on, about


@dataclass(frozen=True, slots=True)
class PipelineBenchOptions:
    """How large the workload is, and what is measured."""

    subscriptions: int = 40_000
    width: float = 250.0
    events: int = 1_000_000
    layout: str = LayoutKind.MULTI  # the one that is compared with the replicated
    policy: str = "adaptive"
    matchers: int = 2
    repeats: int = 3  # of each measurement; the median counts
    stream_seconds: float = 20.0
    stream_rate: int = 20_000
    seed: int = 1

    def __post_init__(self) -> None:
        if self.layout not in list(LayoutKind):
            raise InputError(f"there is no layout {self.layout!r}; there are {', '.join(LayoutKind)}")
        counts = (self.subscriptions, self.events, self.matchers, self.repeats, self.stream_rate)
        if min(counts) < 1 or self.stream_seconds < 0:
            raise InputError("numbers of subscriptions, events, matchers and repeats must be above 0")


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """Events per second, by what was run, and the latency of the streaming pipeline."""

    subscriptions: int
    width: float
    matches_per_event: float
    layout: str
    matchers: int
    rows: dict[str, float]  # into a sink that drops them
    parquet: dict[str, float]  # into Parquet files
    streamed: Streamed | None

    @property
    def ratios(self) -> dict[str, float]:
        """What the aims are stated in."""
        rows, parquet = self.rows, self.parquet
        return {
            "replicated_to_join": rows["replicated"] / rows["spark_join"],
            "replicated_to_floor": rows["replicated"] / rows["floor"],
            "partitioned_to_replicated": rows["partitioned"] / rows["replicated"],
            "parquet_to_join": parquet["replicated"] / parquet["spark_join"],
        }


def run(options: PipelineBenchOptions, progress: Callable[[str], None]) -> PipelineResult:
    """Measure everything; `progress` is told what is being done."""
    with tempfile.TemporaryDirectory(prefix="fieldfare-bench-") as scratch:
        folder = Path(scratch)
        progress("generating the workload")
        size = Size(options.subscriptions, options.width, options.events)
        workload = bluedove("bluedove", size, np.random.default_rng(options.seed))
        _write_events(workload, folder / "events")
        with spark_session("fieldfare-bench", folder / "spark.log") as spark:
            bench = _Bench(spark, options, workload, folder, progress)
            rows, parquet = bench.rows(), bench.parquet()
            streamed = None
            if options.stream_seconds:
                progress("streaming")
                streamed = stream(spark, workload, folder / "stream", options.stream_rate, options.stream_seconds)
        return PipelineResult(
            subscriptions=options.subscriptions,
            width=options.width,
            matches_per_event=bench.matches_per_event,
            layout=options.layout,
            matchers=options.matchers,
            rows=rows,
            parquet=parquet,
            streamed=streamed,
        )


def _write_events(workload: Workload, folder: Path) -> None:
    folder.mkdir()
    events = workload.events.append_column("event_id", pa.array(np.arange(len(workload.events))))
    bounds = np.linspace(0, len(events), _FILES + 1).astype(int).tolist()
    for number in range(_FILES):
        part = events.slice(bounds[number], bounds[number + 1] - bounds[number])
        pq.write_table(part, folder / f"{number}.parquet")


@dataclass(frozen=True, slots=True)
class Floor:
    """Lists of the right length, in place of matches."""

    length: int

    def __call__(self, rows: Iterator[pa.RecordBatch], tally: TaskTally) -> Iterator[Matched]:  # noqa: ARG002
        """The task's events, each with the same list."""
        values = pa.array(np.arange(self.length * 70_000, dtype=np.int64))
        for batch in rows:
            offsets = np.arange(batch.num_rows + 1, dtype=np.int32) * np.int32(self.length)
            ids = values.slice(0, int(offsets[-1]))
            yield batch, pa.ListArray.from_arrays(pa.array(offsets), ids)


class _Bench:
    """What the measurements share."""

    def __init__(
        self,
        spark: SparkSession,
        options: PipelineBenchOptions,
        workload: Workload,
        folder: Path,
        progress: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._options = options
        self._workload = workload
        self._folder = folder
        self._progress = progress
        self._plans = {
            "replicated": self._plan(LayoutPlan(LayoutKind.REPLICATED, options.matchers)),
            "partitioned": self._plan(LayoutPlan(LayoutKind(options.layout), options.matchers)),
        }
        self.matches_per_event = self._verified()

    def _plan(self, layout: LayoutPlan) -> BatchPlan:
        self._progress(f"building the layout {layout.kind}")
        ids = self._workload.ids
        bounds = {name: (c.low, c.high) for name, c in self._workload.columns.items() if isinstance(c, WantedRanges)}
        table = pa.table({"number": ids, "subscription_id": ids})
        contents = Contents("bench", 1, table, box_table(len(ids), bounds))
        base = save_base(contents, self._folder / "snapshots", Order(ALL, layout))
        load = Load.unmeasured(np.array(base.manifest.part_sizes, np.int64))
        return BatchPlan(
            Version(str(base.folder), None, 1), DispatchRule(Policy(self._options.policy), load), INTEGER_IDS
        )

    def _events(self, count: int | None = None) -> BatchInput:

        events = self._spark.read.parquet(str(self._folder / "events"))
        return BatchInput.of(events if count is None else events.where(f"event_id < {count}").repartition(2))

    def _verified(self) -> float:
        """Compare a sample with brute force; return the matches per event."""
        self._progress("comparing with brute force")
        matches = 0
        for name, plan in self._plans.items():
            found = matched(self._events(_VERIFIED_EVENTS), plan).select("event_id", "subscription_ids").collect()
            if sorted(row[0] for row in found) != list(range(min(_VERIFIED_EVENTS, len(self._workload.events)))):
                raise BenchVerificationError(name, "bluedove", 0, "events are lost or duplicated")
            for event, ids in found:
                if sorted(ids) != self._workload.brute_force(event).tolist():
                    raise BenchVerificationError(name, "bluedove", event, "other subscriptions than brute force finds")
                matches += len(ids)
        return matches / len(self._plans) / _VERIFIED_EVENTS

    def rows(self) -> dict[str, float]:
        """Rows with lists, into a sink that drops them."""
        events = self._events()
        jobs = {name: matched(events, plan) for name, plan in self._plans.items()}
        lists = ReturnRows(Floor(round(self.matches_per_event)), pa.int64())
        jobs["floor"] = events.rows.mapInArrow(lists, jobs["replicated"].schema)
        rates = self._rates({name: _dropping(job) for name, job in jobs.items()}, len(self._workload.events))
        joined, count = self._join()
        return rates | self._rates({"spark_join": _dropping(joined)}, count)

    def parquet(self) -> dict[str, float]:
        """Durable files, committed exactly once; the join through Spark's own writer."""
        events = self._events()

        def writing(plan: BatchPlan) -> Callable[[], None]:
            def write() -> None:
                output = OutputFolder(self._folder / "output", "bench")
                output.prepare()
                rows = written(events, plan, output.stage(0), WriteOptions()).collect()
                output.commit(0, BatchReport.decode(bytes(row[0]) for row in rows).files)
                shutil.rmtree(output.folder)

            return write

        jobs = {name: writing(plan) for name, plan in self._plans.items()}
        rates = self._rates(jobs, len(self._workload.events))
        joined, count = self._join()
        target = str(self._folder / "joined")
        return rates | self._rates({"spark_join": lambda: joined.write.mode("overwrite").parquet(target)}, count)

    def _join(self) -> tuple[DataFrame, int]:
        """Spark's own way: every event beside every subscription, and a condition."""
        count = max(1, min(len(self._workload.events), _PEER_PAIRS // len(self._workload)))
        columns: dict[str, Any] = {"subscription_id": self._workload.ids}
        conditions = []
        for name, column in self._workload.columns.items():
            if isinstance(column, WantedRanges) and column.high is not None:
                columns |= {f"{name}_low": column.low, f"{name}_high": column.high}
                conditions.append(f"{name} >= {name}_low AND {name} < {name}_high")
        path = self._folder / "subscriptions.parquet"
        pq.write_table(pa.table(columns), path)
        subscriptions = self._spark.read.parquet(str(path)).hint("broadcast")
        joined = self._events(count).rows.crossJoin(subscriptions).where(" AND ".join(conditions))
        return joined.select("event_id", "subscription_id"), count

    def _rates(self, jobs: dict[str, Callable[[], None]], events: int) -> dict[str, float]:
        """Events per second of each job: the median of some runs, taken in turns, after one to warm up."""
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        for turn in range(self._options.repeats + 1):
            for name, job in jobs.items():
                self._progress(f"measuring {name}, run {turn} of {self._options.repeats}")
                started = time.perf_counter()
                job()
                if turn:
                    seconds[name].append(time.perf_counter() - started)
        return {name: events / statistics.median(times) for name, times in seconds.items()}


def _dropping(rows: DataFrame) -> Callable[[], None]:
    return lambda: rows.write.format("noop").mode("overwrite").save()


def to_json(result: PipelineResult) -> str:
    """One object."""
    return json.dumps({**asdict(result), "ratios": result.ratios}, indent=2)


def render(result: PipelineResult) -> Table:
    """A table of events per second."""
    title = (
        f"BlueDove's workload on local Spark: {result.subscriptions:,} subscriptions of width {result.width:g}, "
        f"{result.matches_per_event:.0f} matches per event"
    )
    table = Table(title=title)
    for heading in ("sink", "what", "events/s", "ratio"):
        table.add_column(heading, justify="left" if heading in {"sink", "what"} else "right")
    for sink, rates in (("none", result.rows), ("Parquet", result.parquet)):
        for name, rate in rates.items():
            ratio = rate / rates["spark_join"]
            table.add_row(sink, _title(name, result), f"{rate:,.0f}", f"{ratio:,.1f} x Spark's join")
    for name, value in (asdict(result.streamed) if result.streamed else {}).items():
        table.add_row("stream", name.replace("_", " "), _number(value), "")
    return table


def _title(name: str, result: PipelineResult) -> str:
    titles = {
        "replicated": "ours, replicated",
        "partitioned": f"ours, {result.layout} with {result.matchers} matchers",
        "floor": "floor: lists without matching",
        "spark_join": "Spark's broadcast join",
    }
    return titles[name]


def _number(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
