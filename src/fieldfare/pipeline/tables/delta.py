"""A Delta table as the output, by the Rust library, which Spark's jar for Delta does not need.

The marker is Delta's own: a transaction id for each application, kept in the table's log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from fieldfare.errors import MissingDependencyError, TableChangedError, TableError, TableUnavailableError
from fieldfare.pipeline.secrets import without_secrets
from fieldfare.pipeline.tables.address import LakeTableSink
from fieldfare.pipeline.tables.gathering import NONE_YET

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
        self._table: DeltaTable | None = None

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
                self._table = DeltaTable.create(self._sink.place, rows.schema, storage_options=self._options)
            write_deltalake(self._table, rows, mode="append", commit_properties=once)

    def tidy(self) -> None:
        """The library itself writes checkpoints and removes old entries of the log."""

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
        except (DeltaError, OSError) as error:
            advice = "free some space" if any(word in str(error).lower() for word in _NO_SPACE) else "it is tried again"
            raise TableUnavailableError(f"{self._sink}: {self._said(error)}: {advice}") from None
