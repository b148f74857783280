from __future__ import annotations

import csv
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.errors import InputError
from fieldfare.files.formats import Format
from fieldfare.pipeline.event_files import EventReader, count_rows, inferred_schema, require_format
from fieldfare.pipeline.folder_data_source import FolderDataSource
from fieldfare.pipeline.ledger import Slice

SYSTEM = [
    pa.field("_appended_at", pa.timestamp("us", "UTC")),
    pa.field("_fault", pa.struct({"place": pa.string(), "reason": pa.string(), "raw": pa.string()})),
]
TYPES = {
    "id": pa.int64(),
    "small": pa.int8(),
    "name": pa.string(),
    "price": pa.float64(),
    "ratio": pa.float32(),
    "amount": pa.decimal128(6, 2),
    "halted": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
}


def rows_of(path: Path, schema: pa.Schema, first_row: int = 0, rows: int | None = None) -> list[dict[str, Any]]:
    count = count_rows(path, Format.CSV) - first_row if rows is None else rows
    part = Slice(path.name, path.stat().st_size, 7, None, first_row, count)
    found: list[dict[str, Any]] = []
    for batch in EventReader(path.parent, Format.CSV, pa.schema([*schema, *SYSTEM])).read(part):
        found += batch.to_pylist()
    return found


def read(folder: Path, text: str, schema: pa.Schema = pa.schema(TYPES)) -> list[dict[str, Any]]:  # noqa: B008
    path = folder / "a.csv"
    path.write_text(text, newline="")
    return rows_of(path, schema)


def test_cells_become_values_of_their_columns(tmp_path: Path) -> None:
    (row, empty) = read(
        tmp_path,
        "extra,id,small,name,price,ratio,amount,halted,day,at,local\n"
        "x,12,-3,007,2,0.5,12.5,true,2024-02-29,2024-02-29T12:00:00+01:00,2024-02-29 12:00\n"
        ",,,,,,,,,,\n",
    )
    assert {name: row[name] for name in TYPES} == {
        "id": 12,
        "small": -3,
        "name": "007",
        "price": 2.0,
        "ratio": 0.5,
        "amount": Decimal("12.50"),
        "halted": True,
        "day": datetime.date(2024, 2, 29),
        "at": datetime.datetime(2024, 2, 29, 11, tzinfo=datetime.UTC),
        "local": datetime.datetime(2024, 2, 29, 12),  # noqa: DTZ001 - Spark's type without a zone
    }
    assert row["_fault"] is empty["_fault"] is None
    assert all(empty[name] is None for name in TYPES)


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("id", "x", "'x' is not an integer"),
        ("id", "1.0", "'1.0' is not an integer"),
        ("id", "true", "'true' is not an integer"),
        ("id", "9" * 30, "column 'id': "),
        ("small", "300", "column 'small': "),
        ("price", "cheap", "'cheap' is not a number"),
        ("price", "9" * 399, "is out of range"),
        ("price", "1e999", "is out of range"),
        ("ratio", "1e39", "is out of range"),
        ("amount", "nan", "'nan' is not a number"),
        ("amount", "123456.5", "column 'amount': "),
        ("halted", "1", "'1' is not true or false"),
        ("day", "2024-02-30", "'2024-02-30' is not a date"),
        ("day", "2024-02-03 12:00", "is not a date"),
        ("at", "noon", "'noon' is not a timestamp"),
    ],
)
def test_a_cell_that_does_not_fit_costs_its_record(tmp_path: Path, column: str, cell: str, reason: str) -> None:
    before, bad, after = read(tmp_path, f"name,{column}\na,\nb,{cell}\nc,\n")
    assert (before["name"], bad["name"], after["name"]) == ("a", None, "c")
    assert reason in bad["_fault"]["reason"]
    assert column in bad["_fault"]["reason"]
    assert (bad["_fault"]["place"], bad["_fault"]["raw"]) == ("a.csv:3", f"b,{cell}")


def test_bad_records_and_files_are_faults(tmp_path: Path) -> None:
    rows = read(tmp_path, 'id,name\n1,a,b\n2,"x"y\n\n3,"two\nlines"\n')
    assert [(row["id"], row["name"]) for row in rows] == [(None, None), (None, None), (3, "two\nlines")]
    assert [row["_fault"] and row["_fault"]["place"] for row in rows] == ["a.csv:2", "a.csv:3", None]
    (row,) = rows_of(tmp_path / "a.csv", pa.schema({"other": pa.int64()}))
    assert row["_fault"]["reason"] == "it has none of the columns other"
    with pytest.raises(InputError, match="CSV cannot hold values of type list"):
        read(tmp_path, "id\n1\n", pa.schema({"id": pa.list_(pa.int64())}))


@given(st.lists(st.tuples(st.integers(-99, 99), st.text("a,\"\n ü'", max_size=4)), max_size=8), st.data())
def test_slices_are_the_records_that_were_counted(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, str]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("id", "name"), *records])
    assert count_rows(path, Format.CSV) == len(records)
    cut = data.draw(st.integers(0, len(records)))
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    rows = rows_of(path, schema, 0, cut) + rows_of(path, schema, cut)
    assert [(row["id"], row["name"] or "") for row in rows] == records
    assert not any(row["_fault"] for row in rows)


def test_the_schema_is_that_of_the_first_records(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "id,price,name,flag,day,at,none,mixed,huge\n"
        "1,2,x,true,2024-01-01,2024-01-01,,1,99999999999999999999\n"
        "2,2.5,7,false,2024-01-02,2024-01-01 12:00,,true,1\n"
    )
    (tmp_path / "b.csv").write_text("id,more\n3,1\n")
    expected = {"id": pa.int64(), "price": pa.float64(), "name": pa.string(), "flag": pa.bool_(), "day": pa.date32()}
    expected |= {"at": pa.timestamp("us", "UTC"), "none": pa.string(), "mixed": pa.string(), "huge": pa.string()}
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert inferred_schema(paths, Format.CSV) == pa.schema(expected | {"more": pa.int64()})
    (tmp_path / "b.csv").write_text("id,id\n3,1\n")
    with pytest.raises(InputError, match="two columns have the same name"):
        inferred_schema(paths, Format.CSV)
    (tmp_path / "a.csv").write_text("id\n")
    with pytest.raises(InputError, match="no record can be read"):
        inferred_schema(paths[:1], Format.CSV)


def test_a_file_of_another_format_is_one_fault(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"id": 1}\n' * 50)
    (tmp_path / "2.csv").write_text("id\n1\n2\n")
    (tmp_path / "3.dat").write_text("id\n3\n")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "4")
    (tmp_path / "5.csv").write_text("")
    options = {"folder": str(tmp_path), "ledger": str(tmp_path / "_ledger"), "file_format": "CSV"}
    reader: Any = FolderDataSource(options | {"events_per_batch_max": "100"}).simpleStreamReader(None)  # type: ignore[arg-type]
    rows, end = reader.read({"events": 0})
    found = {name: (fault, count) for name, _, _, fault, _, count in rows}
    assert end == {"events": 6}
    assert found["2.csv"] == (None, 2)
    assert found["3.dat"] == (None, 1)
    for name, reason in (
        ("1.jsonl", "its name says that it is JSON lines, but the events are read as CSV"),
        ("4", "it is a Parquet file, but the events are read as CSV"),
        ("5.csv", "the first line must name every column"),
    ):
        assert reason in found[name][0]
        assert found[name][1] == 1
    require_format(tmp_path / "3.dat", Format.PARQUET)  # it may be damaged, which is a fault of its own
