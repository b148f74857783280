"""What a task writes: one Parquet file of events and the ids they match, durable when it is closed.

Speed comes from doing little for each id. Lists and ids are never null, so Parquet needs one level for them. Integer
ids are split by byte, which lets the cheapest compression find the bytes that repeat, and keep no statistics, which
say nothing of ids in lists. String ids are written as a dictionary of the strings that the row group uses.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.durable import flush_file
from fieldfare.errors import EventError, OutputError
from fieldfare.pipeline.reports import BadEvent
from fieldfare.store.outputs import BATCH_ID, SUBSCRIPTION_IDS, WrittenFile

Compression = Literal["none", "snappy", "lz4", "zstd"]

STAGED_SUFFIX = ".staged"  # not .parquet: a pattern such as OUTPUT/**/*.parquet would find it before it is committed
_PAIRS = "subscription_id"
_EXPLODED_PAIRS = 1_000_000  # rows made of lists at a time, about


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows are written.

    `explode` writes one row for each pair of an event and an id; otherwise each event is one row, unless it matches
    nothing and `only_matched` is set. `string_ids` is the type of the id column, which must not depend on the data.
    Without compression integer ids are stored plainly, which readers older than 2024 need.
    """

    explode: bool = False
    only_matched: bool = False
    string_ids: bool = False
    compression: Compression = "snappy"
    row_group_bytes: int = 32 << 20  # in memory; a file has less

    def writer(self, stage_folder: str | Path) -> EventWriter:
        """A writer for one task."""
        return EventWriter(stage_folder, self)


