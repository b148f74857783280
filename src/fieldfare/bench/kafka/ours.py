"""The pipeline between Kafka and a folder or Kafka: how many events a second, and how long each takes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fieldfare.bench.kafka import load
from fieldfare.bench.kafka.load import Latency
from fieldfare.errors import PipelineError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.pipeline.kafka.sink import KafkaSink
from fieldfare.pipeline.kafka.source import KafkaSource
from fieldfare.pipeline.run import Pipeline, PipelineOptions
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.pipeline.watching import Watcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fieldfare.pipeline.sources import EventSource

SCHEMA = "event_id BIGINT, a0 DOUBLE, a1 DOUBLE, a2 DOUBLE, a3 DOUBLE"
_INTERVAL_SECONDS = 0.05


class _Commits(Watcher):
    """Keeps the moments of commits, and how many events each had."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, int]] = []

    def batch(self, summary: BatchSummary) -> None:
        self.batches.append((time.perf_counter(), summary.events))


@dataclass(frozen=True, slots=True)
class Job:
    """What all measurements of the pipeline share."""

    spark: SparkSession
    store: str
    folder: Path

    def throughput(self, name: str, source: EventSource, output: Path | KafkaSink) -> float:
        """Events per second from the commit of the first batch, which starts workers, to that of the last."""
        options = PipelineOptions(self.store, output, self.folder / name, layout="replicated", until_idle=True)
        commits = _Commits()
        Pipeline(self.spark, options, watcher=commits).run(source)
        (first, _), *rest = commits.batches
        if not rest:
            raise PipelineError("one batch has all the events, so nothing can be measured: take more events")
        return sum(events for _, events in rest) / (rest[-1][0] - first)

    def latency(self, name: str, topics: tuple[KafkaTopic, KafkaTopic], rate: int, seconds: float) -> Latency:
        """From produce to consume, measured by a process of its own: the driver has enough to do."""
        source_topic, target = topics
        schema = f"sent DOUBLE, {SCHEMA}"
        source = KafkaSource(source_topic, self.folder / name / "ledger", schema, events_per_batch_max=20 * rate)
        options = PipelineOptions(
            self.store,
            KafkaSink(target),
            self.folder / name,
            layout="replicated",
            interval_seconds=_INTERVAL_SECONDS,
        )
        pipeline = Pipeline(self.spark, options)
        runner = threading.Thread(target=pipeline.run, args=(source,), daemon=True)
        runner.start()
        numbers = [str(number) for number in (rate, seconds)]
        command = [sys.executable, "-m", load.__name__, target.brokers, source_topic.name, target.name, *numbers]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        finally:
            pipeline.stop()
            runner.join()
        if done.returncode:
            raise PipelineError(f"the latency could not be measured: {done.stderr.strip()[-1000:]}")
        return msgspec.json.decode(done.stdout, type=Latency)
