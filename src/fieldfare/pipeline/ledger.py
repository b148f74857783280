"""The ledger of a folder source: every file that was found, in the order of finding, one JSON line each.

It numbers all events from 0, so that a range of numbers names the same rows of the same files for ever. A line is
durable before its events are offered to anyone; a last line without its end was never offered, and is dropped.
"""

from __future__ import annotations

import fcntl
import os
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from fieldfare.durable import flush_file, flush_folder, write_all
from fieldfare.errors import InputError

_LOCK_SECONDS_MAX = 30.0  # for the process of a run that was killed to notice it


class EventFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it was found. One that cannot be read has a fault, and counts as one event."""

    name: str
    bytes: int
    rows: int
    appended_at: int  # microseconds since 1970: when the file was last written
    fault: str | None = None


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

    @staticmethod
    def read(path: Path) -> FileList:
        """The files of a ledger that another process may have open."""
        files = FileList(path)
        files._parse(path.read_bytes())
        return files

    @property
    def events(self) -> int:
        """The number of events in all files."""
        return self._ends[-1] if self._ends else 0

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def slices(self, start: int, end: int) -> Iterator[Slice]:
        """Where the events numbered from `start` up to, but without, `end` are."""
        if end > self.events:
            raise InputError(
                f"{self.path}: the checkpoint has read {end:,} events, but this ledger names only {self.events:,}; "
                "restore the ledger that belongs to the checkpoint, or start with a new checkpoint"
            )
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
        sound = content.rfind(b"\n") + 1
        decoder = msgspec.json.Decoder(EventFile)
        for number, line in enumerate(content[:sound].splitlines(), 1):
            try:
                self._remember([decoder.decode(line)])
            except msgspec.MsgspecError as error:
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
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            self._load()
        except BaseException:
            self.close()
            raise

    def append(self, files: Iterable[EventFile]) -> None:
        """Add files. They are durable when this returns."""
        added = list(files)
        if added:
            write_all(self._descriptor, b"".join(msgspec.json.encode(file) + b"\n" for file in added))
            flush_file(self._descriptor)
            self._remember(added)

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._descriptor)

    def _lock(self) -> None:
        deadline = time.monotonic() + _LOCK_SECONDS_MAX
        while True:
            try:
                return fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise InputError(
                        f"{self.path}: another run uses this checkpoint; stop it, or use another one"
                    ) from error
                time.sleep(0.05)

    def _load(self) -> None:
        os.ftruncate(self._descriptor, self._parse(self.path.read_bytes()))
        flush_file(self._descriptor)  # what was read may have been written, but not made durable, by a run that died
        flush_folder(self.path.parent)


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
