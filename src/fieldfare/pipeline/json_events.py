"""Events from JSON lines, typed by a schema: columns of Arrow, and for each bad line the reason.

msgspec reads and checks a line in one go. It is as fast as Arrow's own JSON reader, which takes NaN for a number, makes
infinity of long ones, and ends the process at a line that says null.
"""

from __future__ import annotations

import codecs
import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter, methodcaller
from types import GenericAlias
from typing import Annotated, Any, BinaryIO, NamedTuple, TypeAlias, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.errors import InputError
from fieldfare.events import UnreadableError, json_values
from fieldfare.files.lines import LINE_BYTES_MAX, RowError
from fieldfare.files.quarantine import excerpt
from fieldfare.pipeline.ledger import Slice
from fieldfare.pipeline.row_structs import row_struct

_BLOCK_ROWS = 16_384
_BLOCK_BYTES = 4 * LINE_BYTES_MAX
FLOAT_MAX = 3.4028234663852886e38  # of 32 bits; beyond it, Arrow would make infinity of a number
_DECIMAL_PLACES_MAX = 38

FaultValue: TypeAlias = dict[str, str | None]
TextBlock: TypeAlias = tuple[list[pa.Array], list[FaultValue | None]]  # columns, and beside them each row's fault


class _Block(NamedTuple):
    """Lines that follow each other, and beside them their numbers in the file, from 1."""

    numbers: list[int]
    lines: list[bytes]


class JsonEvents:
    """Reads the lines of files whose events have this schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._decode = msgspec.json.Decoder(_object_type(schema)).decode
        self._has_decimals = "decimal" in str(schema)
        self._plain = _PlainRows.of(schema)

    @staticmethod
    @lru_cache(maxsize=16)
    def of(schema: pa.Schema) -> JsonEvents:
        """The reader for a schema, kept for the next files."""
        return JsonEvents(schema)

    def read(self, stream: BinaryIO, part: Slice) -> Iterator[TextBlock]:
        """The columns of some lines, and beside them the fault of each line, or None. Empty lines are passed over."""
        for block in _blocks(stream, part):
            if block.numbers[0] == 1:
                block.lines[0] = block.lines[0].removeprefix(codecs.BOM_UTF8)
            columns, reasons = self.decoded(block.lines)
            yield columns, _faults(part, block, reasons)

    def decoded(self, lines: Sequence[bytes]) -> tuple[list[pa.Array], list[str | None]]:
        """The columns of texts, each of them a JSON object, and for each text the reason why it is bad, or None."""
        if self._plain is not None and lines:
            try:
                return self._plain.decoded(lines, self._row)
            except (pa.ArrowException, OverflowError):
                pass  # a number does not fit its column: the longer way finds out which
        rows, reasons = self._rows(lines)
        return fitting_columns(self._schema, rows, reasons), reasons

    def _rows(self, lines: Sequence[bytes]) -> tuple[list[dict[str, Any]], list[str | None]]:
        """The objects of lines; where a line is bad, an empty one and the reason."""
        rows: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for line in lines:
            try:
                rows.append(self._row(line))
                reasons.append(None)
            except UnreadableError as error:
                rows.append({})
                reasons.append(str(error))
        return rows, reasons

    def _row(self, line: bytes) -> dict[str, Any]:
        if len(line) >= LINE_BYTES_MAX:
            raise RowError(f"longer than {LINE_BYTES_MAX:,} bytes")
        try:
            row: dict[str, Any] = self._decode(line)
        except (ValueError, RecursionError) as error:
            json_values(line)  # says it better where the line is not JSON at all
            raise RowError(str(error)) from error
        # Every key is followed by a colon: where there are as many as keys, no key stands twice, and none was ignored.
        if line.count(b":") != len(row):
            json_values(line)
        if self._has_decimals:
            _check_decimals(row)
        return row


class _PlainRows:
    """The common case in columns: no inner objects, and no decimals."""

    def __init__(self, schema: pa.Schema, struct: type[msgspec.Struct]) -> None:
        self._types = [field.type for field in schema]
        self._decode = msgspec.json.Decoder(struct).decode
        self._nothing = struct()
        self._values = [attrgetter(name) for name in struct.__struct_fields__]

    @staticmethod
    def of(schema: pa.Schema) -> _PlainRows | None:
        """None if events of this schema are not plain."""
        if any(pa.types.is_nested(field.type) or pa.types.is_decimal(field.type) for field in schema):
            return None
        struct = row_struct(schema.names, [_value_type(field.type) for field in schema])
        return None if struct is None else _PlainRows(schema, struct)

    def decoded(
        self, lines: Sequence[bytes], check: Callable[[bytes], object]
    ) -> tuple[list[pa.Array], list[str | None]]:
        """The columns of lines, and for each line the reason why it is bad, or None. `check` looks at a line closely.

        Every key is followed by a colon: a line with as many colons as columns that are not null has each key once.
        """
        rows, unread = [], set()
        for place, line in enumerate(lines):
            try:
                rows.append(self._decode(line))
            except (ValueError, RecursionError):
                rows.append(self._nothing)
                unread.add(place)
        columns = self._columns(rows)
        colons = np.fromiter(map(methodcaller("count", b":"), lines), np.int64, len(lines))
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        doubtful = np.flatnonzero((colons != _present(columns)) | (lengths >= LINE_BYTES_MAX))
        reasons: list[str | None] = [None] * len(lines)
        for place in sorted(unread.union(doubtful.tolist())):
            try:
                check(lines[place])
            except UnreadableError as error:
                reasons[place], rows[place] = str(error), self._nothing
        return columns if unread.issuperset(_bad(reasons)) else self._columns(rows), reasons

    def _columns(self, rows: Sequence[msgspec.Struct]) -> list[pa.Array]:
        pairs = zip(self._values, self._types, strict=True)
        return [pa.array(list(map(value, rows)), kind) for value, kind in pairs]


def _present(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64] | int:
    """How many columns are not null, in each row."""
    full = [column for column in columns if not column.null_count]
    found: npt.NDArray[np.int64] | int = len(full)
    for column in columns:
        if column.null_count:
            found = found + column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _bad(reasons: Sequence[str | None]) -> list[int]:
    return [place for place, reason in enumerate(reasons) if reason is not None]


def fitting_columns(schema: pa.Schema, rows: list[dict[str, Any]], reasons: list[str | None]) -> list[pa.Array]:
    """The rows as columns of a schema. A row with a number that does not fit is emptied, and gets the reason."""
    try:
        return _columns(schema, rows)
    except (pa.ArrowException, OverflowError):  # a number does not fit its column: find out which
        for place, row in enumerate(rows):
            if misfit := _misfit(schema, row):
                rows[place], reasons[place] = {}, misfit
        return _columns(schema, rows)


def _columns(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> list[pa.Array]:
    return [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]


def _misfit(schema: pa.Schema, row: dict[str, Any]) -> str | None:
    for field in schema:
        try:
            pa.array([row.get(field.name)], field.type)
        except (pa.ArrowException, OverflowError) as error:
            return f"column {field.name!r}: {error}"
    return None


def _check_decimals(value: Any) -> None:
    """Stop what Arrow cannot: it reads beyond its tables, and ends the process, for decimals of many places."""
    if isinstance(value, decimal.Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int) or abs(exponent) > _DECIMAL_PLACES_MAX:
            raise RowError(f"the decimal {value} is out of range")
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_decimals(inner)


def _faults(part: Slice, block: _Block, reasons: Sequence[str | None]) -> list[FaultValue | None]:
    return [
        None if reason is None else {"place": f"{part.name}:{number}", "reason": reason, "raw": excerpt(line)}
        for number, line, reason in zip(*block, reasons, strict=True)
    ]


def _blocks(stream: BinaryIO, part: Slice) -> Iterator[_Block]:
    """The lines of a slice that are not empty, in blocks of limited size."""
    block, size = _Block([], []), 0
    lines = islice(_lines(stream), part.first_row, part.first_row + part.rows)
    for number, line in enumerate(lines, part.first_row + 1):
        if line.isspace():
            continue
        block.numbers.append(number)
        block.lines.append(line)
        size += len(line)
        if len(block.lines) == _BLOCK_ROWS or size > _BLOCK_BYTES:
            yield block
            block, size = _Block([], []), 0
    if block.lines:
        yield block


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a file. Of one that is too long, only the beginning."""
    while line := stream.readline(LINE_BYTES_MAX):
        yield line
        while len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = stream.readline(LINE_BYTES_MAX)


