"""The durable log of an edge: events, subscriptions, cursors and topics, in the order in which they were stored.

It is a row of files, its segments, of which only the last is written; a segment is flushed before the next one begins.
A checkpoint is a file that stands for all before a place in the log, but for the events, which are read from the log
until retention removes them. One thread at a time may use it, and one process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from fieldfare.errors import JournalError, JournalFailedError
from fieldfare.messages import EventsStored, Position, Record
from fieldfare.store import folder as files
from fieldfare.store.frames import (
    FRAME_BYTES,
    RESTORE,
    CheckpointHead,
    LostHead,
    SegmentHead,
    damaged,
    encode,
    framed,
    frames,
    head_of,
    is_torn,
    opened,
    record_of,
)
from fieldfare.store.segments import Place, Segments, Topic, last_of, parts_of, place_of

READ_BYTES = 1024 * 1024

_SEGMENT, _CHECKPOINT, _LOST = "segment", "checkpoint", "lost"
_CHECKPOINTS_KEPT = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JournalOptions:
    """How much is kept, and in files of which size."""

    segment_bytes: int = 64 * 1024 * 1024
    retention_bytes: int = 1024 * 1024 * 1024  # of events that are alive; what is needed to recover is kept beyond it


class Piece(NamedTuple):
    """A part of a topic's events, in order."""

    records: list[EventsStored]
    position: Position  # all events of the topic up to here have been read: go on after it
    is_end: bool  # there are no more yet
    lost_before: Position  # events of the topic up to here were removed while they were alive; -1: none after `after`


class _Checkpoint(NamedTuple):
    number: int
    place: Place


