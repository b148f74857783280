"""Delta and Iceberg tables in an object store: each batch is there once, and a commit on an old version is refused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.bucket.object_store import ACCESS_KEY, SECRET_KEY, ObjectStoreServer
from tests.pipeline.output_runs import expected_numbers, run_batch

from fieldfare.errors import InputError, TableChangedError
from fieldfare.pipeline.output_places import _lake_table
from fieldfare.pipeline.tables.address import LakeTableSink, parse_table
from fieldfare.pipeline.tables.gathering import GatheredOutput


@pytest.fixture(params=["delta", "iceberg"])
def sink(request: pytest.FixtureRequest, object_store: ObjectStoreServer, tmp_path: Path) -> LakeTableSink:
    place = object_store.place()
    settings = {
        "warehouse": str(place),
        "s3.endpoint": object_store.endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    if request.param == "delta":
        found = parse_table(f"delta:{place}", place.settings)
    else:
        found = parse_table(f"iceberg:{tmp_path}/catalog/alerts.matches", settings)
    assert isinstance(found, LakeTableSink)
    return found


def read(sink: LakeTableSink) -> pa.Table:
    """The table as other tools read it."""
    if sink.format == "delta":
        return DeltaTable(sink.place, storage_options=dict(sink.settings)).to_pyarrow_table()
    catalog = load_catalog("fieldfare", type="sql", uri=f"sqlite:///{sink.place}/catalog.db", **sink.settings)
    return catalog.load_table(sink.name).scan().to_arrow()


def test_each_batch_is_in_the_table_once(sink: LakeTableSink, tmp_path: Path) -> None:
    for batches in (2, 3):  # the second driver replays what the first did last
        with closing(GatheredOutput(_lake_table(sink, "owner"), tmp_path / "state", "owner", 3600.0)) as output:
            output.prepare()
            for batch_id in range(batches - 2, batches):
                if batch_id >= output._appended:
                    run_batch(output, batch_id)
    table = read(sink)
    found: dict[int, list[int]] = {}
    for batch_id, number in zip(table["batch_id"].to_pylist(), table["number"].to_pylist(), strict=True):
        found.setdefault(batch_id, []).append(number)
    assert {batch_id: sorted(numbers) for batch_id, numbers in sorted(found.items())} == expected_numbers(3)
    stale, other = _lake_table(sink, "owner"), _lake_table(sink, "another")
    assert (stale.marker(), other.marker()) == (2, -1)
    other.append(table.slice(0, 0).to_reader(), 0)
    with pytest.raises(TableChangedError):
        stale.append(table.to_reader(), 3)
    assert read(sink).num_rows == table.num_rows


def test_a_catalog_needs_a_folder() -> None:
    with pytest.raises(InputError, match="warehouse"):
        parse_table("iceberg:s3://bucket/lake/alerts.matches")
