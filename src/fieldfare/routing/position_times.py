"""When the events of a topic were accepted: a sparse table from positions to times, and back.

    ... until | before | time ...    events up to the position `before` came until a time, all others from a time on

There is a mark for every second in which events came, and of long ago fewer: a mark is forgotten when it is closer to
its neighbour than a small part of its age. So the table is small however long the log is, and the times of what is
recent are exact to a second. Times only grow, also when somebody sets the clock back.

Every mark also knows how many events, and how many bytes of them, lie before it. What lies after a position can be
counted by that, as well as what came in the last minute.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from fieldfare.messages import Position, TimesKept, TopicKey
from fieldfare.routing.ports import START

_STEP_MILLISECONDS = 1000
_AGE_PARTS = 128  # a mark may be as far from the next as this part of its age
_MARKS_MAX = 4096  # more come only from a clock that jumps
_UNTHINNED_MAX = 128  # so many new marks are made before old ones are forgotten


class Totals(NamedTuple):
    """So many events, and bytes of them."""

    events: int
    size_bytes: int


class PositionTimes:
    """The times of one topic's positions, in seconds since 1970."""

    __slots__ = (
        "_befores",
        "_bytes",
        "_events",
        "_last",
        "_milliseconds",
        "_time",
        "_total_bytes",
        "_total_events",
        "_unthinned",
        "_untils",
    )

    def __init__(self) -> None:
        # The marks: five numbers each, which grow from mark to mark.
        self._befores, self._untils, self._milliseconds = array("q"), array("q"), array("q")
        self._events, self._bytes = array("q"), array("q")
        self._last: Position = START  # of the topic's last event, and when that came
        self._time = 0
        self._total_events = self._total_bytes = 0
        self._unthinned = 0

    def __len__(self) -> int:
        return len(self._befores)

    @property
    def last(self) -> Position:
        """The position of the last event that was noted."""
        return self._last

    @property
    def totals(self) -> Totals:
        """All events that were noted, also those that are gone."""
        return Totals(self._total_events, self._total_bytes)

    # What happens

    def note(self, first: Position, count: int, size_bytes: int, at: float) -> None:
        """Events have come, from a position on and at a time. What lies before the last one is known already."""
        last = first + count - 1
        if last <= self._last or count <= 0:
            return
        time = max(ceil(at * 1000), self._time)
        if not self._milliseconds or time >= self._milliseconds[-1] + _STEP_MILLISECONDS:
            self._mark(first - 1 if self._last == START else self._last, time)
        self._last, self._time = last, time
        self._total_events += count
        self._total_bytes += size_bytes

    def _mark(self, before: Position, time: int) -> None:
        for column, value in zip(self._columns(), (before, self._time, time, *self.totals), strict=True):
            column.append(value)
        self._unthinned += 1
        if self._unthinned >= _UNTHINNED_MAX:
            self._thin(time)

    def _columns(self) -> tuple[array[int], ...]:
        return self._befores, self._untils, self._milliseconds, self._events, self._bytes

    def _thin(self, now: int) -> None:
        self._unthinned = 0
        kept = [0]
        for number in range(1, len(self._milliseconds)):
            time = self._milliseconds[number]
            if time - self._milliseconds[kept[-1]] >= (now - time) // _AGE_PARTS:
                kept.append(number)
        if len(kept) > _MARKS_MAX:
            kept = kept[:: len(kept) // _MARKS_MAX + 1]
        for column in self._columns():
            column[:] = array("q", [column[number] for number in kept])

    def forget_before(self, position: Position) -> None:
        """Events before a position are gone for good; what is said of them is no longer of use."""
        gone = bisect_right(self._befores, position - 1) - 1
        if gone > 0:
            for column in self._columns():
                del column[:gone]

    # From a time to a position

    def before(self, time: float) -> Position:
        """After this position lies all that was accepted at a time or later, and little that was accepted before it."""
        if time * 1000 > self._time:  # which may be infinite, and then is no integer
            return self._last
        milliseconds = ceil(time * 1000)
        number = bisect_left(self._untils, milliseconds) - 1  # the last up to which all came before that time
        return self._befores[max(number, 0)] if self._befores else START

    # From a position to a time

    def time_after(self, position: Position) -> float | None:
        """When the first event after a position was accepted, at the earliest; None: there is none yet."""
        if position >= self._last:
            return None
        return self._milliseconds[self._mark_at(position)] / 1000

    def _mark_at(self, position: Position) -> int:
        """The last mark up to a position, or the first one."""
        return max(0, bisect_right(self._befores, position) - 1)

    # From a position to what lies after it

    def totals_after(self, position: Position) -> Totals:
        """The events after a position, some that lie a little before it included."""
        if position >= self._last:
            return Totals(0, 0)
        number = self._mark_at(position)
        return Totals(self._total_events - self._events[number], self._total_bytes - self._bytes[number])

    def events_between(self, after: Position, upto: Position) -> int:
        """How many events lie after a position and up to another, at most."""
        number = bisect_left(self._befores, upto)
        end = self._events[number] if number < len(self) else self._total_events
        return max(0, end - self._events[self._mark_at(after)]) if len(self) and after < upto else 0

    def events_per_second(self, now: float, seconds: float = 60.0) -> float:
        """How fast events came lately."""
        since = ceil((now - seconds) * 1000)
        if not self._milliseconds or self._time < since:
            return 0.0
        number = min(bisect_left(self._milliseconds, since), len(self) - 1)
        age_seconds = now - self._milliseconds[0] / 1000
        return (self._total_events - self._events[number]) / max(1.0, min(seconds, age_seconds))

    # For the log

    def state(self, key: TopicKey) -> TimesKept:
        """What a checkpoint has to hold: the events that it stands for are not read again."""
        ends = (self._last, self._time, self._time, *self.totals)
        columns = [_differences([*column, end]) for column, end in zip(self._columns(), ends, strict=True)]
        return TimesKept(*key, *columns)

    def recover(self, record: TimesKept) -> None:
        """What a checkpoint holds."""
        stored = (record.positions, record.untils, record.milliseconds, record.events, record.sizes_bytes)
        ends = []
        for column, differences in zip(self._columns(), stored, strict=True):
            numbers = _sums(differences)
            ends.append(numbers.pop())
            column[:] = array("q", numbers)
        self._last, _, self._time, self._total_events, self._total_bytes = ends


def _differences(numbers: Sequence[int]) -> list[int]:
    """The first number, and from each to the next: small numbers take few bytes."""
    return [number - before for number, before in zip(numbers, [0, *numbers], strict=False)]


def _sums(differences: Sequence[int]) -> list[int]:
    sums, total = [], 0
    for difference in differences:
        total += difference
        sums.append(total)
    return sums
