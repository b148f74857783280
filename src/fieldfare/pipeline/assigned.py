"""What tasks are told to read: the rows that Spark has are only the numbers of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


class AssignmentReader(Protocol):
    """Makes events of what a task was assigned. It is the same for every batch of a source."""

    def read_assigned(self, assignment: str, /) -> Iterator[pa.RecordBatch]:
        """The events of an assignment, which is JSON that the source wrote."""
        ...


@dataclass(frozen=True, slots=True)
class Assigned:
    """Makes events of the numbers of tasks: each task reads what was assigned to it."""

    reader: AssignmentReader
    assignments: tuple[str, ...]  # by the number of the task

    @staticmethod
    def of(reader: AssignmentReader, groups: Sequence[Sequence[msgspec.Struct]]) -> Assigned:
        """One group for each task."""
        return Assigned(reader, tuple(msgspec.json.encode(group).decode() for group in groups))

    @property
    def characters(self) -> int:
        """How long all assignments are together."""
        return sum(map(len, self.assignments))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The events of the tasks whose numbers are the rows of batches."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from self.reader.read_assigned(self.assignments[task])


class TaskNumbers:
    """The numbers of tasks as Spark has them: a DataFrame for each count, made once."""

    def __init__(self) -> None:
        self._made: dict[int, DataFrame] = {}

    def __call__(self, spark: SparkSession, tasks: int) -> DataFrame:
        """A row for each task, which only that task gets."""
        if tasks not in self._made:
            self._made[tasks] = spark.range(0, tasks, 1, tasks)
        return self._made[tasks]
