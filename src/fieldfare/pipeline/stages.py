"""The stages of a batch, DataFrame to DataFrame: dispatch, one shuffle, match, and either return rows or write them.

A replicated layout needs neither dispatch nor shuffle. Where an event may visit several parts, a second shuffle unites
its visits. Only public DataFrame APIs are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from fieldfare.pipeline.columns import EVENT, MATCHER, REPORT, SYSTEM
from fieldfare.pipeline.dispatch import Dispatch, Forwarding, Reader
from fieldfare.pipeline.matcher import Match, Producer, Rows, Written
from fieldfare.pipeline.output import WriteOptions
from fieldfare.pipeline.packets import PACKET_SCHEMA, unpacked
from fieldfare.pipeline.reports import REPORT_SCHEMA
from fieldfare.pipeline.types import arrow_schema
from fieldfare.pipeline.unite import Unite, Visits
from fieldfare.store.outputs import SUBSCRIPTION_IDS
from fieldfare.store.parts import Version

INTEGER_IDS, STRING_IDS = LongType(), StringType()
_ARROW_IDS: dict[type[DataType], pa.DataType] = {LongType: pa.int64(), StringType: pa.string()}


@dataclass(frozen=True, slots=True)
class Events:
    """A batch of events; or of rows, which name them, and a reader that the first stage calls to get the events."""

    rows: DataFrame
    schema: StructType
    reader: Reader | None = None

    @staticmethod
    def of(events: DataFrame) -> Events:
        """A batch of events."""
        return Events(events, events.schema)


@dataclass(frozen=True, slots=True)
class Matching:
    """What a batch is matched against, and how its events are forwarded."""

    version: Version
    forwarding: Forwarding
    id_type: LongType | StringType


def matched(events: Events, matching: Matching) -> DataFrame:
    """The events with the column `subscription_ids`."""
    rows, producer = _produced(events, matching)
    schema = StructType([field for field in events.schema.fields if field.name not in SYSTEM])
    schema = schema.add(_ids_field(matching))
    return rows.mapInArrow(Rows(producer, _ARROW_IDS[type(matching.id_type)]), schema)


def written(events: Events, matching: Matching, stage: str, options: WriteOptions) -> DataFrame:
    """Reports of tasks that have written the events and their ids into a staging folder."""
    rows, producer = _produced(events, matching)
    return rows.mapInArrow(Written(producer, stage, options), REPORT_SCHEMA)


def _produced(events: Events, matching: Matching) -> tuple[DataFrame, Producer]:
    """The rows of the last stage, and what makes events with ids of them there."""
    layout = matching.version.layout
    if layout.kind == "replicated":
        return events.rows, Match(matching.version, events.reader)
    several = _visits_several(events.schema, matching)
    dispatch = Dispatch(matching.version, matching.forwarding, several, events.reader)
    packets = events.rows.mapInArrow(dispatch, PACKET_SCHEMA).repartitionById(layout.matchers[-1] + 1, MATCHER)
    match = Match(matching.version, unpacked)
    if not several:
        return packets, match
    fields = [StructField(field.name, field.dataType, nullable=True) for field in events.schema.fields]
    visits = StructType(
        [*fields, StructField(EVENT, LongType()), _ids_field(matching), StructField(REPORT, BinaryType())]
    )
    found = packets.mapInArrow(Visits(match, arrow_schema(events.rows.sparkSession, visits)), visits)
    return found.repartition(len(layout.matchers), EVENT), Unite()


def _visits_several(schema: StructType, matching: Matching) -> bool:
    """Whether an event may visit several parts: the layout walks, or a dimension's values may be ranges."""
    layout = matching.version.layout
    names = {name for attribute in layout.attributes for name in (attribute, attribute.partition(".")[0])}
    ranged = any(field.name in names and isinstance(field.dataType, StructType) for field in schema.fields)
    return ranged or any(dimension.hops > 1 for dimension in layout.dimensions)


def _ids_field(matching: Matching) -> StructField:
    return StructField(SUBSCRIPTION_IDS, ArrayType(matching.id_type, containsNull=False), nullable=False)
