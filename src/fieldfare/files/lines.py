"""Rows of text files: CSV records and JSON objects, one at a time, each with its line number.

A row that cannot be read is yielded too, with a reason in place of its values, so that one bad line costs one row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from fieldfare.errors import InputError
from fieldfare.events import UnreadableError, json_values
from fieldfare.files.formats import Format, ReadableFile, format_of

if TYPE_CHECKING:
    from _csv import Reader  # the module csv does not name the type of its readers

LINE_BYTES_MAX = 16 * 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class RowError(UnreadableError):
    """A row of a file cannot be used; the message is the reason."""


class Line(NamedTuple):  # and not a dataclass, which takes three times as long to make
    """A row of a text file: its values, or the error that stands for them."""

    number: int
    source: bytes | list[str]
    values: dict[str, Any] | RowError


def csv_header(path: ReadableFile) -> list[str]:
    """The column names of a CSV file."""
    with TextIOWrapper(path.open("rb"), encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
        try:
            header = next(csv.reader(stream, strict=True), [])
        except csv.Error as error:
            raise InputError(f"{path}: the header is not CSV: {error}") from error
    if not header or not all(header):
        raise InputError(f"{path}: the first line must name every column")
    if len(set(header)) < len(header):
        raise InputError(f"{path}: two columns have the same name")
    return header


def text_lines(stream: BinaryIO, path: Path) -> Iterator[Line]:
    """The rows of a text file, opened as `stream`."""
    return csv_lines(stream, csv_header(path)) if format_of(path) is Format.CSV else json_lines(stream)


def csv_lines(stream: BinaryIO, header: list[str]) -> Iterator[Line]:
    """The records of a CSV file, every value a string. Empty lines are passed over."""
    text = TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        reader = csv.reader(text, strict=True)
        next(reader)
        while True:
            line = _csv_line(reader, header)
            if line is None:
                return
            if line.source or isinstance(line.values, RowError):
                yield line
    finally:
        text.detach()  # else it would close the stream, which is the caller's


def _csv_line(reader: Reader, header: list[str]) -> Line | None:
    """The next record; None at the end."""
    number = reader.line_num + 1
    cells: list[str] = []
    values: dict[str, Any] | RowError
    try:
        cells = next(reader)
        values = _csv_values(header, cells) if cells else {}
    except StopIteration:
        return None
    except csv.Error as error:
        values = RowError(f"not CSV: {error}")
    except RowError as error:
        values = error
    return Line(number, cells, values)


def _csv_values(header: list[str], cells: list[str]) -> dict[str, Any]:
    if len(cells) != len(header):
        raise RowError(f"{len(cells)} cells where the header has {len(header)}")
    for cell in cells:
        if not cell.isascii() and any("\ud800" <= character <= "\udfff" for character in cell):
            raise RowError("not valid UTF-8")
    return dict(zip(header, cells, strict=True))


def json_lines(stream: BinaryIO) -> Iterator[Line]:
    """The objects of a JSON lines file. Empty lines are passed over."""
    number = 0
    while line := stream.readline(LINE_BYTES_MAX):
        number += 1
        values: dict[str, Any] | RowError
        try:
            if len(line) == LINE_BYTES_MAX:
                _skip_line(stream)
                raise RowError(f"longer than {LINE_BYTES_MAX:,} bytes")
            if line.isspace():
                continue
            values = json_values(line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line)
        except UnreadableError as error:
            values = RowError(str(error))
        yield Line(number, line, values)


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
        pass
