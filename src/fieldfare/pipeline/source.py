"""The event source of the pipeline: a folder of Parquet, JSON lines or CSV files that grows.

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
from fieldfare.pipeline.assigned import Assigned, TaskNumbers
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.event_files import (
    UNREADABLE,
    EventPath,
    EventReader,
    inferred_schema,
    require_format,
)
from fieldfare.pipeline.folder_data_source import LEDGER_NAME, FolderDataSource, bucket_data_source, found_files
from fieldfare.pipeline.ledger import Slice, divided
from fieldfare.pipeline.stages import BatchInput
from fieldfare.pipeline.system_columns import APPENDED_AT, FAULT, refuse_system_columns
from fieldfare.pipeline.types import arrow_schema

FAULT_TYPE = StructType([StructField(name, StringType()) for name in ("place", "reason", "raw")])
_TASK_EVENTS_MIN = 2_000  # fewer are not worth a task of their own
_INFERRED_FILES = 10
FORMATS = {"json": Format.JSON_LINES, "csv": Format.CSV, "parquet": Format.PARQUET}
_PLACE, _FORMAT, _SCHEMA = "place", "format", "schema.json"  # in the ledger's folder: what an earlier run saw


@dataclass(frozen=True)
class FolderSource:
    """A folder of event files, here or in an object store, and how to read it.

    `ledger` is a folder inside the checkpoint, on the same shared storage. The format ("json", "csv" or "parquet") and
    the schema are those of the first files if they are not given; a schema may be DDL text, such as `symbol STRING,
    price DOUBLE`. Where both are given, the folder may be empty at first.
    """

    folder: Path | Bucket
    ledger: Path
    format: Format | str | None = None
    schema: StructType | str | None = None
    events_per_batch_max: int = 100_000
    tasks_per_batch: int = field(default_factory=lambda: os.cpu_count() or 1)

    def __post_init__(self) -> None:
        if self.events_per_batch_max < 1 or self.tasks_per_batch < 1:
            raise InputError("a batch needs at least one event and one task")
        if isinstance(self.format, str) and self.format not in FORMATS:
            raise InputError(f"format {self.format!r} is not known; it is one of {', '.join(FORMATS)}")

    @property
    def place(self) -> str:
        """Where events come from, in words."""
        return str(self.folder)

    @property
    def first(self) -> str:
        """What has to be there before events can be read, in words."""
        return f"file in {self.folder}"

    def is_ready(self) -> bool:
        """Whether the folder can be read."""
        return is_ready(self)

    def stream(self, spark: SparkSession) -> SliceStream:
        """The folder as Spark streams it."""
        return stream_folder(spark, self)


@dataclass(frozen=True)
class SliceStream:
    """A stream whose rows name slices of files, and what reads them where the events are needed."""

    slices: DataFrame
    reader: EventReader
    schema: StructType  # of the reader's events
    tasks_max: int
    numbers: TaskNumbers = field(default_factory=TaskNumbers)

    @property
    def rows(self) -> DataFrame:
        """What Spark streams."""
        return self.slices

    def events(self) -> DataFrame:
        """The stream of the events themselves, read by one task."""
        return self.slices.mapInArrow(self.reader, self.schema)

    def batch(self, slices: DataFrame) -> BatchInput:
        """A batch of the stream, divided into tasks that read as many events each."""
        named = [Slice(**row.asDict()) for row in slices.collect()]
        events = sum(part.rows for part in named)
        tasks = max(1, min(self.tasks_max, events // _TASK_EVENTS_MIN))
        numbers = self.numbers(slices.sparkSession, tasks)
        return BatchInput(numbers, self.schema, Assigned.of(self.reader, divided(named, tasks)))


def stream_folder(spark: SparkSession, source: FolderSource) -> SliceStream:
    """The events of a folder as a stream, with the columns `_appended_at` and `_fault` after their own.

    `_appended_at` is the time of the file's last change. An event that cannot be read has only NULLs, and a `_fault`.
    """
    folder = event_folder(source.folder)
    _require_same_place(source, folder)
    file_format = _format(source)
    schema = with_system_columns(_schema(spark, source, file_format))
    if source.format is None:
        save_text(source.ledger / _FORMAT, next(name for name, known in FORMATS.items() if known is file_format))
    reader = EventReader(folder, file_format, arrow_schema(spark, schema))
    reader.check_schema()
    data_source = FolderDataSource if isinstance(folder, Path) else bucket_data_source(folder)
    spark.dataSource.register(data_source)
    options = {
        "folder": str(folder),
        "ledger": str(source.ledger.absolute()),
        "file_format": file_format.name,
        "events_per_batch_max": str(source.events_per_batch_max),
    }
    slices = spark.readStream.format(data_source.name()).options(**options).load()
    return SliceStream(slices, reader, schema, source.tasks_per_batch)


def is_ready(source: FolderSource) -> bool:
    """Whether the folder can be read: format and schema are known, or there is a file that may tell them."""
    has_format = source.format is not None or (source.ledger / _FORMAT).exists()
    has_schema = source.schema is not None or (source.ledger / _SCHEMA).exists()
    is_missing = isinstance(source.folder, Path) and not source.folder.is_dir()  # an error, and not worth the wait
    return (has_format and has_schema) or is_missing or any(_telling_files(event_folder(source.folder)))


def event_folder(place: Path | Bucket) -> EventPath:
    """A place as readers of events use it."""
    if isinstance(place, Path):
        if not place.is_dir():
            raise InputError(f"{place}: there is no such folder to read events from")
        return place.absolute()
    from fieldfare.pipeline.bucket.files import ObjectPath

    return ObjectPath(place)


def _require_same_place(source: FolderSource, folder: EventPath) -> None:
    """Raise an InputError if the ledger has the names of another folder: files of these names would not be read."""
    saved = source.ledger / _PLACE
    save_text(saved, str(folder))
    known = saved.read_text(encoding="utf-8")
    if known != str(folder):
        raise InputError(
            f"{folder}: this checkpoint has read {known}, and would take files of the same names for those that it "
            f"has read: use a new checkpoint and a new output; if the folder was moved, remove {saved}"
        )


def _telling_files(folder: EventPath) -> list[EventPath]:
    """The first files that are not empty."""
    return [folder / file.name for file in found_files(folder) if file.bytes][:_INFERRED_FILES]


def _format(source: FolderSource) -> Format:
    """The events' format: as given, or as an earlier run on this checkpoint saw it, or as the first file has it."""
    files = _telling_files(event_folder(source.folder))
    saved = source.ledger / _FORMAT
    if source.format is not None:
        given = FORMATS[source.format] if isinstance(source.format, str) else source.format
        if files and not (source.ledger / LEDGER_NAME).exists():  # later, another format is the fault of one file
            require_format(files[0], given)
        return given
    if saved.exists():
        return FORMATS[saved.read_text(encoding="utf-8")]
    if not files:
        raise InputError(
            f"{source.folder}: it is empty, so its format is not known; name it, or put a file there first"
        )
    try:
        found = format_of(files[0])
        require_format(files[0], found)
    except InputError as error:
        raise InputError(f"{error}; or name the format: {', '.join(FORMATS)}") from error
    return found


