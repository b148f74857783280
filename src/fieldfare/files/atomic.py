"""Output files that appear complete or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from fieldfare.durable import NewFile
from fieldfare.errors import InputError


class AtomicFile(NewFile):
    """A new file whose path a user gave."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.resolve())

    def open(self) -> BinaryIO:
        """Begin to write."""
        try:
            return super().open()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from error
