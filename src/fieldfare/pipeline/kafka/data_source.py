"""Spark's side of a Kafka topic: a data source whose rows are ranges of offsets.

As for folders, Spark starts Python processes that import this module and do little else: it imports neither the index
nor the SQL parser.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from fieldfare.errors import KafkaTopicError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import consumer
from fieldfare.kafka.offsets import Bounds, Offsets
from fieldfare.kafka.starting import Beginning
from fieldfare.kafka.watching import TopicWatch
from fieldfare.pipeline.kafka.ranges import planned, ranges
from fieldfare.pipeline.kafka.saved_start import saved

_SHOWN_SECONDS = 1.0  # from one commit of offsets, for Kafka's own tools, to the next
_SETTLING_SECONDS = 5.0


class KafkaDataSource(DataSource):
    """A topic as Spark sees it."""

    @classmethod
    def name(cls) -> str:
        """What the source is called in `readStream.format`."""
        return "fieldfare_kafka"

    def schema(self) -> str:
        """The columns of a row: the fields of a Range."""
        return "partition INT, first BIGINT, end BIGINT, lost BIGINT, behind BIGINT"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802
        """The reader that Spark asks for more rows."""
        return _RangeReader(self.options)


class _RangeReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are those of each partition, as JSON has them. It lives in a process beside the driver."""

    def __init__(self, options: Mapping[str, str]) -> None:
        settings = msgspec.json.decode(options["secret_settings"], type=dict[str, str])
        self._topic = KafkaTopic(options["brokers"], options["topic"], settings)
        self._state = Path(options["state"])
        self._group = options["group"]
        self._offsets_max = int(options["events_per_batch_max"])
        self._last: dict[int, Bounds] | None = None  # nothing beyond these is looked for
        self._shown_at = 0.0

    @cached_property
    def _watch(self) -> TopicWatch:
        return TopicWatch(self._topic)

    @cached_property
    def _shower(self) -> Consumer:
        return consumer(self._topic, self._group)

    @cached_property
    def _beginning(self) -> Beginning:
        beginning = saved(self._state)  # the driver has saved it before the query was started
        if beginning is None:
            raise KafkaTopicError(f"{self._state}: the starting point is gone; restore it, or use a new checkpoint")
        return beginning

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return _as_json(self._beginning.offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._bounds_of(self._beginning.offsets)

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        first = _from_json(start)
        bounds = self._last if self._last is not None else self._bounds_of(first)
        end = planned(first, bounds, self._offsets_max)
        return _rows(first, end, bounds), _as_json(end)

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        return _rows(_from_json(start), _from_json(end), self._bounds())

    def commit(self, end: dict[str, int]) -> None:
        """Show Kafka's own tools how far the pipeline is. Nothing depends on it, so no error does any harm."""
        if time.monotonic() >= self._shown_at:
            self._shown_at = time.monotonic() + _SHOWN_SECONDS
            places = [TopicPartition(self._topic.name, *place) for place in _from_json(end).items()]
            with suppress(KafkaException):
                self._shower.commit(offsets=places, asynchronous=True)
                self._shower.poll(0)

    def _bounds(self) -> dict[int, Bounds]:
        return self._watch.bounds(self._beginning.topic_id)

    def _bounds_of(self, start: Offsets) -> dict[int, Bounds]:
        """What can be read. A broker that has just started may say for a moment that it ends before `start`."""
        deadline = time.monotonic() + _SETTLING_SECONDS
        while True:
            bounds = self._bounds()
            short = [place for place, offset in start.items() if place not in bounds or bounds[place].high < offset]
            if not short:
                return bounds
            if time.monotonic() > deadline:
                raise KafkaTopicError(
                    f"{self._topic}: the checkpoint has read partition {short[0]} up to {start[short[0]]:,}, but it "
                    "ends before that: the brokers have lost messages, or are others; start with a new checkpoint"
                )
            time.sleep(_SETTLING_SECONDS / 20)


def _rows(start: Offsets, end: Offsets, bounds: Mapping[int, Bounds]) -> Iterator[tuple[Any, ...]]:
    return iter([msgspec.structs.astuple(part) for part in ranges(start, end, bounds)])


def _as_json(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _from_json(offsets: Mapping[str, int]) -> Offsets:
    return {int(partition): offset for partition, offset in offsets.items()}
