"""Events from CSV records, typed by a schema: columns of Arrow, and for each bad record the reason.

A cell is read as everywhere in Fieldfare, one by one; the schema then says which of these values it may be. An empty
cell is NULL. Text columns keep their cells as they stand.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import pyarrow as pa

from fieldfare.errors import InputError
from fieldfare.files.cells import cell_value
from fieldfare.files.formats import ReadableFile
from fieldfare.files.lines import Line, RowError, csv_header, csv_lines
from fieldfare.files.quarantine import excerpt
from fieldfare.pipeline.json_events import FLOAT_MAX, FaultValue, TextBlock, fitting_columns
from fieldfare.pipeline.ledger import Slice

_BLOCK_ROWS = 16_384
_INTEGERS = range(-(2**63), 2**63)


def count_records(path: ReadableFile) -> int:
    """The number of records in a CSV file, also bad ones."""
    header = csv_header(path)
    with path.open("rb") as stream:
        return sum(1 for _ in csv_lines(stream, header))


class CsvEvents:
    """Reads the records of files whose events have this schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._readers = {field.name: _cell_reader(field.type) for field in schema}

    @staticmethod
    @lru_cache(maxsize=16)
    def of(schema: pa.Schema) -> CsvEvents:
        """The reader for a schema, kept for the next files."""
        return CsvEvents(schema)

    def read(self, path: ReadableFile, part: Slice) -> Iterator[TextBlock]:
        """The columns of some records, and beside them the fault of each, or None."""
        header = csv_header(path)
        if not set(header) & set(self._readers):
            raise InputError(f"it has none of the columns {', '.join(self._readers)}")
        with path.open("rb") as stream:
            lines = islice(csv_lines(stream, header), part.first_row, part.first_row + part.rows)
            while block := list(islice(lines, _BLOCK_ROWS)):
                rows, reasons = self._rows(block)
                columns = fitting_columns(self._schema, rows, reasons)
                yield columns, [_fault(part, line, reason) for line, reason in zip(block, reasons, strict=True)]

    def _rows(self, lines: Sequence[Line]) -> tuple[list[dict[str, Any]], list[str | None]]:
        """The values of records; where one is bad, an empty one and the reason."""
        rows: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for line in lines:
            try:
                rows.append(self._row(line))
                reasons.append(None)
            except RowError as error:
                rows.append({})
                reasons.append(str(error))
        return rows, reasons

    def _row(self, line: Line) -> dict[str, Any]:
        if isinstance(line.values, RowError):
            raise line.values
        row = {}
        for name, cell in line.values.items():
            if cell and (read := self._readers.get(name)):
                try:
                    row[name] = read(cell)
                except RowError as error:
                    raise RowError(f"column {name!r}: {error}") from error
        return row


def csv_schema(paths: Iterable[ReadableFile], lines_max: int) -> pa.Schema:
    """The schema that the first records of files have: a column of several kinds of cells is text."""
    kinds: dict[str, set[pa.DataType]] = {}
    for path in paths:
        header = csv_header(path)
        for name in header:
            kinds.setdefault(name, set())
        with path.open("rb") as stream:
            for line in islice(csv_lines(stream, header), lines_max):
                if not isinstance(line.values, RowError):
                    for name, cell in line.values.items():
                        if cell:
                            kinds[name].add(_kind(cell))
    if not any(kinds.values()):
        raise InputError("no record can be read")
    return pa.schema([(name, _common(found)) for name, found in kinds.items()])


def _kind(cell: str) -> pa.DataType:
    try:
        value = cell_value(cell)
    except RowError:  # a number out of range
        return _TEXT
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return _INTEGER if value in _INTEGERS else _TEXT
    if isinstance(value, datetime.datetime):
        return _TIME
    return pa.float64() if isinstance(value, float) else _DATE if isinstance(value, datetime.date) else _TEXT


_TEXT, _INTEGER, _DATE, _TIME = pa.string(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC")


def _common(kinds: set[pa.DataType]) -> pa.DataType:
    if len(kinds) == 1:
        return next(iter(kinds))
    for wide, narrow in ((pa.float64(), _INTEGER), (_TIME, _DATE)):
        if kinds == {wide, narrow}:
            return wide
    return _TEXT


def _fault(part: Slice, line: Line, reason: str | None) -> FaultValue | None:
    if reason is None:
        return None
    return {"place": f"{part.name}:{line.number}", "reason": reason, "raw": excerpt(line.source)}


def _cell_reader(kind: pa.DataType) -> Callable[[str], Any]:
    """What makes a value for a column of a cell that is not empty."""
    for is_kind, read in _READERS:
        if is_kind(kind):
            return read
    raise InputError(f"CSV cannot hold values of type {kind}; choose another type for the column")


def _value(cell: str, name: str, *kinds: type) -> Any:
    """What a cell says, which must be of one of these types. A boolean is no number, and a timestamp no date."""
    value = cell_value(cell)
    if type(value) not in kinds:
        raise RowError(f"{cell!r} is not {name}")
    return value


def _float32(cell: str) -> float:
    number = _value(cell, "a number", int, float)
    if math.isfinite(number) and abs(number) > FLOAT_MAX:
        raise RowError(f"the number {cell} is out of range")
    return float(number)


def _float64(cell: str) -> float:
    try:
        return float(_value(cell, "a number", int, float))
    except OverflowError as error:
        raise RowError(f"the number {cell} is out of range") from error


def _decimal(cell: str) -> decimal.Decimal:
    if not math.isfinite(_value(cell, "a number", int, float)):
        raise RowError(f"{cell!r} is not a number")
    return decimal.Decimal(cell)


def _time(cell: str) -> datetime.datetime:
    value = _value(cell, "a timestamp", datetime.date, datetime.datetime)
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...] = (
    (pa.types.is_string, str),
    (pa.types.is_boolean, lambda cell: _value(cell, "true or false", bool)),
    (pa.types.is_integer, lambda cell: _value(cell, "an integer", int)),
    (pa.types.is_float32, _float32),
    (pa.types.is_float64, _float64),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date, lambda cell: _value(cell, "a date", datetime.date)),
    (pa.types.is_timestamp, _time),
)
