"""The stages of a batch, DataFrame to DataFrame: dispatch, one shuffle, match, and either return rows or write them.

A replicated layout needs neither dispatch nor shuffle. Where an event may visit several parts, a second shuffle unites
its visits. Only public DataFrame APIs are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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

from fieldfare.pipeline.batch_output import TaskOptions
from fieldfare.pipeline.dispatch import Dispatch, DispatchRule, Reader
from fieldfare.pipeline.matcher import MatchEvents, Producer, ReturnRows, WriteFiles
from fieldfare.pipeline.packets import PACKET_SCHEMA, unpacked
from fieldfare.pipeline.reports import REPORT_SCHEMA
from fieldfare.pipeline.system_columns import EVENT, MATCHER, REPORT, SYSTEM
from fieldfare.pipeline.types import arrow_schema
from fieldfare.pipeline.unite import ReturnVisits, UniteVisits
from fieldfare.store.outputs import SUBSCRIPTION_IDS
from fieldfare.store.parts import Version

INTEGER_IDS, STRING_IDS = LongType(), StringType()
_ARROW_IDS: dict[type[DataType], pa.DataType] = {LongType: pa.int64(), StringType: pa.string()}


@dataclass(frozen=True, slots=True)
class BatchInput:
    """A batch of events; or of rows, which name them, and a reader that the first stage calls to get the events."""

    rows: DataFrame
    schema: StructType
    reader: Reader | None = None
    lost: int = 0  # events that the source does not have any more, though nobody has read them
    behind: int | None = None  # events that the source has beyond this batch; None: it cannot tell

    @staticmethod
    def of(events: DataFrame) -> BatchInput:
        """A batch of events."""
        return BatchInput(events, events.schema)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What a batch is matched against, and how its events are forwarded."""

    version: Version
    forwarding: DispatchRule
    id_type: LongType | StringType
    now: datetime | None = None  # what conditions mean by it; None: none asks


def matched(events: BatchInput, plan: BatchPlan) -> DataFrame:
    """The events with the column `subscription_ids`."""
    rows, producer = _produced(events, plan)
    schema = StructType([field for field in events.schema.fields if field.name not in SYSTEM])
    schema = schema.add(_ids_field(plan))
    return rows.mapInArrow(ReturnRows(producer, _ARROW_IDS[type(plan.id_type)]), schema)


def written(events: BatchInput, plan: BatchPlan, stage: str, options: TaskOptions) -> DataFrame:
    """Reports of tasks that have written the events and their ids into a staging folder."""
    rows, producer = _produced(events, plan)
    return rows.mapInArrow(WriteFiles(producer, stage, options), REPORT_SCHEMA)


def _produced(events: BatchInput, plan: BatchPlan) -> tuple[DataFrame, Producer]:
    """The rows of the last stage, and what makes events with ids of them there."""
    layout = plan.version.layout
    if layout.kind == "replicated":
        return events.rows, MatchEvents(plan.version, events.reader, plan.now)
    several = _visits_several(events.schema, plan)
    dispatch = Dispatch(plan.version, plan.forwarding, several, events.reader)
    packets = events.rows.mapInArrow(dispatch, PACKET_SCHEMA).repartitionById(layout.matchers[-1] + 1, MATCHER)
    match = MatchEvents(plan.version, unpacked, plan.now)
    if not several:
        return packets, match
    fields = [StructField(field.name, field.dataType, nullable=True) for field in events.schema.fields]
    visits = StructType([*fields, StructField(EVENT, LongType()), _ids_field(plan), StructField(REPORT, BinaryType())])
    found = packets.mapInArrow(ReturnVisits(match, arrow_schema(events.rows.sparkSession, visits)), visits)
    return found.repartition(len(layout.matchers), EVENT), UniteVisits()


def _visits_several(schema: StructType, plan: BatchPlan) -> bool:
    """Whether an event may visit several parts: the layout walks, or a dimension's values may be ranges."""
    layout = plan.version.layout
    names = {name for attribute in layout.attributes for name in (attribute, attribute.partition(".")[0])}
    ranged = any(field.name in names and isinstance(field.dataType, StructType) for field in schema.fields)
    return ranged or any(dimension.hops > 1 for dimension in layout.dimensions)


def _ids_field(plan: BatchPlan) -> StructField:
    return StructField(SUBSCRIPTION_IDS, ArrayType(plan.id_type, containsNull=False), nullable=False)
