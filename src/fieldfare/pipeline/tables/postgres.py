"""A table in PostgreSQL as the output: a row for each pair of an event and a subscription that wants it.

    alerts                   the event's columns, subscription_id, batch_id
    alerts_dead_letters      what could not be matched or stored, with the reason
    fieldfare_commits        for each checkpoint: its table, the last batch that is there, and the driver that wrote it

A batch, its dead letters and its row in `fieldfare_commits` are one transaction, which holds the lock on that row. So a
batch is there exactly if the row says so. A driver that starts writes itself into the row; an earlier one that is
still alive finds that at its next commit, and ends.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.durable import make_folder
from fieldfare.errors import MissingDependencyError, TableError, TableUnavailableError
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.tables.address import PostgresSink
from fieldfare.pipeline.tables.postgres_rows import UnstorableRow, column_type, csv_pieces
from fieldfare.pipeline.tables.reached import NONE_YET, Reached
from fieldfare.pipeline.writer import WriteOptions, output_errors
from fieldfare.store.outputs import BATCH_ID, CommittedBatch, WrittenFile

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise MissingDependencyError("an output in PostgreSQL needs psycopg: pip install 'fieldfare[postgres]'") from error

_COMMITS = sql.SQL("fieldfare_commits")
_LASTING = ("22", "23", "28", "3D", "3F", "42")  # classes of SQLSTATE: data, constraints, rights, names, syntax


class PostgresOutput:
    """The driver's side of an output. `owner` is an id that lives as long as the checkpoint, which `state` is in."""

    def __init__(self, sink: PostgresSink, owner: str, state: Path) -> None:
        self._sink, self._owner = sink, owner
        self._run = uuid.uuid4().hex
        self._staging = state / "postgres_staging"
        self._reached = Reached(state, str(sink), f"{sink.address} {sink.table}")
        self._table = sql.Identifier(*sink.table.split("."))
        self._dead_letters = sql.Identifier(*f"{sink.table}_dead_letters".split("."))
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._last: int | None = None  # None: it has to be asked for
        self._columns: tuple[str, ...] | None = None  # of the table that was made or found

    def prepare(self) -> None:
        """Make the tables if they are not there, and take the output over from earlier runs."""
        shutil.rmtree(self._staging, ignore_errors=True)
        make_folder(self._staging)
        with self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('fieldfare_commits'))")  # two may begin at once
            connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (owner text PRIMARY KEY, table_name text NOT NULL, "
                    "batch_id bigint NOT NULL, run text NOT NULL, committed_at timestamptz NOT NULL DEFAULT now())"
                ).format(_COMMITS)
            )
            connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (batch_id bigint, place text, reason text, content text)"
                ).format(self._dead_letters)
            )
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} (owner, table_name, batch_id, run) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT (owner) DO UPDATE SET run = excluded.run, table_name = excluded.table_name, "
                    "batch_id = CASE WHEN {}.table_name = excluded.table_name THEN {}.batch_id ELSE {} END"
                ).format(_COMMITS, _COMMITS, _COMMITS, sql.Literal(NONE_YET)),
                (self._owner, self._sink.table, NONE_YET, self._run),
            )
            self._last = self._locked_marker(connection)

    def task_options(self, write: WriteOptions) -> WriteOptions:
        """How tasks write: a row for each pair."""
        return replace(write, explode=True)

    def is_committed(self, batch_id: int) -> bool:
        """Whether a batch is there. An error if what is there cannot be of this checkpoint's past."""
        if self._last is None:
            with self._transaction() as connection:
                self._last = self._locked_marker(connection)
        if self._last > batch_id:
            raise TableError(
                f"{self._sink}: batch {self._last} is there, but the checkpoint is at batch {batch_id}: it is an older "
                "copy; use a new checkpoint and a new table"
            )
        return self._last == batch_id

    def stage(self, batch_id: int) -> str:
        """A new folder for the tasks of a batch to write into."""
        stage = self._staging / f"{batch_id}-{uuid.uuid4().hex}"
        with output_errors(self._staging):
            stage.mkdir()
        return str(stage)

    def commit(
        self,
        batch_id: int,
        files: Sequence[WrittenFile],
        quarantine: Sequence[BadEvent] = (),
        note: Mapping[str, Any] | None = None,  # noqa: ARG002 - there is no place for it
    ) -> None:
        """Copy a batch into the table, once."""
        self._last = None  # if this fails, nobody knows
        with output_errors(self._staging), self._transaction() as connection:
            last = self._locked_marker(connection)
            if last < batch_id:
                unstorable: list[UnstorableRow] = []
                for file in files:
                    self._copy(connection, Path(file.path), batch_id, unstorable)
                self._bury(connection, batch_id, quarantine, unstorable)
                connection.execute(
                    sql.SQL("UPDATE {} SET batch_id = %s, committed_at = now() WHERE owner = %s").format(_COMMITS),
                    (batch_id, self._owner),
                )
        self._last = batch_id
        self._reached.remember(batch_id, has_rows=any(file.rows for file in files))
        for stage in self._staging.glob(f"{batch_id}-*"):
            shutil.rmtree(stage, ignore_errors=True)

    def read_commit(self, batch_id: int) -> CommittedBatch | None:  # noqa: ARG002 - whoever reads it, reads the table
        """A batch cannot be read back by its id alone."""
        return None

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # One batch

    def _locked_marker(self, connection: psycopg.Connection[tuple[Any, ...]]) -> int:
        """The last batch that is there; its row stays locked until the transaction ends."""
        found = connection.execute(
            sql.SQL("SELECT batch_id, run FROM {} WHERE owner = %s FOR UPDATE").format(_COMMITS), (self._owner,)
        ).fetchone()
        if found is None:
            raise TableError(
                f"{self._sink}: the row of this checkpoint in fieldfare_commits is gone, so nobody knows what is in "
                "the table: use a new checkpoint and a new table"
            )
        if found[1] != self._run:
            raise TableError(f"{self._sink}: another driver writes this output now; this one ends")
        self._reached.require(int(found[0]), is_there=self._is_there(connection))
        return int(found[0])

    def _is_there(self, connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
        found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (self._table.as_string(connection),))
        return bool((found.fetchone() or (False,))[0])

    def _copy(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        path: Path,
        batch_id: int,
        unstorable: list[UnstorableRow],
    ) -> None:
        schema = pq.read_schema(path)
        if self._columns != tuple(schema.names):
            self._make_table(connection, schema)
        columns = sql.SQL(", ").join(map(sql.Identifier, [*schema.names, BATCH_ID]))
        command = sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT csv)").format(self._table, columns)
        with connection.cursor() as cursor, cursor.copy(command) as copy:
            for piece in csv_pieces(path, batch_id, unstorable):
                copy.write(piece)

    def _make_table(self, connection: psycopg.Connection[tuple[Any, ...]], schema: pa.Schema) -> None:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(column_type(field.name, field.type)))
            for field in schema
        ]
        columns.append(sql.SQL("{} bigint NOT NULL").format(sql.Identifier(BATCH_ID)))
        connection.execute(
            sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._table, sql.SQL(", ").join(columns))
        )
        self._columns = tuple(schema.names)

    def _bury(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        batch_id: int,
        quarantine: Sequence[BadEvent],
        unstorable: Sequence[UnstorableRow],
    ) -> None:
        rows = [(batch_id, fault.place, fault.reason, fault.raw) for fault in quarantine]
        rows += [
            (batch_id, "", row.reason, msgspec.json.encode(row.values, enc_hook=str).decode()) for row in unstorable
        ]
        if rows:
            with connection.cursor() as cursor:
                cursor.executemany(
                    sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s)").format(self._dead_letters),
                    [(number, *(text.replace("\0", "\\0") for text in texts)) for number, *texts in rows],
                )

    # The connection

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._sink.address, connect_timeout=10)
            with self._connection.transaction():
                yield self._connection
        except psycopg.Error as error:
            self.close()
            if (error.sqlstate or "")[:2] in _LASTING:
                raise TableError(f"{self._sink}: {error}; mend the table or its rights, or use another one") from error
            raise TableUnavailableError(f"{self._sink}: {error}: it is tried again") from error
