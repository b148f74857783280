"""A folder of one process, whose files survive: written beside their place, flushed, renamed, and the folder flushed.

What the file system says becomes one of two errors: there is no space, and nothing has happened; or nothing is certain.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fieldfare.errors import JournalError, JournalFailedError, JournalFullError

_TEMPORARY = ".tmp"
_DIGITS = "[0-9]" * 12
# With these nothing was written, and it may be possible later.
_NOT_NOW = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE})


class Folder:
    """A folder that is created if need be, and locked until it is closed. Its files have a kind and a number."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        with storing(self.path):
            self._create()
            self._file = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for leftover in self.path.glob(f"*-{_DIGITS}{_TEMPORARY}"):
                    leftover.unlink()
            except BlockingIOError as error:
                os.close(self._file)
                raise JournalError(f"{path}: another process has this log: stop it, or use another folder") from error
            except OSError:
                os.close(self._file)
                raise

    def _create(self) -> None:
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in missing:
            parent = os.open(path.parent, os.O_RDONLY)
            try:
                flush(parent, path.parent, os.fsync)
            finally:
                os.close(parent)

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the files of a kind, in order."""
        return sorted(int(path.stem.removeprefix(f"{kind}-")) for path in self.path.glob(f"{kind}-{_DIGITS}.log"))

    def path_of(self, kind: str, number: int) -> Path:
        """Where a file is."""
        return self.path / f"{kind}-{number:012d}.log"

    def write(self, path: Path, data: bytes) -> int:
        """Write a whole file, or replace it: it is there in full and durable, or as it was. Open to append to it."""
        temporary = path.with_suffix(_TEMPORARY)
        with storing(path):
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            try:
                write(file, data)
                flush(file, temporary)
                temporary.replace(path)
                flush(self._file, self.path, os.fsync)
            except BaseException:
                os.close(file)
                temporary.unlink(missing_ok=True)
                raise
        return file

    def remove(self, path: Path) -> None:
        """Remove a file for good."""
        with storing(path):
            path.unlink(missing_ok=True)
        flush(self._file, self.path, os.fsync)

    def close(self) -> None:
        """Unlock it."""
        os.close(self._file)


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """What the file system's errors mean while something is written."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_NOW:
            raise JournalFullError(f"{path}: nothing was written: {error.strerror}: free some space") from error
        raise JournalFailedError(
            f"{path}: {error.strerror}: check the disk and the rights, then start again"
        ) from error


def write(file: int, data: bytes) -> None:
    """Write all of it. If that fails, a part may have been written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


# Enough for a file; a folder takes fsync, since a new name in it may count as no more than a new time.
_flush: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def flush(file: int, path: Path, call: Callable[[int], None] = _flush) -> None:
    """Make what was written durable. If that fails once, trying it again proves nothing."""
    try:
        call(file)
    except OSError as error:
        raise JournalFailedError(
            f"{path}: cannot be flushed: {error.strerror}: what was written last may be lost; check the disk, then "
            "start again"
        ) from error


def cut(file: int, size: int, path: Path) -> None:
    """Take away what was written after this byte, for good."""
    try:
        os.ftruncate(file, size)
    except OSError as error:
        raise JournalFailedError(
            f"{path}: cannot be cut off at byte {size}: {error.strerror}: check the disk, then start again"
        ) from error
    flush(file, path)


def read(path: Path) -> memoryview:
    """All of a file."""
    with _reading(path):
        return memoryview(path.read_bytes())


def read_part(path: Path, offset: int, size: int) -> memoryview:
    """So many bytes, or less where the file ends before."""
    with _reading(path), path.open("rb", buffering=0) as file:
        return memoryview(os.pread(file.fileno(), size, offset))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalFailedError(f"{path}: cannot be read: {error.strerror}: check the disk and the rights") from error
