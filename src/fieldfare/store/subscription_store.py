"""The durable store of subscriptions: who subscribed to what, from which version to which.

It is a temporal table. A row is a subscription with the version at which it began, its number, and the one at which it
ended. So the state at any version, and the changes between two, are one query each, and no history is overwritten.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from fieldfare.errors import DuplicateIdError, HistoryError, InvalidIdError, StoreError, UnknownIdError
from fieldfare.model import SubscriptionId
from fieldfare.store import queries
from fieldfare.store.address import database_at
from fieldfare.store.database import Database, Session
from fieldfare.store.incoming import (
    DEFAULT,
    Subscriptions,
    Terms,
    id_rows,
    id_type_of,
    incoming_rows,
    microseconds,
    stored_ids,
    texts,
    typed_id,
)
from fieldfare.store.schema import Meta, opened, read_meta
from fieldfare.store.states import Changes, State, StoredSubscription, stored_subscription, subscription_table

__all__ = ["Changes", "State", "StoredSubscription", "SubscriptionStore", "open_store"]

HOLD_SECONDS_MAX = 7 * 86_400.0  # a reader that is away for longer may have to start anew from the present state
_ALL_ROWS = 2**62


def open_store(address: str | Path, *, create: bool = True, timeout_seconds: float = 5.0) -> SubscriptionStore:
    """Open a store, or create it: a file's path, sqlite:///path or postgresql://user@host/database.

    `timeout_seconds` is how long to wait for others who write, or for a server that does not answer.
    """
    database = database_at(str(address), create=create, timeout_seconds=timeout_seconds)
    try:
        return SubscriptionStore(database, create=create)
    except BaseException:
        database.close()
        raise


class SubscriptionStore:
    """The subscriptions in a database. Threads may share it: they take turns. A context manager.

    When a change returns, it is durable, and whoever reads later sees it. What cannot be done because the store is
    locked or cannot be reached raises StoreUnavailableError; whether to try again is the caller's to say.
    """

    def __init__(self, database: Database, *, create: bool = True) -> None:
        self._database = database
        self.identity = opened(database, str(uuid.uuid4()) if create else None).identity

    @property
    def name(self) -> str:
        """The address for people: without a password."""
        return self._database.name

    @property
    def address(self) -> str:
        """The address by which another process opens the same store; it may hold a password."""
        return self._database.address

    @property
    def id_type(self) -> str | None:
        """Of all ids here, "integer" or "string"; None before the first subscription."""
        with self._reading() as (_, meta):
            return meta.id_type

    def id_of(self, text: str) -> SubscriptionId:
        """The id that a text names: in a store of integers "12" is 12."""
        return typed_id(text, self.id_type)

    def version(self) -> int:
        """The version that the last change made."""
        with self._reading() as (_, meta):
            return meta.version

    def add(
        self,
        subscriptions: Subscriptions | pa.Table,
        *,
        now_seconds: float,
        tenant: str = DEFAULT,
        topic: str = DEFAULT,
        lifetime_seconds: float | None = None,
        replace: bool = False,
    ) -> int:
        """Subscribe; the new version. Either all of it happens or, where something is wrong, nothing.

        Takes conditions by id, or an Arrow table with the columns subscription_id and condition and, if they are
        wanted, tenant, topic and lifetime_seconds, which win over the arguments where they are not null. Without a
        lifetime it is forever. An id that is active already is an error, unless it is to be replaced.
        """
        ids, rows = incoming_rows(subscriptions, Terms(tenant, topic, lifetime_seconds), now_seconds)
        with self._writing(len(rows)) as (session, meta):
            if not rows:
                return meta.version
            _fix_id_type(session, meta, id_type_of(ids))
            before = meta.version - len(rows)
            session.execute(queries.EXPIRE, before + 1, microseconds(now_seconds))  # their ids are free again
            session.stage(rows)
            if replace:
                session.execute(queries.REPLACE, before)
            elif known := session.rows(queries.KNOWN):
                raise DuplicateIdError(ids[known[0][0] - 1].as_py())
            session.execute(queries.INSERT, before, microseconds(now_seconds))
            return meta.version

    def remove(self, ids: Iterable[SubscriptionId]) -> int:
        """Unsubscribe; the new version. If an id is not active, UnknownIdError is raised and nothing happens."""
        wanted = stored_ids(dict.fromkeys(ids))
        with self._writing(min(1, len(wanted))) as (session, meta):
            session.stage(id_rows(wanted))
            known = {place for (place,) in session.rows(queries.KNOWN)} if meta.id_type == id_type_of(wanted) else set()
            for place, subscription_id in enumerate(wanted, start=1):
                if place not in known:
                    raise UnknownIdError(subscription_id.as_py())
            session.execute(queries.REMOVE, meta.version)
            return meta.version

    def expire(self, now_seconds: float) -> int:
        """End the subscriptions whose lifetime is over; how many."""
        with self._reading() as (session, _):
            if not session.rows(queries.DUE, microseconds(now_seconds)):
                return 0
        with self._writing(1) as (session, meta):
            return session.execute(queries.EXPIRE, meta.version, microseconds(now_seconds))

    def hold(self, reader: str, version: int, *, now_seconds: float) -> None:
        """Keep the history from this version on for a reader, in place of what was kept for it until now.

        The hold ends when the reader has not renewed it for a week. Readers are known by names of their choice.
        """
        with self._writing(0) as (session, meta):
            _require_version(meta, version)
            self._make_readers_table(session)
            session.execute(queries.HOLD, reader, version, microseconds(now_seconds))

    def forget_unheld(self, *, now_seconds: float, rows_max: int) -> int:
        """Forget what no reader holds, but remove at most so many subscriptions at once; how many.

        If there are as many as the limit, more may be left. Where nobody holds anything, all history is kept.
        """
        with self._writing(0) as (session, meta):
            self._make_readers_table(session)
            session.execute(queries.RELEASE, microseconds(now_seconds - HOLD_SECONDS_MAX))
            ((held,),) = session.rows(queries.OLDEST_HELD)
            if held is None or held > meta.version:  # such a store was restored from a backup
                return 0
            return _forget(session, max(held, meta.forgotten), rows_max)

    def forget(self, version: int) -> int:
        """Remove what had ended by this version; how many. Earlier versions cannot be asked for any more."""
        with self._writing(0) as (session, meta):
            _require_version(meta, version)
            return _forget(session, version, _ALL_ROWS)

    def active(self, version: int | None = None, *, tenant: str | None = None, topic: str | None = None) -> State:
        """The subscriptions that are active, now or at an earlier version."""
        with self._reading() as (session, meta):
            at = meta.version if version is None else version
            _require_version(meta, at)
            return State(at, subscription_table(session.chunks(queries.STATE, at, at, tenant, topic), meta.id_type))

    def changes(self, since: int, *, tenant: str | None = None, topic: str | None = None) -> Changes:
        """What ended and what started after a version."""
        with self._reading() as (session, meta):
            _require_version(meta, since)
            if since == meta.version:
                return Changes(since, np.empty(0, np.int64), subscription_table([], meta.id_type))
            ended = [number for (number,) in session.rows(queries.ENDED, since, since, tenant, topic)]
            started = subscription_table(session.chunks(queries.STARTED, since, tenant, topic), meta.id_type)
            return Changes(meta.version, np.sort(np.array(ended, np.int64)), started)

    def known(self, ids: Iterable[SubscriptionId]) -> set[SubscriptionId]:
        """Those of the ids that are active."""
        asked = stored_ids(ids)
        with self._reading() as (session, meta):
            if meta.id_type != id_type_of(asked):
                return set()
            session.stage(id_rows(asked))
            return {asked[place - 1].as_py() for (place,) in session.rows(queries.KNOWN)}

    def get(self, subscription_id: SubscriptionId) -> StoredSubscription:
        """One active subscription."""
        wanted = stored_ids([subscription_id])
        with self._reading() as (session, meta):
            rows = session.rows(queries.ONE, *texts(wanted)) if meta.id_type == id_type_of(wanted) else []
            if not rows:
                raise UnknownIdError(subscription_id)
            return stored_subscription(rows[0], meta.id_type)

    def page(
        self, *, tenant: str | None = None, topic: str | None = None, limit: int = 100, after: int = 0
    ) -> list[StoredSubscription]:
        """Some of the active subscriptions: those with the lowest numbers above `after`."""
        with self._reading() as (session, meta):
            rows = session.rows(queries.PAGE, after, tenant, topic, limit)
            return [stored_subscription(row, meta.id_type) for row in rows]

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<fieldfare.store.SubscriptionStore {self.name}>"

    @contextmanager
    def _reading(self) -> Iterator[tuple[Session, Meta]]:
        with self._database.transaction(is_writing=False) as session:
            yield session, self._meta(session)

    @contextmanager
    def _writing(self, changes: int) -> Iterator[tuple[Session, Meta]]:
        """Take the next versions; the last of them is the one in `Meta`."""
        with self._database.transaction(is_writing=True) as session:
            # The clock's row stays locked until the commit, so that versions become visible in their order: who has
            # read a version will never find an earlier change that was not there before.
            session.execute("UPDATE fieldfare_store SET version = version + ?", changes)
            yield session, self._meta(session)

    def _make_readers_table(self, session: Session) -> None:
        dialect = self._database.dialect
        session.execute(queries.READERS_TABLE.format(text=dialect.text, integer=dialect.integer))

    def _meta(self, session: Session) -> Meta:
        meta = read_meta(session)
        if meta.identity != self.identity:
            raise StoreError(f"{self.name}: another store stands at this address now: open it again")
        return meta


def _forget(session: Session, version: int, rows_max: int) -> int:
    session.execute("UPDATE fieldfare_store SET forgotten = ?", version)
    return session.execute(queries.FORGET, version, rows_max)


def _fix_id_type(session: Session, meta: Meta, id_type: str) -> None:
    if meta.id_type is None:
        session.execute("UPDATE fieldfare_store SET id_type = ?", id_type)
    elif meta.id_type != id_type:
        raise InvalidIdError(f"the ids in this store are of type {meta.id_type}, not {id_type}")


def _require_version(meta: Meta, version: int) -> None:
    if version > meta.version:
        raise HistoryError(
            f"version {version} has not been: the store is at {meta.version}. If it was restored from a backup, "
            "start anew from its present state"
        )
    if version < meta.forgotten:
        raise HistoryError(f"version {version} was forgotten: the store knows its history from {meta.forgotten} on")
