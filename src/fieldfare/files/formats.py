"""Which format a file has: its suffix says. And the one way in which a file that cannot be opened is reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import pyarrow as pa

from fieldfare.errors import InputError


class Format(Enum):
    """The file formats, and the suffixes that name them."""

    CSV = (".csv",)
    JSON_LINES = (".jsonl", ".ndjson", ".json")
    PARQUET = (".parquet", ".pq")


class ReadableFile(Protocol):
    """As much of a `Path` as it takes to read a file: objects of a bucket have it too."""

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot on."""
        ...

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Its bytes."""
        ...


def format_of(path: ReadableFile) -> Format:
    """The format that a file's suffix names."""
    for file_format in Format:
        if path.suffix.lower() in file_format.value:
            return file_format
    suffixes = ", ".join(suffix for file_format in Format for suffix in file_format.value)
    raise InputError(f"{path}: cannot tell its format; the name must end in one of {suffixes}")


def input_parts(path: Path) -> tuple[Path, ...]:
    """The files to read: the one named, or the Parquet files of a folder, in the order of their names."""
    if path.is_dir():
        parts = tuple(sorted(part for suffix in Format.PARQUET.value for part in path.glob(f"*{suffix}")))
        if not parts:
            raise InputError(f"{path}: the folder holds no Parquet files")
        return parts
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    format_of(path)
    return (path,)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report what the system or Arrow says about an unreadable file as an InputError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
