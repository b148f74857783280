"""The disk of a real journal: a folder that one process locks, with files that survive a crash.

A new file is written under a temporary name, flushed, renamed, and then the folder is flushed. What the file system
reports becomes one of the two errors that `store.disk` describes.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fieldfare import durable
from fieldfare.errors import JournalError, JournalFailedError, JournalFullError

_TEMPORARY = ".tmp"
_DIGITS = "[0-9]" * 12
# With these nothing was written, and it may be possible later.
_NOT_NOW = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE})


class FolderFile:
    """A file in a folder, open for appending."""

    def __init__(self, path: Path, file: int) -> None:
        self._path, self._file = path, file

    def append(self, data: bytes) -> None:
        """Write at the end. If this fails, a part may have been written."""
        with _storing(self._path):
            durable.write_all(self._file, data)

    def flush(self) -> None:
        """Make what was written durable."""
        with _storing(self._path):
            durable.flush_data(self._file)

    def cut(self, size: int) -> None:
        """Remove what lies after this many bytes, durably."""
        try:
            os.ftruncate(self._file, size)
        except OSError as error:
            raise JournalFailedError(
                f"{self._path}: cannot be cut off at byte {size}: {error.strerror}: check the disk, then start again"
            ) from error
        self.flush()

    def close(self) -> None:
        """Close it, without a flush."""
        os.close(self._file)


class Folder:
    """A folder that is created if it does not exist, and locked until it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        with _storing(self.path):
            durable.make_folder(self.path, 0o700)
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

    def name_of(self, kind: str, number: int) -> str:
        """The file's path."""
        return str(self._path_of(kind, number))

    def _path_of(self, kind: str, number: int) -> Path:
        return self.path / f"{kind}-{number:012d}.log"

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the files of a kind, in order."""
        return sorted(int(path.stem.removeprefix(f"{kind}-")) for path in self.path.glob(f"{kind}-{_DIGITS}.log"))

    def read(self, kind: str, number: int) -> memoryview:
        """All of a file."""
        path = self._path_of(kind, number)
        with _reading(path):
            return memoryview(path.read_bytes())

    def read_part(self, kind: str, number: int, offset: int, size: int) -> memoryview:
        """A part of a file, or less if the file ends before."""
        path = self._path_of(kind, number)
        with _reading(path), path.open("rb", buffering=0) as file:
            return memoryview(os.pread(file.fileno(), size, offset))

    def create(self, kind: str, number: int, data: bytes) -> FolderFile:
        """Write a whole file, or replace it. Afterwards it is there in full and durable, or all is as it was."""
        path = self._path_of(kind, number)
        temporary = path.with_suffix(_TEMPORARY)
        with _storing(path):
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            try:
                durable.write_all(file, data)
                durable.flush_data(file)
                durable.rename(temporary, path)
            except BaseException:
                os.close(file)
                temporary.unlink(missing_ok=True)
                raise
        return FolderFile(path, file)

    def open(self, kind: str, number: int) -> FolderFile:
        """Open a file, to append to it."""
        path = self._path_of(kind, number)
        with _storing(path):
            return FolderFile(path, os.open(path, os.O_WRONLY | os.O_APPEND))

    def remove(self, kind: str, number: int) -> None:
        """Remove a file, durably."""
        path = self._path_of(kind, number)
        with _storing(path):
            path.unlink(missing_ok=True)
            durable.flush_folder(self.path)

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._file)


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """Translate what the file system reports while something is written."""
    try:
        yield
    except durable.UnflushedError as error:
        raise JournalFailedError(
            f"{path}: cannot be flushed: {error.strerror}: what was written last may be lost; check the disk, then "
            "start again"
        ) from error
    except OSError as error:
        if error.errno in _NOT_NOW:
            raise JournalFullError(f"{path}: nothing was written: {error.strerror}: free some space") from error
        raise JournalFailedError(
            f"{path}: {error.strerror}: check the disk and the rights, then start again"
        ) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JournalFailedError(f"{path}: cannot be read: {error.strerror}: check the disk and the rights") from error
