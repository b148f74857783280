"""Event files, read slice by slice into Arrow batches of one schema, in the worker that needs the events.

What cannot be read becomes a row too, with a fault in place of its values: one row for a bad line, one for a part of a
Parquet file that is damaged. So nothing that was found is lost in silence, and no file can stop the stream.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fieldfare.errors import InputError
from fieldfare.files.formats import Format
from fieldfare.files.lines import RowError, json_lines
from fieldfare.pipeline.csv_events import CsvEvents, count_records, csv_schema
from fieldfare.pipeline.inferred_types import schema_of_objects
from fieldfare.pipeline.json_events import FaultValue, JsonEvents, TextBlock
from fieldfare.pipeline.ledger import Slice
from fieldfare.pipeline.system_columns import APPENDED_AT, FAULT

if TYPE_CHECKING:
    from fieldfare.pipeline.bucket.files import ObjectPath

EventPath: TypeAlias = "Path | ObjectPath"  # a folder of event files, or one of them
_BATCH_ROWS = 65_536
_INFERRED_LINES = 1_000  # of each file
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)  # what pyarrow raises for damaged files
_LASTING = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR}  # Arrow's own errors have no number


def why_unreadable(error: Exception) -> str:
    """What is wrong with a file. Raises the error again where the fault is not the file's, so that a retry may help."""
    if isinstance(error, OSError) and error.errno not in _LASTING:
        raise error
    return str(error)


def arrow_source(path: EventPath) -> Path | BinaryIO:
    """A file as Arrow takes it: one of this machine by its name, which is fastest."""
    return path if isinstance(path, Path) else path.open("rb")


FORMAT_NAMES = {Format.CSV: "CSV", Format.JSON_LINES: "JSON lines", Format.PARQUET: "Parquet"}
_PARQUET_START = b"PAR1"


def require_format(path: EventPath, file_format: Format) -> None:
    """Raise an InputError if a file is of another format: its suffix says so, or it is Parquet and not text."""
    wanted = FORMAT_NAMES[file_format]
    for other, name in FORMAT_NAMES.items():
        if other is not file_format and path.suffix.lower() in other.value:
            raise InputError(f"{path}: its name says that it is {name}, but the events are read as {wanted}")
    if file_format is not Format.PARQUET:
        with path.open("rb") as stream:
            if stream.read(len(_PARQUET_START)) == _PARQUET_START:
                raise InputError(f"{path}: it is a Parquet file, but the events are read as {wanted}")


def count_rows(path: EventPath, file_format: Format) -> int:
    """The number of rows: what a Parquet footer says, the records of CSV, or the lines of JSON, empty ones too."""
    if file_format is Format.PARQUET:
        footer = pq.read_metadata(arrow_source(path))
        if footer.num_rows != sum(footer.row_group(group).num_rows for group in range(footer.num_row_groups)):
            raise pa.ArrowInvalid("its row groups have not as many rows as its footer says")
        return int(footer.num_rows)
    if file_format is Format.CSV:
        return count_records(path)
    lines, last = 0, b"\n"
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")


