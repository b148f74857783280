"""Events as people have them, a dict each or an Arrow table, turned into a batch of columns.

Only the attributes that some subscription asks about are read: anything else is carried by the caller and may be of
any type. A value that cannot be matched, in an attribute that is asked about, is an EventError.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fieldfare.errors import EventError
from fieldfare.matching.batch import Batch, Piece, Texts, Values
from fieldfare.model import INT64_MAX, INT64_MIN, Range, Section

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT_DECIMAL_DIGITS = 15  # decimals of up to so many digits are floats without loss

Event = Mapping[str, Any]
_Point = tuple[Section, float | int | bytes]

# What an open end of a range stands for.
_LOWEST: dict[Section, float | int | bytes] = {
    Section.BOOLEAN: 0,
    Section.NUMBER: -math.inf,
    Section.STRING: b"",
    Section.TIME: INT64_MIN,
}
_HIGHEST: dict[Section, float | int | bytes] = {
    Section.BOOLEAN: 1,
    Section.NUMBER: math.inf,
    Section.STRING: b"\xff",  # above all UTF-8
    Section.TIME: INT64_MAX,
}


def batch_of_rows(rows: Sequence[Event], attributes: Collection[str]) -> Batch:
    """A batch of events that are dicts."""
    columns = {}
    for attribute in attributes:
        groups: dict[tuple[Section, type, type, bool], tuple[list[int], list[Any], list[Any]]] = {}
        for number, row in enumerate(rows):
            value = row.get(attribute)
            if value is None:
                continue
            section, low, high = _ends(value, attribute)
            kind = (section, type(low), type(high), isinstance(value, Range))
            numbers, lows, highs = groups.setdefault(kind, ([], [], []))
            numbers.append(number)
            lows.append(low)
            highs.append(high)
        columns[attribute] = [
            Piece(section, np.array(numbers, np.int64), _values(lows), _values(highs) if ranged else None)
            for (section, _, _, ranged), (numbers, lows, highs) in groups.items()
        ]
    return Batch(len(rows), columns)


def _values(points: list[Any]) -> Values:
    if isinstance(points[0], bytes):
        return Values(None, Texts.of(points))
    return Values(np.array(points, np.float64 if isinstance(points[0], float) else np.int64))


def _ends(value: object, attribute: str) -> tuple[Section, float | int | bytes, float | int | bytes]:
    if not isinstance(value, Range):
        section, point = _point(value, attribute)
        return section, point, point
    ends = [_point(end, attribute) for end in (value.low, value.high) if end is not None]
    if not ends:
        raise EventError(attribute, "a range needs at least one end")
    section = ends[0][0]
    if ends[-1][0] is not section:
        raise EventError(attribute, f"the ends of a range must be of one type, not {value.low!r} and {value.high!r}")
    low = _LOWEST[section] if value.low is None else ends[0][1]
    high = _HIGHEST[section] if value.high is None else ends[-1][1]
    if not low <= high:  # type: ignore[operator]
        raise EventError(attribute, f"the range from {value.low!r} to {value.high!r} is empty: low must not exceed high")
    return section, low, high


def _point(value: object, attribute: str) -> _Point:
    for known, convert in _CONVERSIONS:
        if isinstance(value, known):
            return convert(value, attribute)
    if isinstance(value, np.generic):
        return _point(value.item(), attribute)
    raise EventError(attribute, f"a value of type {type(value).__name__} cannot be matched; {_SUPPORTED}")


_SUPPORTED = "use a number, string, boolean, date, datetime, None or fieldfare.Range"


_TOO_LARGE = "an integer beyond 64 bits cannot be matched; give it as a float or as a string"


def _integer(value: int, attribute: str) -> _Point:
    if not INT64_MIN <= value <= INT64_MAX:
        raise EventError(attribute, _TOO_LARGE)
    return Section.NUMBER, int(value)


def _decimal(value: Decimal, attribute: str) -> _Point:
    if value.is_finite() and value == value.to_integral_value() and INT64_MIN <= value <= INT64_MAX:
        return Section.NUMBER, int(value)
    if value.is_snan():
        raise EventError(attribute, "a signalling NaN cannot be matched")
    return Section.NUMBER, float(value)


def _string(value: str, attribute: str) -> _Point:
    try:
        return Section.STRING, value.encode()
    except UnicodeEncodeError as error:
        raise EventError(attribute, "a string with a lone surrogate is not valid Unicode text") from error


def _datetime(value: datetime.datetime, _: str) -> _Point:
    aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return Section.TIME, (aware - _EPOCH) // _MICROSECOND


def _date(value: datetime.date, _: str) -> _Point:
    return Section.TIME, (value - _EPOCH.date()) // _MICROSECOND


# In this order: a bool is an int, and a datetime is a date.
_CONVERSIONS: list[tuple[type, Callable[[Any, str], _Point]]] = [
    (bool, lambda value, _: (Section.BOOLEAN, int(value))),
    (float, lambda value, _: (Section.NUMBER, float(value))),
    (int, _integer),
    (str, _string),
    (datetime.datetime, _datetime),
    (datetime.date, _date),
    (Decimal, _decimal),
]


def batch_of_table(table: pa.Table | pa.RecordBatch, attributes: Collection[str]) -> Batch:
    """A batch of events that are the rows of an Arrow table."""
    columns: dict[str, Sequence[Piece]] = {}
    for attribute in attributes:
        fields = table.schema.get_all_field_indices(attribute)
        if len(fields) > 1:
            raise EventError(attribute, "the table has several columns of this name")
        if fields:
            column = table.column(fields[0])
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
            columns[attribute] = _pieces(column, attribute)
    return Batch(table.num_rows, columns)


def _pieces(array: pa.Array, attribute: str) -> list[Piece]:
    if pa.types.is_null(array.type):
        return []
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    rows = None
    if array.null_count:
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        array = array.drop_null()
    if pa.types.is_struct(array.type):
        return _range_pieces(array, rows, attribute)
    section, values = _column(array, attribute)
    return [Piece(section, rows, values)]


def _range_pieces(array: pa.StructArray, rows: npt.NDArray[np.int64] | None, attribute: str) -> list[Piece]:
    if {field.name for field in array.type} != {"low", "high"}:
        raise EventError(attribute, f"a column of type {array.type} cannot be matched; a range is a struct of low and high")
    ends = [array.field("low"), array.field("high")]
    if array.offset or any(end.null_count for end in ends) or ends[0].type != ends[1].type:
        batch = batch_of_rows([{attribute: Range(**row)} for row in array.to_pylist()], [attribute])
        return [_moved(piece, rows) for piece in batch.columns[attribute]]
    (section, low), (_, high) = (_column(end, attribute) for end in ends)
    if not bool(pc.all(pc.less_equal(*ends)).as_py() in (True, None)):
        raise EventError(attribute, "a range is empty: its low end exceeds its high end")
    return [Piece(section, rows, low, high)]


def _moved(piece: Piece, rows: npt.NDArray[np.int64] | None) -> Piece:
    return piece if rows is None or piece.rows is None else Piece(piece.section, rows[piece.rows], piece.low, piece.high)


def _column(array: pa.Array, attribute: str) -> tuple[Section, Values]:
    """A column without nulls."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return Section.BOOLEAN, Values(array.cast(pa.int8()).to_numpy().astype(np.int64))
    if pa.types.is_unsigned_integer(kind) and kind.bit_width == 64:
        numbers = array.to_numpy()
        if len(numbers) and int(numbers.max()) > INT64_MAX:
            raise EventError(attribute, _TOO_LARGE)
        return Section.NUMBER, Values(numbers.astype(np.int64))
    if pa.types.is_integer(kind):
        return Section.NUMBER, Values(array.to_numpy().astype(np.int64, copy=False))
    if pa.types.is_floating(kind):
        return Section.NUMBER, Values(array.to_numpy().astype(np.float64, copy=False))
    if pa.types.is_decimal(kind):
        return Section.NUMBER, Values(_decimals(array))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Section.TIME, Values(_microseconds(array, attribute))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Section.STRING, Values(None, _texts(array))
    if pa.types.is_dictionary(kind) and not pa.types.is_nested(kind.value_type):
        section, values = _column(array.dictionary, attribute)
        codes = array.indices.to_numpy().astype(np.int32, copy=False)
        if values.numbers is not None:
            return section, Values(values.numbers[codes])
        return section, Values(None, values.texts, codes)
    raise EventError(attribute, f"a column of type {kind} cannot be matched; {_SUPPORTED_COLUMNS}")


