"""Events that are rows of an Arrow table, turned into a batch of columns.

The attribute `place.city` is the column of that name or else, as in Spark, the field `city` of the struct `place`, or
the value that the map `place` has for the key `city`.
A column of a type that cannot be matched is an EventError if some subscription asks about it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fieldfare.errors import EventError
from fieldfare.language.values import TOO_LARGE
from fieldfare.matching.batch import Batch, Lists, Piece, Texts, Values
from fieldfare.matching.rows import batch_of_rows, decimal_point
from fieldfare.model import INT64_MAX, Range, Section

_EXACT_DECIMAL_DIGITS = 15  # decimals of up to so many digits are floats without loss
_MICROSECONDS = {"day": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
_ENCODED_ROWS_MIN = 64
_SUPPORTED = "use numbers, strings, booleans, dates, timestamps, lists, or a struct of low and high"


def batch_of_table(table: pa.Table | pa.RecordBatch, attributes: Collection[str]) -> Batch:
    """A batch of events that are the rows of an Arrow table."""
    columns: dict[str, Sequence[Piece]] = {}
    for attribute in attributes:
        column = _column_of(table, attribute)
        if column is not None:
            columns[attribute] = _pieces(column, attribute)
    return Batch(table.num_rows, columns)


def attribute_type(schema: pa.Schema, attribute: str) -> pa.DataType | None:
    """The type of an attribute; None where the schema does not have it."""
    if attribute in schema.names:
        return schema.field(schema.get_all_field_indices(attribute)[0]).type
    name, *path = attribute.split(".")
    if not path or name not in schema.names:
        return None
    kind = schema.field(name).type
    while path:
        if pa.types.is_map(kind):
            kind, path = kind.item_type, _after_key(kind, path)
            continue
        if not pa.types.is_struct(kind) or kind.get_field_index(path[0]) < 0:
            return None
        kind, path = kind.field(path[0]).type, path[1:]
    return kind


def _after_key(kind: pa.MapType, path: list[str]) -> list[str]:
    """What of a path is left after a map's key: keys may have dots, unless what they lead to has parts itself."""
    return path[1:] if pa.types.is_struct(kind.item_type) or pa.types.is_map(kind.item_type) else []


def _part_of(column: pa.Array, path: list[str]) -> pa.Array:
    """A field of structs, or the value for a key of maps."""
    while path:
        if pa.types.is_map(column.type):
            rest = _after_key(column.type, path)
            key = ".".join(path[: len(path) - len(rest)])
            is_text = pa.types.is_string(column.type.key_type) or pa.types.is_large_string(column.type.key_type)
            if not is_text:
                raise EventError(key, f"a map with keys of type {column.type.key_type} is not looked up; use strings")
            column, path = pc.map_lookup(column, pa.scalar(key, column.type.key_type), "first"), rest
        else:
            column, path = pc.struct_field(column, path[:1]), path[1:]
    return column


def _column_of(table: pa.Table | pa.RecordBatch, attribute: str) -> pa.Array | None:
    if attribute_type(table.schema, attribute) is None:
        return None
    name, path = attribute, []
    if attribute not in table.schema.names:
        name, *path = attribute.split(".")
    if table.schema.names.count(name) > 1:
        raise EventError(attribute, f"the table has several columns named {name!r}")
    column = table.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return _part_of(column, path)


def unmatchable(schema: pa.Schema, attributes: Iterable[str]) -> list[str]:
    """Those of the attributes that are columns of a type that cannot be matched."""
    found = []
    for name in attributes:
        if name in schema.names:
            try:
                _pieces(pa.nulls(1, schema.field(name).type), name)
            except EventError:
                found.append(name)
    return found


def _pieces(array: pa.Array, attribute: str) -> list[Piece]:
    if pa.types.is_null(array.type):
        return []
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        array = array.dictionary_decode()  # a null there is a null here
    rows = None
    if array.null_count:
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        array = array.drop_null()
    if pa.types.is_struct(array.type):
        return _range_pieces(array, rows, attribute)
    if is_list(array.type):
        return [_list_piece(array, rows, attribute)]
    section, values = _column(array, attribute)
    return [Piece(section, rows, values)]


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is that of lists, in one of Arrow's ways."""
    return pa.types.is_nested(kind) and any(is_kind(kind) for is_kind in _LIST_TYPES)