def inferred_schema(paths: Sequence[EventPath], file_format: Format) -> pa.Schema:
    """The schema of the events in the first files: of the first sound Parquet file, or of the first lines of text."""
    if file_format is Format.CSV:
        schema = csv_schema(paths, _INFERRED_LINES)
    else:
        schema = _parquet_schema(paths) if file_format is Format.PARQUET else _json_schema(paths)
    return plain_schema(schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema with types that Spark has, and that can hold the same values."""
    if not schema.names:
        raise InputError("the events have no columns")
    for field in schema:
        if pa.types.is_time(field.type):
            raise InputError(f"column {field.name!r} is {field.type}, which Spark cannot pass on: name the others")
    plain = [(field.name, kind) for field in schema if (kind := _plain(field.type)) is not None]
    if not plain:
        raise InputError("the events have no columns with values")
    return pa.schema(plain)


def _plain(kind: pa.DataType) -> pa.DataType | None:
    """A type that Spark has for the same values. None for objects without fields, which no file can hold."""
    kind = _decoded(kind)
    if pa.types.is_struct(kind):
        fields = [(field.name, inner) for field in kind if (inner := _plain(field.type)) is not None]
        return pa.struct(fields) if fields else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = _plain(kind.value_type)
        return None if item is None else pa.list_(item)
    return _PLAIN.get(kind, kind)


def _parquet_schema(paths: Sequence[EventPath]) -> pa.Schema:
    for path in paths:
        try:
            return pq.read_schema(arrow_source(path))
        except UNREADABLE as error:
            why_unreadable(error)
    raise InputError("no file can be read")


def _json_schema(paths: Sequence[EventPath]) -> pa.Schema:
    events = []
    for path in paths:
        with path.open("rb") as stream:
            lines = islice(json_lines(stream), _INFERRED_LINES)
            events += [line.values for line in lines if not isinstance(line.values, RowError)]
    if not events:
        raise InputError("no line can be read")
    return schema_of_objects(events)


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


_PLAIN = {  # types that Spark has not, and what can hold their values
    pa.null(): pa.string(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


@dataclass(frozen=True)
class EventReader:
    """Makes events of slices, for `mapInArrow`. The schema is that of its batches, with the pipeline's own columns."""

    folder: EventPath
    format: Format
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The events of slices that are the rows of batches."""
        for batch in batches:
            for row in batch.to_pylist():
                yield from self.read(Slice(**row))

    def read_assigned(self, assignment: str) -> Iterator[pa.RecordBatch]:
        """The events of the slices that a task was assigned."""
        for part in msgspec.json.decode(assignment, type=list[Slice]):
            yield from self.read(part)

    def read(self, part: Slice) -> Iterator[pa.RecordBatch]:
        """The events of a slice."""
        if part.fault is not None:
            yield self._fault(part, part.name, part.fault)
            return
        path = self.folder / part.name
        self.check_schema()
        try:
            if path.stat().st_size != part.bytes:
                raise pa.ArrowInvalid("it was changed after it was found; write files elsewhere and rename them")
            yield from self._batches(path, part)
        except (InputError, *UNREADABLE) as error:
            yield self._fault(part, part.name, why_unreadable(error))

    def check_schema(self) -> None:
        """Raise an InputError if files of this format cannot hold values of a column's type."""
        if self.format is Format.CSV:
            CsvEvents.of(self._events)
        elif self.format is Format.JSON_LINES:
            JsonEvents.of(self._events)

    def _batches(self, path: EventPath, part: Slice) -> Iterator[pa.RecordBatch]:
        if self.format is Format.PARQUET:
            yield from self._parquet(path, part)
            return
        text = self._csv(path, part) if self.format is Format.CSV else self._json_lines(path, part)
        for columns, faults in text:
            yield self._batch(columns, part, faults)

    @property
    def _events(self) -> pa.Schema:
        return pa.schema([field for field in self.schema if field.name not in {APPENDED_AT, FAULT}])

    def _batch(
        self, columns: Sequence[pa.Array], part: Slice, faults: Sequence[FaultValue | None] = ()
    ) -> pa.RecordBatch:
        rows = len(columns[0])
        appended_at = pa.scalar(part.appended_at, pa.int64()).cast(self.schema.field(APPENDED_AT).type)
        kind = self.schema.field(FAULT).type
        fault = pa.array(faults, kind) if any(faults) else pa.nulls(rows, kind)
        return pa.record_batch([*columns, pa.repeat(appended_at, rows), fault], schema=self.schema)

    def _fault(self, part: Slice, place: str, reason: str) -> pa.RecordBatch:
        nulls = [pa.nulls(1, field.type) for field in self._events]
        return self._batch(nulls, part, [{"place": place, "reason": reason, "raw": None}])

    def _parquet(self, path: EventPath, part: Slice) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(arrow_source(path), page_checksum_verification=True) as file:
            group_start = 0
            for group in range(file.num_row_groups):
                group_end = group_start + file.metadata.row_group(group).num_rows
                start, stop = max(part.first_row, group_start), min(part.first_row + part.rows, group_end)
                try:
                    for columns in _group_columns(
                        file, group, range(start - group_start, stop - group_start), self._events
                    ):
                        yield self._batch(columns, part)
                        start += len(columns[0])
                except UNREADABLE as error:
                    yield self._fault(part, f"{part.name}:{start + 1}-{stop}", why_unreadable(error))
                group_start = group_end

    def _json_lines(self, path: EventPath, part: Slice) -> Iterator[TextBlock]:
        with path.open("rb") as stream:
            yield from JsonEvents.of(self._events).read(stream, part)

    def _csv(self, path: EventPath, part: Slice) -> Iterator[TextBlock]:
        return CsvEvents.of(self._events).read(path, part)


def _group_columns(file: pq.ParquetFile, group: int, rows: range, schema: pa.Schema) -> Iterator[list[pa.Array]]:
    """Some rows of a row group, as columns of the schema."""
    if not rows:
        return
    present = [name for name in schema.names if name in file.schema_arrow.names]
    if not present:
        raise pa.ArrowInvalid(f"it has none of the columns {', '.join(schema.names)}")
    position = 0
    for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=present):
        first, position = position, position + batch.num_rows
        start, stop = max(rows.start - first, 0), min(rows.stop - first, batch.num_rows)
        if start < stop:
            some = batch.slice(start, stop - start)
            some.validate(full=True)
            yield [_column(some, field) for field in schema]
        if position >= rows.stop:
            return
    raise pa.ArrowInvalid("it has fewer rows than its footer says")


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """A column of a file as the schema wants it."""
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    place = batch.schema.get_field_index(field.name)
    if place < 0:
        raise pa.ArrowInvalid(f"two columns have the name {field.name!r}")
    column = batch.column(place)
    if column.type == field.type:
        return column
    if _family(column.type) not in {_family(field.type), "null"}:
        raise pa.ArrowInvalid(f"column {field.name!r} is {column.type}, not {field.type}")
    try:
        return pc.cast(column, options=pc.CastOptions(field.type, allow_time_truncate=True))
    except pa.ArrowException as error:
        raise pa.ArrowInvalid(f"column {field.name!r} is {column.type}, not {field.type}: {error}") from error


def _family(kind: pa.DataType) -> str:
    """Types that stand for the same things. Arrow can cast more, such as the text '12' to a number."""
    kind = _decoded(kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "list"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "binary"
    return str(kind) if not pa.types.is_nested(kind) else type(kind).__name__
