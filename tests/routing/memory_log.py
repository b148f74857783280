"""An edge's log in memory, for tests: a real journal over a simulated disk, read in small pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fieldfare.messages import EDGE_RECORDS, Position, Record
from fieldfare.simulation.disk import SimulatedDisk
from fieldfare.store.journal import Journal, JournalOptions, StreamPart

# Every append has a segment of its own, so that retention may take any beginning of the log.
OPTIONS = JournalOptions(segment_bytes=1, piece_records_max=3)


class MemoryLog:
    """A journal in memory. A piece of it has few records, so that readers have to ask often."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self._disk = disk or SimulatedDisk()
        self._journal, _ = _opened(self._disk)

    @property
    def all(self) -> list[Record]:
        """All records that were ever appended, also those that a checkpoint stands for."""
        disk = self._disk.copy()
        for number in disk.numbers("checkpoint"):
            disk.remove("checkpoint", number)
        return _opened(disk)[1]

    @property
    def first_position(self) -> Position:
        return self._journal.first_position

    def copy(self) -> MemoryLog:
        """Another log that holds the same, and goes its own way."""
        return MemoryLog(self._disk.copy())

    def append(self, records: Sequence[Record], *, sync: bool) -> None:
        self._journal.append(records, sync=sync)

    def recover(self) -> list[Record]:
        return _opened(self._disk.copy())[1]

    def checkpoint(self, records: Sequence[Record]) -> None:
        self._journal.checkpoint(records)

    def trim(self, last: Position) -> None:
        """Remove the events of records up to a position, though they are alive."""
        self._journal.checkpoint(self.recover())
        while self._journal.first_position <= last:
            less = replace(OPTIONS, retention_bytes=self._journal.size_bytes - 1)
            _opened(self._disk, less)[0].trim(now=0.0)
            self._journal, _ = _opened(self._disk)

    def read(self, stream: str, after: Position) -> StreamPart[Record]:
        return self._journal.read(stream, after)


def _opened(disk: SimulatedDisk, options: JournalOptions = OPTIONS) -> tuple[Journal[Record], list[Record]]:
    journal = Journal(disk, EDGE_RECORDS, options)
    return journal, list(journal.recover())