_LIST_TYPES = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def _list_piece(array: pa.Array, rows: npt.NDArray[np.int64] | None, attribute: str) -> Piece:
    """Lists, none of which is null."""
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(np.asarray(pc.list_value_length(array)), out=offsets[1:])

    def members() -> list[Piece]:
        flat = array.flatten()
        if pa.types.is_nested(flat.type):
            return []
        if pa.types.is_string(flat.type) and not flat.null_count:  # members are hashed anyway
            return [Piece(Section.STRING, None, Values(texts=_texts(flat)))]
        return _pieces(flat, attribute)

    zeros = Values(np.zeros(len(array), np.int64))
    return Piece(Section.NAN, rows, zeros, lists=Lists(offsets, members, lambda place: array[place].as_py()))


def _range_pieces(array: pa.StructArray, rows: npt.NDArray[np.int64] | None, attribute: str) -> list[Piece]:
    if {field.name for field in array.type} != {"low", "high"}:
        raise EventError(
            attribute, f"a column of type {array.type} cannot be matched; a range is a struct of low and high"
        )
    columns = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    ends = [columns["low"], columns["high"]]
    simple = ends[0].type == ends[1].type and not pa.types.is_dictionary(ends[0].type)
    if not simple or any(end.null_count for end in ends):
        batch = batch_of_rows([{attribute: Range(**row)} for row in array.to_pylist()], [attribute])
        return [_moved(piece, rows) for piece in batch.columns[attribute]]
    (section, low), (_, high) = (_column(end, attribute) for end in ends)
    if pc.any(pc.invert(pc.less_equal(*ends))).as_py():
        raise EventError(attribute, "a range is empty: its low end exceeds its high end")
    return [Piece(section, rows, low, high)]


def _moved(piece: Piece, rows: npt.NDArray[np.int64] | None) -> Piece:
    return (
        piece if rows is None or piece.rows is None else Piece(piece.section, rows[piece.rows], piece.low, piece.high)
    )


def _column(array: pa.Array, attribute: str) -> tuple[Section, Values]:
    """A column without nulls."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return Section.BOOLEAN, Values(array.cast(pa.int8()).to_numpy().astype(np.int64))
    if pa.types.is_unsigned_integer(kind) and kind.bit_width == 64:
        numbers = array.to_numpy()
        if len(numbers) and int(numbers.max()) > INT64_MAX:
            raise EventError(attribute, TOO_LARGE)
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
        if len(array) < _ENCODED_ROWS_MIN:
            return Section.STRING, Values(texts=_texts(array))
        array = array.dictionary_encode()  # events repeat strings, and hashing one is cheaper than searching for it
        return _column(array, attribute)
    if pa.types.is_dictionary(kind) and not pa.types.is_nested(kind.value_type):
        codes = array.indices.to_numpy().astype(np.int32, copy=False)
        if pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type):
            return Section.STRING, Values(texts=_texts(array.dictionary), codes=codes)
        section, values = _column(array.dictionary, attribute)
        return section, Values(values.numbers[codes])
    instead = f"ask for one of its keys, as in {attribute}['key']" if pa.types.is_map(kind) else _SUPPORTED
    raise EventError(attribute, f"a column of type {kind} cannot be matched; {instead}")


def _decimals(array: pa.Array) -> npt.NDArray[Any]:
    if array.type.precision <= _EXACT_DECIMAL_DIGITS:
        return np.asarray(pc.cast(array, pa.float64()))
    values = [decimal_point(value, "")[1] for value in array.to_pylist()]
    exact = all(isinstance(value, int) for value in values)
    return np.array(values, np.int64 if exact else np.float64)


def _microseconds(array: pa.Array, attribute: str) -> npt.NDArray[np.int64]:
    """Microseconds since 1970; a timestamp in nanoseconds is rounded down, as Spark does."""
    unit = "day" if pa.types.is_date32(array.type) else "ms" if pa.types.is_date64(array.type) else array.type.unit
    ticks = np.asarray(array.cast(pa.int32()) if unit == "day" else array.cast(pa.int64())).astype(np.int64)
    if unit == "ns":
        return ticks // 1_000
    factor = _MICROSECONDS[unit]
    if factor > 1 and len(ticks) and max(int(ticks.max()), -int(ticks.min())) > INT64_MAX // factor:
        raise EventError(attribute, "a date or timestamp is too far away to count in microseconds")
    return ticks * factor


def _texts(array: pa.Array) -> Texts:
    large = array.cast(pa.large_string())
    _, offsets, data = large.buffers()
    starts = (
        np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
        if offsets
        else np.zeros(1, np.int64)
    )
    return Texts(starts, np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))
