"""Events of a file as they are published: each a JSON object. What is JSON already stays as it is, byte for byte.

The same checks as at a broker are made here, so that a bad row is known with its place in the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import pyarrow.parquet as pq

from fieldfare.errors import InputError
from fieldfare.events import UnreadableError, event_attributes
from fieldfare.files.cells import cell_value
from fieldfare.files.formats import Format, format_of, input_parts, reading
from fieldfare.files.lines import Line, RowError, json_lines, text_lines
from fieldfare.files.quarantine import BadRow, excerpt
from fieldfare.messages import EVENT_BYTES_MAX

_BATCH_ROWS = 8192


class Document(NamedTuple):
    """An event, and where it stands. `position` is how much of its file has been read: bytes, or rows of Parquet."""

    event: bytes
    file: str
    position: int
    line: int | None = None
    row: int | None = None

    def bad(self, reason: str) -> BadRow:
        """The event as a row that is left out."""
        return BadRow(self.file, reason, excerpt(self.event), line=self.line, row=self.row)


def documents(path: Path) -> Iterator[Document | BadRow]:
    """The events of a CSV, JSON lines or Parquet file, or of a folder of Parquet files."""
    parts = input_parts(path)
    return _of_parquet(parts) if format_of(parts[0]) is Format.PARQUET else _of_text(path)


def documents_of_stream(stream: BinaryIO) -> Iterator[Document | BadRow]:
    """The events of JSON lines, each as soon as its line is complete."""
    for line in json_lines(stream):
        yield _of_line(line, "-", 0)


def events_of_text(text: str) -> list[bytes]:
    """The event, or the array of events, that a text holds."""
    source = text.encode("utf-8", "surrogateescape").strip()
    try:
        events = msgspec.json.decode(source, type=list[msgspec.Raw]) if source.startswith(b"[") else [source]
        return [_checked(bytes(event)) for event in events]
    except (UnreadableError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"this is not an event, a JSON object, nor an array of them: {error}") from error


def _of_text(path: Path) -> Iterator[Document | BadRow]:
    with reading(path), path.open("rb") as stream:
        for line in text_lines(stream, path):
            yield _of_line(line, str(path), stream.tell())


def _of_line(line: Line, file: str, position: int) -> Document | BadRow:
    try:
        return Document(_event_of_line(line), file, position, line=line.number)
    except UnreadableError as error:
        return BadRow(file, str(error), excerpt(line.source), line=line.number)


def _event_of_line(line: Line) -> bytes:
    if isinstance(line.values, RowError):
        raise line.values
    if isinstance(line.source, bytes):
        return _checked(line.source.removeprefix(b"\xef\xbb\xbf").strip())
    return _encoded({name: cell_value(cell) for name, cell in line.values.items() if cell})


def _of_parquet(parts: Sequence[Path]) -> Iterator[Document | BadRow]:
    position = 0
    for part in parts:
        with reading(part), pq.ParquetFile(part) as file:
            row = 0
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for values in batch.to_pylist():
                    row, position = row + 1, position + 1
                    try:
                        event = _encoded({name: value for name, value in values.items() if value is not None})
                        yield Document(event, str(part), position, row=row)
                    except UnreadableError as error:
                        yield BadRow(str(part), str(error), excerpt(values), row=row)


def _encoded(values: dict[str, Any]) -> bytes:
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise RowError(f"the attribute {name!r} is {value}, which has no form in JSON")
    try:
        event = msgspec.json.encode(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise RowError(f"it has no form in JSON: {error}") from error
    return _checked(event)


def _checked(event: bytes) -> bytes:
    if len(event) > EVENT_BYTES_MAX:
        raise RowError(f"an event of {len(event):,} bytes, and {EVENT_BYTES_MAX:,} are the most")
    event_attributes(event)  # raises where a broker would
    return event
