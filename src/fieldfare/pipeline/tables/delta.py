"""A Delta table as the output, by the Rust library, which Spark's jar for Delta does not need.

The marker is Delta's own: a transaction id for each application, kept in the table's log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from fieldfare.errors import (
    FieldfareError,
    InputError,
    MissingDependencyError,
    TableChangedError,
    TableError,
    TableUnavailableError,
)
from fieldfare.pipeline.secrets import without_secrets
from fieldfare.pipeline.tables.address import LakeTableSink
from fieldfare.pipeline.tables.reached import NONE_YET

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError
except ImportError as error:
    raise MissingDependencyError("Delta tables need deltalake: pip install 'fieldfare[tables]'") from error

_NO_SPACE = ("no space left", "quota")


class DeltaLakeTable:
    """A table, which is made with the first rows. `owner` is whose marker it keeps."""

    def __init__(self, sink: LakeTableSink, owner: str) -> None:
        self._sink, self._application = sink, f"fieldfare-{owner}"
        self._options = dict(sink.settings)
        if "://" not in sink.place and "%" in str(Path(sink.place).absolute()):
            raise InputError(f"{sink}: the library looks elsewhere: use a folder without '%'")
        self._table: DeltaTable | None = None

    def __str__(self) -> str:
        return str(self._sink)

    def marker(self) -> int:
        """The last batch that is in the table's newest version."""
        with self._errors():
            if self._table is None and DeltaTable.is_deltatable(self._sink.place, self._options):
                self._table = DeltaTable(self._sink.place, storage_options=self._options)
            if self._table is None:
                return NONE_YET
            self._table.update_incremental()
            found = self._table.transaction_version(self._application)
            return NONE_YET if found is None else found

    def append(self, rows: pa.RecordBatchReader, marker: int) -> None:
        """Add rows and move the marker, in one commit on the version whose marker was read."""
        once = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(self._application, marker)])
        with self._errors():
            if self._table is None:
                self._table = self._made(rows.schema)
            fitted = _fitted(rows, pa.schema(self._table.schema().to_arrow()))
            write_deltalake(self._table, fitted, mode="append", commit_properties=once)

    def tidy(self) -> None:
        """The library itself writes checkpoints and removes old entries of the log."""

    def _made(self, schema: pa.Schema) -> DeltaTable:
        try:
            return DeltaTable.create(self._sink.place, schema, storage_options=self._options)
        except DeltaError:
            if DeltaTable.is_deltatable(self._sink.place, self._options):
                raise TableChangedError(f"{self._sink}: somebody else has just made it") from None
            raise

    def _said(self, error: Exception) -> str:
        return without_secrets(str(error), self._options)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise TableChangedError(f"{self._sink}: {self._said(error)}") from None
        except SchemaMismatchError as error:
            raise TableError(f"{self._sink} has other columns ({self._said(error)}): use another table") from None
        except FieldfareError:
            raise
        except (DeltaError, OSError) as error:
            self._table = None  # it may be gone, or another one
            advice = "free some space" if any(word in str(error).lower() for word in _NO_SPACE) else "it is tried again"
            raise TableUnavailableError(f"{self._sink}: {self._said(error)}: {advice}") from None
        except Exception as error:  # noqa: BLE001 - the library raises errors of Rust by no narrower class
            raise TableError(f"{self._sink} cannot be written: {self._said(error)}: use another table") from None


def _fitted(rows: pa.RecordBatchReader, wanted: pa.Schema) -> pa.RecordBatchReader:
    """The rows with the columns of the table: NULL where somebody has added one to it."""
    schema = pa.schema(
        [rows.schema.field(field.name) if field.name in rows.schema.names else field for field in wanted]
        + [field for field in rows.schema if field.name not in wanted.names]  # which the library refuses
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [
                batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
