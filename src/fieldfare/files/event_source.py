"""Events from files, in batches that an index can match.

An event's key is its `event_id`, or else its `id`, or else its number in the file, from 1. Every column is an
attribute, the key too. Text files need no schema: each event has the attributes it has. Parquet stays in Arrow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.errors import InputError
from fieldfare.events import UnreadableError, attributes_of
from fieldfare.files.cells import cell_value
from fieldfare.files.formats import Format, format_of, input_parts, reading
from fieldfare.files.lines import Line, RowError, csv_header, text_lines
from fieldfare.files.quarantine import BadRow, Quarantine, excerpt
from fieldfare.matching.index import Index
from fieldfare.matching.unknown_names import names_of_schema

KEY_COLUMNS = ("event_id", "id")
_BATCH_ROWS = 8192


class EventBatch(Protocol):
    """Some events of a file. `position` is how much of the file has been read when the batch is done."""

    @property
    def position(self) -> int: ...  # noqa: D102
    def __len__(self) -> int: ...
    def keys(self) -> list[str | int]: ...  # noqa: D102
    def match(self, index: Index, now: datetime) -> pa.ListArray: ...  # noqa: D102
    def slice(self, start: int, stop: int) -> Self: ...  # noqa: D102
    def bad_row(self, reason: str) -> BadRow:
        """The only event of a batch of one, as a bad row."""
        ...


class TextEvent(NamedTuple):
    """An event of a text file."""

    key: str | int
    attributes: Mapping[str, Any]
    line: Line


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Events of a text file."""

    path: Path
    events: Sequence[TextEvent]
    position: int

    def __len__(self) -> int:
        return len(self.events)

    def keys(self) -> list[str | int]:
        """The events' keys."""
        return [event.key for event in self.events]

    def match(self, index: Index, now: datetime) -> pa.ListArray:
        """The ids of the subscriptions that each event satisfies."""
        return index.match_rows([event.attributes for event in self.events], now=now)

    def slice(self, start: int, stop: int) -> TextBatch:
        """Some of the events."""
        return TextBatch(self.path, self.events[start:stop], self.position)

    def bad_row(self, reason: str) -> BadRow:
        """The only event of a batch of one, as a bad row."""
        line = self.events[0].line
        return BadRow(str(self.path), reason, excerpt(line.source), line=line.number)


@dataclass(frozen=True, slots=True)
class ArrowBatch:
    """Events of a Parquet file."""

    path: Path
    batch: pa.RecordBatch
    first_row: int  # in the file, from 1
    first_number: int  # in all files, from 1
    position: int

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def keys(self) -> list[str | int]:
        """The events' keys."""
        numbers = range(self.first_number, self.first_number + len(self))
        name = key_column(self.batch.schema.names)
        if name is None:
            return list(numbers)
        keys = self.batch.column(name).to_pylist()
        return [number if key is None else key for key, number in zip(keys, numbers, strict=True)]

    def match(self, index: Index, now: datetime) -> pa.ListArray:
        """The ids of the subscriptions that each event satisfies."""
        return index.match_table(self.batch, now=now)

    def slice(self, start: int, stop: int) -> ArrowBatch:
        """Some of the events."""
        part = self.batch.slice(start, stop - start)
        return ArrowBatch(self.path, part, self.first_row + start, self.first_number + start, self.position)

    def bad_row(self, reason: str) -> BadRow:
        """The only event of a batch of one, as a bad row."""
        return BadRow(str(self.path), reason, excerpt(self.batch.to_pylist()[0]), row=self.first_row)


