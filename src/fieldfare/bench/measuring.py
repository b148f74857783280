"""How an engine is measured and checked: ours and every peer by the same few functions.

An engine answers a batch of events with whatever is natural to it, inside the clock; turning that into lists to be
compared with brute force happens outside it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fieldfare.bench.workload import Ids, Workload
from fieldfare.errors import FieldfareError

Counts = npt.NDArray[np.int64]

BATCH_EVENTS_MIN, BATCH_EVENTS_MAX = 16, 16_384
BATCH_GROWTH = 4
BATCH_PAIRS_MAX = 8_000_000  # an answer of 64 MB is long enough for any engine
BATCHES_MIN = 2
COUNTED_EVENTS = 1_024


class BenchVerificationError(FieldfareError):
    """An engine gave a wrong answer, so that no number of it may be printed."""

    def __init__(self, engine: str, workload: str, event: int, reason: str) -> None:
        self.engine = engine
        self.workload = workload
        self.event = event
        self.reason = reason
        super().__init__(f"{engine} is wrong on {workload}, event {event}: {reason}")

    def __reduce__(self) -> tuple[type[BenchVerificationError], tuple[str, str, int, str]]:
        return type(self), (self.engine, self.workload, self.event, self.reason)


@dataclass(frozen=True, slots=True)
class Lists:
    """The ids that a batch of events matched: `counts[i]` of them for event i, one event after the other."""

    counts: Counts
    ids: Ids

    def __getitem__(self, event: int) -> Ids:
        start = int(self.counts[:event].sum())
        return self.ids[start : start + int(self.counts[event])]


class Engine(Protocol):
    """Subscriptions, ready to be matched against the workload's events."""

    name: str
    build_seconds: float

    def match(self, start: int, stop: int) -> Any:
        """Match the workload's events from `start` up to `stop`: what is measured."""

    def lists(self, answer: Any) -> Lists:
        """What `match` answered, as lists of ids."""


class ChangingEngine(Engine, Protocol):
    """An engine whose subscriptions come and go."""

    def change(self, added: slice, removed: slice) -> None:
        """Add and remove subscriptions, by their positions in the whole workload."""


class Unchanging:
    """An engine for workloads whose subscriptions do not come and go."""

    def change(self, added: slice, removed: slice) -> None:
        """Do nothing: there is no such workload."""
        raise NotImplementedError(f"{added} and {removed} cannot come and go")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The speed of an engine, and how many matches it found for each event it was measured on, else -1."""

    events_per_second: float
    counts: Counts


def measure(engine: Engine, events: int, seconds: float) -> Measurement:
    """Match batch after batch for some seconds; the speed is that of the median batch.

    Every engine gets the length of batch that suits it best: they grow first, which also warms up.
    """
    counts = np.full(events, -1, np.int64)
    batch_events = _best_batch_events(engine, events, seconds, counts)
    durations: list[float] = []
    start = 0
    deadline = time.perf_counter() + seconds
    while len(durations) < BATCHES_MIN or time.perf_counter() < deadline:
        start = 0 if start + batch_events > events else start
        durations.append(_batch(engine, start, start + batch_events, counts)[0])
        start += batch_events
    return Measurement(batch_events / float(np.median(durations)), counts)


def _best_batch_events(engine: Engine, events: int, seconds: float, counts: Counts) -> int:
    """The length of batch with the highest speed, among those that an engine begins before `seconds` are over."""
    speeds: dict[int, float] = {}
    batch_events = min(BATCH_EVENTS_MIN, events)
    while batch_events not in speeds:
        elapsed, pairs = _batch(engine, 0, batch_events, counts)
        speeds[batch_events] = batch_events / elapsed
        if elapsed < seconds and pairs * BATCH_GROWTH <= BATCH_PAIRS_MAX:
            batch_events = min(batch_events * BATCH_GROWTH, BATCH_EVENTS_MAX, events)
    return max(speeds, key=speeds.__getitem__)


def _batch(engine: Engine, start: int, stop: int, counts: Counts) -> tuple[float, int]:
    """The seconds that a batch takes, and its matches, whose counts are noted."""
    began = time.perf_counter()
    answer = engine.match(start, stop)
    elapsed = time.perf_counter() - began
    counts[start:stop] = engine.lists(answer).counts
    return elapsed, int(counts[start:stop].sum())


def count_all(engine: Engine, events: int) -> Counts:
    """How many subscriptions each event matches, off the clock."""
    starts = range(0, events, COUNTED_EVENTS)
    answers = (engine.match(start, min(start + COUNTED_EVENTS, events)) for start in starts)
    return np.concatenate([engine.lists(answer).counts for answer in answers])


def verify(engine: Engine, workload: Workload, events: int) -> None:
    """Compare an engine's matches of the first events with brute force, id by id."""
    found = engine.lists(engine.match(0, events))
    if len(found.counts) != events:
        raise BenchVerificationError(engine.name, workload.name, 0, f"{len(found.counts)} answers to {events} events")
    for event in range(events):
        ids, expected = np.sort(found[event]), workload.brute_force(event)
        if not np.array_equal(ids, expected):
            wrong, missing = np.setdiff1d(ids, expected), np.setdiff1d(expected, ids)
            reason = f"{len(ids)} matches, {len(wrong)} of them wrong, where brute force finds {len(expected)}"
            examples = [*wrong[:3].tolist(), *missing[:3].tolist()]
            raise BenchVerificationError(engine.name, workload.name, event, f"{reason}; for example {examples}")


def verify_counts(engine: str, workload: str, counts: Counts, expected: Counts) -> None:
    """Compare the numbers of matches that two engines found, for the events on which both were measured."""
    different = np.flatnonzero((counts != expected) & (counts >= 0) & (expected >= 0))
    if len(different):
        event = int(different[0])
        reason = f"{counts[event]} matches where another engine finds {expected[event]}"
        raise BenchVerificationError(engine, workload, event, reason)
