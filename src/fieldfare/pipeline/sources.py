"""What the pipeline needs of a source of events that has its own way to be read: a folder, or a Kafka topic."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from fieldfare.pipeline.stages import BatchInput


class EventStream(Protocol):
    """Rows that name events, and what makes events of a batch of them."""

    @property
    def rows(self) -> DataFrame:
        """What Spark streams."""
        ...

    def batch(self, rows: DataFrame, /) -> BatchInput:
        """A batch of the stream."""
        ...


class EventSource(Protocol):
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

    def stream(self, spark: SparkSession) -> EventStream:
        """The events as Spark streams them."""
        ...