class Journal:
    """The log in a folder, which it creates and locks. Call `recover` first, to its end. A context manager.

    JournalFullError says that nothing has happened, and that the same may work later. After a JournalFailedError
    nothing can be stored any more: what the disk holds is known only when the log is opened again.
    """

    def __init__(self, folder: Path, options: JournalOptions | None = None) -> None:
        self._options = options or JournalOptions()
        self._folder = files.Folder(folder)
        self._segments = Segments()
        self._checkpoints: list[_Checkpoint] = []  # the oldest first
        self._lost: dict[Topic, Position] = {}
        self._file = -1  # the last segment, once it is open
        self._is_flushed = False
        self._failure: JournalFailedError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def first_position(self) -> Position:
        """Of the first event that is still stored; if there is none, after the last one."""
        return self._segments.first_position

    @property
    def last_position(self) -> Position:
        """Of the last event that was stored; -1 before the first."""
        return self._segments.last_position

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return self._segments.size_bytes

    @property
    def is_due_for_checkpoint(self) -> bool:
        """Whether a new segment has begun since the last checkpoint."""
        checkpointed = parts_of(self._checkpoints[-1].place)[0] if self._checkpoints else 1
        return self._segments.last.number > checkpointed

    # Recovering.

    def recover(self) -> Iterator[Record]:
        """The records of the newest checkpoint, and then all that were stored after it.

        What a crash left of a write that was never flushed is cut off; any other damage is an error.
        """
        place, records = self._newest_checkpoint()
        yield from records
        self._read_lost()
        numbers = self._folder.numbers(_SEGMENT)
        for number in self._complete(numbers, place):
            yield from self._recover_segment(number, place, is_last=number == numbers[-1])
        with files.storing(self._folder.path):
            if numbers:
                self._open_last(place)
            else:
                self._begin_segment(1)

    def _newest_checkpoint(self) -> tuple[Place, Iterator[Record]]:
        newest: tuple[Place, Iterator[Record]] = (place_of(1, 0), iter(()))
        for number in self._folder.numbers(_CHECKPOINT):
            path = self._folder.path_of(_CHECKPOINT, number)
            try:
                place, bodies = _read_checkpoint(path)
            except JournalFailedError as error:
                _log.warning("going back to the checkpoint before: %s", error)
                continue
            newest = place, (record_of(body, path, end) for end, body in bodies)
            self._checkpoints.append(_Checkpoint(number, place))
        return newest

    def _complete(self, numbers: list[int], place: Place) -> list[int]:
        """The segments, of which none may be missing from the checkpoint's place on, and none between others."""
        if numbers or self._folder.numbers(_CHECKPOINT):
            needed = [parts_of(place)[0], *numbers]
            if missing := set(range(min(needed), max(needed) + 1)).difference(numbers):
                raise JournalFailedError(f"{self._path(min(missing))}: is missing: {RESTORE}")
        return numbers

    def _read_lost(self) -> None:
        path = self._folder.path_of(_LOST, 1)
        if path.exists():
            head, _ = head_of(files.read(path), path)
            if not isinstance(head, LostHead):
                raise damaged(path, 0)
            self._lost = {(tenant, topic): position for tenant, topic, position in head.positions}

    def _recover_segment(self, number: int, place: Place, *, is_last: bool) -> Iterator[Record]:
        path = self._path(number)
        data = files.read(path)
        head, start = head_of(data, path)
        if not isinstance(head, SegmentHead) or head.number != number:
            raise damaged(path, 0)
        if not self._segments.is_empty and self._segments.last.size != head.size_before:
            raise damaged(self._path(number - 1), self._segments.last.size)
        self._segments.begin(number, start, head.position)
        for end, body in frames(data, start):
            record = record_of(body, path, end)
            if self._segments.add(record, FRAME_BYTES + len(body)) >= place:
                yield record
        if (size := self._segments.last.size) < len(data):
            if not is_last or not is_torn(data, size):
                raise damaged(path, size)
            _log.warning("%s: %d bytes of an unfinished write are cut off", path, len(data) - size)

    def _open_last(self, place: Place) -> None:
        last = self._segments.last
        path = self._path(last.number)
        if last.end < place:  # which had been flushed before the checkpoint was written
            raise damaged(path, last.size)
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        # What was recovered counts as durable from now on, also what had only been written.
        files.cut(file, last.size, path)
        self._file, self._is_flushed = file, True

    # Storing.

    def append(self, records: Sequence[Record], *, sync: bool) -> None:
        """Store records after all others; with `sync` they, and all before them, are durable when this returns."""
        bodies = [encode(record) for record in records]
        size = sum(map(len, bodies)) + FRAME_BYTES * len(bodies)
        with self._storing():
            last = self._segments.last
            if last.size > last.start and last.size + size > self._options.segment_bytes:
                self._flush()
                self._begin_segment(last.number + 1)
            if bodies:
                self._write(framed(bodies, is_after_flush=self._is_flushed))
                self._is_flushed = False
            if sync:
                self._flush()
        for record, body in zip(records, bodies, strict=True):
            self._segments.add(record, FRAME_BYTES + len(body))

    def _write(self, data: bytes) -> None:
        try:
            files.write(self._file, data)
        except OSError:
            files.cut(self._file, self._segments.last.size, self._path(self._segments.last.number))
            raise

    def _flush(self) -> None:
        if not self._is_flushed:
            files.flush(self._file, self._path(self._segments.last.number))
            self._is_flushed = True

    def _begin_segment(self, number: int) -> None:
        size_before = 0 if self._segments.is_empty else self._segments.last.size
        head = opened(SegmentHead(number, self.last_position, size_before))
        file = self._folder.write(self._path(number), head)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._is_flushed = file, True
        self._segments.begin(number, len(head), self.last_position)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        if self._failure is not None:
            raise JournalFailedError(str(self._failure)) from self._failure
        if self._file < 0:
            raise JournalError(f"{self._folder.path}: the log is not open: recover it first, to the end")
        try:
            with files.storing(self._folder.path):
                yield
        except JournalFailedError as error:
            self._failure = error
            raise

    def checkpoint(self, records: Sequence[Record]) -> None:
        """From now on these records stand for all that were stored before, but for the events themselves."""
        with self._storing():
            self._flush()
            number = max(self._folder.numbers(_CHECKPOINT), default=0) + 1
            place = self._segments.last.end
            data = opened(CheckpointHead(place, len(records))) + framed(map(encode, records))
            os.close(self._folder.write(self._folder.path_of(_CHECKPOINT, number), data))
            self._checkpoints = [*self._checkpoints, _Checkpoint(number, place)][-_CHECKPOINTS_KEPT:]
            for old in set(self._folder.numbers(_CHECKPOINT)) - {kept.number for kept in self._checkpoints}:
                self._folder.remove(self._folder.path_of(_CHECKPOINT, old))

    def trim(self, now: float) -> None:
        """Remove the oldest segments that no checkpoint needs, if all in them has expired or there is too much."""
        needed = parts_of(self._checkpoints[0].place)[0] if self._checkpoints else 1
        excess = self.size_bytes - self._options.retention_bytes
        for segment in self._segments.finished:
            if segment.number >= needed or not (segment.is_expired(now) or excess > 0):
                break
            excess -= segment.size
            with self._storing():
                if lost := dict(segment.alive(now)):
                    self._write_lost(self._lost | lost)
                self._folder.remove(self._path(segment.number))
            self._segments.forget_first()

    def _write_lost(self, lost: dict[Topic, Position]) -> None:
        head = LostHead([(tenant, topic, position) for (tenant, topic), position in lost.items()])
        os.close(self._folder.write(self._folder.path_of(_LOST, 1), opened(head)))
        self._lost = lost

    # Reading.

    def read(self, tenant: str, topic: str, after: Position, bytes_max: int = READ_BYTES) -> Piece:
        """The records of a topic with events after a position; of the log, about so many bytes are read for it."""
        records: list[EventsStored] = []
        lost = self._lost.get((tenant, topic), -1)
        lost_before = lost if lost > after else -1
        bytes_read = 0
        for start, end in self._segments.blocks_after((tenant, topic), after):
            for record, size in self._read_block(start, end):
                bytes_read += size
                if isinstance(record, EventsStored) and (record.tenant, record.topic) == (tenant, topic):
                    if records and bytes_read > bytes_max:
                        return Piece(records, last_of(records[-1]), is_end=False, lost_before=lost_before)
                    if last_of(record) > after:
                        records.append(record)
        return Piece(records, max(after, self.last_position), is_end=True, lost_before=lost_before)

    def _read_block(self, start: Place, end: Place) -> Iterator[tuple[Record, int]]:
        number, offset = parts_of(start)
        path = self._path(number)
        data = files.read_part(path, offset, end - start)
        size = 0
        for size, body in frames(data, 0):
            yield record_of(body, path, offset + size), FRAME_BYTES + len(body)
        if size != end - start:
            raise damaged(path, offset + size)

    def _path(self, number: int) -> Path:
        return self._folder.path_of(_SEGMENT, number)

    def close(self) -> None:
        """Flush what was written, and unlock the folder."""
        try:
            if self._file >= 0 and self._failure is None:
                self._flush()
        finally:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
            self._folder.close()


def _read_checkpoint(path: Path) -> tuple[Place, list[tuple[int, memoryview]]]:
    """Its place, and the bodies of its records, each with the byte after it."""
    data = files.read(path)
    head, start = head_of(data, path)
    bodies = list(frames(data, start))
    end = bodies[-1][0] if bodies else start
    if not isinstance(head, CheckpointHead) or len(bodies) != head.records or end != len(data):
        raise damaged(path, end)
    return head.place, bodies
