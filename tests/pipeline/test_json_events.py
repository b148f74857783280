"""Events are read from JSON in columns; one by one, in dicts, they must come out the same."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from fieldfare.files.lines import LINE_BYTES_MAX
from fieldfare.pipeline.json_events import JsonEvents

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("is it", pa.bool_()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
ODD = [
    b'{"n": 1, "x": 2, "f": 3, "is it": true, "text": "a:b", "day": "2026-01-31", "at": "2026-01-31T12:00:00Z"}',
    b'{"n": 1, "n": 2}',
    b'{"n": 1, "n": 2, "x": 1.5, "f": 1, "is it": false, "text": "", "day": "2026-01-31"}',  # as many colons as columns
    b'{"n": 1, "other": {"n": 2}}',
    b'{"n": 1}, {"n": 2}',
    b'{"n": null, "x": null}',
    b'{"text": null, "text": "twice"}',
    b'{"text": "\\u003a\\ud800"}',
    b'{"x": NaN}',
    b'{"x": 1e999}',
    b'{"f": 1e300}',
    b'{"n": "1"}',
    b'{"n": 1.5}',
    b"[]",
    b"null",
    b"{}",
    b"",
    b'{"text": ":"',
    b"\xff",
    b'{"text": "' + b"a" * LINE_BYTES_MAX + b'"}',
]
TOO_LARGE = b'{"n": 2147483648}'  # found only when the column is made


def both(schema: pa.Schema, lines: list[bytes]) -> tuple[Any, Any]:
    quick, plain = JsonEvents(schema), JsonEvents(schema)
    assert quick._plain is not None
    plain._plain = None
    return quick.decoded(lines), plain.decoded(lines)


def test_odd_lines_among_plain_ones() -> None:
    rng = random.Random(3)
    plain = [json.dumps({"n": number, "x": rng.random(), "text": "t" * (number % 5)}).encode() for number in range(40)]
    for lines in (ODD, plain, [*plain, *ODD], [*ODD, TOO_LARGE, *plain], plain[:1]):
        rng.shuffle(lines)
        (columns, reasons), (wanted, wanted_reasons) = both(SCHEMA, lines)
        assert reasons == wanted_reasons
        assert [column.to_pylist() for column in columns] == [column.to_pylist() for column in wanted]
        assert [column.type for column in columns] == list(SCHEMA.types)


@pytest.mark.parametrize("line", [*ODD, TOO_LARGE])
def test_an_odd_line_alone(line: bytes) -> None:
    (columns, reasons), (wanted, wanted_reasons) = both(SCHEMA, [line])
    assert (columns, reasons) == (wanted, wanted_reasons)


def test_columns_that_structs_cannot_have_are_read_in_dicts() -> None:
    for name in ('a"b', "a\\b"):
        events = JsonEvents(pa.schema([(name, pa.int64())]))
        assert events._plain is None
        columns, reasons = events.decoded([json.dumps({name: 1}).encode()])
        assert (columns[0].to_pylist(), reasons) == ([1], [None])


def test_names_beyond_ascii_are_found_beside_inner_objects() -> None:
    schema = pa.schema([("größe", pa.int64()), ("ort", pa.struct([("straße", pa.string())]))])
    line = json.dumps({"größe": 1, "ort": {"straße": "x"}}).encode()
    columns, reasons = JsonEvents(schema).decoded([line])
    assert [column.to_pylist() for column in columns] == [[1], [{"straße": "x"}]]
    assert reasons == [None]
