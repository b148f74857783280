"""The event source of the pipeline: a folder of Parquet or JSON lines files that grows.

Spark streams only the names of slices of files; the events are read from the files in the Python worker that needs
them. Writers rename complete files into the folder, and never change them nor use a name twice.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from fieldfare.errors import InputError
from fieldfare.files.atomic import AtomicFile
from fieldfare.files.formats import Format, format_of
from fieldfare.pipeline.event_files import (
    UNREADABLE,
    AssignedReader,
    EventReader,
    count_rows,
    inferred_schema,
    why_unreadable,
)
from fieldfare.pipeline.ledger import EventFile, FileList, Ledger, Slice, divided
from fieldfare.pipeline.stages import BatchInput
from fieldfare.pipeline.system_columns import APPENDED_AT, FAULT
from fieldfare.pipeline.types import arrow_schema

FAULT_TYPE = StructType([StructField(name, StringType()) for name in ("place", "reason", "raw")])
_NOT_EVENTS = (".tmp", ".crc", ".inprogress")
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
    spark.dataSource.register(_FolderDataSource)
    options = {
        "folder": str(source.folder.absolute()),
        "ledger": str(source.ledger.absolute()),
        "file_format": file_format.name,
        "events_per_batch_max": str(source.events_per_batch_max),
    }
    slices = spark.readStream.format(_FolderDataSource.name()).options(**options).load()
    return SliceStream(slices, reader, schema, source.tasks_per_batch)


class _FolderDataSource(DataSource):
    """Spark's side of a folder: rows that are slices."""

    @classmethod
    def name(cls) -> str:
        return "fieldfare_folder"

    def schema(self) -> str:
        return "name STRING, bytes BIGINT, appended_at BIGINT, fault STRING, first_row BIGINT, rows BIGINT"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802
        return _SliceReader(self.options)


class _SliceReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of events in the ledger. It lives in a process beside the driver, which gets its rows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._folder = Path(options["folder"])
        self._ledger_path = Path(options["ledger"]) / "files.jsonl"
        self._format = Format[options["file_format"]]
        self._events_max = int(options["events_per_batch_max"])
        self._open_ledger: Ledger | None = None
        self._pending: deque[_Found] = deque()
        self._is_complete = False  # no file is looked for any more

    @property
    def _ledger(self) -> Ledger:
        if self._open_ledger is None:
            self._open_ledger = Ledger(self._ledger_path)
        return self._open_ledger

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"events": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._pending = deque(_found(self._folder, self._ledger))
        self._is_complete = True

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        first = start["events"]
        self._list(first + self._events_max)
        end = max(first, min(first + self._events_max, self._ledger.events))
        return _rows(self._ledger, first, end), {"events": end}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        return _rows(FileList.read(self._ledger_path), start["events"], end["events"])

    def _list(self, wanted: int) -> None:
        """Enter new files into the ledger, no more than the batch needs: to count its rows, each has to be opened."""
        ledger = self._ledger
        listed: list[EventFile] = []
        events = ledger.events
        if not self._pending and not self._is_complete and events < wanted:
            self._pending = deque(_found(self._folder, ledger))
        while self._pending and events < wanted:
            listed.append(_inspected(self._folder, self._pending.popleft(), self._format))
            events += listed[-1].rows
        ledger.append(listed)


def _rows(files: FileList, start: int, end: int) -> Iterator[tuple[Any, ...]]:
    return iter([msgspec.structs.astuple(part) for part in files.slices(start, end)])


def _inspected(folder: Path, found: _Found, file_format: Format) -> EventFile:
    """A file as it goes into the ledger."""
    appended_at = found.changed_at // 1000
    try:
        return EventFile(found.name, found.bytes, count_rows(folder / found.name, file_format), appended_at)
    except UNREADABLE as error:
        return EventFile(found.name, found.bytes, 1, appended_at, fault=why_unreadable(error))


class _Found(NamedTuple):
    """A file that is in the folder and not yet in the ledger; its fields in the order of reading."""

    changed_at: int  # nanoseconds since 1970
    name: str
    bytes: int


def _found(folder: Path, known: Ledger | Sequence[str] = ()) -> list[_Found]:
    """The new files of a folder, in the order in which they were last written."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in known or entry.name.startswith(("_", ".")) or entry.name.endswith(_NOT_EVENTS):
                continue
            # A name that is not UTF-8 can stand in no ledger: its printable form names no file, and so is a fault.
            name = os.fsencode(entry.name).decode("utf-8", "backslashreplace")
            if name not in known and entry.is_file():
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # gone before it was found
                found.append(_Found(status.st_mtime_ns, name, status.st_size))
    return sorted(found)


def _format(folder: Path) -> Format:
    files = _found(folder)
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
    paths = [source.folder / file.name for file in _found(source.folder)[:_INFERRED_FILES]]
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
