"""A log in memory that behaves like one on a disk: what is appended is safe only some time later, and a crash shows it.

Records that wait while a flush is under way share the next one, as in the real log. A crash takes what was not flushed,
but for a part from its beginning, which by chance had reached the disk.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fieldfare.messages import EventsStored, Fetched, Position, Record
from fieldfare.simulation.clock import Clock

RECORDS_PER_FETCH = 4  # few, so that readers have to ask several times


@dataclass(frozen=True)
class _Entry:
    number: int
    record: Record
    is_durable: bool


class SimulatedLog:
    """One node's log. Its host sets `on_stored` and `on_failure`; the rest may be changed at any time.

    What waits for a flush is bounded by what the node has under way, which is the node's own limit.
    """

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.on_stored: Callable[[int], None] = lambda _: None
        self.on_failure: Callable[[int, str], None] = lambda _number, _reason: None
        self.flush_seconds = 0.002
        self.stall_seconds = 0.0  # so much longer does a flush take now
        self.failure: str | None = None  # why nothing can be stored now: the disk is full, a flush fails
        self.appended_since_checkpoint = 0
        self._clock = clock
        self._rng = rng
        self._checkpoint: list[Record] = []
        self._since: list[Record] = []  # stored after the checkpoint
        self._unflushed = 0  # so many of the last ones are written, but would not survive
        self._events: list[EventsStored] = []  # all that are kept, those before the checkpoint too
        self._lost_before: Position = -1
        self._waiting: list[_Entry] = []
        self._flushing: list[_Entry] = []
        self._life = 0

    def append(self, number: int, record: Record, *, is_durable: bool = True) -> None:
        """Store a record; `on_stored` or `on_failure` tell."""
        self._waiting.append(_Entry(number, record, is_durable))
        self._begin_flush()

    def _begin_flush(self) -> None:
        if self._flushing or not self._waiting:
            return
        self._flushing, self._waiting = self._waiting, []
        seconds = 0.0
        if any(entry.is_durable for entry in self._flushing):
            seconds = self.flush_seconds * (0.5 + self._rng.random()) + self.stall_seconds
        life = self._life
        self._clock.after(seconds, lambda: self._end_flush() if life == self._life else None)

    def _end_flush(self) -> None:
        entries, self._flushing = self._flushing, []
        if self.failure is None:
            self._keep([entry.record for entry in entries])
            self._unflushed = 0 if any(entry.is_durable for entry in entries) else self._unflushed + len(entries)
            self.on_stored(entries[-1].number)
        else:  # what waits fails too: it may build on what failed
            entries, self._waiting = entries + self._waiting, []
            self.on_failure(entries[-1].number, self.failure)
        self._begin_flush()

    def _keep(self, records: Sequence[Record]) -> None:
        self._since += records
        self._events += [record for record in records if isinstance(record, EventsStored)]
        self.appended_since_checkpoint += len(records)

    def crash(self) -> None:
        """The machine stops: what was not flushed is gone, but for a part from its beginning."""
        self._life += 1
        self.appended_since_checkpoint = 0
        flushed = len(self._since) - self._unflushed
        doubtful = self._since[flushed:] + [entry.record for entry in self._flushing + self._waiting]
        survivors = doubtful[: self._rng.randint(0, len(doubtful))]
        first_doubtful = self._unflushed_events()
        self._since = self._since[:flushed]
        self._events = self._events[: len(self._events) - first_doubtful]
        self._keep(survivors)
        self._unflushed = 0
        self._waiting, self._flushing = [], []

    def _unflushed_events(self) -> int:
        if not self._unflushed:
            return 0
        return sum(isinstance(record, EventsStored) for record in self._since[-self._unflushed :])

    def read(self) -> list[Record]:
        """All that a node needs to come back: the checkpoint, and what was stored after it."""
        return [*self._checkpoint, *self._since]

    def checkpoint(self, records: Sequence[Record]) -> None:
        """From now on these records stand for all that were stored before, but for the events themselves."""
        self._checkpoint = list(records)
        self._since = []
        self._unflushed = 0
        self.appended_since_checkpoint = 0

    def trim(self, position: Position) -> None:
        """Forget events up to a position, as retention does."""
        first = self._first_after(position)
        if first:
            self._lost_before = max(self._lost_before, _last(self._events[first - 1]))
            del self._events[:first]

    def fetch(self, reader: str, tenant: str, topic: str, after: Position) -> Fetched:
        """The next events of a topic after a position."""
        records: list[EventsStored] = []
        lost_before = self._lost_before if self._lost_before > after else -1
        for event in self._events[self._first_after(after) :]:
            if (event.tenant, event.topic) == (tenant, topic):
                records.append(event)
                if len(records) == RECORDS_PER_FETCH:
                    return Fetched(reader, records, _last(event), is_end=False, lost_before=lost_before)
        position = max(after, _last(self._events[-1]) if self._events else after)
        return Fetched(reader, records, position, is_end=True, lost_before=lost_before)

    def _first_after(self, position: Position) -> int:
        return bisect.bisect_right(self._events, position, key=_last)


def _last(record: EventsStored) -> Position:
    """The position of a record's last event."""
    return record.position + len(record.deliveries) - 1
