"""PostgreSQL as the database of a store, for teams. The tables lie in the first schema of the search path."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fieldfare.errors import MissingDependencyError, StoreError, StoreUnavailableError
from fieldfare.store.database import INCOMING, Dialect, Row, incoming_table

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise MissingDependencyError("a store in PostgreSQL needs psycopg: pip install 'fieldfare[postgres]'") from error

if TYPE_CHECKING:
    from psycopg.abc import QueryNoTemplate

_CHUNK_ROWS = 5_000  # fetched at a time: a round trip for each
_PASSING = ("08", "40", "53", "55", "57")  # classes of SQLSTATE: connection, conflict, resources, lock, shutdown


class PostgresSession:
    """A transaction under way."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: object) -> int:
        """Run a statement that changes rows; returns how many were changed."""
        return self._connection.execute(_query(sql), values).rowcount

    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a query that finds few."""
        return self._connection.execute(_query(sql), values).fetchall()

    def chunks(self, sql: str, *values: object) -> Iterator[list[Row]]:
        """The rows of a query that may find many, in chunks."""
        with self._connection.cursor("fieldfare") as cursor:
            cursor.execute(_query(sql), values)
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                yield rows

    def stage(self, rows: Iterable[Row]) -> None:
        """Put rows into the empty table of incoming ones."""
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {INCOMING} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def _query(sql: str) -> QueryNoTemplate:
    return sql.replace("?", "%s").encode()


class PostgresDatabase:
    """A server. Threads take turns on one connection."""

    dialect = Dialect(
        integer="BIGINT",
        text='TEXT COLLATE "C"',  # by bytes, as in SQLite, and quicker than by a language's rules
        table_names="SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
        is_shared=True,
        creation_lock="SELECT pg_advisory_xact_lock(7017280452245743464)",  # any number that others do not use
    )

    def __init__(self, address: str, *, timeout_seconds: float) -> None:
        try:
            known = conninfo_to_dict(address)
        except psycopg.ProgrammingError as error:
            raise StoreError("the address of the store is not one of PostgreSQL: postgresql://user@host/db") from error
        port = f":{known['port']}" if "port" in known else ""
        self.name = f"postgresql://{known.get('host', '')}{port}/{known.get('dbname', '')}"
        self.address = address
        self._timeout_seconds = timeout_seconds
        self._lock = threading.RLock()
        self._is_closed = False
        self._connection: psycopg.Connection[Row] | None = None

    @contextmanager
    def transaction(self, *, is_writing: bool) -> Iterator[PostgresSession]:
        """All or nothing, durable at the end."""
        with self._lock, self._translated():
            connection = self._connected()
            levels = psycopg.IsolationLevel
            # A writer must see what the one before it did, which it may have waited for; a reader, one state.
            connection.isolation_level = levels.READ_COMMITTED if is_writing else levels.REPEATABLE_READ
            connection.read_only = not is_writing
            with connection.transaction():
                yield PostgresSession(connection)

    def close(self) -> None:
        """Let go of the connection, for good."""
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()

    def _connected(self) -> psycopg.Connection[Row]:
        if self._is_closed:
            raise StoreError(f"{self.name}: this store was closed")
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> psycopg.Connection[Row]:
        milliseconds = math.ceil(self._timeout_seconds * 1000)
        connection = psycopg.connect(
            self.address,
            autocommit=True,
            connect_timeout=max(2, math.ceil(self._timeout_seconds)),  # libpq takes no less
            tcp_user_timeout=max(2000, milliseconds),  # a server that fell silent is one that broke the connection
            keepalives_idle=5,
        )
        connection.execute("SELECT set_config('lock_timeout', %s, false)", [str(milliseconds)])
        # Acknowledged means durable, whatever the server's default; what is stricter than "on" stays.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        connection.execute(f"{incoming_table(self.dialect)} ON COMMIT DELETE ROWS".encode())
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            state = error.sqlstate or ("08" if isinstance(error, psycopg.OperationalError) else "XX")
            if state.startswith(_PASSING):
                raise StoreUnavailableError(f"{self.name}: cannot be used now: {text}: try again later") from error
            raise StoreError(f"{self.name}: {text}") from error
