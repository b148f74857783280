"""Objects as files that readers of events open: small ones are read whole, others in ranges as they are needed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.bucket.objects import FoundObject, Objects

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_RANGE_BYTES = 4 << 20  # one request reads this much


class _Status(NamedTuple):
    st_size: int


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """An object, or a place with objects: as much of a `Path` as readers of events use."""

    bucket: Bucket
    key: str = ""

    def __str__(self) -> str:
        return f"{self.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.bucket, f"{self.key}/{name}".lstrip("/"))

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot on."""
        return PurePosixPath(self.key).suffix

    def stat(self) -> _Status:
        """Its size. FileNotFoundError if it is gone."""
        return _Status(Objects(self.bucket).size(self.key))

    def open(self, mode: Literal["rb"]) -> BinaryIO:  # noqa: ARG002 - a file's has it
        """Its bytes. FileNotFoundError if it is gone."""
        objects = Objects(self.bucket)
        size, content = objects.read_small(self.key, _RANGE_BYTES)
        if content is not None:
            return io.BytesIO(content)
        return io.BufferedReader(_Ranges(objects, self.key, size), _RANGE_BYTES)

    def files(self) -> Iterator[FoundObject]:
        """The objects that are in this place and not below it. It is the bucket's own place, not one within."""
        return iter(Objects(self.bucket).here())


class _Ranges(io.RawIOBase):
    """An object of a known size, read range by range."""

    def __init__(self, objects: Objects, key: str, size: int) -> None:
        self._objects, self._key, self._size = objects, key, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), self._size - self._position)
        if length <= 0:
            return 0
        content = self._objects.read_range(self._key, self._position, length)
        view[: len(content)] = content
        self._position += len(content)
        return len(content)
