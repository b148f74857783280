"""What each batch of a topic has: ranges of offsets, planned by the driver, read by tasks.

For every batch the broker is asked where the partitions end, whether the topic is still the same, and what retention
has left of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fieldfare.errors import KafkaTopicError
from fieldfare.kafka.clients import consumer
from fieldfare.kafka.offsets import Bounds, Offsets
from fieldfare.kafka.starting import Beginning
from fieldfare.kafka.watching import TopicWatch
from fieldfare.pipeline.assigned import Assigned, TaskNumbers
from fieldfare.pipeline.kafka.ranges import Range, divided, planned, ranges
from fieldfare.pipeline.kafka.reader import RangeReader
from fieldfare.pipeline.sources import Position
from fieldfare.pipeline.stages import BatchInput

_SHOWN_SECONDS = 1.0  # from one commit of offsets, for Kafka's own tools, to the next
_SETTLING_SECONDS = 5.0
_TASK_EVENTS_MIN = 2_000  # fewer are not worth a task of their own


class TopicPlanner:
    """Plans the batches of one topic. Positions are offsets of partitions, as JSON has them."""

    def __init__(
        self, reader: RangeReader, schema: StructType, beginning: Beginning, offsets_max: int, tasks_max: int
    ) -> None:
        """`schema` is that of the reader's events."""
        self._reader = reader
        self._schema = schema
        self._beginning = beginning
        self._offsets_max = offsets_max
        self._tasks_max = tasks_max
        self._watch = TopicWatch(reader.topic)
        self._numbers = TaskNumbers()
        self._bounds: dict[int, Bounds] = {}  # as they were when a batch was last planned
        self._is_complete = False  # nothing beyond these bounds is looked for
        self._shown_at = 0.0

    def beginning(self) -> Position:
        """Where a new checkpoint begins."""
        return _as_json(self._beginning.offsets)

    def stop_at_latest(self) -> None:
        """Plan nothing beyond what is there now."""
        self._bounds = self._bounds_beyond(self._beginning.offsets)
        self._is_complete = True

    def end_after(self, start: Position) -> Position:
        """Where a batch ends that begins at `start`; the same place if there is nothing new."""
        first = _from_json(start)
        if not self._is_complete:
            self._bounds = self._bounds_beyond(first)
        return _as_json(planned(first, self._bounds, self._offsets_max))

    def batch(self, spark: SparkSession, start: Position, end: Position) -> BatchInput:
        """The events between two positions, divided into tasks that read as many offsets each."""
        parts = self.ranges(start, end)
        offsets = sum(part.end - part.first for part in parts)
        tasks = max(1, min(self._tasks_max, offsets // _TASK_EVENTS_MIN))
        return BatchInput(
            self._numbers(spark, tasks),
            self._schema,
            Assigned.of(self._reader, divided(parts, tasks)),
            lost=sum(part.lost for part in parts),
            behind=sum(part.behind for part in parts),
        )

    def ranges(self, start: Position, end: Position) -> list[Range]:
        """The ranges of offsets between two positions."""
        self._bounds = self._bounds or self._look()
        return ranges(_from_json(start), _from_json(end), self._bounds)

    def show(self, end: Position) -> None:
        """Show Kafka's own tools how far the pipeline is. Nothing depends on it, so no error does any harm."""
        if time.monotonic() >= self._shown_at:
            self._shown_at = time.monotonic() + _SHOWN_SECONDS
            places = [TopicPartition(self._reader.topic.name, *place) for place in _from_json(end).items()]
            with suppress(KafkaException):
                self._shower.commit(offsets=places, asynchronous=True)
                self._shower.poll(0)

    @cached_property
    def _shower(self) -> Consumer:
        return consumer(self._reader.topic, self._reader.group)

    def _look(self) -> dict[int, Bounds]:
        return self._watch.bounds(self._beginning.topic_id)

    def _bounds_beyond(self, start: Offsets) -> dict[int, Bounds]:
        """What can be read. A broker that has just started may say for a moment that it ends before `start`."""
        deadline = time.monotonic() + _SETTLING_SECONDS
        while short := _short(start, bounds := self._look()):
            if time.monotonic() > deadline:
                raise KafkaTopicError(
                    f"{self._reader.topic}: the checkpoint has read partition {short[0]} up to {start[short[0]]:,}, "
                    "but it ends before that: the brokers have lost messages, or are others; start with a new "
                    "checkpoint"
                )
            time.sleep(_SETTLING_SECONDS / 20)
        return bounds


def _short(start: Offsets, bounds: Mapping[int, Bounds]) -> list[int]:
    """The partitions that end before `start`, or are not there."""
    return [place for place, offset in start.items() if place not in bounds or bounds[place].high < offset]


def _as_json(offsets: Offsets) -> Position:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _from_json(offsets: Mapping[str, int]) -> Offsets:
    return {int(partition): offset for partition, offset in offsets.items()}
