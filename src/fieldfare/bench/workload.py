"""A benchmark's subscriptions and events, in columns that every engine can be fed from.

What subscriptions ask of each attribute is kept as plain bounds and codes, beside the SQL text where there is one, so
that peers get it in the layout that suits them best and brute force can check all engines without language or index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Masks = npt.NDArray[np.uint64]

# A missing number is -infinity in an event's column. An unconstrained range starts there and a constrained one above
# it, so that `low <= value < high` also says what SQL says of NULL: it satisfies every subscription that does not ask.
MISSING = -np.inf


@dataclass(frozen=True, slots=True)
class WantedRanges:
    """Subscription i wants `low[i] <= value < high[i]`; without `high` there is no upper bound."""

    low: Floats
    high: Floats | None

    def holds(self, value: float) -> Bools:
        """Whether a value satisfies each subscription."""
        above = self.low <= value
        return above if self.high is None else above & (value < self.high)

    def between(self, start: int, stop: int) -> WantedRanges:
        """The column of some of the subscriptions."""
        return WantedRanges(self.low[start:stop], None if self.high is None else self.high[start:stop])


@dataclass(frozen=True, slots=True)
class Equals:
    """Subscription i wants the string `vocabulary[codes[i]]`. An event's column holds codes too."""

    vocabulary: tuple[str, ...]
    codes: Codes

    def holds(self, code: int) -> Bools:
        """Whether a string, given by its code, satisfies each subscription."""
        return np.equal(self.codes, code)

    def between(self, start: int, stop: int) -> Equals:
        """The column of some of the subscriptions."""
        return Equals(self.vocabulary, self.codes[start:stop])


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Subscription i wants a string that starts with `prefixes[codes[i]]`. An event's column holds vocabulary codes."""

    vocabulary: tuple[str, ...]
    prefixes: tuple[str, ...]
    codes: Codes

    def holds(self, code: int) -> Bools:
        """Whether a string, given by its code, satisfies each subscription."""
        text = self.vocabulary[code]
        return np.array([text.startswith(prefix) for prefix in self.prefixes], np.bool_)[self.codes]

    def between(self, start: int, stop: int) -> Prefixes:
        """The column of some of the subscriptions."""
        return Prefixes(self.vocabulary, self.prefixes, self.codes[start:stop])


@dataclass(frozen=True, slots=True)
class Choices:
    """Subscription i accepts the strings whose bits are set in `masks[i]`: IN, NOT IN and != over a few strings.

    The bit after the last string stands for a missing one; subscriptions that do not ask accept it too.
    """

    vocabulary: tuple[str, ...]
    masks: Masks

    def holds(self, code: int) -> Bools:
        """Whether a string, given by its code, satisfies each subscription."""
        bit = np.uint64(1) << np.uint64(code)
        return np.asarray(self.masks & bit != 0)

    def between(self, start: int, stop: int) -> Choices:
        """The column of some of the subscriptions."""
        return Choices(self.vocabulary, self.masks[start:stop])


@dataclass(frozen=True, slots=True)
class WantedMembers:
    """Subscription i wants a list with the words codes[offsets[i]:offsets[i + 1]]; an event has an array of them."""

    offsets: npt.NDArray[np.int64]
    codes: Codes

    def holds(self, given: Codes) -> Bools:
        """Whether a list satisfies each subscription."""
        is_given = np.zeros(int(max(self.codes.max(initial=0), given.max(initial=0))) + 1, np.bool_)
        is_given[given] = True
        return np.logical_and.reduceat(is_given[self.codes], self.offsets[:-1])

    def between(self, start: int, stop: int) -> WantedMembers:
        """The column of some of the subscriptions."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return WantedMembers(self.offsets[start : stop + 1] - first, self.codes[first:last])


class ColumnOfRegions(Protocol):
    """Subscription i wants a place in region i: see geofences.py. An event's column holds longitude + latitude * 1j."""

    def holds(self, place: complex) -> Bools:
        """Whether a place satisfies each subscription."""

    def between(self, start: int, stop: int) -> ColumnOfRegions:
        """The column of some of the subscriptions."""


Column = WantedRanges | Equals | Prefixes | Choices | WantedMembers

EVENTS = 65_536


@dataclass(frozen=True, slots=True)
class Size:
    """How much to generate. `width` is that of BlueDove's ranges; other workloads have none."""

    subscriptions: int
    width: float | None = None
    events: int = EVENTS


FIRST_ID = 1_000_001  # so that no engine can pass off positions as ids


@dataclass(frozen=True, slots=True)
class Workload:
    """Subscriptions and events. A subscription holds where all the columns hold."""

    name: str
    ids: Ids
    columns: Mapping[str, Column]
    values: Mapping[str, npt.NDArray[Any]]  # the events as the columns read them: floats, or codes of strings
    events: pa.Table  # the same events, as a user has them
    conditions: pa.Table | None = None  # subscription_id and condition; None where subscriptions are boxes
    width: float | None = None
    regions: ColumnOfRegions | None = None  # in place of columns; the events' values are called place

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_boxes(self) -> bool:
        """Every subscription bounds every attribute on both sides."""
        return self.conditions is None

    @property
    def has_lists(self) -> bool:
        """Some attribute is a list."""
        return any(isinstance(column, WantedMembers) for column in self.columns.values())

    @property
    def is_regions(self) -> bool:
        """The subscriptions are regions of places."""
        return self.regions is not None

    def brute_force(self, row: int) -> Ids:
        """The ids that one event matches, ascending: every test of every subscription, nothing clever."""
        holds = np.ones(len(self), np.bool_)
        for attribute, column in self.columns.items():
            holds &= column.holds(self.values[attribute][row])
        if self.regions is not None:
            holds &= self.regions.holds(self.values["place"][row])
        return self.ids[holds]

    def between(self, start: int, stop: int) -> Workload:
        """The same events with some of the subscriptions."""
        return replace(
            self,
            ids=self.ids[start:stop],
            columns={attribute: column.between(start, stop) for attribute, column in self.columns.items()},
            regions=None if self.regions is None else self.regions.between(start, stop),
            conditions=None if self.conditions is None else self.conditions.slice(start, stop - start),
        )


def subscription_ids(count: int) -> Ids:
    """Ids for `count` subscriptions."""
    return np.arange(FIRST_ID, FIRST_ID + count, dtype=np.int64)


def conditions_table(ids: Ids, conditions: list[str]) -> pa.Table:
    """Conditions as an index takes them in bulk."""
    return pa.table({"subscription_id": ids, "condition": pa.array(conditions, pa.string())})


def above(thresholds: Floats, asked: Bools) -> WantedRanges:
    """`value > threshold` where `asked`; elsewhere any value."""
    return WantedRanges(np.where(asked, np.nextafter(thresholds, np.inf), MISSING), None)


def strings(vocabulary: tuple[str, ...], codes: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """The strings of some codes; the code after the last is a missing string."""
    return pa.array([*vocabulary, None], pa.string()).take(pa.array(codes))


def zipf(count: int) -> Floats:
    """Zipf's shares of `count` items: the second gets half of what the first gets, the third a third."""
    weights = 1.0 / np.arange(1, count + 1)
    return np.asarray(weights / weights.sum())
