"""The ledger of a folder source: every file that was found, in the order of finding, one JSON line each.

It numbers all events from 0, so that a range of numbers names the same rows of the same files until it is consumed. A
line is durable before its events are offered to anyone; a last line without its end was never offered, and is dropped.

What is consumed is folded from time to time: a first line then says how many events that were, of their files only the
names are kept, and those only while the files are in the folder. So the ledger does not outgrow the folder.
"""

from __future__ import annotations

import fcntl
import os
import time
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import msgspec

from fieldfare import durable
from fieldfare.errors import InputError

_LOCK_SECONDS_MAX = 30.0  # for the process of a run that was killed to notice it
_GONE_SECONDS = 3600  # a folder may be away for a while, as when a network's storage is: its files come back
_CLOSED = -1


class EventFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it was found. One that cannot be read has a fault, and counts as one event.

    Of a file whose events are consumed only the name is kept, so that it is not read again.
    """

    name: str
    bytes: int = 0
    rows: int = 0
    appended_at: int = 0  # microseconds since 1970: when the file was last written
    fault: str | None = None
    gone_at: int = 0  # seconds since 1970: when a consumed file was found to be gone from the folder; 0: it is there


class _Folded(msgspec.Struct, frozen=True):
    """The first line of a ledger that was compacted."""

    consumed: int  # the number of events whose places are not kept any more


_FOLDED_START = b'{"consumed":'


class Slice(msgspec.Struct, frozen=True):
    """Some rows of a file, from the one numbered `first_row`; the file's first is 0."""

    name: str
    bytes: int  # of the whole file, when it was found
    appended_at: int
    fault: str | None
    first_row: int
    rows: int


