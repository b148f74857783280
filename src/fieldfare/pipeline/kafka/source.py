"""A Kafka topic as the source of a pipeline's events, each message one JSON object or one record in Avro or Protobuf.

The driver plans ranges of offsets; the messages are read in the Python worker that needs them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fieldfare.errors import InputError, UnknownSchemaError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import kafka_errors
from fieldfare.kafka.decoding import check_format
from fieldfare.kafka.schema_registry import SchemaRegistry
from fieldfare.kafka.starting import EARLIEST, Beginning, parsed
from fieldfare.kafka.watching import TopicWatch
from fieldfare.pipeline.kafka.planner import TopicPlanner
from fieldfare.pipeline.kafka.reader import RangeReader
from fieldfare.pipeline.kafka.registered_events import registered_columns
from fieldfare.pipeline.kafka.sampling import first_messages, schema_of
from fieldfare.pipeline.kafka.saved_start import save, saved
from fieldfare.pipeline.source import save_text, with_system_columns
from fieldfare.pipeline.types import arrow_schema

_SCHEMA = "schema.json"


@dataclass(frozen=True)
class KafkaSource:
    """A topic, and how to read it.

    `state` is a folder inside the checkpoint. `starting` is where a new checkpoint begins: "earliest", "latest", a
    time, or an offset for each partition ("0:120,1:44"). The schema is that of the first messages if it is not given;
    of messages in Avro or Protobuf it is the latest that the `registry` has for the topic.
    `group` is the consumer group under which Kafka's own tools show how far the pipeline is.
    """

    topic: KafkaTopic
    state: Path
    schema: StructType | str | None = None
    starting: str = EARLIEST
    format: str = "json"
    registry: SchemaRegistry | None = None  # where the schemas of messages in Avro or Protobuf are
    group: str = "fieldfare"
    events_per_batch_max: int = 100_000
    tasks_per_batch: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        if self.events_per_batch_max < 1 or self.tasks_per_batch < 1:
            raise InputError("a batch needs at least one event and one task")
        check_format(self.format, self.registry)
        parsed(self.starting)

    @property
    def place(self) -> str:
        """Where events come from, in words."""
        return str(self.topic)

    @property
    def first(self) -> str:
        """What has to be there before events can be read, in words."""
        return f"schema of {self.topic}" if self.registry is not None else f"message in {self.topic}"

    def is_ready(self) -> bool:
        """Whether the schema is known, or there is a message that may tell it. Resolves the starting point."""
        beginning = self._beginning()
        if self.schema is not None or (self.state / _SCHEMA).exists():
            return True
        if self.registry is not None:
            return self._registered(self.registry) is not None
        bounds = TopicWatch(self.topic).bounds(beginning.topic_id)
        return any(bound.high > max(bound.low, beginning.offsets.get(place, 0)) for place, bound in bounds.items())

    def planner(self, spark: SparkSession) -> TopicPlanner:
        """What says which messages a batch has."""
        beginning = self._beginning()
        schema = with_system_columns(self._schema(spark, beginning))
        reader = RangeReader(
            self.topic, self.group, arrow_schema(spark, schema), self.format, self.registry, beginning.topic_id
        )
        _ = reader.decoder  # an error if it cannot hold values of a column's type
        return TopicPlanner(reader, schema, beginning, self.events_per_batch_max, self.tasks_per_batch)

    def _beginning(self) -> Beginning:
        beginning = saved(self.state)
        if beginning is None:
            beginning = TopicWatch(self.topic).beginning(self.starting)
            save(self.state, beginning)
        if beginning.topic != self.topic.name:
            raise InputError(
                f"{self.topic}: the checkpoint has read the topic {beginning.topic!r}: go on with that, "
                "or start with a new checkpoint"
            )
        return beginning

    def _schema(self, spark: SparkSession, beginning: Beginning) -> StructType:
        """As given, or as an earlier run on this checkpoint saw it, or as the first messages have it."""
        if self.schema is not None:
            return spark.createDataFrame([], self.schema).schema
        path = self.state / _SCHEMA
        if path.exists():
            return StructType.fromJson(json.loads(path.read_bytes()))
        inferred = self._inferred(beginning) if self.registry is None else self._registered(self.registry)
        if inferred is None:
            raise InputError(f"{self.topic}: the registry has no schema for it any more: give the events' schema")
        try:
            schema = spark.createDataFrame(inferred.empty_table()).schema
        except PySparkException as error:
            raise InputError(f"{self.topic}: cannot tell the events' schema: {error}; give it") from error
        save_text(path, schema.json())
        return schema

    def _inferred(self, beginning: Beginning) -> pa.Schema:
        with kafka_errors(self.topic):
            bounds = TopicWatch(self.topic).bounds(beginning.topic_id)
            values = first_messages(self.topic, self.group, beginning.offsets, bounds)
        return schema_of(values, self.topic)

    def _registered(self, registry: SchemaRegistry) -> pa.Schema | None:
        """The columns that the registry's latest schema of the topic has; None if it has none yet."""
        try:
            return registered_columns(self.format, registry, self.topic.name)
        except UnknownSchemaError:
            return None
        except InputError as error:
            raise InputError(f"{self.topic}: its schema at {registry.url} cannot be used: {error}") from error
