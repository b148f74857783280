"""Columns of a table in PostgreSQL for events, and their rows as COPY reads them.

Nested values become JSON. PostgreSQL's text has no character zero, so a row that holds one cannot be stored.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from fieldfare.errors import TableError
from fieldfare.store.outputs import BATCH_ID

_ROWS = 50_000  # that are turned into text at a time
_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_date, "date"),
    (lambda data_type: pa.types.is_timestamp(data_type) and data_type.tz is not None, "timestamptz"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_nested, "jsonb"),
)


@dataclass(frozen=True, slots=True)
class UnstorableRow:
    """A row that PostgreSQL cannot hold."""

    values: dict[str, Any]
    reason: str


def column_type(name: str, data_type: pa.DataType) -> str:
    """The type of a column; an error if there is none for it."""
    found = next((sql for is_one, sql in _TYPES if is_one(data_type)), None)
    if found is None:
        raise TableError(
            f"the column {name!r} has the type {data_type}, which has no equal in PostgreSQL: leave it out"
        )
    return found


def csv_pieces(path: Path, batch_id: int, unstorable: list[UnstorableRow]) -> Iterator[bytes]:
    """The rows of a file and the id of their batch as CSV: a missing value is empty, an empty text is quoted."""
    for rows in pq.ParquetFile(path).iter_batches(_ROWS):
        storable = _without_zeros(rows, unstorable)
        columns = [*map(_flat, storable.columns), pa.repeat(pa.scalar(batch_id, pa.int64()), storable.num_rows)]
        flat = pa.RecordBatch.from_arrays(columns, names=[*storable.schema.names, BATCH_ID])
        text = io.BytesIO()
        pyarrow.csv.write_csv(flat, text, pyarrow.csv.WriteOptions(include_header=False))
        yield text.getvalue()


def _flat(column: pa.Array) -> pa.Array:
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else _json(value) for value in column.to_pylist()], pa.string())
    if pa.types.is_binary(column.type):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    return column


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _without_zeros(rows: pa.RecordBatch, unstorable: list[UnstorableRow]) -> pa.RecordBatch:
    """The rows without a character zero; the others go to `unstorable`."""
    has_zero = pa.repeat(pa.scalar(False), rows.num_rows)  # noqa: FBT003 - a value
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            has_zero = pc.or_(has_zero, pc.fill_null(pc.match_substring(column, "\0"), fill_value=False))
        elif pa.types.is_nested(column.type):
            zeros = [value is not None and "\\u0000" in _json(value) for value in column.to_pylist()]
            has_zero = pc.or_(has_zero, pa.array(zeros, pa.bool_()))
    if pc.any(has_zero).as_py():
        reason = "a text has the character zero, which PostgreSQL cannot store"
        unstorable += [UnstorableRow(row, reason) for row in rows.filter(has_zero).to_pylist()]
        return rows.filter(pc.invert(has_zero))
    return rows