def _schema(spark: SparkSession, source: FolderSource, file_format: Format) -> StructType:
    """The events' schema: as given, or as an earlier run on this checkpoint saw it, or as the first files have it."""
    if source.schema is not None:
        return spark.createDataFrame([], source.schema).schema
    saved = source.ledger / _SCHEMA
    if saved.exists():
        return StructType.fromJson(json.loads(saved.read_bytes()))
    try:
        inferred = inferred_schema(_telling_files(event_folder(source.folder)), file_format)
        schema = spark.createDataFrame(inferred.empty_table()).schema
    except (PySparkException, InputError, OverflowError, *UNREADABLE) as error:
        raise InputError(
            f"{source.folder}: cannot tell the events' schema: {error}; give it, as in 'price DOUBLE'"
        ) from error
    save_text(saved, schema.json())
    return schema


def save_text(path: Path, text: str) -> None:
    """Remember what this run saw, unless an earlier one has."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(path) as stream:
            stream.write(text.encode())


def with_system_columns(schema: StructType) -> StructType:
    """The schema of the stream. Every column can be NULL: in a fault all are."""
    refuse_system_columns(schema.names)
    events = [StructField(column.name, column.dataType) for column in schema.fields]
    return StructType([*events, StructField(APPENDED_AT, TimestampType()), StructField(FAULT, FAULT_TYPE)])