def _object_type(fields: Sequence[pa.Field]) -> Any:
    """The type of objects with these fields, of which any may be missing or null."""
    columns = {_found_by_msgspec(field.name): _value_type(field.type) for field in fields}
    return TypedDict("_Object", columns, total=False)  # type: ignore[operator]


def _found_by_msgspec(name: str) -> str:
    """The name, with its UTF-8 kept by Python: msgspec does not find keys beyond ASCII in a TypedDict without that."""
    msgspec.json.encode(name)
    return name


def _value_type(kind: pa.DataType) -> Any:
    """The type that msgspec checks for the values of a column."""
    for is_kind, value_type in _PLAIN:
        if is_kind(kind):
            return value_type | None
    if pa.types.is_struct(kind):
        return _object_type(list(kind)) | None
    if pa.types.is_list(kind):
        return GenericAlias(list, (_value_type(kind.value_type),)) | None
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return GenericAlias(dict, (str, _value_type(kind.item_type))) | None
    raise InputError(f"JSON lines cannot hold values of type {kind}; choose another type for the column")


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_float32, Annotated[float, msgspec.Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)]),
    (pa.types.is_float64, float),
    (pa.types.is_decimal, decimal.Decimal),
    (pa.types.is_string, str),
    (pa.types.is_binary, bytes),  # in base64
    (pa.types.is_date, datetime.date),
    (pa.types.is_timestamp, datetime.datetime),  # without a zone it is UTC
)
