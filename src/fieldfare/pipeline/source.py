"""The event source of the pipeline: a folder of Parquet or JSON lines files that grows.

Spark streams only the names of slices of files; the events are read from the files in the Python worker that needs
them. Writers rename complete files into the folder, and never change them nor use a name twice.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from fieldfare.errors import InputError
from fieldfare.files.atomic import AtomicFile
from fieldfare.files.formats import Format, format_of
from fieldfare.pipeline.event_files import (
    UNREADABLE,
    AssignedReader,
    EventReader,
    inferred_schema,
)
from fieldfare.pipeline.folder_data_source import FolderDataSource, found_files
from fieldfare.pipeline.ledger import Slice, divided
from fieldfare.pipeline.stages import BatchInput
from fieldfare.pipeline.system_columns import APPENDED_AT, FAULT
from fieldfare.pipeline.types import arrow_schema

FAULT_TYPE = StructType([StructField(name, StringType()) for name in ("place", "reason", "raw")])
_TASK_EVENTS_MIN = 2_000  # fewer are not worth a task of their own
_INFERRED_FILES = 10


@dataclass(frozen=True)
class FolderSource:
    """A folder of event files, and how to read it.

    `ledger` is a folder inside the checkpoint, on the same shared storage. The format and the schema are those of the
    first files if they are not given; a schema may be DDL text, such as `symbol STRING, price DOUBLE`.
    """

    folder: Path
    ledger: Path
    format: Format | None = None
    schema: StructType | str | None = None
    events_per_batch_max: int = 100_000
    tasks_per_batch: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        if self.events_per_batch_max < 1 or self.tasks_per_batch < 1:
            raise InputError("a batch needs at least one event and one task")


@dataclass(frozen=True)
class SliceStream:
    """A stream whose rows name slices of files, and what reads them where the events are needed."""

    slices: DataFrame
    reader: EventReader
    schema: StructType  # of the reader's events
    tasks_max: int

    def events(self) -> DataFrame:
        """The stream of the events themselves, read by one task."""
        return self.slices.mapInArrow(self.reader, self.schema)

    def batch(self, slices: DataFrame) -> BatchInput:
        """A batch of the stream, divided into tasks that read as many events each."""
        named = [Slice(**row.asDict()) for row in slices.collect()]
        events = sum(part.rows for part in named)
        tasks = max(1, min(self.tasks_max, events // _TASK_EVENTS_MIN))
        numbers = slices.sparkSession.range(0, tasks, 1, tasks)
        groups = tuple(tuple(group) for group in divided(named, tasks))
        return BatchInput(numbers, self.schema, AssignedReader(self.reader, groups))


def stream_folder(spark: SparkSession, source: FolderSource) -> SliceStream:
    """The events of a folder as a stream, with the columns `_appended_at` and `_fault` after their own.

    `_appended_at` is the time of the file's last change. An event that cannot be read has only NULLs, and a `_fault`.
    """
    if not source.folder.is_dir():
        raise InputError(f"{source.folder}: there is no such folder to read events from")
    file_format = source.format or _format(source.folder)
    schema = _with_system_columns(_schema(spark, source, file_format))
    reader = EventReader(source.folder.absolute(), file_format, arrow_schema(spark, schema))
    spark.dataSource.register(FolderDataSource)
    options = {
        "folder": str(source.folder.absolute()),
        "ledger": str(source.ledger.absolute()),
        "file_format": file_format.name,
        "events_per_batch_max": str(source.events_per_batch_max),
    }
    slices = spark.readStream.format(FolderDataSource.name()).options(**options).load()
    return SliceStream(slices, reader, schema, source.tasks_per_batch)


def _format(folder: Path) -> Format:
    files = found_files(folder)
    if not files:
        raise InputError(f"{folder}: it is empty, so its format is not known; name it, or put a file there first")
    file_format = format_of(Path(files[0].name))
    if file_format is Format.CSV:
        raise InputError(f"{folder}: a stream reads Parquet or JSON lines, not CSV")
    return file_format


def _schema(spark: SparkSession, source: FolderSource, file_format: Format) -> StructType:
    """The events' schema: as given, or as an earlier run on this checkpoint saw it, or as the first files have it."""
    if source.schema is not None:
        return spark.createDataFrame([], source.schema).schema
    saved = source.ledger / "schema.json"
    if saved.exists():
        return StructType.fromJson(json.loads(saved.read_bytes()))
    paths = [source.folder / file.name for file in found_files(source.folder)[:_INFERRED_FILES]]
    try:
        schema = spark.createDataFrame(inferred_schema(paths, file_format).empty_table()).schema
    except (PySparkException, InputError, OverflowError, *UNREADABLE) as error:
        raise InputError(
            f"{source.folder}: cannot tell the events' schema: {error}; give it, as in 'price DOUBLE'"
        ) from error
    saved.parent.mkdir(parents=True, exist_ok=True)
    with AtomicFile(saved) as stream:
        stream.write(schema.json().encode())
    return schema


def _with_system_columns(schema: StructType) -> StructType:
    """The schema of the stream. Every column can be NULL: in a fault all are."""
    for name in (APPENDED_AT, FAULT):
        if name in schema.names:
            raise InputError(f"events have a column {name!r}, which is the pipeline's own; rename it")
    events = [StructField(column.name, column.dataType) for column in schema.fields]
    return StructType([*events, StructField(APPENDED_AT, TimestampType()), StructField(FAULT, FAULT_TYPE)])
