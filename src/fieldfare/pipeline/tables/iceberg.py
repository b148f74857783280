"""An Iceberg table as the output, by pyiceberg, which Spark's jar for Iceberg does not need.

The marker is a property of the table, set in the commit that appends. An append requires the snapshot that the table
had, so with the library's own retries switched off it is made on what was read, or not at all. Each commit leaves a
snapshot, and each makes the next commit slower, so only the last ones are kept.
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
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError, TableAlreadyExistsError
    from pyiceberg.table import Table, TableProperties
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as error:
    raise MissingDependencyError("Iceberg tables need pyiceberg: pip install 'fieldfare[tables]'") from error

SNAPSHOTS_MAX = 50  # of ours; a commit takes six times as long with 300
_CATALOG = "fieldfare"  # readers of the SQLite file need the name
_OWNER = "fieldfare.owner"
_PROPERTIES = {
    TableProperties.COMMIT_NUM_RETRIES: "0",  # a stale append that is repeated would be there twice
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "10",
}


class IcebergLakeTable:
    """A table, which is made with the first rows. `owner` is whose marker it keeps."""

    def __init__(self, sink: LakeTableSink, owner: str) -> None:
        self._sink, self._owner = sink, owner
        self._key = f"fieldfare.batch.{owner}"
        self._catalog: Catalog | None = None
        self._table: Table | None = None

    def __str__(self) -> str:
        return str(self._sink)

    def marker(self) -> int:
        """The last batch that is in the table's newest version."""
        with self._errors():
            try:
                self._table = self._opened().load_table(self._sink.name)
            except NoSuchTableError:
                self._table = None
                return NONE_YET
            return int(self._table.properties.get(self._key, NONE_YET))

    def append(self, rows: pa.RecordBatchReader, marker: int) -> None:
        """Add rows and move the marker, in one commit on the version whose marker was read."""
        with self._errors():
            table = self._table if self._table is not None else self._made(rows.schema)
            if table.properties.get(TableProperties.COMMIT_NUM_RETRIES) != "0":
                with table.transaction() as transaction:
                    transaction.set_properties(_PROPERTIES)
                raise TableChangedError(f"{self._sink}: the library's own retries had to be switched off")
            with table.transaction() as transaction:
                # Into partitions the library writes only what is in memory; a commit is bounded.
                data = rows if table.spec().is_unpartitioned() else rows.read_all()
                transaction.append(data, snapshot_properties={_OWNER: self._owner})
                transaction.set_properties({self._key: str(marker)})
            self._table = table

    def tidy(self) -> None:
        """Drop the oldest of our snapshots, if there are too many; what they hold is in the newer ones too."""
        if self._table is None:
            return
        named = {reference.snapshot_id for reference in self._table.metadata.refs.values()}  # a branch, or a tag
        ours = [
            snapshot.snapshot_id
            for snapshot in self._table.snapshots()
            if snapshot.snapshot_id not in named
            and snapshot.summary is not None
            and snapshot.summary.additional_properties.get(_OWNER) == self._owner
        ]
        if len(ours) > SNAPSHOTS_MAX:
            with self._errors():
                self._table.maintenance.expire_snapshots().by_ids(ours[: -SNAPSHOTS_MAX // 2]).commit()

    def _opened(self) -> Catalog:
        if self._catalog is None:
            settings = dict(self._sink.settings)
            if self._sink.place:
                folder = Path(self._sink.place).absolute()
                if set("#?%") & set(str(folder)):
                    raise InputError(f"{folder}: readers would look elsewhere: use a folder without '#', '?' and '%'")
                folder.mkdir(parents=True, exist_ok=True)
                # Not `as_uri`: readers take the path of a URL as it stands, and a space in it must stay one.
                own = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder}"}
                settings = own | settings
            self._catalog = load_catalog(_CATALOG, **settings)
        return self._catalog

    def _made(self, schema: pa.Schema) -> Table:
        self._opened().create_namespace_if_not_exists(self._sink.name.rpartition(".")[0])
        return self._opened().create_table(self._sink.name, schema, properties=_PROPERTIES)

    def _said(self, error: Exception) -> str:
        return without_secrets(str(error), self._sink.settings)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FieldfareError:
            raise
        except (CommitFailedException, TableAlreadyExistsError, NoSuchTableError) as error:
            raise TableChangedError(f"{self._sink}: {self._said(error)}") from None
        except ValueError as error:
            raise TableError(
                f"{self._sink} cannot be written: {self._said(error)}; if its columns are others, use another table"
            ) from None
        except (RESTError, SQLAlchemyError, OSError) as error:
            raise TableUnavailableError(f"{self._sink}: {self._said(error)}: it is tried again") from None
        except Exception as error:  # noqa: BLE001 - what a library of a catalog or a store raises, is not known
            raise TableError(f"{self._sink} cannot be written: {self._said(error)}: use another table") from None
