"""Where bad rows go: one JSON object per row, with its file, its place, the reason and the beginning of its text."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from fieldfare.files.atomic import AtomicFile

_TEXT_CHARACTERS_MAX = 500


class BadRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that was left out. Text files have a line, Parquet files a row; both count from 1."""

    file: str
    reason: str
    text: str
    line: int | None = None
    row: int | None = None


def excerpt(source: object) -> str:
    """The beginning of a row's text, made printable."""
    if isinstance(source, bytes):
        return source[:_TEXT_CHARACTERS_MAX].decode("utf-8", "backslashreplace").rstrip("\r\n")
    text = ",".join(source) if isinstance(source, list) else str(source)
    return text[:_TEXT_CHARACTERS_MAX].encode("utf-8", "backslashreplace").decode("utf-8")


class Quarantine:
    """A file of bad rows that exists only if there are any. A context manager: leaving it completes the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.first: BadRow | None = None
        self._file = AtomicFile(path)
        self._stream: BinaryIO | None = None

    def add(self, row: BadRow) -> None:
        """Put a row into quarantine."""
        if self._stream is None:
            self._stream = self._file.open()
        self._stream.write(msgspec.json.encode(row) + b"\n")
        self.rows += 1
        self.first = self.first or row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is None:
            if kind is None:
                self.path.unlink(missing_ok=True)  # of an earlier run: its rows are not bad any more
        elif kind is None:
            self._file.commit()
        else:
            self._file.discard()
