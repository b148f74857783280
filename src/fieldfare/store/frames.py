"""Records as bytes: a file begins with its kind and format; then come frames: a checksum, a length, a body.

The first frame of a file says what the file is. The top bit of a length says that all before the frame had been flushed
when it was written: so of a bad frame one can tell whether a crash tore it or the disk damaged it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import msgspec

from fieldfare.errors import JournalError, JournalFailedError
from fieldfare.messages import Position, Record

FORMAT = 1  # of files; a change that this code could not read gets a new number
FRAME_BYTES = 8  # before each body
RESTORE = "restore the log's folder from a backup, or move it away to begin anew"

_MAGIC = b"fieldfarelog"
_OPENING = struct.Struct("<12sI")
_FRAME = struct.Struct("<II")
_AFTER_FLUSH = 1 << 31
# What the beginning of a frame after a flush looks like: its checksum, its length, and a record's kind in msgpack.
_CANDIDATE = re.compile(rb"(?s)(?=.......[\x80-\xff][\x90-\x9f]\xa1[a-z])")

_encoder = msgspec.msgpack.Encoder()


class SegmentHead(msgspec.Struct, frozen=True, array_like=True, tag="segment"):
    """The file is a part of the log."""

    number: int
    position: Position  # the last one in the parts before
    size_before: int  # of the part before


class CheckpointHead(msgspec.Struct, frozen=True, array_like=True, tag="checkpoint"):
    """The file is a checkpoint, which stands for all of the log before a place."""

    place: int
    records: int  # so many follow


class LostHead(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """The file says what was removed while it was alive: of each (tenant, topic) the last position."""

    positions: list[tuple[str, str, Position]]


Head: TypeAlias = SegmentHead | CheckpointHead | LostHead

_head_decoder: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)
_record_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode(value: Record | Head) -> bytes:
    """The body of a frame."""
    return _encoder.encode(value)


def framed(bodies: Iterable[bytes], *, is_after_flush: bool = False) -> bytes:
    """Frames, the first of them marked if all that is in the log before it has been flushed."""
    parts: list[bytes] = []
    mark = _AFTER_FLUSH if is_after_flush else 0
    for body in bodies:
        length = len(body) | mark
        parts += _FRAME.pack(crc32(body, crc32(length.to_bytes(4, "little"))), length), body
        mark = 0
    return b"".join(parts)


def opened(head: Head) -> bytes:
    """The beginning of a file."""
    return _OPENING.pack(_MAGIC, FORMAT) + framed([encode(head)])


def frame_at(data: memoryview, start: int) -> memoryview | None:
    """The body of the frame that begins here; None if there is no whole one."""
    body = start + FRAME_BYTES
    if body > len(data):
        return None
    checksum, length = _FRAME.unpack_from(data, start)
    end = body + (length & ~_AFTER_FLUSH)
    if end > len(data) or crc32(data[start + 4 : end]) != checksum:
        return None
    return data[body:end]


def frames(data: memoryview, start: int) -> Iterator[tuple[int, memoryview]]:
    """The frames from here on, each with the byte after it, up to the first that is not whole."""
    while (body := frame_at(data, start)) is not None:
        start += FRAME_BYTES + len(body)
        yield start, body


def head_of(data: memoryview, path: Path) -> tuple[Head, int]:
    """What a file is, and the byte where its records begin."""
    if len(data) < _OPENING.size:
        raise damaged(path, len(data))
    magic, version = _OPENING.unpack_from(data)
    if magic != _MAGIC:
        raise damaged(path, 0)
    if version != FORMAT:
        raise JournalError(
            f"{path}: this log has format {version}, but this version of Fieldfare reads format {FORMAT}: "
            "use the version that wrote it, or another folder"
        )
    body = frame_at(data, _OPENING.size)
    if body is None:
        raise damaged(path, _OPENING.size)
    try:
        return _head_decoder.decode(body), _OPENING.size + FRAME_BYTES + len(body)
    except msgspec.MsgspecError as error:
        raise damaged(path, _OPENING.size) from error


def record_of(body: memoryview, path: Path, end: int) -> Record:
    """The record in the frame that ends there."""
    try:
        return _record_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise JournalError(
            f"{path}: the record before byte {end} is whole, but unknown to this version of Fieldfare ({error}): "
            "use the version that wrote it, or another folder"
        ) from error


def is_torn(data: memoryview, offset: int) -> bool:
    """Whether the bytes from here on, which are no frame, may be what a crash left of writes that were not flushed.

    They are not if any frame after them was written after a flush. The disk may have taken later pages first, so
    frames after them are no proof by themselves.
    """
    return all(frame_at(data, candidate.start()) is None for candidate in _CANDIDATE.finditer(data, offset + 1))


def damaged(path: Path, offset: int) -> JournalFailedError:
    """A file holds at this byte what cannot have been written so."""
    return JournalFailedError(f"{path}: damaged at byte {offset}: {RESTORE}")
