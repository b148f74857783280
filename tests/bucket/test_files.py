"""Objects read as files: small ones whole, large ones in ranges."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.bucket.object_store import ObjectStoreServer

from fieldfare.errors import BucketUnavailableError
from fieldfare.files.formats import Format
from fieldfare.pipeline.bucket import files
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.bucket.files import ObjectPath
from fieldfare.pipeline.bucket.objects import Objects
from fieldfare.pipeline.event_files import count_rows


@pytest.mark.parametrize("range_bytes", [1_000, 1 << 20])
def test_an_object_is_read_as_a_file_is(
    range_bytes: int, object_store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_RANGE_BYTES", range_bytes)
    place = ObjectPath(object_store.place())
    table = pa.table({"number": np.arange(20_000), "half": np.random.default_rng(1).random(20_000)})
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=3_000)
    content = stream.getvalue()
    Objects(place.bucket).upload("a b%20c.parquet", content)
    path = place / "a b%20c.parquet"
    assert [file.key for file in place.files()] == ["a b%20c.parquet"]
    assert (path.suffix, path.stat().st_size) == (".parquet", len(content))
    assert path.open("rb").read() == content
    assert pq.read_table(path.open("rb")).equals(table)
    assert count_rows(path, Format.PARQUET) == table.num_rows


def test_an_object_that_is_gone_is_a_missing_file(object_store: ObjectStoreServer) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet"):
        (ObjectPath(object_store.place()) / "gone.parquet").open("rb")


def test_a_store_that_is_away_is_no_fault_of_the_file() -> None:
    """Or its events would be quarantined."""
    settings = {"aws_endpoint": "http://127.0.0.1:9", "aws_region": "x", "allow_http": "true"}
    away = Bucket("s3://tests/x", {**settings, "aws_skip_signature": "true"})
    with pytest.raises(BucketUnavailableError, match="tried again"):
        count_rows(ObjectPath(away) / "1.parquet", Format.PARQUET)
