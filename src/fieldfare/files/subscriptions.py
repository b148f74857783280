"""Subscriptions from files: columns `subscription_id` (or `id`) and `condition`; a store also reads `TERM_COLUMNS`.

Ids are integers if all of them are, else strings. Of two rows with one id the first stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.errors import ConditionError, InputError
from fieldfare.files.cells import is_integer
from fieldfare.files.formats import Format, format_of, input_parts, reading
from fieldfare.files.lines import Line, RowError, csv_header, text_lines
from fieldfare.files.quarantine import BadRow, Quarantine, excerpt
from fieldfare.language import compile_many
from fieldfare.matching.index import Index
from fieldfare.matching.unknown_names import errors_of_case
from fieldfare.model import INT64_MAX, INT64_MIN

ID_COLUMNS = ("subscription_id", "id")
TERM_COLUMNS = ("tenant", "topic", "lifetime_seconds")


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription as it stands in a file, not yet checked."""

    path: Path
    number: int  # of the line in a text file, of the row in a Parquet file
    subscription_id: Any
    condition: Any
    source: object
    terms: tuple[Any, ...] = ()  # the values of TERM_COLUMNS, if there are any
    error: RowError | None = None  # it cannot even be read

    def bad(self, reason: str) -> BadRow:
        """The row as quarantine keeps it."""
        unit = "row" if format_of(self.path) is Format.PARQUET else "line"
        return BadRow(str(self.path), reason, excerpt(self.source), **{unit: self.number})


def read_index(path: Path, quarantine: Quarantine, names: Sequence[str] | None = None) -> Index:
    """Build an index of the subscriptions in a file; bad rows go to quarantine.

    With the `names` of all attributes that events can have, a condition that has one of them in another case is bad.
    """
    rows: dict[str, SubscriptionRow] = {}  # by the id's text, so that 1 and "1" are one id
    for row in subscription_rows(path):
        try:
            check_row(row)
            first = rows.setdefault(str(row.subscription_id), row)
            if first is not row:
                raise RowError(f"the id {row.subscription_id!r} stands twice; it was first given at {first.number}")
        except RowError as error:
            quarantine.add(row.bad(str(error)))
    sound = list(rows.values())
    try:
        index = Index(_table(sound))
    except ConditionError:
        sound = _compilable(sound, quarantine)
        index = Index(_table(sound))
    if names is not None:
        errors = errors_of_case([row.condition for row in sound], index.attributes, set(names))
        if errors:
            index = Index(_table(_without(sound, errors, quarantine)))
    if quarantine.first and not len(index):
        raise InputError(f"{path}: none of its rows is a subscription; of the first: {quarantine.first.reason}")
    return index


def check_row(row: SubscriptionRow) -> None:
    """Raise a RowError if a row has no id or no condition, or they are of the wrong type."""
    if row.error:
        raise row.error
    identifier = row.subscription_id
    if identifier is None or identifier == "":
        raise RowError("it has no subscription_id")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        raise RowError("the subscription_id is neither a string nor an integer")
    if isinstance(identifier, int) and not INT64_MIN <= identifier <= INT64_MAX:
        raise RowError("the subscription_id is beyond 64 bits")
    if not isinstance(row.condition, str):
        raise RowError("it has no condition" if row.condition is None else "the condition is not a string")


def _compilable(rows: Sequence[SubscriptionRow], quarantine: Quarantine) -> list[SubscriptionRow]:
    """The rows whose condition compiles."""
    return _without(rows, dict(compile_many([row.condition for row in rows]).errors), quarantine)


def _without(
    rows: Sequence[SubscriptionRow], errors: Mapping[int, ConditionError], quarantine: Quarantine
) -> list[SubscriptionRow]:
    """The rows that have no error; the others go to quarantine."""
    for number, error in sorted(errors.items()):
        quarantine.add(rows[number].bad(str(error)))
    return [row for number, row in enumerate(rows) if number not in errors]


def _table(rows: Sequence[SubscriptionRow]) -> pa.Table:
    ids = [row.subscription_id for row in rows]
    if not all(isinstance(identifier, int) for identifier in ids):
        ids = [str(identifier) for identifier in ids]
    kind = pa.int64() if ids and isinstance(ids[0], int) else pa.string()
    return pa.table(
        {
            "subscription_id": pa.array(ids, kind),
            "condition": pa.array([row.condition for row in rows], pa.string()),
        }
    )


def subscription_rows(path: Path) -> Iterator[SubscriptionRow]:
    """The rows of a file, or of a folder of Parquet files."""
    for part in input_parts(path):
        with reading(part):
            if format_of(part) is Format.PARQUET:
                yield from _parquet_rows(part)
            else:
                yield from _text_rows(part)


def _text_rows(path: Path) -> Iterator[SubscriptionRow]:
    is_csv = format_of(path) is Format.CSV
    if is_csv:
        _id_column(path, csv_header(path))
    with path.open("rb") as stream:
        for line in text_lines(stream, path):
            yield _text_row(path, line, is_csv=is_csv)


def _text_row(path: Path, line: Line, *, is_csv: bool) -> SubscriptionRow:
    if isinstance(line.values, RowError):
        return SubscriptionRow(path, line.number, None, None, line.source, error=line.values)
    identifier = next((line.values[name] for name in ID_COLUMNS if line.values.get(name) is not None), None)
    if is_csv and identifier and is_integer(identifier):
        identifier = int(identifier)
    terms = () if line.values.keys().isdisjoint(TERM_COLUMNS) else tuple(map(line.values.get, TERM_COLUMNS))
    return SubscriptionRow(path, line.number, identifier, line.values.get("condition"), line.source, terms)


def _parquet_rows(path: Path) -> Iterator[SubscriptionRow]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        term_names = TERM_COLUMNS if set(TERM_COLUMNS) & set(names) else ()
        columns = [_id_column(path, names), "condition", *term_names]
        number = 0
        for batch in file.iter_batches(columns=[name for name in columns if name in names]):
            nulls = [None] * batch.num_rows
            values = [batch.column(name).to_pylist() if name in names else nulls for name in columns]
            for identifier, condition, *terms in zip(*values, strict=True):
                number += 1
                source = f"{identifier},{condition}"
                yield SubscriptionRow(path, number, identifier, condition, source, tuple(terms))


def _id_column(path: Path, names: Sequence[str]) -> str:
    name = next((name for name in ID_COLUMNS if name in names), None)
    if name is None or "condition" not in names:
        raise InputError(f"{path}: needs columns subscription_id and condition; it has {', '.join(names)}")
    return name
