"""What a journal needs of a file system. `store.folder` is the real one; `simulation.disk` has one in memory.

An operation that fails raises one of two errors. JournalFullError: there is no space, nothing has happened, and the
same may work later. JournalFailedError: it is not known what the disk holds.
"""

from __future__ import annotations

from typing import Protocol


class DiskFile(Protocol):
    """A file that is open for appending."""

    def append(self, data: bytes) -> None:
        """Write at the end. If this fails, a part may have been written."""
        ...

    def flush(self) -> None:
        """Make what was written durable. If this fails once, trying it again proves nothing."""
        ...

    def cut(self, size: int) -> None:
        """Remove what lies after this many bytes, durably."""
        ...

    def close(self) -> None:
        """Close it, without a flush."""
        ...


class Disk(Protocol):
    """The files of one journal, which has them for itself until it closes the disk. A file has a kind and a number."""

    def name_of(self, kind: str, number: int) -> str:
        """What people call the file, for messages."""
        ...

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the files of a kind, in order."""
        ...

    def read(self, kind: str, number: int) -> memoryview:
        """All of a file."""
        ...

    def read_part(self, kind: str, number: int, offset: int, size: int) -> memoryview:
        """A part of a file, or less if the file ends before."""
        ...

    def create(self, kind: str, number: int, data: bytes) -> DiskFile:
        """Write a whole file, or replace it. Afterwards it is there in full and durable, or all is as it was."""
        ...

    def open(self, kind: str, number: int) -> DiskFile:
        """Open a file, to append to it."""
        ...

    def remove(self, kind: str, number: int) -> None:
        """Remove a file, durably."""
        ...

    def close(self) -> None:
        """Let others have the files."""
        ...
