from __future__ import annotations

import datetime
import errno
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.errors import InputError
from fieldfare.files.formats import Format
from fieldfare.pipeline.event_files import EventReader, count_rows, inferred_schema, why_unreadable
from fieldfare.pipeline.ledger import Slice

SYSTEM = [
    pa.field("_appended_at", pa.timestamp("us", "UTC")),
    pa.field("_fault", pa.struct({"place": pa.string(), "reason": pa.string(), "raw": pa.string()})),
]
EVENTS = pa.schema({"id": pa.int64(), "symbol": pa.string(), "price": pa.float64()})


def reader(folder: Path, file_format: Format, schema: pa.Schema = EVENTS) -> EventReader:
    return EventReader(folder, file_format, pa.schema([*schema, *SYSTEM]))


def slice_of(path: Path, first_row: int = 0, rows: int | None = None) -> Slice:
    if rows is None:
        rows = count_rows(path, Format.PARQUET if path.suffix == ".parquet" else Format.JSON_LINES) - first_row
    return Slice(path.name, path.stat().st_size, 1_700_000_000_000_000, None, first_row, rows)


def rows_of(source: EventReader, part: Slice) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in source.read(part):
        assert batch.schema.equals(source.schema)
        rows += batch.to_pylist()
    return rows


def json_rows(folder: Path, content: bytes, schema: pa.Schema = EVENTS) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    path.write_bytes(content)
    return rows_of(reader(folder, Format.JSON_LINES, schema), slice_of(path))


def one(folder: Path, line: bytes, schema: pa.Schema = EVENTS) -> dict[str, Any]:
    sound = b'{"id":1}\n'
    rows = json_rows(folder, sound + line + b"\n" + sound, schema)
    assert [row["_fault"] for row in rows[::2]] == [None, None]
    assert len(rows) == 3
    return rows[1]


def test_rows_carry_the_time_of_their_file(tmp_path: Path) -> None:
    rows = json_rows(tmp_path, b'{"id":1,"symbol":"IBM","price":2.5}\n')
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    assert rows == [{"id": 1, "symbol": "IBM", "price": 2.5, "_appended_at": moment, "_fault": None}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "truncated"),
        (b"null", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"id":1}{"id":2}', "trailing"),
        (b'{"id":1,"id":2}', "'id' stands twice"),
        (b'{"id":1,"id" :2,"symbol":"a\\":"}', "'id' stands twice"),
        (b'{"id":1,"other":1,"other":2}', "'other' stands twice"),
        (b'{"price":NaN}', "invalid character"),
        (b'{"price":1e999}', "out of range"),
        (b'{"price":' + b"9" * 400 + b"}", "out of range"),
        (b'{"id":' + b"9" * 4000 + b"}", "column 'id'"),
        (b'{"id":' + b"9" * 5000 + b"}", "out of range"),
        (b'{"id":9223372036854775808}', "column 'id'"),
        (b'{"id":1.0}', r"\$\.id"),
        (b'{"id":true}', r"\$\.id"),
        (b'{"price":"1"}', r"got `str` - at `\$\.price`"),
        (b'{"symbol":5}', r"\$\.symbol"),
        (b'{"symbol":"\\ud800"}', "half of a character"),
        (b'{"symbol":"\xff"}', "not valid UTF-8"),
        (b'{"symbol":"a\x00b"}', "invalid"),
        (b'{"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"symbol":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "nested too deep|symbol"),
        (b"\x00\x01\x02", "malformed"),
    ],
)
def test_a_bad_line_costs_one_row(tmp_path: Path, line: bytes, reason: str) -> None:
    row = one(tmp_path, line)
    fault = row.pop("_fault")
    assert fault["place"] == "events.jsonl:2"
    assert re.search(reason, fault["reason"])
    assert line[:20].decode("utf-8", "backslashreplace") in fault["raw"]
    assert len(fault["raw"]) <= 500
    assert {row["id"], row["symbol"], row["price"]} == {None}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b"{}", (None, None, None)),
        (b'{"id":null,"other":[{"deep":[1]}]}', (None, None, None)),
        (
            b'{"id":9223372036854775807,"symbol":"a: b\\": c","price":9007199254740993}',
            (2**63 - 1, 'a: b": c', 2.0**53),
        ),
        (b' {"price" : -0.0 , "symbol":"\\ud83d\\ude00"} \r', (None, "😀", -0.0)),
        (b'{"symbol":"\\u0000","price":5}', (None, "\0", 5.0)),
    ],
)
def test_a_sound_line_has_a_defined_meaning(tmp_path: Path, line: bytes, values: tuple[object, ...]) -> None:
    row = one(tmp_path, line)
    assert row["_fault"] is None
    assert (row["id"], row["symbol"], row["price"]) == values


