"""Subscriptions on their way into the store: checked as a whole, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from fieldfare.errors import InvalidIdError, SubscriptionError, UnsupportedConditionError
from fieldfare.language import compile_many
from fieldfare.matching.ids import ids_of
from fieldfare.model import INT64_MAX, INT64_MIN, SubscriptionId
from fieldfare.store.database import Row

DEFAULT = "default"  # the tenant and the topic of who names none
INTEGER, STRING = "integer", "string"  # the types that ids have, all of one type in a store
LIFETIME_SECONDS_MAX = 100 * 365 * 86_400.0
_ID_BYTES_MAX = 1_000  # an index in PostgreSQL takes up to 2,704
_integer = re.compile("0|-?[1-9][0-9]{0,18}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Subscriptions = Mapping[str, str] | Mapping[int, str] | Mapping[SubscriptionId, str]  # id -> condition


@dataclass(frozen=True, slots=True)
class Terms:
    """The defaults for subscriptions that name no tenant, topic or lifetime. No lifetime means forever."""

    tenant: str
    topic: str
    lifetime_seconds: float | None


def id_type_of(ids: pa.Array) -> str:
    """The type of ids, as a store names it."""
    return INTEGER if pa.types.is_integer(ids.type) else STRING


def typed_id(text: str, id_type: str | None) -> SubscriptionId:
    """A text as an id of this type: "12" becomes 12 if ids are integers."""
    if id_type != INTEGER:
        if len(text.encode(errors="surrogatepass")) > _ID_BYTES_MAX:
            raise InvalidIdError(f"the id {text[:50]!r}… is longer than {_ID_BYTES_MAX:,} bytes")
        if "\0" in text:
            raise InvalidIdError(f"the id {text!r} holds a NUL character, which cannot be stored")
        return text
    if not _integer.fullmatch(text) or not INT64_MIN <= int(text) <= INT64_MAX:
        raise InvalidIdError(f"{text!r} cannot be an id here: the ids in this store are 64-bit integers")
    return int(text)


def stored_ids(given: Iterable[object]) -> pa.Array:
    """Ids as an Arrow array; InvalidIdError if one cannot be stored."""
    ids = ids_of(given)
    if pa.types.is_integer(ids.type):
        return ids
    for text in ids.to_pylist():
        typed_id(text, STRING)
    return ids


def incoming_rows(given: Subscriptions | pa.Table, terms: Terms, now_seconds: float) -> tuple[pa.Array, list[Row]]:
    """The ids of subscriptions, and their rows for the table of incoming subscriptions."""
    tenants: list[Any]
    topics: list[Any]
    lifetimes: list[Any]
    if isinstance(given, Mapping):
        ids, conditions = stored_ids(given), list(given.values())
        tenants = topics = lifetimes = [None] * len(ids)
    else:
        ids, conditions = stored_ids(_column(given, "subscription_id")), _column(given, "condition").to_pylist()
        tenants, topics = _optional(given, "tenant", pa.large_string()), _optional(given, "topic", pa.large_string())
        lifetimes = _optional(given, "lifetime_seconds", pa.float64())
    _check_conditions(ids, conditions)
    columns = (
        range(1, len(ids) + 1),
        texts(ids),
        _names(tenants, terms.tenant),
        _names(topics, terms.topic),
        conditions,
        [_expiry(terms.lifetime_seconds if own is None else own, now_seconds) for own in lifetimes],
    )
    return ids, list(zip(*columns, strict=True))


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if table.schema.names.count(name) != 1:
        raise SubscriptionError(f"the subscriptions need one column {name!r}; they have {table.schema.names}")
    return table.column(name)


def _optional(table: pa.Table, name: str, kind: pa.DataType) -> list[Any]:
    if name not in table.schema.names:
        return [None] * table.num_rows
    try:
        values: list[Any] = _column(table, name).cast(kind).to_pylist()
    except pa.ArrowException as error:
        raise SubscriptionError(f"the column {name!r} cannot be read as {kind}: {error}") from error
    return values


def texts(ids: pa.Array) -> list[str]:
    """Ids as they are stored."""
    converted: list[str] = ids.cast(pa.large_string()).to_pylist()
    return converted


def id_rows(ids: pa.Array) -> list[Row]:
    """Rows for the table of incoming subscriptions that hold only ids, for questions about them."""
    return [(place, text, None, None, None, None) for place, text in enumerate(texts(ids), start=1)]


def microseconds(seconds: float) -> int:
    """A moment, or a time, as it is stored."""
    return round(seconds * 1_000_000)


def moment_of(stored: int) -> datetime:
    """The moment that is stored, in microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=stored)


def _expiry(lifetime_seconds: float | None, now_seconds: float) -> int | None:
    """When a lifetime ends, as it is stored."""
    if lifetime_seconds is None:
        return None
    if not 0 < lifetime_seconds <= LIFETIME_SECONDS_MAX:  # false for NaN too
        raise SubscriptionError(
            f"a lifetime of {lifetime_seconds} seconds: it must be more than 0 and at most {LIFETIME_SECONDS_MAX:,.0f}"
        )
    return microseconds(now_seconds + lifetime_seconds)


def _check_conditions(ids: pa.Array, conditions: Sequence[str]) -> None:
    """Raise the error of the first condition that cannot be stored, with the id of its subscription."""
    for number, error in compile_many(conditions).errors:
        error.add_note(f"in subscription {ids[number].as_py()!r}")
        raise error
    for number, condition in enumerate(conditions):
        if "\0" in condition:
            error = UnsupportedConditionError("a NUL character cannot be stored", condition, condition.index("\0"))
            error.add_note(f"in subscription {ids[number].as_py()!r}")
            raise error


def _names(given: Sequence[str | None], otherwise: str) -> list[str]:
    """The column of tenants or of topics, with the default in place of nulls."""
    names = [otherwise if name is None else name for name in given]
    for name in set(names):
        if not name or "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
            raise SubscriptionError(f"{name!r} cannot be a tenant or a topic: these are texts, not empty, without NUL")
    return names
