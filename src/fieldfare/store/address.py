"""Which database an address names."""

from __future__ import annotations

from pathlib import Path

from fieldfare.errors import StoreError
from fieldfare.store.database import Database


def database_at(address: str, *, create: bool, timeout_seconds: float) -> Database:
    """The database at a path, at sqlite:///path or at postgresql://user@host/database."""
    scheme, separator, path = address.partition("://")
    if separator and scheme in {"postgresql", "postgres"}:
        from fieldfare.store.postgres import PostgresDatabase

        return PostgresDatabase(address, timeout_seconds=timeout_seconds)
    if separator and scheme == "sqlite" and path.startswith("/"):
        address = path[1:]
    elif separator:
        raise StoreError(f"a store is a path, sqlite:///path or postgresql://user@host/database, not {scheme}://")
    from fieldfare.store.sqlite import SqliteDatabase

    return SqliteDatabase(Path(address), timeout_seconds=timeout_seconds, create=create)
