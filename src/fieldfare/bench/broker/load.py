"""What brokers are measured on: events are points, subscriptions are squares, and who has to receive what is known.

Points are drawn uniformly, and every square lies inside the domain, so that a square of a hundredth of the area wants
a hundredth of the events. The events are a pool that is published over and over under growing numbers: with what each
of the pool matches, found here by sorting and comparing, the deliveries of a run of any length can be checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

SIDE = 1000.0
POOL_EVENTS = 10_000

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


class ReceivedEvent(msgspec.Struct, gc=False):
    """One event as a subscriber reads it. `sent` is in nanoseconds of the clock that all processes share."""

    number: int
    sent: int
    x: float = 0.0
    y: float = 0.0


class Wanted(Protocol):
    """One subscription."""

    @property
    def condition(self) -> str:
        """It in SQL, for a broker that can filter."""
        ...

    def wanted(self, events: list[ReceivedEvent]) -> list[ReceivedEvent]:
        """It in Python, for a client whose broker cannot."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A subscription of any condition, for brokers that filter."""

    condition: str

    def wanted(self, events: list[ReceivedEvent]) -> list[ReceivedEvent]:
        """All of them: the broker has filtered."""
        return events


@dataclass(frozen=True, slots=True)
class Square:
    """One subscription: low <= x < high in both dimensions."""

    x_low: float
    y_low: float
    width: float

    @property
    def condition(self) -> str:
        """It in SQL, for a broker that can filter."""
        if self.width >= SIDE:
            return "x >= 0"
        x_high, y_high = self.x_low + self.width, self.y_low + self.width
        return f"x >= {self.x_low!r} AND x < {x_high!r} AND y >= {self.y_low!r} AND y < {y_high!r}"

    def wanted(self, events: list[ReceivedEvent]) -> list[ReceivedEvent]:
        """It in Python, for a client whose broker cannot."""
        if self.width >= SIDE:
            return events
        x_low, y_low = self.x_low, self.y_low
        x_high, y_high = x_low + self.width, y_low + self.width
        return [event for event in events if x_low <= event.x < x_high and y_low <= event.y < y_high]


@dataclass(frozen=True, slots=True)
class Load:
    """Subscriptions on connections, number s on connection s % connections, and the pool of events."""

    wanted: Sequence[Wanted]
    connections: int
    tails: Sequence[bytes]  # the events' own attributes: what follows `{"number":1,"sent":2,` in JSON
    matched_events: Integers  # pairs: this event of the pool
    matched_connections: Integers  # has to reach this connection
    _reached: Integers = field(repr=False)  # deliveries of the first n events of the pool, for n from 0

    @staticmethod
    def of_pairs(
        wanted: Sequence[Wanted], connections: int, tails: Sequence[bytes], pairs: tuple[Integers, Integers]
    ) -> Load:
        """A load of which is known, pair by pair, that an event matches a subscription."""
        events, matched = pairs
        return Load(wanted, connections, tails, events, matched % connections, _summed(events, len(tails)))

    def of(self, connection: int) -> Sequence[Wanted]:
        """The subscriptions of a connection."""
        return self.wanted[connection :: self.connections]

    def deliveries(self, events: int) -> int:
        """How many deliveries the first so many events make."""
        rounds, rest = divmod(events, len(self.tails))
        return int(rounds * self._reached[-1] + self._reached[rest])

    def expected(self, events: int) -> tuple[Integers, Integers]:
        """Of each connection: how many deliveries the first so many events make, and the sum of their numbers."""
        pool = np.arange(len(self.tails))
        times = np.maximum(0, -(-(events - pool) // len(pool)))
        sums = times * pool + len(pool) * (times * (times - 1) // 2)
        return self._summed(times), self._summed(sums)

    def reaching_all(self) -> tuple[list[int], int]:
        """A few events of the pool, among them one for each connection that wants any, and how many these are."""
        connections, firsts = np.unique(self.matched_connections, return_index=True)
        return np.unique(self.matched_events[firsts]).tolist(), len(connections)

    def _summed(self, of_events: Integers) -> Integers:
        totals = np.zeros(self.connections, np.int64)
        np.add.at(totals, self.matched_connections, of_events[self.matched_events])
        return totals


@dataclass(frozen=True, slots=True)
class SquareLoad(Load):
    """Squares and points."""

    squares: Sequence[Square] = ()
    points: Numbers = field(default_factory=lambda: np.empty((0, 2)))


def make_load(subscriptions: int, connections: int, share: float, *, pool_events: int = POOL_EVENTS) -> SquareLoad:
    """Subscriptions that each want a share of the events; with a share of 1, all of them."""
    rng = np.random.default_rng(1)
    width = SIDE * math.sqrt(share)
    lows = rng.uniform(0.0, SIDE - width, (subscriptions, 2)).round(3)
    points = rng.uniform(0.0, SIDE, (pool_events, 2)).round(3)
    squares = [Square(x, y, width) for x, y in lows.tolist()]
    events, matched = _pairs(lows, width, points)
    tails = [b'"x":%r,"y":%r}' % (x, y) for x, y in points.tolist()]
    reached = _summed(events, len(points))
    return SquareLoad(squares, connections, tails, events, matched % connections, reached, squares, points)


def _summed(events: Integers, pool: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(events, minlength=pool))])


def _pairs(lows: Numbers, width: float, points: Numbers) -> tuple[Integers, Integers]:
    """Every (event, subscription) that match: of the squares in order of x, each point is compared with a slice."""
    order = np.argsort(lows[:, 0], kind="stable")
    x_low, y_low = lows[order, 0], lows[order, 1]
    x_high, y_high = x_low + width, y_low + width
    firsts = np.searchsorted(x_high, points[:, 0], side="right")
    lasts = np.searchsorted(x_low, points[:, 0], side="right")
    found = [
        order[first:last][(y_low[first:last] <= y) & (y < y_high[first:last])]
        for first, last, y in zip(firsts.tolist(), lasts.tolist(), points[:, 1].tolist(), strict=True)
    ]
    counts = [len(some) for some in found]
    return np.repeat(np.arange(len(points)), counts), np.concatenate(found).astype(np.int64)