def test_numbers_that_do_not_fit_their_column_name_it(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int8(), "price": pa.float32(), "amount": pa.decimal128(5, 2)})
    assert one(tmp_path, b'{"id":127,"price":0.5,"amount":12.30}', schema)["amount"] == Decimal("12.30")
    bad = [
        b'"id":128',
        b'"price":1e300',
        b'"amount":1.234',
        b'"amount":1e9',
        b'"amount":"NaN"',
        b'"amount":1E-999999999',
    ]
    for text in bad:
        fault = one(tmp_path, b"{" + text + b"}", schema)["_fault"]
        assert fault is not None
        assert any(name in fault["reason"] for name in ("'id'", "$.price", "amount", "decimal"))


def test_types_beyond_plain_ones(tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "place": pa.struct({"city": pa.string(), "zone": pa.int32()}),
            "tags": pa.list_(pa.string()),
            "counts": pa.map_(pa.string(), pa.int64()),
            "raw": pa.binary(),
        }
    )
    event = {
        "at": "2024-02-01T10:00:00+02:00",
        "day": "2024-02-01",
        "place": {"city": "Berlin", "other": 1},
        "tags": ["a", None],
        "counts": {"x": 1},
        "raw": "aGk=",
    }
    row = one(tmp_path, json.dumps(event).encode(), schema)
    assert row["_fault"] is None
    assert row["at"] == datetime.datetime(2024, 2, 1, 8, tzinfo=datetime.UTC)
    assert row["day"] == datetime.date(2024, 2, 1)
    assert row["place"] == {"city": "Berlin", "zone": None}
    assert (row["tags"], row["counts"], row["raw"]) == (["a", None], [("x", 1)], b"hi")
    assert "$.place.zone" in one(tmp_path, b'{"place":{"zone":"x"}}', schema)["_fault"]["reason"]
    assert "day" in one(tmp_path, b'{"day":"2024-02-30"}', schema)["_fault"]["reason"]


def test_empty_lines_a_mark_and_a_missing_end_are_sound(tmp_path: Path) -> None:
    rows = json_rows(tmp_path, b'\xef\xbb\xbf{"id":1}\n\n  \r\n{"id":2}\nx\n{"id":3}')
    assert [row["id"] for row in rows] == [1, 2, None, 3]
    assert rows[2]["_fault"]["place"] == "events.jsonl:5"


def test_a_line_that_is_too_long_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldfare.pipeline.json_events.LINE_BYTES_MAX", 30)
    rows = json_rows(tmp_path, b'{"id":1}\n{"symbol":"' + b"x" * 100 + b'"}\n{"id":2}\n')
    assert [row["id"] for row in rows] == [1, None, 2]
    assert "longer than 30 bytes" in rows[1]["_fault"]["reason"]


@given(
    st.lists(st.binary(max_size=20) | st.sampled_from([b'{"id":1}', b'{"id":"x"}', b"", b"{}"]), max_size=8), st.data()
)
@settings(max_examples=100, deadline=None)
def test_any_bytes_give_the_same_rows_however_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    path = folder / "events.jsonl"
    path.write_bytes(b"\n".join(lines))
    source = reader(folder, Format.JSON_LINES)
    rows = count_rows(path, Format.JSON_LINES)
    whole = rows_of(source, slice_of(path))
    cut = data.draw(st.integers(0, rows))
    assert rows_of(source, slice_of(path, 0, cut)) + rows_of(source, slice_of(path, cut)) == whole
    assert len(whole) <= rows


def events_table(rows: int) -> pa.Table:
    numbers = list(range(rows))
    columns = [numbers, [f"s{number}" for number in numbers], [number / 2 for number in numbers]]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)], schema=EVENTS
    )


@pytest.mark.parametrize("group_rows", [7, 100])
def test_slices_of_parquet_are_exact(tmp_path: Path, group_rows: int) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(events_table(50), path, row_group_size=group_rows)
    source = reader(tmp_path, Format.PARQUET)
    for first, rows in [(0, 50), (0, 1), (6, 2), (7, 7), (13, 30), (49, 1), (20, 0)]:
        ids = [row["id"] for row in rows_of(source, slice_of(path, first, rows))]
        assert ids == list(range(first, first + rows))


def test_other_columns_and_types_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    source = reader(tmp_path, Format.PARQUET)
    table = pa.table(
        {
            "extra": [1, 2],
            "price": pa.array([1, None], pa.int32()),
            "symbol": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, path)
    rows = rows_of(source, slice_of(path))
    assert [(row["id"], row["symbol"], row["price"]) for row in rows] == [(None, "a", 1.0), (None, "b", None)]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"price": ["1", "2"]}), "column 'price' is string, not double"),
        (pa.table({"price": [True, False]}), "column 'price' is bool, not double"),
        (pa.table({"id": [1.0, 1.5]}), "column 'id' is double, not int64.*truncated"),
        (pa.table({"price": [0, 2**53 + 1]}), "column 'price' is int64, not double"),
        (pa.table({"other": [1, 2]}), "none of the columns id, symbol, price"),
        (pa.table([[1], [2]], names=["id", "id"]), "two columns have the name 'id'"),
        (pa.table({"symbol": pa.array([b"\xff"]).view(pa.string())}), "UTF8|utf-8"),
    ],
)
def test_a_parquet_file_that_does_not_fit_is_one_fault(tmp_path: Path, table: pa.Table, reason: str) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(table, path)
    (row,) = rows_of(reader(tmp_path, Format.PARQUET), slice_of(path))
    assert row["_fault"]["place"] == f"events.parquet:1-{table.num_rows}"
    assert re.search(reason, row["_fault"]["reason"])


