"""The simulator's disk: the real journal over files in memory, with a crash, with faults and with time.

`SimulatedDisk` is what a journal writes on. `SimulatedLog` is one node's log: it decides when a flush begins and ends,
and what the node is told. While a flush is under way, new records wait and share the next flush, as on a real host.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fieldfare.errors import JournalError, JournalFailedError, JournalFullError
from fieldfare.messages import EDGE_RECORDS, Fetched, Position, RecordCodec, is_part
from fieldfare.simulation.clock import Clock
from fieldfare.store.journal import Journal, JournalOptions

RECORDS_PER_FETCH = 4  # few, so that readers have to ask several times
# Small, so that short runs begin new segments and cross blocks too.
OPTIONS = JournalOptions(segment_bytes=64 * 1024, block_bytes=512, piece_records_max=RECORDS_PER_FETCH)


class _File:
    """A file of a simulated disk. What was not flushed is at the end of its data."""

    __slots__ = ("_disk", "data", "flushed_bytes")

    def __init__(self, disk: SimulatedDisk, data: bytes) -> None:
        self._disk = disk
        self.data = bytearray(data)
        self.flushed_bytes = len(data)

    def append(self, data: bytes) -> None:
        """Write at the end. On a full disk a part is written."""
        if self._disk.failure is not None:
            self.data += data[: len(data) // 2]
            raise JournalFullError(self._disk.failure)
        self.data += data

    def flush(self) -> None:
        """Make what was written durable."""
        if self._disk.flush_failure is not None:
            raise JournalFailedError(self._disk.flush_failure)
        self.flushed_bytes = len(self.data)

    def cut(self, size: int) -> None:
        """Remove what lies after this many bytes, durably."""
        del self.data[size:]
        self.flush()

    def close(self) -> None:
        """A file in memory needs no closing."""


class SimulatedDisk:
    """Files in memory, for a journal. A whole file is created or removed durably, in one step.

    While `failure` is set the disk is full, and nothing can be written. While `flush_failure` is set, flushes fail.
    """

    __slots__ = ("_files", "failure", "flush_failure")

    def __init__(self) -> None:
        self.failure: str | None = None
        self.flush_failure: str | None = None
        self._files: dict[tuple[str, int], _File] = {}

    @property
    def is_empty(self) -> bool:
        """Whether it holds no file."""
        return not self._files

    def crash(self, rng: random.Random) -> None:
        """The machine stops: of what was not flushed only a beginning is left, which may end inside a record."""
        for file in self._files.values():
            if unflushed_bytes := len(file.data) - file.flushed_bytes:
                kept_bytes = rng.choice((0, unflushed_bytes, rng.randint(0, unflushed_bytes)))
                del file.data[file.flushed_bytes + kept_bytes :]
                file.flushed_bytes = len(file.data)

    def copy(self) -> SimulatedDisk:
        """Another disk with what is written on this one, flushed or not."""
        copy = SimulatedDisk()
        copy._files = {key: _File(copy, bytes(file.data)) for key, file in self._files.items()}
        return copy

    def flushed(self) -> SimulatedDisk:
        """Another disk with what is durable on this one."""
        copy = SimulatedDisk()
        for key, file in self._files.items():
            copy._files[key] = _File(copy, bytes(file.data[: file.flushed_bytes]))
        return copy

    def name_of(self, kind: str, number: int) -> str:
        """What people call the file."""
        return f"{kind} {number}"

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the files of a kind, in order."""
        return sorted(number for other, number in self._files if other == kind)

    def read(self, kind: str, number: int) -> memoryview:
        """All of a file."""
        return memoryview(bytes(self._files[kind, number].data))

    def read_part(self, kind: str, number: int, offset: int, size: int) -> memoryview:
        """A part of a file."""
        return memoryview(bytes(self._files[kind, number].data[offset : offset + size]))

    def create(self, kind: str, number: int, data: bytes) -> _File:
        """Write a whole file, or replace it."""
        if self.failure is not None:
            raise JournalFullError(self.failure)
        if self.flush_failure is not None:
            raise JournalFailedError(self.flush_failure)
        file = self._files[kind, number] = _File(self, data)
        return file

    def open(self, kind: str, number: int) -> _File:
        """Open a file, to append to it."""
        return self._files[kind, number]

    def remove(self, kind: str, number: int) -> None:
        """Remove a file."""
        del self._files[kind, number]

    def close(self) -> None:
        """Nobody else wants these files."""


class DiskSnapshot(NamedTuple):
    """What a disk held at a moment, for a machine that comes back with an old disk."""

    taken_at: float
    disk: SimulatedDisk


class _Entry(NamedTuple):
    number: int
    record: Any
    is_durable: bool


def _ignore(*_: object) -> None:
    """What a log does as long as nobody wants to hear of it."""


