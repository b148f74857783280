"""Spark's side of a folder of event files: a data source whose rows are slices of files.

For each query Spark starts several Python processes that import this module and do little else. So it imports neither
the index nor the SQL parser, which would take each of them a second.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from fieldfare.errors import InputError
from fieldfare.files.formats import Format
from fieldfare.pipeline.event_files import UNREADABLE, EventPath, count_rows, require_format, why_unreadable
from fieldfare.pipeline.ledger import EventFile, FileList, Ledger

if TYPE_CHECKING:
    from fieldfare.pipeline.bucket.files import ObjectPath

LEDGER_NAME = "files.jsonl"
_NOT_EVENTS = (".tmp", ".crc", ".inprogress")
_COMPACTED_FILES_MIN = 1_000  # a shorter ledger is not worth the work
_COMPACTION_SECONDS = 600.0  # from one look at the folder to the next


class FolderDataSource(DataSource):
    """A folder of event files as Spark sees it."""

    @classmethod
    def name(cls) -> str:
        """What the source is called in `readStream.format`."""
        return "fieldfare_folder"

    def schema(self) -> str:
        """The columns of a row: the fields of a Slice."""
        return "name STRING, bytes BIGINT, appended_at BIGINT, fault STRING, first_row BIGINT, rows BIGINT"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802
        """The reader that Spark asks for more rows."""
        return _SliceReader(self.folder(), self.options)

    def folder(self) -> EventPath:
        """Where the files are."""
        return Path(self.options["folder"])


def bucket_data_source(folder: ObjectPath) -> type[DataSource]:
    """A data source for one place in an object store.

    The settings, which may be secret, travel inside the class: Spark shows what it is told as options.
    """

    class BucketDataSource(FolderDataSource):
        """Objects as Spark sees them."""

        @classmethod
        def name(cls) -> str:
            return f"fieldfare_bucket_{blake2b(str(folder).encode(), digest_size=8).hexdigest()}"

        def folder(self) -> EventPath:
            return folder

    return BucketDataSource


class _SliceReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of events in the ledger. It lives in a process beside the driver, which gets its rows."""

    def __init__(self, folder: EventPath, options: Mapping[str, str]) -> None:
        self._folder = folder
        self._ledger_path = Path(options["ledger"]) / LEDGER_NAME
        self._format = Format[options["file_format"]]
        self._events_max = int(options["events_per_batch_max"])
        self._open_ledger: Ledger | None = None
        self._pending: deque[FoundFile] = deque()
        self._is_complete = False  # no file is looked for any more
        self._compaction_at = 0.0  # seconds since 1970: not before

    @property
    def _ledger(self) -> Ledger:
        if self._open_ledger is None:
            self._open_ledger = Ledger(self._ledger_path)
        return self._open_ledger

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"events": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._pending = deque(found_files(self._folder, self._ledger))
        self._is_complete = True

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        first = start["events"]
        self._ledger.require(first, first)
        self._list(first + self._events_max)
        end = max(first, min(first + self._events_max, self._ledger.events))
        return _rows(self._ledger, first, end), {"events": end}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        return _rows(FileList.read(self._ledger_path), start["events"], end["events"])

    def commit(self, end: dict[str, int]) -> None:
        """Spark has committed the batches up to `end`, and will not ask for their events again."""
        now = time.time()
        if now >= self._compaction_at and len(self._ledger) >= _COMPACTED_FILES_MIN:
            self._compaction_at = now + _COMPACTION_SECONDS
            self._ledger.compact(end["events"], _names(self._folder), int(now))

    def _list(self, wanted: int) -> None:
        """Enter new files into the ledger, no more than the batch needs: to count its rows, each has to be opened."""
        ledger = self._ledger
        listed: list[EventFile] = []
        events = ledger.events
        if not self._pending and not self._is_complete and events < wanted:
            self._pending = deque(found_files(self._folder, ledger))
        while self._pending and events < wanted:
            listed.append(_inspected(self._folder, self._pending.popleft(), self._format))
            events += listed[-1].rows
        ledger.append(listed)


def _rows(files: FileList, start: int, end: int) -> Iterator[tuple[Any, ...]]:
    return iter([msgspec.structs.astuple(part) for part in files.slices(start, end)])


def _inspected(folder: EventPath, found: FoundFile, file_format: Format) -> EventFile:
    """A file as it goes into the ledger."""
    appended_at = found.changed_at // 1000
    try:
        require_format(folder / found.name, file_format)
        return EventFile(found.name, found.bytes, count_rows(folder / found.name, file_format), appended_at)
    except (InputError, *UNREADABLE) as error:
        return EventFile(found.name, found.bytes, 1, appended_at, fault=why_unreadable(error))


class FoundFile(NamedTuple):
    """A file that is in the folder and not yet in the ledger; its fields in the order of reading."""

    changed_at: int  # nanoseconds since 1970
    name: str
    bytes: int


def found_files(folder: EventPath, known: Ledger | Sequence[str] = ()) -> list[FoundFile]:
    """The new files of a folder, in the order in which they were last written."""
    if isinstance(folder, Path):
        return _found_here(folder, known)
    files = (file for file in folder.files() if _is_event_file(file.key) and file.key not in known)
    return sorted(FoundFile(file.changed_at * 1000, file.key, file.nbytes) for file in files)


def _found_here(folder: Path, known: Ledger | Sequence[str]) -> list[FoundFile]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in known or not _is_event_file(entry.name):
                continue
            name = _printable(entry.name)
            if name not in known and entry.is_file():
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # gone before it was found
                found.append(FoundFile(status.st_mtime_ns, name, status.st_size))
    return sorted(found)


def _is_event_file(name: str) -> bool:
    """Whether a name is neither hidden, nor that of a file that is still being written."""
    return bool(name) and not name.startswith(("_", ".")) and not name.endswith(_NOT_EVENTS)


def _names(folder: EventPath) -> set[str]:
    """The names of a folder, as a ledger has them."""
    if not isinstance(folder, Path):
        return {file.key for file in folder.files()}
    with os.scandir(folder) as entries:
        return {_printable(entry.name) for entry in entries}


def _printable(name: str) -> str:
    """A name that is not UTF-8 can stand in no ledger: its printable form names no file, and so is a fault."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
