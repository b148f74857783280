"""The tables of a store: one row with its version, and the subscriptions with their first and last versions."""

from __future__ import annotations

from typing import NamedTuple

from fieldfare.errors import StoreError
from fieldfare.store.database import Database, Session

SCHEMA_VERSION = 1

_TABLES = (
    """CREATE TABLE fieldfare_store (
        identity {text} NOT NULL,
        schema_version {integer} NOT NULL,
        version {integer} NOT NULL,
        forgotten {integer} NOT NULL,
        id_type {text}
    )""",
    """CREATE TABLE fieldfare_subscriptions (
        number {integer} PRIMARY KEY,
        subscription_id {text} NOT NULL,
        tenant {text} NOT NULL,
        topic {text} NOT NULL,
        condition {text} NOT NULL,
        expires_at {integer},
        created_at {integer} NOT NULL,
        ended {integer},
        end_reason {text}
    )""",
    "CREATE UNIQUE INDEX fieldfare_active ON fieldfare_subscriptions (subscription_id) WHERE ended IS NULL",
    "CREATE INDEX fieldfare_ended ON fieldfare_subscriptions (ended) WHERE ended IS NOT NULL",
    """CREATE INDEX fieldfare_expiry ON fieldfare_subscriptions (expires_at)
        WHERE ended IS NULL AND expires_at IS NOT NULL""",
)


class Meta(NamedTuple):
    """The one row that describes a store."""

    identity: str
    schema_version: int
    version: int
    forgotten: int  # the earliest version whose state is still known
    id_type: str | None  # of all ids: "integer" or "string"; None before the first subscription


def read_meta(session: Session) -> Meta:
    """Read the row that describes the store."""
    rows = session.rows("SELECT identity, schema_version, version, forgotten, id_type FROM fieldfare_store")
    return Meta(*rows[0])


def opened(database: Database, identity: str | None) -> Meta:
    """The row that describes the store in a database. If there is no store, one is created, if an identity is given."""
    with database.transaction(is_writing=False) as session:
        is_there = _has_store(session, database)
    if not is_there:
        if identity is None:
            raise StoreError(f"{database.name}: there is no store; `fieldfare subscriptions add` and `import` make one")
        with database.transaction(is_writing=True) as session:
            _create(session, database, identity)
    with database.transaction(is_writing=False) as session:
        meta = read_meta(session)
    if meta.schema_version != SCHEMA_VERSION:
        raise StoreError(
            f"{database.name}: written by another version of Fieldfare (schema {meta.schema_version}, here "
            f"{SCHEMA_VERSION}): use that version"
        )
    return meta


def _has_store(session: Session, database: Database) -> bool:
    names = {name for (name,) in session.rows(database.dialect.table_names)}
    if names and "fieldfare_store" not in names and not database.dialect.is_shared:
        raise StoreError(f"{database.name}: not a Fieldfare store, but a database of something else: name another file")
    return "fieldfare_store" in names


def _create(session: Session, database: Database, identity: str) -> None:
    dialect = database.dialect
    if dialect.creation_lock:
        session.rows(dialect.creation_lock)
    if _has_store(session, database):
        return  # another process was quicker
    for statement in _TABLES:
        session.execute(statement.format(text=dialect.text, integer=dialect.integer))
    session.execute("INSERT INTO fieldfare_store VALUES (?, ?, 0, 0, NULL)", identity, SCHEMA_VERSION)