class SimulatedLog:
    """One node's log. Its host sets `on_stored` and `on_failure`; times and failures may be changed at any time.

    Nothing is created before the first append, so that thousands of nodes that store nothing cost little. What waits
    for a flush is bounded by what the node has under way, which is the node's own limit.
    """

    __slots__ = (
        "_clock",
        "_codec",
        "_disk",
        "_flushing",
        "_is_flush_over",
        "_is_paused",
        "_journal",
        "_life",
        "_rng",
        "_waiting",
        "appended_since_checkpoint",
        "flush_seconds",
        "on_failure",
        "on_removed",
        "on_stored",
        "on_written",
        "options",
        "stall_seconds",
    )

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        codec: RecordCodec[Any] = EDGE_RECORDS,
        options: JournalOptions = OPTIONS,
    ) -> None:
        self.on_stored: Callable[[int], None] = _ignore
        self.on_failure: Callable[[int, str], None] = _ignore
        self.on_removed: Callable[[str], None] = _ignore  # living events of a stream were too much, and are gone
        self.on_written: Callable[[list[Any], bool], None] = _ignore  # records, and whether all until then is flushed
        self.flush_seconds = 0.002
        self.stall_seconds = 0.0  # how much longer a flush takes now
        self.appended_since_checkpoint = 0
        self._clock = clock
        self._rng = rng
        self._codec = codec
        self.options = options  # for the next start of the node
        self._disk = SimulatedDisk()
        self._journal: Journal[Any] | None = None  # while the node lives, once it has been needed
        self._waiting: list[_Entry] = []
        self._flushing: list[_Entry] = []
        self._life = 0
        self._is_paused = False
        self._is_flush_over = False  # it has ended during a pause, and nobody was told yet

    @property
    def failure(self) -> str | None:
        """Why nothing can be stored now, though it may be possible later: the disk is full."""
        return self._disk.failure

    @failure.setter
    def failure(self, reason: str | None) -> None:
        self._disk.failure = reason

    @property
    def flush_failure(self) -> str | None:
        """Why flushes fail now. After a failed one nothing is stored any more until the node has started again."""
        return self._disk.flush_failure

    @flush_failure.setter
    def flush_failure(self, reason: str | None) -> None:
        self._disk.flush_failure = reason

    def append(self, number: int, record: Any, *, is_durable: bool = True) -> None:
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
        if self._is_paused:
            self._is_flush_over = True
            return
        entries, self._flushing = self._flushing, []
        try:
            self._store(entries, sync=any(entry.is_durable for entry in entries))
        except JournalError as error:  # what waits fails too: it may build on what failed
            entries, self._waiting = entries + self._waiting, []
            self.on_failure(entries[-1].number, str(error))
        else:
            self.appended_since_checkpoint += len(entries)
            self.on_stored(entries[-1].number)
        self._begin_flush()

    def pause(self) -> None:
        """Its process is stopped: nothing more is written, and nobody is told anything."""
        self._is_paused = True

    def resume(self) -> None:
        """Its process goes on."""
        self._is_paused = False
        if self._is_flush_over:
            self._is_flush_over = False
            self._end_flush()

    def _store(self, entries: Sequence[_Entry], *, sync: bool) -> None:
        records = [entry.record for entry in entries]
        self._opened().append(records, sync=sync)
        self.on_written(records, sync)

    @property
    def first_position(self) -> Position:
        """The position of the first event that it still has."""
        return self._opened().first_position

    def _opened(self) -> Journal[Any]:
        return self._recover()[0] if self._journal is None else self._journal

    def _recover(self) -> tuple[Journal[Any], list[Any]]:
        journal = Journal(self._disk, self._codec, self.options, warn=_ignore)
        records = list(journal.recover())
        self._journal = journal
        return journal, records

    def crash(self) -> None:
        """The machine stops: what was not flushed is gone, but for a part from its beginning."""
        self._life += 1
        self._is_paused = self._is_flush_over = False
        self.appended_since_checkpoint = 0
        under_way = self._flushing + self._waiting
        if under_way:
            with suppress(JournalError):  # it may have been written already, and is not flushed
                self._store(under_way, sync=False)
        self._disk.crash(self._rng)
        self._journal = None
        self._waiting, self._flushing = [], []

    # Disks that are not as they were

    def snapshot(self) -> DiskSnapshot:
        """What the disk would hold if the machine lost its power now: all that has been flushed."""
        return DiskSnapshot(self._clock.now, self._disk.flushed())

    def wipe(self) -> None:
        """While the node is down: the disk is empty."""
        self._replace_disk(SimulatedDisk())

    def restore(self, snapshot: DiskSnapshot) -> None:
        """While the node is down: the disk is as it was. A snapshot can be restored several times."""
        self._replace_disk(snapshot.disk.copy())

    def _replace_disk(self, disk: SimulatedDisk) -> None:
        disk.failure, disk.flush_failure = self._disk.failure, self._disk.flush_failure
        self._disk = disk
        self._journal = None

    def read(self) -> list[Any]:
        """All that a node needs to come back: the checkpoint, and what was stored after it."""
        if self._disk.is_empty:
            return []
        if self._journal is None:
            return self._recover()[1]
        return list(Journal(self._disk.copy(), self._codec, self.options).recover())

    def checkpoint(self, records: Sequence[Any]) -> None:
        """From now on these records stand for all that were stored before, but for the events themselves.

        If the disk does not take them, all stays as it is, and the next checkpoint may succeed.
        """
        with suppress(JournalError):
            self._opened().checkpoint(records)
            self.appended_since_checkpoint = 0

    def trim(self, now: float) -> None:
        """Remove what has expired, and of the living what is too much, as far as checkpoints allow it."""
        if self._disk.is_empty:
            return
        journal = self._opened()
        before = dict(journal.lost)
        with suppress(JournalError):
            journal.trim(now)
        for stream, position in journal.lost.items():
            if before.get(stream) != position and not is_part(stream):
                self.on_removed(stream)

    def fetch(self, reader: Hashable, stream: str, after: Position, part: str = "") -> Fetched:
        """The next events of a stream after a position, and what is gone of it, or of a part of it."""
        if self._disk.is_empty:
            return Fetched(reader, [], after)
        piece = self._opened().read(stream, after, losses_of=part)
        return Fetched(reader, piece.records, piece.position, piece.lost_before, piece.expired_before)