class FileList:
    """The files of a ledger, as far as they were complete when it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: list[EventFile] = []
        self._ends: list[int] = []  # for each file, the number of events up to its end
        self._names: set[str] = set()
        self._consumed = 0

    @staticmethod
    def read(path: Path) -> FileList:
        """The files of a ledger that another process may have open."""
        files = FileList(path)
        files._parse(path.read_bytes())
        return files

    @property
    def events(self) -> int:
        """The number of events in all files."""
        return self._ends[-1] if self._ends else self._consumed

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def after(self, consumed: int) -> list[EventFile]:
        """The files that have events beyond the first `consumed`."""
        return self._files[bisect_right(self._ends, consumed) :]

    def require(self, start: int, end: int) -> None:
        """Raise an error if these numbers name no events here: the ledger is not the one that the checkpoint used."""
        if end > self.events:
            raise InputError(
                f"{self.path}: the checkpoint has read {end:,} events, but this ledger names only {self.events:,}; "
                "restore the ledger that belongs to the checkpoint, or start with a new checkpoint"
            )
        if start < min(end, self._consumed):
            raise InputError(
                f"{self.path}: the checkpoint goes on behind event {start:,}, but this ledger keeps places only from "
                f"{self._consumed:,} on; restore the ledger that belongs to the checkpoint, or start with a new one"
            )

    def slices(self, start: int, end: int) -> Iterator[Slice]:
        """Where the events numbered from `start` up to, but without, `end` are."""
        self.require(start, end)
        place = bisect_right(self._ends, start)
        while start < end:
            file, file_end = self._files[place], self._ends[place]
            stop = min(end, file_end)
            if stop > start:
                first_row = start - (file_end - file.rows)
                yield Slice(file.name, file.bytes, file.appended_at, file.fault, first_row, stop - start)
            start, place = stop, place + 1

    def _parse(self, content: bytes) -> int:
        """Take in the complete lines; return where they end."""
        hole = content.find(b"\0")  # what a power failure leaves of a page that was not flushed, as text has none
        sound = content.rfind(b"\n", 0, hole if hole >= 0 else None) + 1
        decoder = msgspec.json.Decoder(EventFile)
        for number, line in enumerate(content[:sound].splitlines(), 1):
            try:
                if number == 1 and line.startswith(_FOLDED_START):
                    self._consumed = msgspec.json.decode(line, type=_Folded).consumed
                else:
                    self._remember([decoder.decode(line)])
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise InputError(
                    f"{self.path}: line {number} is damaged ({error}); restore the file, or start with a new checkpoint"
                ) from error
        return sound

    def _remember(self, files: Iterable[EventFile]) -> None:
        for file in files:
            self._ends.append(self.events + file.rows)
            self._files.append(file)
            self._names.add(file.name)


class Ledger(FileList):
    """An open ledger, to be added to. Only one process at a time can have it open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._partial = path.with_name(f".{path.name}.partial")
        self._descriptor = self._opened()
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def append(self, files: Iterable[EventFile]) -> None:
        """Add files. They are durable when this returns."""
        added = list(files)
        if added:
            durable.write_all(self._descriptor, _lines(added))
            durable.flush_file(self._descriptor)
            self._remember(added)

    def compact(self, consumed: int, present: Container[str], now_seconds: int) -> bool:
        """Fold the files whose events are among the first `consumed`, if that changes at least half of the lines.

        `present` are the names that are in the folder. A file that was missing there an hour ago, and still is, is
        forgotten: one of that name would be a new file. When this returns, True if it was done, the change is durable.
        """
        place = bisect_right(self._ends, consumed)
        folded = [_folded(file, present, now_seconds) for file in self._files[:place]]
        changed = sum(new != old for new, old in zip(folded, self._files, strict=False))
        if not changed or 2 * changed < len(self._files):
            return False
        kept = [file for file in folded if file is not None] + self._files[place:]
        first = _Folded(self._ends[place - 1])
        self._replace(msgspec.json.encode(first) + b"\n" + _lines(kept))
        self._files, self._ends, self._names, self._consumed = [], [], set(), first.consumed
        self._remember(kept)
        return True

    def close(self) -> None:
        """Let another process have it."""
        if self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def _opened(self) -> int:
        deadline = time.monotonic() + _LOCK_SECONDS_MAX
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_ino == self.path.stat().st_ino:
                    return descriptor  # else the process that had it has put a new file in its place
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    raise InputError(
                        f"{self.path}: another run uses this checkpoint; stop it, or use another one"
                    ) from error
            os.close(descriptor)
            time.sleep(0.05)

    def _load(self) -> None:
        os.ftruncate(self._descriptor, self._parse(self.path.read_bytes()))
        durable.flush_file(self._descriptor)  # a run that died may have written, but not flushed, what was read
        durable.flush_folder(self.path.parent)
        self._partial.unlink(missing_ok=True)

    def _replace(self, content: bytes) -> None:
        """Put a new file in the place of the old one. If that fails, the ledger is closed: either may be there then."""
        descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # before it has the name by which others find it
            durable.write_all(descriptor, content)
            durable.flush_file(descriptor)
            durable.rename(self._partial, self.path)
        except BaseException:
            os.close(descriptor)
            self.close()
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor


def _lines(files: Iterable[EventFile]) -> bytes:
    return b"".join(msgspec.json.encode(file) + b"\n" for file in files)


def _folded(file: EventFile, present: Container[str], now_seconds: int) -> EventFile | None:
    """What stays of a file whose events are consumed."""
    if file.name in present:
        return EventFile(file.name)
    if file.gone_at and now_seconds - file.gone_at >= _GONE_SECONDS:
        return None
    return EventFile(file.name, gone_at=file.gone_at or now_seconds)


def divided(slices: Iterable[Slice], tasks: int) -> list[list[Slice]]:
    """The slices divided among `tasks` groups with equal numbers of events."""
    waiting = list(slices)
    total = sum(part.rows for part in waiting)
    groups: list[list[Slice]] = [[] for _ in range(tasks)]
    start = 0
    for part in waiting:
        first = start
        while start < first + part.rows:
            group = start * tasks // total
            stop = min(first + part.rows, -(-(group + 1) * total // tasks))
            moved = msgspec.structs.replace(part, first_row=part.first_row + start - first, rows=stop - start)
            groups[group].append(moved)
            start = stop
    return groups