_SUPPORTED_COLUMNS = "use numbers, strings, booleans, dates, timestamps, or a struct of low and high"


def _decimals(array: pa.Array) -> npt.NDArray[Any]:
    if array.type.precision <= _EXACT_DECIMAL_DIGITS:
        return pc.cast(array, pa.float64()).to_numpy()
    values = [_decimal(value, "")[1] for value in array.to_pylist()]
    exact = all(isinstance(value, int) for value in values)
    return np.array(values, np.int64 if exact else np.float64)


def _microseconds(array: pa.Array, attribute: str) -> npt.NDArray[np.int64]:
    """Microseconds since 1970; a timestamp in nanoseconds is rounded down, as Spark does."""
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).to_numpy().astype(np.int64) * 86_400_000_000
    ticks = array.cast(pa.int64()).to_numpy()
    if pa.types.is_date64(array.type):
        return ticks * 1_000
    if array.type.unit == "ns":
        return ticks // 1_000
    factor = {"s": 1_000_000, "ms": 1_000, "us": 1}[array.type.unit]
    if len(ticks) and max(abs(int(ticks.max())), abs(int(ticks.min()))) > INT64_MAX // factor:
        raise EventError(attribute, "a timestamp is too far away to count in microseconds")
    return ticks * factor


def _texts(array: pa.Array) -> Texts:
    large = array.cast(pa.large_string())
    _, offsets, data = large.buffers()
    starts = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1] if offsets else np.zeros(1, np.int64)
    return Texts(starts, np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))
