"""What tasks tell the driver about their share of a batch: one message each, in place of the rows they wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.store.outputs import WrittenFile

REPORT_COLUMN = "report"
REPORT_SCHEMA = f"{REPORT_COLUMN} BINARY"


class BadEvent(msgspec.Struct, frozen=True):
    """An event that cannot be matched: its place, the reason, and the beginning of its text."""

    place: str
    reason: str
    raw: str


class PartReport(msgspec.Struct, frozen=True):
    """What one visit to a part took."""

    part: int
    matcher: int
    events: int
    matches: int
    seconds: float  # of one core


class TaskReport(msgspec.Struct, frozen=True):
    """What one task did."""

    events: int = 0  # that were written, or left out because nobody wants them
    files: list[WrittenFile] = []
    parts: list[PartReport] = []
    faults: list[BadEvent] = []
    arrivals: dict[int, int] = {}  # events by the millisecond of their arrival
    hops_max: int = 1  # parts that one event visited, at most

    def as_batch(self) -> pa.RecordBatch:
        """The report as the one row that the task returns."""
        return pa.record_batch([pa.array([msgspec.msgpack.encode(self)], pa.binary())], [REPORT_COLUMN])


class BatchReport:
    """What all tasks of a batch did."""

    def __init__(self, tasks: Sequence[TaskReport]) -> None:
        self.events = sum(task.events for task in tasks)  # that were matched
        self.files = [file for task in tasks for file in task.files]
        self.parts = [part for task in tasks for part in task.parts]
        self.faults = [fault for task in tasks for fault in task.faults]
        self.hops_max = max((task.hops_max for task in tasks), default=1)
        self._tasks = tasks

    @staticmethod
    def decode(messages: Iterable[bytes]) -> BatchReport:
        """From the rows that the tasks returned."""
        return BatchReport([msgspec.msgpack.decode(message, type=TaskReport) for message in messages])

    @property
    def matches(self) -> int:
        """Pairs of an event and a subscription."""
        return sum(file.matches for file in self.files)

    @property
    def visits(self) -> int:
        """Pairs of an event and a part that it visited."""
        return sum(part.events for part in self.parts)

    @cached_property
    def arrivals(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Milliseconds of arrival, ascending, and how many events came in each."""
        counts: dict[int, int] = {}
        for task in self._tasks:
            for millisecond, count in task.arrivals.items():
                counts[millisecond] = counts.get(millisecond, 0) + count
        moments = sorted(counts)
        return np.array(moments, np.int64), np.array([counts[moment] for moment in moments], np.int64)

    def events_by_part(self, parts: int) -> npt.NDArray[np.float64]:
        """How many events visited each part, for part numbers below `parts`."""
        numbers = [part.part for part in self.parts]
        return np.bincount(numbers, weights=[part.events for part in self.parts], minlength=parts).astype(np.float64)

    def seconds_by_matcher(self) -> dict[int, float]:
        """How long each matcher worked."""
        seconds: dict[int, float] = {}
        for part in self.parts:
            seconds[part.matcher] = seconds.get(part.matcher, 0.0) + part.seconds
        return dict(sorted(seconds.items()))
