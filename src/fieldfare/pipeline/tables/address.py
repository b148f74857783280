"""Which table the output goes to, as people write it, and what they may set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from fieldfare.errors import InputError

DELTA, ICEBERG = "delta:", "iceberg:"
POSTGRES = ("postgresql://", "postgres://")
COMMIT_SECONDS = 30.0
_DEFAULT_TABLE = "fieldfare_matches"
_ICEBERG_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+")
_POSTGRES_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,40}")


@dataclass(frozen=True, slots=True)
class LakeTableSink:
    """A Delta or Iceberg table. `settings` are the library's own, such as those of a store; they may hold secrets.

    Batches gather for `commit_seconds` before they appear in the table, in one commit.
    """

    format: str  # DELTA or ICEBERG, without the colon
    place: str  # of Delta: a folder or a URL; of Iceberg: the folder of the catalog, empty if the settings name one
    name: str = ""  # of Iceberg: namespace.table
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    commit_seconds: float = COMMIT_SECONDS

    def __str__(self) -> str:
        return f"{self.format}:{'/'.join(filter(None, (self.place, self.name)))}"


@dataclass(frozen=True, slots=True)
class PostgresSink:
    """A table in PostgreSQL, with a row for each pair of an event and a subscription."""

    address: str = field(repr=False)  # without the table; may hold a password
    table: str = _DEFAULT_TABLE

    def __str__(self) -> str:
        parts = urlsplit(self.address)
        place = parts.hostname or ""
        return f"postgresql://{place}{parts.path}?table={self.table}"


def is_table(place: str) -> bool:
    """Whether a place names a table rather than a folder."""
    return place.startswith((DELTA, ICEBERG, *POSTGRES))


def parse_table(
    place: str, settings: Mapping[str, str] | None = None, commit_seconds: float = COMMIT_SECONDS
) -> LakeTableSink | PostgresSink:
    """The table that an address names."""
    settings = settings or {}
    if place.startswith(DELTA):
        return LakeTableSink("delta", _delta_place(place), settings=settings, commit_seconds=commit_seconds)
    if place.startswith(ICEBERG):
        folder, _, name = place.removeprefix(ICEBERG).rpartition("/")
        if not _ICEBERG_NAME.fullmatch(name) or not (folder or settings):
            raise InputError(
                f"{place}: an Iceberg table is named as iceberg:FOLDER/namespace.table, or as iceberg:namespace.table "
                "with the settings of your catalog in a file"
            )
        if "://" in folder:
            raise InputError(
                f"{place}: the catalog is a SQLite file, which needs a folder of this machine: name that, and "
                f"in the file of settings the place of the data, warehouse = {folder}"
            )
        return LakeTableSink("iceberg", folder, name, settings, commit_seconds)
    return _postgres(place)


def _delta_place(place: str) -> str:
    found = place.removeprefix(DELTA)
    if not found:
        raise InputError(f"{place}: a Delta table is named as delta:FOLDER, or as delta:s3://bucket/path")
    return found


def _postgres(place: str) -> PostgresSink:
    parts = urlsplit(place)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    table = query.pop("table", _DEFAULT_TABLE)
    if not _POSTGRES_NAME.fullmatch(table):
        raise InputError(
            f"{table!r} cannot be the table of an output: it has letters, digits and '_', up to 41, perhaps after the "
            "name of a schema and a dot: postgresql://user@host/database?table=alerts"
        )
    return PostgresSink(urlunsplit(parts._replace(query=urlencode(query, quote_via=quote))), table)