class EventWriter:
    """A file in a staging folder, under a name that no other attempt has. Leaving it by an error removes the file."""

    def __init__(self, stage_folder: str | Path, options: WriteOptions) -> None:
        self.faults: list[BadEvent] = []  # a file can hold every event
        self._path = Path(stage_folder) / f"{uuid.uuid4().hex}{STAGED_SUFFIX}"
        self._options = options
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._file: IO[bytes] | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._rows = self._matches = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()

    def write(self, events: pa.RecordBatch, subscription_ids: pa.ListArray) -> None:
        """Add events, and for each the ids of the subscriptions it satisfies."""
        with self._removed_on_error():
            _check_names(events.schema)
            lists = _Lists.of(subscription_ids, string_ids=self._options.string_ids)
            for rows in self._rows_of(events, lists):
                self._waiting.append(rows)
                self._waiting_bytes += rows.nbytes
                self._rows += rows.num_rows
                if self._waiting_bytes >= self._options.row_group_bytes:
                    self._write_waiting()
            self._matches += len(lists.values)

    def close(self) -> WrittenFile | None:
        """Make the file durable; None if there were no rows, and so there is no file."""
        with self._removed_on_error():
            self._write_waiting()
            if self._file is None or self._parquet is None:
                return None
            self._parquet.close()
            path, nbytes = self._finish(self._file)
            return WrittenFile(path, self._rows, self._matches, nbytes)

    def discard(self) -> None:
        """Remove what was written."""
        self._waiting = []
        if self._parquet is not None:
            self._parquet.is_open = False  # or it would still write its footer when it is collected
        if self._file is not None:
            with suppress(OSError):  # closing writes what is buffered, and the disk may be full
                self._file.close()
            self._remove()

    # Where the file is: an object store has another place for it

    def _open(self) -> IO[bytes]:
        return self._path.open("xb")

    def _finish(self, file: IO[bytes]) -> tuple[str, int]:
        """Make what was written durable; where it is, and its size."""
        flush_file(file)
        file.close()
        return str(self._path), self._path.stat().st_size

    def _remove(self) -> None:
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _removed_on_error(self) -> Iterator[None]:
        try:
            with output_errors(self._path):
                yield
        except BaseException:
            self.discard()
            raise

    def _rows_of(self, events: pa.RecordBatch, lists: _Lists) -> Iterator[pa.RecordBatch]:
        if self._options.explode:
            return _exploded(events, lists)
        if self._options.only_matched:
            matched = np.diff(lists.offsets) > 0
            # An empty list has no values: leaving out its offset leaves it out.
            lists = _Lists(np.append(lists.offsets[:-1][matched], lists.offsets[-1:]), lists.values)
            events = events.filter(pa.array(matched))
        return iter([_with_column(events, SUBSCRIPTION_IDS, lists.as_array())]) if events.num_rows else iter(())

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        if self._options.string_ids and len(self._waiting) > 1:
            table = table.unify_dictionaries().combine_chunks()  # a row group has one dictionary
        if self._parquet is None:
            self._file = self._open()
            self._parquet = pq.ParquetWriter(self._file, table.schema, **_settings(table.schema, self._options))
        groups = -(-self._waiting_bytes // (2 * self._options.row_group_bytes))
        self._parquet.write_table(table, row_group_size=-(-table.num_rows // groups))
        self._waiting, self._waiting_bytes = [], 0


@contextmanager
def output_errors(place: Path) -> Iterator[None]:
    """Turn what the system says about files into an error that says what to do."""
    try:
        yield
    except OSError as error:
        advice = "the batch is not committed; writing it again may work"
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            advice = "the batch is not committed; free some space, and it is written again"
        raise OutputError(f"{place}: {error.strerror or error}: {advice}") from error


@dataclass(frozen=True, slots=True)
class _Lists:
    """Lists of ids: list i is `values[offsets[i]:offsets[i + 1]]`, and the first starts at 0."""

    offsets: npt.NDArray[np.int32]
    values: pa.Array

    @staticmethod
    def of(lists: pa.ListArray, *, string_ids: bool) -> _Lists:
        offsets = lists.offsets.to_numpy()
        values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
        return _Lists(offsets - offsets[0], _compact(values) if string_ids else _integers(values))

    def as_array(self) -> pa.ListArray:
        list_type = pa.list_(pa.field("element", self.values.type, nullable=False))
        return pa.ListArray.from_arrays(pa.array(self.offsets), self.values, type=list_type)


def _integers(values: pa.Array) -> pa.Array:
    if values.type != pa.int64():
        raise OutputError(f"ids are {values.type} where the output has integers: use another output folder for them")
    return values


def _compact(values: pa.Array) -> pa.DictionaryArray:
    """Strings with a dictionary of no more than is used: an index shares one among all its answers."""
    if not pa.types.is_dictionary(values.type):
        encoded = values.dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(pa.large_string()))
    indices = values.indices.to_numpy()
    is_used = np.zeros(len(values.dictionary), np.bool_)
    is_used[indices] = True
    used = np.flatnonzero(is_used)
    places = np.empty(len(is_used), np.int32)
    places[used] = np.arange(len(used), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(places[indices]), values.dictionary.take(pa.array(used)), safe=False)


def _exploded(events: pa.RecordBatch, lists: _Lists) -> Iterator[pa.RecordBatch]:
    """A row for each pair, a bounded number of rows at a time."""
    ends = np.arange(_EXPLODED_PAIRS, len(lists.values) + _EXPLODED_PAIRS, _EXPLODED_PAIRS)
    stops = np.unique(np.searchsorted(lists.offsets, ends).clip(max=events.num_rows))
    start = 0
    for stop in stops.tolist():
        offsets = lists.offsets[start : stop + 1]
        rows = np.repeat(np.arange(start, stop), np.diff(offsets))
        values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
        if len(rows):
            yield _with_column(events.take(pa.array(rows)), _PAIRS, values)
        start = stop


def _with_column(events: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return events.append_column(pa.field(name, values.type, nullable=False), values)


def _check_names(schema: pa.Schema) -> None:
    for name in schema.names:
        if name.lower() in {BATCH_ID, SUBSCRIPTION_IDS, _PAIRS}:  # Spark's names ignore case
            raise EventError(name, "the output has a column of this name of its own: rename the event's")


def _settings(schema: pa.Schema, options: WriteOptions) -> dict[str, object]:
    """Measured to be fastest where an event has 4 numbers and about 150 ids."""
    ids = _PAIRS if options.explode else f"{SUBSCRIPTION_IDS}.list.element"
    flat = [field for field in schema if not pa.types.is_nested(field.type) and field.name != _PAIRS]
    texts = [field.name for field in flat if _is_text(field.type)]
    split_bytes = not options.string_ids and options.compression != "none"
    return {
        "compression": options.compression,
        "use_dictionary": [*texts, ids] if options.string_ids else texts,
        "column_encoding": {ids: "BYTE_STREAM_SPLIT"} if split_bytes else None,
        "write_statistics": [field.name for field in flat],
        "store_schema": False,  # readers see plain strings, not Arrow's dictionaries of large ones
    }


def _is_text(data_type: pa.DataType) -> bool:
    return data_type in {pa.string(), pa.large_string()} or isinstance(data_type, pa.DictionaryType)
