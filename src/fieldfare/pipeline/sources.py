"""What the pipeline needs of a source of events that has its own way to be read: a folder, or a Kafka topic.

Batches of a folder are planned by Spark, as those of any streaming DataFrame; batches of a topic by the pipeline.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from fieldfare.pipeline.stages import BatchInput

Position: TypeAlias = dict[str, int]  # a place in a source, as JSON has it


class EventStream(Protocol):
    """Rows that name events, and what makes events of a batch of them."""

    @property
    def rows(self) -> DataFrame:
        """What Spark streams."""
        ...

    def batch(self, rows: DataFrame, /) -> BatchInput:
        """A batch of the stream."""
        ...


class BatchPlanner(Protocol):
    """Says what batches have."""

    def beginning(self) -> Position:
        """Where a new checkpoint begins."""
        ...

    def stop_at_latest(self) -> None:
        """Plan nothing beyond what is there now."""
        ...

    def end_after(self, start: Position, /) -> Position:
        """Where a batch ends that begins at `start`; the same place if there is nothing new."""
        ...

    def batch(self, spark: SparkSession, start: Position, end: Position, /) -> BatchInput:
        """The events between two positions."""
        ...

    def show(self, end: Position, /) -> None:
        """Tell the source how far the pipeline is."""
        ...


class _Source(Protocol):
    """Where events come from."""

    @property
    def place(self) -> str:
        """Where they come from, in words."""
        ...

    @property
    def first(self) -> str:
        """What has to be there before events can be read, in words."""
        ...

    def is_ready(self) -> bool:
        """Whether it is there."""
        ...


class StreamedSource(_Source, Protocol):
    """Events in batches that Spark plans."""

    def stream(self, spark: SparkSession) -> EventStream:
        """The events as Spark streams them."""
        ...


@runtime_checkable
class PlannedSource(_Source, Protocol):
    """Events in batches that the pipeline plans."""

    def planner(self, spark: SparkSession) -> BatchPlanner:
        """What says what batches have."""
        ...


EventSource: TypeAlias = StreamedSource | PlannedSource
