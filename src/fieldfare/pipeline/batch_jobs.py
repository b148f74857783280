"""The Spark job of each batch.

To build and plan a job takes Spark several times as long as two small tasks take. Where batches need no shuffle, the
job is the same for each of them but for a few words: what its tasks read, where they write, and the time of now. So
these travel beside it, as a local property, which Spark gives to every task, and the same DataFrame is collected again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from fieldfare.errors import PipelineError
from fieldfare.pipeline.assigned import Assigned, AssignmentReader
from fieldfare.pipeline.batch_output import TaskOptions
from fieldfare.pipeline.matcher import MatchEvents, WriteFiles
from fieldfare.pipeline.reports import REPORT_SCHEMA, BatchReport
from fieldfare.pipeline.stages import BatchInput, BatchPlan, written
from fieldfare.store.parts import Version

_WORK = "fieldfare.work"  # the local property
_TOLD_CHARACTERS_MAX = 200_000  # every task is told all of it


class _Work(msgspec.Struct, frozen=True):
    """What the tasks of one batch are told."""

    assignments: tuple[str, ...]
    stage: str
    now: datetime | None


@dataclass(frozen=True, slots=True)
class DoWork:
    """What a task does in a job that is the same for every batch."""

    version: Version
    reader: AssignmentReader
    options: TaskOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the report."""
        context = TaskContext.get()
        told = None if context is None else context.getLocalProperty(_WORK)
        if told is None:
            raise PipelineError("a task was not told what to read: Spark has lost the job's local property")
        work = msgspec.json.decode(told, type=_Work)
        producer = MatchEvents(self.version, Assigned(self.reader, work.assignments), work.now)
        yield from WriteFiles(producer, work.stage, self.options)(batches)


class BatchJobs:
    """Runs the job of each batch, and keeps those that fit the next one. `options` say how tasks write."""

    def __init__(self, options: TaskOptions) -> None:
        self._options = options
        self._same: tuple[Version, AssignmentReader] | None = None  # what the kept jobs are for
        self._jobs: dict[DataFrame, DataFrame] = {}  # by the rows that their tasks get

    def run(self, events: BatchInput, plan: BatchPlan, stage: str) -> BatchReport:
        """Match a batch and stage what it comes to."""
        reader = events.reader
        is_alike = plan.version.layout.kind == "replicated" and _keeps_threads()
        if is_alike and isinstance(reader, Assigned) and reader.characters <= _TOLD_CHARACTERS_MAX:
            rows = self._collected(events.rows, plan, reader, stage)
        else:
            rows = written(events, plan, stage, self._options).collect()
        return BatchReport.decode(bytes(row[0]) for row in rows)

    def _collected(self, numbers: DataFrame, plan: BatchPlan, reader: Assigned, stage: str) -> list[Row]:
        context = numbers.sparkSession.sparkContext
        work = _Work(reader.assignments, stage, plan.now)
        context.setLocalProperty(_WORK, msgspec.json.encode(work).decode())
        try:
            return self._job(numbers, plan.version, reader.reader).collect()
        except BaseException:
            self._same = None  # Spark may have kept what failed
            raise

    def _job(self, numbers: DataFrame, version: Version, reader: AssignmentReader) -> DataFrame:
        if self._same is None or self._same[0] != version or self._same[1] is not reader:
            self._same, self._jobs = (version, reader), {}
        if numbers not in self._jobs:
            self._jobs[numbers] = numbers.mapInArrow(DoWork(version, reader, self._options), REPORT_SCHEMA)
        return self._jobs[numbers]


def _keeps_threads() -> bool:
    """Whether a thread here has one of its own in the JVM, as is usual: a local property belongs to that."""
    return os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"
