"""Subscriptions from a file into a store, in transactions of some ten thousand; bad rows go to quarantine.

An import that was cut off is finished by starting it again: what is in the store already is passed over.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fieldfare.bisection import Bisection
from fieldfare.errors import ConditionError, InputError, InvalidIdError, SubscriptionError
from fieldfare.files.lines import RowError
from fieldfare.files.quarantine import Quarantine, excerpt
from fieldfare.files.subscriptions import TERM_COLUMNS, SubscriptionRow, check_row, subscription_rows
from fieldfare.language import compile_many
from fieldfare.model import SubscriptionId
from fieldfare.store.incoming import INTEGER, STRING, Terms, typed_id
from fieldfare.store.subscription_store import SubscriptionStore

_CHUNK_ROWS = 50_000

Progress = Callable[[int, int], None]  # how many rows are done, and how many there are


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What to import."""

    path: Path
    terms: Terms  # of rows that have no columns tenant, topic and lifetime_seconds, or nothing there
    replace: bool = False  # what is in the store already; otherwise it is passed over
    quarantine: Path | None = None

    @property
    def quarantine_path(self) -> Path:
        """Beside the file, unless it was given."""
        return self.quarantine or Path(f"{self.path}.quarantine.jsonl")


@dataclass(slots=True)
class ImportSummary:
    """What `import_subscriptions` did."""

    added: int = 0
    replaced: int = 0  # of those that were added
    passed_over: int = 0  # in the store already
    quarantined: int = 0
    seconds: float = 0.0


def import_subscriptions(
    store: SubscriptionStore, options: ImportOptions, now_seconds: float, progress: Progress
) -> ImportSummary:
    """Add the subscriptions of a file to a store. What `progress` has reported is durable."""
    if options.quarantine_path.resolve() == options.path.resolve():
        raise InputError(f"{options.quarantine_path}: the quarantine would replace the input")
    started = time.perf_counter()
    length, id_type = _survey(options.path)
    with Quarantine(options.quarantine_path) as quarantine:
        task = _Import(store, options, now_seconds, quarantine)
        rows = subscription_rows(options.path)
        done = 0
        while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
            task.add(chunk, store.id_type or id_type)
            done += len(chunk)
            progress(done, length)
        if quarantine.first and quarantine.rows == length:
            raise InputError(f"{options.path}: none of its rows can be added; of the first: {quarantine.first.reason}")
        task.summary.quarantined = quarantine.rows
    task.summary.seconds = time.perf_counter() - started
    return task.summary


def _survey(path: Path) -> tuple[int, str]:
    """How many rows there are, and the type of their ids: integers if all of them are."""
    length = strings = 0
    for row in subscription_rows(path):
        length += 1
        strings += isinstance(row.subscription_id, str)
    return length, STRING if strings else INTEGER


class _Item(NamedTuple):
    """A row with an id that the store can have."""

    row: SubscriptionRow
    subscription_id: SubscriptionId
    terms: Terms


class _Import:
    """An import under way."""

    def __init__(
        self, store: SubscriptionStore, options: ImportOptions, now_seconds: float, quarantine: Quarantine
    ) -> None:
        self.summary = ImportSummary()
        self._store = store
        self._options = options
        self._now_seconds = now_seconds
        self._quarantine = quarantine
        self._places: dict[SubscriptionId, int] = {}  # where each id stands first

    def add(self, rows: Iterable[SubscriptionRow], id_type: str) -> None:
        """Add what can be added; the rest goes to quarantine."""
        items = self._items(rows, id_type)
        known = self._store.known(item.subscription_id for item in items)
        if self._options.replace:
            self._add(items, known)
        else:
            self.summary.passed_over += len(known)
            self._add([item for item in items if item.subscription_id not in known], known)

    def _items(self, rows: Iterable[SubscriptionRow], id_type: str) -> list[_Item]:
        items = []
        for row in rows:
            try:
                check_row(row)
                item = _Item(row, typed_id(str(row.subscription_id), id_type), self._terms(row))
                if item.subscription_id in self._places:
                    place = self._places[item.subscription_id]
                    raise RowError(f"the id {row.subscription_id!r} stands twice; it was first given at {place}")
            except (RowError, InvalidIdError) as error:
                self._quarantine.add(row.bad(str(error)))
            else:
                self._places[item.subscription_id] = row.number
                items.append(item)
        return items

    def _terms(self, row: SubscriptionRow) -> Terms:
        if not row.terms:
            return self._options.terms
        values = [None if value == "" else value for value in row.terms]
        for name, value in zip(TERM_COLUMNS, values, strict=True):
            if value is not None and not isinstance(value, str) and name != "lifetime_seconds":
                raise RowError(f"the {name} is not a string")
        tenant, topic, lifetime_seconds = values
        otherwise = self._options.terms
        return Terms(
            tenant or otherwise.tenant,
            topic or otherwise.topic,
            otherwise.lifetime_seconds if lifetime_seconds is None else _seconds(lifetime_seconds),
        )

    def _add(self, items: Sequence[_Item], known: set[SubscriptionId]) -> None:
        """Add items; if one of them is bad, first without those that do not compile, then part by part."""
        try:
            self._add_all(items, known)
        except ConditionError:
            self._add_sound(self._compilable(items), known)
        except SubscriptionError:
            self._add_sound(items, known)

    def _add_sound(self, items: Sequence[_Item], known: set[SubscriptionId]) -> None:
        """Add the items that the store takes; the others go to quarantine."""
        parts = Bisection(len(items))
        for part in parts:
            try:
                self._add_all(items[part], known)
            except (ConditionError, SubscriptionError) as error:
                if not parts.halve(part):
                    self._quarantine.add(items[part.start].row.bad(str(error)))

    def _add_all(self, items: Sequence[_Item], known: set[SubscriptionId]) -> None:
        if items:
            self._store.add(_table(items), now_seconds=self._now_seconds, replace=self._options.replace)
            self.summary.added += len(items)
            self.summary.replaced += sum(item.subscription_id in known for item in items)

    def _compilable(self, items: Sequence[_Item]) -> Sequence[_Item]:
        errors = dict(compile_many([item.row.condition for item in items]).errors)
        for number, error in errors.items():
            self._quarantine.add(items[number].row.bad(str(error)))
        return [item for number, item in enumerate(items) if number not in errors]


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError("the lifetime_seconds are not a number")
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise RowError(f"the lifetime_seconds are not a number: {excerpt(value)}") from error


def _table(items: Sequence[_Item]) -> pa.Table:
    ids = [item.subscription_id for item in items]
    return pa.table(
        {
            "subscription_id": pa.array(ids, pa.int64() if isinstance(ids[0], int) else pa.large_string()),
            "condition": pa.array([item.row.condition for item in items], pa.large_string()),
            "tenant": pa.array([item.terms.tenant for item in items], pa.large_string()),
            "topic": pa.array([item.terms.topic for item in items], pa.large_string()),
            "lifetime_seconds": pa.array([item.terms.lifetime_seconds for item in items], pa.float64()),
        }
    )
