"""Events as lines for the pipeline, and back: columns to match by, and beside them the event itself, byte for byte.

Spark wants to know the columns and their types. Where the operator has not said them, they are learned: an attribute is
of the kind that its first value had, and a value of another kind is left out, since it could match nothing. Numbers are
DOUBLE, inner objects give dotted names, as they do at an edge, and the members of a list must be of one kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from fieldfare.events import attributes_of, json_values
from fieldfare.messages import ENVELOPE_PREFIX, Beside, HandEvents, envelope_attributes
from fieldfare.model import Range
from fieldfare.store.outputs import BATCH_ID, SUBSCRIPTION_IDS

EVENT, MARK = "_fieldfare", "_mark"
COLUMNS_MAX = 300  # with the length of names, they bound the pipeline's command line
_RANGE = "STRUCT<low: DOUBLE, high: DOUBLE>"
_LISTS = {"ARRAY<STRING>", "ARRAY<DOUBLE>", "ARRAY<BOOLEAN>"}
_RESERVED = {BATCH_ID, SUBSCRIPTION_IDS, "subscription_id"}  # columns of the pipeline's output
_column_name = re.compile(r"[^\W\d_][\w.-]{0,63}")
_encode = msgspec.json.Encoder().encode


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """An event on its way through the pipeline, and its place among all that were handed over."""

    file: int
    row: int
    id: str
    publisher: str | None
    at: float
    event: Raw
    beside: Beside | None = None


class EventRows(NamedTuple):
    """Events that were handed over together, and the values of each to match by."""

    effect: HandEvents
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a topic's events: those that the operator gave as DDL, or by name the types that were learned."""

    given: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)

    def read(self, effect: HandEvents) -> EventRows:
        """The values of events; an UnreadableError if one is no event, which an edge does not let through."""
        rows = [json_values(bytes(event)) for event in effect.events]
        if self.given is None:
            rows = [attributes_of(row) for row in rows]
        return EventRows(effect, rows if effect.beside is None else list(map(self._with_envelope, rows, effect.beside)))

    def _with_envelope(self, row: dict[str, Any], carried: Beside | None) -> dict[str, Any]:
        """An event's values and those of its envelope: names that begin with `ce.`, or a column `ce` of the operator's.

        The operator's columns are read by Spark, to which `ce.type` is a field of `ce`.
        """
        if carried is None or carried.envelope is None:
            return row
        if self.given is None:
            return {**row, **envelope_attributes(carried.envelope)}
        return {ENVELOPE_PREFIX.removesuffix("."): carried.envelope, **row}

    def learned(self, publications: Iterable[EventRows]) -> Columns:
        """The columns with attributes that are new; the same object if there are none."""
        if self.given is not None:
            return self
        kinds = dict(self.kinds)
        folded = {name.lower() for name in kinds} | _RESERVED  # Spark's names ignore case
        for publication in publications:
            for row in publication.rows:
                for name, value in row.items():
                    if name in kinds or len(kinds) == COLUMNS_MAX or not _column_name.fullmatch(name):
                        continue
                    if name.lower() not in folded and (kind := _kind(value)) is not None:
                        kinds[name] = kind
                        folded.add(name.lower())
        return Columns(None, kinds) if len(kinds) > len(self.kinds) else self

    @property
    def schema(self) -> str | None:
        """The columns as DDL, with the bridge's own; None before there are any."""
        learned = ", ".join(f"`{name}` {kind}" for name, kind in self.kinds.items())
        events = self.given or learned
        return f"{events}, {EVENT} STRING, {MARK} STRING" if events else None

    def lines(self, file: int, publications: Iterable[EventRows], mark: str) -> Iterator[bytes]:
        """The lines of a file."""
        row_number = 0
        for effect, rows in publications:
            beside = effect.beside or [None] * len(rows)
            for event_id, event, row, extra in zip(effect.ids, effect.events, rows, beside, strict=True):
                carried = Carried(file, row_number, event_id, effect.publisher, effect.at, event, extra)
                yield _encode({**self._fitting(row), EVENT: _encode(carried).decode(), MARK: None}) + b"\n"
                row_number += 1
        yield _encode({MARK: mark}) + b"\n"

    def _fitting(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.given is not None:
            return row
        kinds = self.kinds
        return {
            name: {"low": value.low, "high": value.high} if isinstance(value, Range) else value
            for name, value in row.items()
            if name in kinds and (kinds[name] == _kind(value) or (_has_no_kind(value) and kinds[name] in _LISTS))
        }


def _kind(value: object) -> str | None:
    match value:
        case bool():
            return "BOOLEAN"
        case int() | float():
            return "DOUBLE"
        case str():
            return "STRING"
        case list():
            of_members = {_kind(member) for member in value if member is not None} or {"STRING"}
            kind = f"ARRAY<{of_members.pop()}>"
            return kind if not of_members and kind in _LISTS else None
        case Range() if _kind(value.low) == _kind(value.high) == "DOUBLE":
            return _RANGE
    return None


def _has_no_kind(value: object) -> bool:
    """Whether a value is a list that says nothing of its members' kind."""
    return isinstance(value, list) and all(member is None for member in value)
