"""The durable log of a node: records in the order in which they were stored, and the events of streams in them.

The journal is a row of files, its segments, of which only the last is written; a segment is flushed before the next one
begins. A checkpoint is a file whose records stand for all records before a place in the journal. Events before that
place stay readable until retention removes their segment.

What a record means is known to a codec alone; the journal asks it only which stream and which positions the events of a
record have. All file work goes through a `Disk`, so the same code runs on a real folder and in the simulator. One
thread at a time may use a journal, and one process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec

from fieldfare.errors import JournalError, JournalFailedError
from fieldfare.messages import Position, RecordCodec
from fieldfare.store.disk import Disk, DiskFile
from fieldfare.store.folder import Folder
from fieldfare.store.journal_format import (
    FRAME_BYTES,
    RESTORE,
    CheckpointHead,
    LostHead,
    SegmentHead,
    damaged,
    framed,
    frames,
    head_of,
    is_torn,
    opened,
)
from fieldfare.store.segments import Place, Segments, parts_of, place_of

READ_BYTES = 1024 * 1024

_SEGMENT, _CHECKPOINT, _LOST, _EXPIRED = "segment", "checkpoint", "lost", "expired"
_CHECKPOINTS_KEPT = 2

R = TypeVar("R")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JournalOptions:
    """How much is kept, in files of which size, and how it is read."""

    segment_bytes: int = 64 * 1024 * 1024
    retention_bytes: int = 1024 * 1024 * 1024  # of events that are alive; what is needed to recover is kept beyond it
    block_bytes: int = 256 * 1024  # the index finds events up to so many bytes
    piece_records_max: int = 1_000_000


class StreamPart(NamedTuple, Generic[R]):
    """A part of a stream, in order."""

    records: list[R]
    position: Position  # all events of the stream up to here have been read: go on after it
    is_end: bool  # there are no more yet
    lost_before: Position  # events of the stream up to here were removed while they were alive; -1: none after `after`
    expired_before: Position  # the same of events that had expired when they were removed


class _Checkpoint(NamedTuple):
    number: int
    place: Place


class Journal(Generic[R]):
    """A journal on a disk, or in a folder, which it creates and locks. Call `recover` first, to its end.

    JournalFullError says that nothing has happened, and that the same may work later. After a JournalFailedError
    nothing can be stored any more: what the disk holds is known only when the journal is opened again. `warn` is told
    what recovery finds that people should know of. A context manager.
    """

    def __init__(
        self,
        disk: Disk | Path,
        codec: RecordCodec[R],
        options: JournalOptions | None = None,
        warn: Callable[[str], None] = _log.warning,
    ) -> None:
        self._options = options or JournalOptions()
        self._disk: Disk = Folder(disk) if isinstance(disk, Path) else disk
        self._codec = codec
        self._warn = warn
        self._segments = Segments(self._options.block_bytes)
        self._checkpoints: list[_Checkpoint] = []  # the oldest first
        self._lost: dict[str, Position] = {}  # of each stream the last that was removed before it expired
        self._expired: dict[str, Position] = {}  # and the last that was removed when it had
        self._file: DiskFile | None = None  # the last segment, once it is open
        self._is_flushed = False
        self._failure: JournalFailedError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def first_position(self) -> Position:
        """The position of the first event that is still stored; if there is none, the one after the last."""
        return self._segments.first_position

    @property
    def last_position(self) -> Position:
        """The position of the last event that was stored; -1 before the first."""
        return self._segments.last_position

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return self._segments.size_bytes

    @property
    def lost(self) -> Mapping[str, Position]:
        """Of each stream, and each part of one, the last event that was removed while it was alive."""
        return self._lost

    @property
    def is_due_for_checkpoint(self) -> bool:
        """Whether a new segment has begun since the last checkpoint."""
        checkpointed = parts_of(self._checkpoints[-1].place)[0] if self._checkpoints else 1
        return self._segments.last.number > checkpointed

    # Recovering.

    def recover(self) -> Iterator[R]:
        """The records of the newest checkpoint, and then all that were stored after it.

        What a crash left of a write that was never flushed is cut off; any other damage is an error.
        """
        place, records = self._newest_checkpoint()
        yield from records
        self._lost, self._expired = self._read_removed(_LOST), self._read_removed(_EXPIRED)
        numbers = self._disk.numbers(_SEGMENT)
        for number in self._complete(numbers, place):
            yield from self._recover_segment(number, place, is_last=number == numbers[-1])
        if numbers:
            self._open_last(place)
        else:
            self._begin_segment(1)

    def _newest_checkpoint(self) -> tuple[Place, Iterator[R]]:
        newest: tuple[Place, Iterator[R]] = (place_of(1, 0), iter(()))
        for number in self._disk.numbers(_CHECKPOINT):
            try:
                place, bodies = self._read_checkpoint(number)
            except JournalFailedError as error:
                self._warn(f"going back to the checkpoint before: {error}")
                continue
            newest = place, (self._decode(body, _CHECKPOINT, number, end) for end, body in bodies)
            self._checkpoints.append(_Checkpoint(number, place))
        return newest

    def _read_checkpoint(self, number: int) -> tuple[Place, list[tuple[int, memoryview]]]:
        """Its place, and the bodies of its records, each with the byte after it."""
        name = self._disk.name_of(_CHECKPOINT, number)
        data = self._disk.read(_CHECKPOINT, number)
        head, start = head_of(data, name)
        bodies = list(frames(data, start))
        end = bodies[-1][0] if bodies else start
        if not isinstance(head, CheckpointHead) or len(bodies) != head.records or end != len(data):
            raise damaged(name, end)
        return head.place, bodies

    def _complete(self, numbers: list[int], place: Place) -> list[int]:
        """The segments, of which none may be missing from the checkpoint's place on, and none between others."""
        if numbers or self._disk.numbers(_CHECKPOINT):
            needed = [parts_of(place)[0], *numbers]
            if missing := set(range(min(needed), max(needed) + 1)).difference(numbers):
                raise JournalFailedError(f"{self._name(min(missing))}: is missing: {RESTORE}")
        return numbers

    def _read_removed(self, kind: str) -> dict[str, Position]:
        if not self._disk.numbers(kind):
            return {}
        name = self._disk.name_of(kind, 1)
        head, _ = head_of(self._disk.read(kind, 1), name)
        if not isinstance(head, LostHead):
            raise damaged(name, 0)
        return head.lost()

    def _recover_segment(self, number: int, place: Place, *, is_last: bool) -> Iterator[R]:
        name = self._name(number)
        data = self._disk.read(_SEGMENT, number)
        head, start = head_of(data, name)
        if not isinstance(head, SegmentHead) or head.number != number:
            raise damaged(name, 0)
        if not self._segments.is_empty and self._segments.last.size != head.size_before:
            raise damaged(self._name(number - 1), self._segments.last.size)
        self._segments.begin(number, start, head.position)
        for end, body in frames(data, start):
            record = self._decode(body, _SEGMENT, number, end)
            if self._segments.add(self._codec.span(record), FRAME_BYTES + len(body)) >= place:
                yield record
        if (size := self._segments.last.size) < len(data):
            if not is_last or not is_torn(data, size):
                raise damaged(name, size)
            self._warn(f"{name}: {len(data) - size} bytes of an unfinished write are cut off")

    def _decode(self, body: memoryview, kind: str, number: int, end: int) -> R:
        """The record in the frame that ends at this byte of a file."""
        try:
            return self._codec.decode(body)
        except msgspec.MsgspecError as error:
            raise JournalError(
                f"{self._disk.name_of(kind, number)}: the record before byte {end} is whole, but unknown to this "
                f"version of Fieldfare ({error}): use the version that wrote it, or another folder"
            ) from error

    def _open_last(self, place: Place) -> None:
        last = self._segments.last
        if last.end < place:  # the place had been flushed before the checkpoint was written
            raise damaged(self._name(last.number), last.size)
        file = self._disk.open(_SEGMENT, last.number)
        # What was recovered counts as durable from now on, also what had only been written.
        file.cut(last.size)
        self._file, self._is_flushed = file, True

    # Storing.

    def append(self, records: Sequence[R], *, sync: bool) -> None:
        """Store records after all others; with `sync` they, and all before them, are durable when this returns."""
        bodies = [self._codec.encode(record) for record in records]
        spans = [self._codec.span(record) for record in records]
        size = sum(map(len, bodies)) + FRAME_BYTES * len(bodies)
        file, last = self._usable(), self._segments.last
        try:
            if last.size > last.start and last.size + size > self._options.segment_bytes:
                self._flush()
                file = self._begin_segment(last.number + 1)
            if bodies:
                self._write(file, framed(bodies, is_after_flush=self._is_flushed))
            if sync:
                self._flush()
        except JournalFailedError as error:
            self._failure = error
            raise
        for span, body in zip(spans, bodies, strict=True):
            self._segments.add(span, FRAME_BYTES + len(body))

    def _write(self, file: DiskFile, data: bytes) -> None:
        try:
            file.append(data)
        except JournalError:
            file.cut(self._segments.last.size)
            raise
        self._is_flushed = False

    def _flush(self) -> None:
        if not self._is_flushed and self._file is not None:
            self._file.flush()
            self._is_flushed = True

    def _begin_segment(self, number: int) -> DiskFile:
        size_before = 0 if self._segments.is_empty else self._segments.last.size
        head = opened(SegmentHead(number, self.last_position, size_before))
        file = self._disk.create(_SEGMENT, number, head)
        if self._file is not None:
            self._file.close()
        self._file, self._is_flushed = file, True
        self._segments.begin(number, len(head), self.last_position)
        return file

    def _usable(self) -> DiskFile:
        """The last segment, if it can be written."""
        if self._failure is not None:
            raise JournalFailedError(str(self._failure)) from self._failure
        if self._file is None:
            raise JournalError(f"{self._name(1)}: the log is not open: recover it first, to the end")
        return self._file

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """A change that is the last one if the disk fails in it."""
        self._usable()
        try:
            yield
        except JournalFailedError as error:
            self._failure = error
            raise

    def checkpoint(self, records: Sequence[R]) -> None:
        """From now on these records stand for all that were stored before, but for the events themselves."""
        with self._storing():
            self._flush()
            number = max(self._disk.numbers(_CHECKPOINT), default=0) + 1
            place = self._segments.last.end
            data = opened(CheckpointHead(place, len(records))) + framed(map(self._codec.encode, records))
            self._disk.create(_CHECKPOINT, number, data).close()
            self._checkpoints = [*self._checkpoints, _Checkpoint(number, place)][-_CHECKPOINTS_KEPT:]
            for old in set(self._disk.numbers(_CHECKPOINT)) - {kept.number for kept in self._checkpoints}:
                self._disk.remove(_CHECKPOINT, old)

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
                    self._lost = self._write_removed(_LOST, self._lost | lost)
                if expired := dict(segment.expired(now)):
                    self._expired = self._write_removed(_EXPIRED, self._expired | expired)
                self._disk.remove(_SEGMENT, segment.number)
            self._segments.forget_first()

    def _write_removed(self, kind: str, last: dict[str, Position]) -> dict[str, Position]:
        self._disk.create(kind, 1, opened(LostHead.of(last))).close()
        return last

    # Reading.

    def read(self, stream: str, after: Position, bytes_max: int = READ_BYTES, *, losses_of: str = "") -> StreamPart[R]:
        """The records of a stream with events after a position. About `bytes_max` bytes of the journal are read.

        What is said of removed events is about the whole stream, or about one part of it (see `Span`).
        """
        records: list[R] = []
        position = after
        lost, expired = (
            last if (last := removed.get(losses_of or stream, -1)) > after else -1
            for removed in (self._lost, self._expired)
        )
        bytes_read = 0
        for start, end in self._segments.blocks_after(stream, after):
            for record, size in self._read_block(start, end):
                bytes_read += size
                span = self._codec.span(record)
                if span is None or span.stream != stream or span.last <= after:
                    continue
                if records and (bytes_read > bytes_max or len(records) == self._options.piece_records_max):
                    return StreamPart(records, position, is_end=False, lost_before=lost, expired_before=expired)
                records.append(record)
                position = span.last
        position = max(after, self.last_position)
        return StreamPart(records, position, is_end=True, lost_before=lost, expired_before=expired)

    def _read_block(self, start: Place, end: Place) -> Iterator[tuple[R, int]]:
        number, offset = parts_of(start)
        data = self._disk.read_part(_SEGMENT, number, offset, end - start)
        size = 0
        for size, body in frames(data, 0):
            yield self._decode(body, _SEGMENT, number, offset + size), FRAME_BYTES + len(body)
        if size != end - start:
            raise damaged(self._name(number), offset + size)

    def _name(self, number: int) -> str:
        return self._disk.name_of(_SEGMENT, number)

    def close(self) -> None:
        """Flush what was written, and let others have the disk."""
        try:
            if self._file is not None and self._failure is None:
                self._flush()
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None
            self._disk.close()
