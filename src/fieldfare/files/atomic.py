"""Files that appear complete or not at all: written beside their place, and renamed into it at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from fieldfare.errors import InputError


class AtomicFile:
    """A file under a temporary name until `commit`."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        self._stream: BinaryIO | None = None

    def open(self) -> BinaryIO:
        """Start writing."""
        try:
            self._stream = self._partial.open("wb")
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from error
        return self._stream

    def commit(self) -> None:
        """Finish: what was written is now the file."""
        if self._stream is not None:
            self._stream.close()
            self._partial.replace(self.path)

    def discard(self) -> None:
        """Give up: nothing was written."""
        if self._stream is not None:
            self._stream.close()
            self._partial.unlink(missing_ok=True)
