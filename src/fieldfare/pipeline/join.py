"""Matching as a join for Spark users: events and subscriptions in, the events with the ids they satisfy out.

The driver compiles the subscriptions once and saves the index to a folder; every Python worker maps that folder
into its memory and keeps it. So the index is replicated, no event moves between executors, and there is no shuffle.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import current_timestamp, lit
from pyspark.sql.types import ArrayType, ByteType, DataType, IntegerType, LongType, ShortType, StringType, StructType

from fieldfare.errors import EventError, InvalidIdError, SubscriptionError
from fieldfare.matching.index import Index
from fieldfare.pipeline.types import arrow_schema, check_collations, check_names, check_types
from fieldfare.pipeline.worker_python import check_worker_python
from fieldfare.store.outputs import SUBSCRIPTION_IDS

NOW_COLUMN = "_fieldfare_now"  # what conditions mean by current_timestamp(), on the way to the workers
_ARROW_ID_TYPES: dict[type[DataType], pa.DataType] = {
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.string(),
}


def match(events: DataFrame, subscriptions: DataFrame, *, snapshots: str | Path | None = None) -> DataFrame:
    """Add to every event the ids of the subscriptions it satisfies, as the array column `subscription_ids`.

    `events` may be a batch or a stream; all its columns are carried through untouched. `subscriptions` is a batch
    with the columns `subscription_id` (a string or an integer) and `condition` (SQL). They are read now, once.

    `snapshots` is a folder that the driver and all executors share, where the index is left for the executors. The
    default is a temporary folder of the driver, which suits local Spark; a cluster needs shared storage.
    """
    check_worker_python(events.sparkSession)
    id_type = _id_type(subscriptions)
    schema = _result_schema(events, id_type)
    table = subscriptions.select("subscription_id", "condition").toArrow()
    schema_of_events = arrow_schema(events.sparkSession, events.schema)
    index = Index(table)
    check_names(table, index.attributes, schema_of_events)
    check_types(table, schema_of_events, str(events.sparkSession.conf.get("spark.sql.session.timeZone")))
    check_collations(events.schema, index.attributes)
    index.check_schema(schema_of_events)  # and leaves compiled kernels in their cache on disk, where workers find them
    folder = Path(snapshots or _process_folder().name) / f"index-{uuid.uuid4().hex}"
    index.save(folder)
    if index.asks_now:
        # The instant of this call; of a stream that of each micro-batch, which Spark keeps in the stream's checkpoint.
        now = current_timestamp() if events.isStreaming else lit(datetime.now(UTC))
        events = events.withColumn(NOW_COLUMN, now)
    return events.mapInArrow(_Matcher(str(folder), _ARROW_ID_TYPES[type(id_type)]), schema)


@dataclass(frozen=True)
class _Matcher:
    """What a task does. Spark sends it to the workers, so it holds names, not the index."""

    folder: str
    id_type: pa.DataType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = _mapped(self.folder)
        for batch in batches:
            is_asked = index.asks_now and batch.num_rows > 0
            now = batch.column(NOW_COLUMN)[0].as_py() if is_asked else None
            rows = batch.drop_columns([NOW_COLUMN]) if index.asks_now else batch
            subscription_ids = index.match_table(rows, now=now).cast(pa.list_(self.id_type))
            yield rows.append_column(SUBSCRIPTION_IDS, subscription_ids)


@lru_cache(maxsize=4)
def _mapped(folder: str) -> Index:
    """The index of a folder; a worker lives through many tasks, and keeps the indexes it used last."""
    return Index.load(folder)


@cache
def _process_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that lasts as long as this process."""
    return tempfile.TemporaryDirectory(prefix="fieldfare-", ignore_cleanup_errors=True)


def _id_type(subscriptions: DataFrame) -> DataType:
    if subscriptions.isStreaming:
        raise SubscriptionError("subscriptions must be a batch DataFrame, not a stream")
    for column in ("subscription_id", "condition"):
        if column not in subscriptions.columns:
            raise SubscriptionError(f"subscriptions need a column {column!r}; they have {subscriptions.columns}")
    id_type = subscriptions.schema["subscription_id"].dataType
    if type(id_type) not in _ARROW_ID_TYPES:
        raise InvalidIdError(f"subscription_id must be a string or an integer, not {id_type.simpleString()}")
    if not isinstance(subscriptions.schema["condition"].dataType, StringType):
        raise SubscriptionError("the column 'condition' must be a string")
    return id_type


def _result_schema(events: DataFrame, id_type: DataType) -> StructType:
    names = events.columns
    for name in names:
        if name in {SUBSCRIPTION_IDS, NOW_COLUMN}:
            raise EventError(name, "the events already have a column of this name; rename or drop it")
        if names.count(name) > 1:
            raise EventError(name, "two columns have this name; rename or drop one")
    return StructType([*events.schema.fields]).add(
        SUBSCRIPTION_IDS, ArrayType(id_type, containsNull=False), nullable=False
    )