@dataclass(frozen=True, slots=True)
class EventSource:
    """A file, or a folder of Parquet files, to read events from."""

    parts: tuple[Path, ...]
    length: int  # in the unit of the batches' position: bytes for text, rows for Parquet
    key_type: pa.DataType  # of the keys in typed output; keys from JSON lines may be mixed, so they are strings there

    @staticmethod
    def open(path: Path) -> EventSource:
        """Look at the file, without reading its events."""
        parts = input_parts(path)
        with reading(path):
            if format_of(parts[0]) is Format.PARQUET:
                rows = sum(pq.read_metadata(part).num_rows for part in parts)
                return EventSource(parts, rows, _parquet_key_type(path, parts))
            has_key = format_of(path) is Format.JSON_LINES or key_column(csv_header(path))
            return EventSource(parts, path.stat().st_size, pa.string() if has_key else pa.int64())

    def check(self, index: Index) -> None:
        """Raise an EventError if no event here can be matched, because a column has the wrong type."""
        if format_of(self.parts[0]) is Format.PARQUET:
            index.check_schema(pq.read_schema(self.parts[0]))

    def names(self) -> list[str] | None:
        """The attributes that events here can have; None where each event has its own."""
        file_format = format_of(self.parts[0])
        if file_format is Format.PARQUET:
            return names_of_schema(pq.read_schema(self.parts[0]))
        return list(csv_header(self.parts[0])) if file_format is Format.CSV else None

    def batches(self, quarantine: Quarantine) -> Iterator[EventBatch]:
        """The events; what cannot be read goes to quarantine."""
        if format_of(self.parts[0]) is Format.PARQUET:
            yield from self._arrow_batches()
        else:
            yield from self._text_batches(self.parts[0], quarantine)

    def _text_batches(self, path: Path, quarantine: Quarantine) -> Iterator[TextBatch]:
        is_csv = format_of(path) is Format.CSV
        events: list[TextEvent] = []
        numbers = itertools.count(1)
        with reading(path), path.open("rb") as stream:
            for line in text_lines(stream, path):
                try:
                    events.append(_text_event(line, next(numbers), is_csv=is_csv))
                except UnreadableError as error:
                    quarantine.add(BadRow(str(path), str(error), excerpt(line.source), line=line.number))
                if len(events) == _BATCH_ROWS:
                    yield TextBatch(path, events, stream.tell())
                    events = []
        yield TextBatch(path, events, self.length)

    def _arrow_batches(self) -> Iterator[ArrowBatch]:
        number = 1
        for part in self.parts:
            row = 1
            with reading(part), pq.ParquetFile(part) as file:
                for batch in file.iter_batches(batch_size=8 * _BATCH_ROWS):
                    yield ArrowBatch(part, batch, row, number, number - 1 + batch.num_rows)
                    row += batch.num_rows
                    number += batch.num_rows


def key_column(names: Sequence[str]) -> str | None:
    """Which column is the event's key, if any."""
    return next((name for name in KEY_COLUMNS if name in names), None)


def _parquet_key_type(path: Path, parts: Sequence[Path]) -> pa.DataType:
    schema = pq.read_schema(parts[0])
    for part in parts[1:]:
        if not pq.read_schema(part).equals(schema):
            raise InputError(f"{part}: its columns are not those of {parts[0].name}")
    name = key_column(schema.names)
    if name is None:
        return pa.int64()
    kind = schema.field(name).type
    value_kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(value_kind) and value_kind != pa.uint64():
        return pa.int64()
    if pa.types.is_string(value_kind) or pa.types.is_large_string(value_kind) or pa.types.is_string_view(value_kind):
        return pa.string()
    raise InputError(f"{path}: column {name!r} is the event's key: it must be a string or an integer, not {kind}")


def _text_event(line: Line, number: int, *, is_csv: bool) -> TextEvent:
    values = line.values
    if isinstance(values, RowError):
        raise values
    if is_csv:
        attributes = {name: cell_value(cell) for name, cell in values.items() if cell}
        name = next((name for name in KEY_COLUMNS if values.get(name)), None)
        if name is None:
            return TextEvent(number, attributes, line)
        key = attributes[name]
        return TextEvent(key if type(key) is int else values[name], attributes, line)
    key = next((values[name] for name in KEY_COLUMNS if values.get(name) is not None), number)
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise RowError(f"the event's key, {key!r:.50}, is neither a string nor an integer")
    return TextEvent(key, attributes_of(values), line)