def test_a_damaged_row_group_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(events_table(30), path, row_group_size=10, compression="zstd")
    chunk = pq.read_metadata(path).row_group(1).column(1)
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    rows = rows_of(reader(tmp_path, Format.PARQUET), slice_of(path, 5))
    assert [row["id"] for row in rows] == [*range(5, 10), None, *range(20, 30)]
    assert rows[5]["_fault"]["place"] == "events.parquet:11-20"


def test_any_damaged_byte_of_parquet_is_read_or_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(events_table(20), path, row_group_size=10, write_page_checksum=True)
    sound = path.read_bytes()
    source = reader(tmp_path, Format.PARQUET)
    for position in range(0, len(sound), 3):
        content = bytearray(sound)
        content[position] ^= 0xFF
        path.write_bytes(content)
        rows = rows_of(source, slice_of(path, 0, 20))
        assert rows
        assert all((row["_fault"] is None) == (row["id"] is not None) for row in rows if row["price"] is not None)


def test_gone_or_changed_files_are_faults(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"id":1}\n')
    source, part = reader(tmp_path, Format.JSON_LINES), slice_of(path)
    path.write_bytes(b'{"id":1}\n{"id":2}\n')
    assert "was changed after it was found" in rows_of(source, part)[0]["_fault"]["reason"]
    path.unlink()
    (row,) = rows_of(source, part)
    assert row["_fault"] == {"place": "events.jsonl", "reason": row["_fault"]["reason"], "raw": None}
    assert "No such file" in row["_fault"]["reason"]


def test_what_another_try_may_cure_is_not_the_files_fault() -> None:
    with pytest.raises(OSError, match="Input/output"):
        why_unreadable(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert "Permission" in why_unreadable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def test_schemas_are_inferred_from_the_first_sound_files(tmp_path: Path) -> None:
    bad, good = tmp_path / "a.parquet", tmp_path / "b.parquet"
    bad.write_bytes(b"PAR1 not at all")
    pq.write_table(pa.table({"u": pa.array([1], pa.uint64()), "d": pa.array(["x"]).dictionary_encode()}), good)
    schema = inferred_schema([bad, good], Format.PARQUET)
    assert schema == pa.schema({"u": pa.decimal128(20, 0), "d": pa.string()})
    lines = tmp_path / "c.jsonl"
    lines.write_bytes(b'oops\n{"id":1,"price":2}\n{"price":2.5,"note":null,"at":{"x":1}}\n')
    inferred = inferred_schema([lines], Format.JSON_LINES)
    expected = {"id": pa.int64(), "price": pa.float64(), "note": pa.string(), "at": pa.struct({"x": pa.int64()})}
    assert {field.name: field.type for field in inferred} == expected


def test_one_bad_line_among_the_first_does_not_decide(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    bad = [b'{"id":"x","price":1}', b'{"id":9,"price":' + b"9" * 30 + b"}", b'{"id":9,"price":true}', b'{"note":[1]}']
    good = [b'{"id":%d,"price":0.5,"note":"y"}' % number for number in range(6)]
    path.write_bytes(b"\n".join([*bad, *good]))
    inferred = inferred_schema([path], Format.JSON_LINES)
    assert {field.name: field.type for field in inferred} == {
        "id": pa.int64(),
        "price": pa.float64(),
        "note": pa.string(),
    }


def test_inner_values_that_are_empty_at_first(tmp_path: Path) -> None:
    """Empty lists are of text, as columns without values are; objects without fields have no column."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id":1,"meta":{},"tags":[],"at":{"x":null,"inner":{}},"lists":[[]],"objects":[{}]}\n')
    inferred = inferred_schema([path], Format.JSON_LINES)
    assert {field.name: field.type for field in inferred} == {
        "id": pa.int64(),
        "tags": pa.list_(pa.string()),
        "at": pa.struct({"x": pa.string()}),
        "lists": pa.list_(pa.list_(pa.string())),
    }


def test_a_column_without_a_type_is_named(tmp_path: Path) -> None:
    lines, times = tmp_path / "a.jsonl", tmp_path / "b.parquet"
    lines.write_bytes(b'{"id":1,"note":2}\n{"id":2,"note":"x"}\n')
    with pytest.raises(InputError, match="column 'note'"):
        inferred_schema([lines], Format.JSON_LINES)
    pq.write_table(pa.table({"id": [1], "at": pa.array([1], pa.time64("us"))}), times)
    with pytest.raises(InputError, match=r"column 'at' is time64\[us\].*name the others"):
        inferred_schema([times], Format.PARQUET)


def test_the_processes_that_list_files_load_neither_the_index_nor_the_parser() -> None:
    program = "import sys, fieldfare.pipeline.folder_data_source; print({'numba', 'sqlglot'} & sys.modules.keys())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
