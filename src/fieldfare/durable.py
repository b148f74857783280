"""Files and folders that survive a crash of the machine. This is the only module that flushes them.

What a file holds is durable once the file is flushed. That it exists, and under which name, is durable once its folder
is flushed. So a file that must be there whole or not at all is written under another name, flushed and renamed, and
then its folder is flushed: that is a `NewFile`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO

# Flushes what a file holds and its size, but not its times; macOS has no such call.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class UnflushedError(OSError):
    """A flush failed: what was written or renamed before it may be lost. To try it again proves nothing."""


def flush_data(descriptor: int) -> None:
    """Make what was written to a file durable."""
    with _flushing():
        _sync_data(descriptor)


def flush_file(file: IO[bytes] | int) -> None:
    """Make what was written to a file durable, and its times too."""
    if not isinstance(file, int):
        file.flush()
        file = file.fileno()
    with _flushing():
        os.fsync(file)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    with _flushing():
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _flushing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnflushedError(*error.args) from error


def rename(source: Path, target: Path) -> None:
    """Rename a file or a folder, durably. If only the flush fails, the new name is there, but may be lost."""
    source.rename(target)
    flush_folder(target.parent)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and those it is in, durably. Only the folder itself gets the mode."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(mode, exist_ok=True)
        flush_folder(folder.parent)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. If this fails, a part may have been written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class NewFile:
    """A file that appears at its path whole and durably, or not at all; it replaces what is there.

    Write to what `open` returns, and then `commit` or `discard`. As a context manager it does all of that.
    """

    def __init__(self, path: Path, mode: int = 0o666) -> None:
        self.path = path
        self._mode = mode
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._stream: BinaryIO | None = None

    def open(self) -> BinaryIO:
        """Begin to write."""
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self._mode)
        self._stream = os.fdopen(descriptor, "wb")
        return self._stream

    def commit(self) -> None:
        """What was written becomes the file."""
        if self._stream is not None:
            try:
                flush_file(self._stream)
                self._stream.close()
                rename(self._partial, self.path)
            except BaseException:
                self.discard()
                raise

    def discard(self) -> None:
        """Forget what was written."""
        if self._stream is not None:
            with suppress(OSError):  # closing writes what is buffered, and the disk may be full
                self._stream.close()
            self._partial.unlink(missing_ok=True)

    def __enter__(self) -> BinaryIO:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()
