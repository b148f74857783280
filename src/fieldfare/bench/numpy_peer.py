"""Brute force in NumPy, column by column, with the care that a good engineer would take.

For each event the most selective tests run first over all subscriptions, and the others on the survivors alone; how
many run over all is timed on the workload itself. Columns are as narrow as they can be: string tests become ranges of
ranks or bitmaps, small integers 16 bits.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.bench.measuring import Lists
from fieldfare.bench.workload import Bools, Choices, Column, Equals, Ids, Prefixes, WantedRanges, Workload

SAMPLE_EVENTS = 64
TIMED_EVENTS = 16
INT16 = np.iinfo(np.int16)

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class BoundTest:
    """`operator(bounds, value)`, for one bound per subscription."""

    operator: np.ufunc
    pool: Array  # the bounds of all subscriptions that ever come
    bounds: Array  # of those that are there
    values: Array  # of all events

    def scan(self, event: int, out: Bools) -> None:
        """Test all subscriptions."""
        self.operator(self.bounds, self.values[event], out=out)

    def probe(self, event: int, positions: Ids) -> Bools:
        """Test some subscriptions."""
        return np.asarray(self.operator(self.bounds.take(positions), self.values[event]))

    def change(self, slots: Ids, added: slice) -> None:
        """Replace the subscriptions in some slots."""
        self.bounds[slots] = self.pool[added]


@dataclass(frozen=True, slots=True)
class Bitmap:
    """For each string of a small vocabulary, the subscriptions that accept it."""

    pool: Bools
    accepted: Bools
    values: Array

    def scan(self, event: int, out: Bools) -> None:
        """Test all subscriptions."""
        out[:] = self.accepted[self.values[event]]

    def probe(self, event: int, positions: Ids) -> Bools:
        """Test some subscriptions."""
        return np.take(self.accepted[self.values[event]], positions)

    def change(self, slots: Ids, added: slice) -> None:
        """Replace the subscriptions in some slots."""
        self.accepted[:, slots] = self.pool[:, added]


class NumpyEngine:
    """Subscriptions in slots: where one goes, the next takes its place."""

    name = "numpy"

    def __init__(self, workload: Workload, live: int) -> None:
        began = time.perf_counter()
        self._pool_ids = workload.ids
        self._ids = workload.ids[:live].copy()
        self._masks = np.empty((2, live), np.bool_)
        tests = [
            test
            for attribute, column in workload.columns.items()
            for test in _tests(column, workload.values[attribute], live)
        ]
        sample = range(min(SAMPLE_EVENTS, len(workload.events)))
        shares = [self._share(test, sample) for test in tests]
        self._tests = [tests[number] for number in np.argsort(shares, kind="stable")]
        self._scans = min(range(1, len(tests) + 1), key=lambda scans: self._seconds(scans, sample[:TIMED_EVENTS]))
        self.build_seconds = time.perf_counter() - began

    def _share(self, test: BoundTest | Bitmap, sample: Sequence[int]) -> float:
        mask = self._masks[0]
        accepted = 0
        for event in sample:
            test.scan(event, mask)
            accepted += int(np.count_nonzero(mask))
        return accepted / max(1, len(sample) * len(mask))

    def _seconds(self, scans: int, sample: Sequence[int]) -> float:
        """The time to match some events with a number of scans; the better of two tries."""
        self._scans = scans
        durations = []
        for _ in range(2):
            began = time.perf_counter()
            self.match(0, len(sample))
            durations.append(time.perf_counter() - began)
        return min(durations)

    def match(self, start: int, stop: int) -> list[Ids]:
        """The ids of each event."""
        return [self._ids.take(self._positions(event)) for event in range(start, stop)]

    def _positions(self, event: int) -> Ids:
        mask, other = self._masks
        self._tests[0].scan(event, mask)
        for test in self._tests[1 : self._scans]:
            test.scan(event, other)
            np.logical_and(mask, other, out=mask)
        positions = np.flatnonzero(mask)
        for test in self._tests[self._scans :]:
            positions = positions[test.probe(event, positions)]
        return positions

    def lists(self, answer: list[Ids]) -> Lists:
        """The answer, as lists of ids."""
        counts = np.fromiter((len(ids) for ids in answer), np.int64, len(answer))
        return Lists(counts, np.concatenate([np.empty(0, np.int64), *answer]))

    def change(self, added: slice, removed: slice) -> None:
        """Put the added subscriptions where the removed ones were."""
        slots = np.arange(removed.start, removed.stop) % len(self._ids)
        self._ids[slots] = self._pool_ids[added]
        for test in self._tests:
            test.change(slots, added)


def _tests(column: Column, values: Array, live: int) -> Iterator[BoundTest | Bitmap]:
    """The tests that a column comes down to."""
    if isinstance(column, Choices):
        codes = range(len(column.vocabulary) + 1)
        pool = np.stack([column.holds(code) for code in codes])
        yield Bitmap(pool, pool[:, :live].copy(), values)
    elif isinstance(column, Equals):
        yield _comparison(np.equal, column.codes, values, live)
    elif isinstance(column, WantedRanges):
        yield _comparison(np.less_equal, column.low, values, live)
        if column.high is not None:
            yield _comparison(np.greater, column.high, values, live)
    elif isinstance(column, Prefixes):
        low, high, ranks = _ranks(column)
        yield _comparison(np.less_equal, low, ranks[values], live)
        yield _comparison(np.greater, high, ranks[values], live)


def _comparison(operator: np.ufunc, bounds: Array, values: Array, live: int) -> BoundTest:
    if _is_small(bounds) and _is_small(values):
        bounds, values = (np.clip(array, INT16.min, INT16.max).astype(np.int16) for array in (bounds, values))
    return BoundTest(operator, bounds, bounds[:live].copy(), values)


def _is_small(array: Array) -> bool:
    """Integers, or infinities, that 16 bits can stand for."""
    finite = array[np.isfinite(array)]
    return bool(np.all(finite == np.rint(finite)) and np.all(np.abs(finite) < INT16.max))


def _ranks(column: Prefixes) -> tuple[Array, Array, Array]:
    """Each subscription's prefix as a range of ranks in the sorted vocabulary, and the ranks of the vocabulary."""
    texts = sorted(column.vocabulary)
    ends = [prefix + chr(0x10FFFF) for prefix in column.prefixes]
    low = np.array([bisect_left(texts, prefix) for prefix in column.prefixes])[column.codes]
    high = np.array([bisect_left(texts, end) for end in ends])[column.codes]
    order = {text: rank for rank, text in enumerate(texts)}
    return low, high, np.array([order[text] for text in column.vocabulary])
