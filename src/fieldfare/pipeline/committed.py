"""What a pipeline has committed to a folder or to a place in an object store, for programs in Python.

In a folder everything that is seen is committed. In an object store a batch may be half there, and what killed tasks
left is there too: only the commits say which objects count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.event_files import EventPath, arrow_source
from fieldfare.store.outputs import BATCH_ID, batch_folder, committed_batches, read_commit


class CommittedFile(NamedTuple):
    """A Parquet file of a committed batch."""

    batch_id: int
    path: EventPath


def committed_files(output: Path | Bucket, *, after: int = -1) -> list[str]:
    """The Parquet files of all committed batches, or of those after one, as Spark, DuckDB or Polars can read them."""
    return [str(file.path) for file in _files(output, after)]


def read_output(
    output: Path | Bucket, *, after: int = -1, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """The rows of all committed batches, or of those after one, with their `batch_id`; in the order of the batches.

    The reader reads as it is asked, so an output may be larger than memory; `read_all()` makes a table of it.
    """
    files = _files(output, after)
    first = next(files, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(_with_batch_id(pa.schema([])), [])
    whole = pq.read_schema(arrow_source(first.path))
    wanted = whole.names if columns is None else list(columns)
    schema = pa.schema([whole.field(name) for name in wanted if name != BATCH_ID])
    return pa.RecordBatchReader.from_batches(_with_batch_id(schema), _rows(first, files, schema))


def _rows(first: CommittedFile, files: Iterator[CommittedFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for file in (first, *files):
        with pq.ParquetFile(arrow_source(file.path)) as parquet:
            for rows in parquet.iter_batches(columns=schema.names):
                ids = pa.repeat(pa.scalar(file.batch_id, pa.int64()), rows.num_rows)
                columns = [rows.column(name) for name in schema.names]
                yield pa.RecordBatch.from_arrays([*columns, ids], schema=_with_batch_id(schema))


def _files(output: Path | Bucket, after: int) -> Iterator[CommittedFile]:
    if isinstance(output, Path):
        for batch_id in committed_batches(output, after):
            for file in read_commit(output, batch_id).files:
                yield CommittedFile(batch_id, batch_folder(output, batch_id) / file.path)
        return
    from fieldfare.pipeline.bucket.files import ObjectPath
    from fieldfare.pipeline.bucket.output import commits

    for commit in commits(output, after):
        for file in commit.files:
            yield CommittedFile(commit.batch_id, ObjectPath(output, file.path))


def _with_batch_id(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata().append(pa.field(BATCH_ID, pa.int64()))
