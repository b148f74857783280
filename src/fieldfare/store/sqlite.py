"""SQLite as the database of a store: a file, no server. Processes on one machine may share it.

A write-ahead log lets readers go on while one process writes, and every commit is synced to the disk.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from fieldfare.errors import StoreError, StoreUnavailableError
from fieldfare.store.database import INCOMING, INCOMING_COLUMNS, Dialect, Row, incoming_table

_CHUNK_ROWS = 1_000  # fetched at a time: they stay in the processor's cache, which is twice as fast as ten thousand
_PASSING = {  # primary result codes that do not speak of the file itself: the same may work later
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
}  # fmt: skip
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class SqliteSession:
    """A transaction under way."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: object) -> int:
        """Run a statement that changes rows; returns how many were changed."""
        return self._connection.execute(sql, values).rowcount

    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a query that finds few."""
        return self._connection.execute(sql, values).fetchall()

    def chunks(self, sql: str, *values: object) -> Iterator[list[Row]]:
        """The rows of a query that may find many, in chunks."""
        with closing(self._connection.execute(sql, values)) as cursor:
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                yield rows

    def stage(self, rows: Iterable[Row]) -> None:
        """Put rows into the empty table of incoming ones."""
        self._connection.execute(f"DELETE FROM {INCOMING}")  # noqa: S608 - a constant
        marks = ", ".join("?" * len(INCOMING_COLUMNS))
        self._connection.executemany(f"INSERT INTO {INCOMING} VALUES ({marks})", rows)  # noqa: S608


class SqliteDatabase:
    """A file. Threads take turns on one connection."""

    dialect = Dialect(
        integer="INTEGER",
        text="TEXT",
        table_names="SELECT name FROM sqlite_master WHERE type = 'table'",
        is_shared=False,
    )

    def __init__(self, path: Path, *, timeout_seconds: float, create: bool) -> None:
        self.name = str(path)
        self._path = path.absolute()  # the current folder may change
        self.address = str(self._path)
        self._timeout_seconds = timeout_seconds
        self._lock = threading.RLock()
        self._is_closed = False
        with self._translated():
            self._connection = self._connect("rwc" if create else "rw")
        self._file = self._path.stat()

    @contextmanager
    def transaction(self, *, is_writing: bool) -> Iterator[SqliteSession]:
        """All or nothing, durable at the end."""
        with self._lock, self._translated():
            self._check_file()
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE" if is_writing else "BEGIN")
            try:
                yield SqliteSession(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:  # not after some errors: SQLite has rolled back by itself
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file, for good."""
        with self._lock:
            self._is_closed = True
            self._connection.close()

    def _check_file(self) -> None:
        """Raise if the file was deleted or replaced: what is written to it now would be lost silently."""
        if self._is_closed:
            raise StoreError(f"{self.name}: this store was closed")
        try:
            is_same = os.path.samestat(self._path.stat(), self._file)
        except OSError as error:
            raise StoreUnavailableError(f"{self.name}: the file has gone: put it back, and try again") from error
        if not is_same:
            raise StoreError(
                f"{self.name}: another file stands in its place now: stop all that use it, and open it again"
            )

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={mode}",
            uri=True,
            timeout=self._timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain sync does not reach the disk
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(incoming_table(self.dialect))
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _DAMAGED:
                raise StoreError(
                    f"{self.name}: not a Fieldfare store, or damaged ({error}): restore the file from a backup"
                ) from error
            if code in _PASSING:
                raise StoreUnavailableError(self._advice(code, error)) from error
            raise StoreError(f"{self.name}: {error}") from error

    def _advice(self, code: int, error: sqlite3.DatabaseError) -> str:
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return f"{self.name}: locked by another process for {self._timeout_seconds:g} s: try again later"
        if code == sqlite3.SQLITE_CANTOPEN and not self._path.exists():
            return f"{self.name}: there is no such store; `fieldfare subscriptions add` and `import` make one"
        return f"{self.name}: {error}: make sure that its folder can be written and has space, and try again"
