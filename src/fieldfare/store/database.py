"""What the subscription store needs of a database, so that its logic is written once for SQLite and PostgreSQL.

SQL is written with `?` for values, in the part of the language that both understand; a `Dialect` names the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

Row = tuple[Any, ...]
# What a change is about waits in a table of the connection's own: many rows take no more statements than one.
INCOMING = "fieldfare_incoming"
INCOMING_COLUMNS = ("place", "subscription_id", "tenant", "topic", "condition", "expires_at")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words that differ between the databases."""

    integer: str  # a type of 64 bits
    text: str
    table_names: str  # a query for the tables that are there
    is_shared: bool  # other tables may stand beside ours
    creation_lock: str | None = None  # a query that keeps others from creating the tables meanwhile


class Session(Protocol):
    """A transaction under way."""

    def execute(self, sql: str, *values: object) -> int:
        """Run a statement that changes rows; returns how many were changed."""
        ...

    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows of a query that finds few."""
        ...

    def chunks(self, sql: str, *values: object) -> Iterator[list[Row]]:
        """The rows of a query that may find many, in chunks."""
        ...

    def stage(self, rows: Iterable[Row]) -> None:
        """Put rows into the empty table of incoming ones; they are gone when the transaction ends."""
        ...


class Database(Protocol):
    """A database by its address. What goes wrong with it is a StoreError; a connection that broke is made again."""

    @property
    def dialect(self) -> Dialect:
        """The words that it understands."""
        ...

    @property
    def name(self) -> str:
        """The address for people: without a password."""
        ...

    @property
    def address(self) -> str:
        """The address by which another process reaches it."""
        ...

    def transaction(self, *, is_writing: bool) -> AbstractContextManager[Session]:
        """All or nothing, durable at the end. Readers see one state throughout; only one may write at a time."""
        ...

    def close(self) -> None:
        """Let go of the connection, for good."""
        ...


def incoming_table(dialect: Dialect) -> str:
    """The definition of the table of incoming rows."""
    types = [dialect.integer, *[dialect.text] * 4, dialect.integer]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(INCOMING_COLUMNS, types, strict=True))
    return f"CREATE TEMP TABLE {INCOMING} ({columns})"
