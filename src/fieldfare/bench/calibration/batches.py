"""What Spark costs: micro-batches of the real pipeline, and its stages with few and with many events."""

from __future__ import annotations

import dataclasses
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from fieldfare.bench.spatial import bluedove
from fieldfare.bench.streaming import INTERVAL_SECONDS, stream
from fieldfare.bench.workload import Size, WantedRanges, Workload
from fieldfare.errors import MissingDependencyError
from fieldfare.forwarding import Load, Policy
from fieldfare.matching.bounds import box_table
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan
from fieldfare.planning.costs import MatchCost, SparkCost
from fieldfare.store.base import ALL, Contents, Order, save_base
from fieldfare.store.parts import Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEW, _MANY = 2_000, 400_000
_MANY_LARGE, _PADDING = 40_000, 4_000  # events, and bytes of what nobody asks for in each
_FILES = 4
_SUBSCRIPTIONS = 10_000
_STREAM_SECONDS, _STREAM_RATE = 8.0, 2_000
_REPEATS = 4  # Java compiles what has run often


def spark_cost(reference: SparkCost, match: MatchCost, progress: Callable[[str], None]) -> SparkCost:
    """Costs of the pipeline on all cores of this machine."""
    try:
        from fieldfare.pipeline.spark_session import spark_session
    except ImportError as error:
        raise MissingDependencyError("Spark is not installed: pip install 'fieldfare[spark]'") from error
    progress("Spark: starting")
    with tempfile.TemporaryDirectory(prefix="fieldfare-calibration-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        narrow, wide = (_workload(width) for width in (50.0, 250.0))
        with spark_session("fieldfare-calibration", folder / "spark.log") as spark:
            progress("Spark: stages")
            with _timed(spark, folder / "narrow", narrow, _MANY) as seconds:
                for kind in (LayoutKind.REPLICATED, LayoutKind.MULTI):  # classes are loaded, and compiled
                    seconds(kind, _MANY)
                    seconds(kind, _FEW)
                few, many = seconds(LayoutKind.REPLICATED, _FEW), seconds(LayoutKind.REPLICATED, _MANY)
                divided_few, divided = seconds(LayoutKind.MULTI, _FEW), seconds(LayoutKind.MULTI, _MANY)
            with _timed(spark, folder / "wide", wide, _MANY) as seconds:
                wide_many = seconds(LayoutKind.REPLICATED, _MANY)
            progress("Spark: large events")
            with _timed(spark, folder / "large", _padded(narrow), _MANY_LARGE) as seconds:
                large, divided_large = (
                    (seconds(kind, _MANY_LARGE) - seconds(kind, _FEW)) / (_MANY_LARGE - _FEW)
                    for kind in (LayoutKind.REPLICATED, LayoutKind.MULTI)
                )
            progress("Spark: micro-batches")
            streamed = stream(spark, narrow, folder / "stream", _STREAM_RATE, _STREAM_SECONDS)
            cores = spark.sparkContext.defaultParallelism
    together = 1.0 + (cores - 1.0) * reference.core_gain
    matches = [_matches(each) for each in (narrow, wide)]
    pair = max(1e-10, (wide_many - many) / _MANY * together / (matches[1] - matches[0]) - match.match_seconds)
    event = (many - few) / (_MANY - _FEW) * together
    rest = max(1e-7, event - match.seconds(_SUBSCRIPTIONS, matches[0]) - pair * matches[0])
    dispatch = max(1e-8, (divided - divided_few) / (_MANY - _FEW) * together - event)
    read_byte = max(0.0, large * together - event) / _PADDING
    dispatch_byte = max(0.0, (divided_large - large) * together - dispatch) / _PADDING
    batch = max(1e-3, streamed.batch_seconds, _service_seconds(streamed.latency_p50_seconds))
    return replace(
        reference,
        batch_seconds=batch,
        shuffle_seconds=max(0.0, divided_few - few),
        read_seconds=rest / 2,
        write_seconds=rest / 2,
        dispatch_seconds=dispatch,
        read_byte_seconds=read_byte,
        dispatch_byte_seconds=dispatch_byte,
        match_seconds=pair,
        change_seconds=max(0.0, streamed.changed_batch_seconds - streamed.batch_seconds)
        / streamed.changed_subscriptions,
        tail_seconds=max(0.0, streamed.latency_p99_seconds - streamed.latency_p50_seconds - batch / 2),
    )


def _service_seconds(p50_seconds: float) -> float:
    """Of a micro-batch with all that Spark does around it: half a period of waiting and itself make the median."""
    alone = p50_seconds - INTERVAL_SECONDS / 2
    return alone if alone <= INTERVAL_SECONDS else p50_seconds / 1.5


def _workload(width: float) -> Workload:
    return bluedove("bluedove", Size(_SUBSCRIPTIONS, width, _MANY), np.random.default_rng(1))


def _padded(workload: Workload) -> Workload:
    """The same of larger events."""
    padding = pa.array(["x" * _PADDING] * len(workload.events))
    return dataclasses.replace(workload, events=workload.events.append_column("padding", padding))


def _matches(workload: Workload) -> float:
    return float(np.mean([len(workload.brute_force(row)) for row in range(100)]))


@contextmanager
def _timed(
    spark: SparkSession, folder: Path, workload: Workload, many: int
) -> Iterator[Callable[[LayoutKind, int], float]]:
    """A function that tells the median seconds of a batch of so many events, written and committed."""
    from fieldfare.pipeline.dispatch import DispatchRule
    from fieldfare.pipeline.output import OutputFolder, WriteOptions
    from fieldfare.pipeline.reports import BatchReport
    from fieldfare.pipeline.stages import INTEGER_IDS, BatchInput, BatchPlan, written

    events = workload.events.append_column("event_id", pa.array(np.arange(len(workload.events))))
    for count in (_FEW, many):  # as many files for few events as for many: they differ in nothing else
        (folder / str(count)).mkdir(parents=True)
        for number in range(_FILES):
            part = events.slice(number * count // _FILES, count // _FILES)
            pq.write_table(part, folder / str(count) / f"{number}.parquet")
    bounds = {name: (c.low, c.high) for name, c in workload.columns.items() if isinstance(c, WantedRanges)}
    table = pa.table({"number": workload.ids, "subscription_id": workload.ids})
    contents = Contents("calibration", 1, table, box_table(len(workload), bounds))

    def seconds(kind: LayoutKind, count: int) -> float:
        layout = LayoutPlan(kind, 1 if kind is LayoutKind.REPLICATED else 2)
        base = save_base(contents, folder / f"snapshots-{kind}", Order(ALL, layout))
        load = Load.unmeasured(np.array(base.manifest.part_sizes, np.int64))
        plan = BatchPlan(Version(str(base.folder), None, 1), DispatchRule(Policy.ADAPTIVE, load), INTEGER_IDS)
        batch = BatchInput.of(spark.read.parquet(str(folder / str(count))))
        times = []
        for _ in range(_REPEATS + 1):
            output = OutputFolder(folder / "output", "calibration")
            output.prepare()
            began = time.perf_counter()
            rows = written(batch, plan, output.stage(0), WriteOptions()).collect()
            output.commit(0, BatchReport.decode(bytes(row[0]) for row in rows).files)
            times.append(time.perf_counter() - began)
            shutil.rmtree(output.folder)
        return statistics.median(times[1:])

    yield seconds
