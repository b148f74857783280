"""The journal's files as bytes. A file begins with a magic text and the format's number; then come frames.

A frame is a checksum, a length and a body. The first frame of a file is its head, which says what kind of file it is;
the others hold one record each. The top bit of a frame's length is set if everything before the frame had been flushed
when the frame was written. It tells a torn write from damage: if a frame cannot be read and a later frame has this bit,
then the unreadable one had been flushed, so no crash can have torn it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias
from zlib import crc32

import msgspec

from fieldfare.errors import JournalError, JournalFailedError
from fieldfare.messages import Position, names_of, stream_of

FORMAT = 1  # of files; a change that this code could not read gets a new number
FRAME_BYTES = 8  # before each body
RESTORE = "restore the log's folder from a backup, or move it away to begin anew"

_MAGIC = b"fieldfarelog"
_OPENING = struct.Struct("<12sI")
_FRAME = struct.Struct("<II")
_AFTER_FLUSH = 1 << 31

_encoder = msgspec.msgpack.Encoder()


class SegmentHead(msgspec.Struct, frozen=True, array_like=True, tag="segment"):
    """The file is a segment: a part of the log."""

    number: int
    position: Position  # the last one in the segments before
    size_before: int  # bytes of the segment before


class CheckpointHead(msgspec.Struct, frozen=True, array_like=True, tag="checkpoint"):
    """The file is a checkpoint: its records stand for all of the log before a place."""

    place: int
    records: int  # how many follow


class LostHead(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """The file says which events were removed: for each stream its names, and the last position."""

    positions: list[tuple[Any, ...]]

    @classmethod
    def of(cls, lost: dict[str, Position]) -> LostHead:
        """The head for the last lost position of each stream."""
        return cls([(*names_of(stream), position) for stream, position in lost.items()])

    def lost(self) -> dict[str, Position]:
        """The last lost position of each stream."""
        return {stream_of(*names): position for *names, position in self.positions}


Head: TypeAlias = SegmentHead | CheckpointHead | LostHead

_head_decoder: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)


def framed(bodies: Iterable[bytes], *, is_after_flush: bool = False) -> bytes:
    """Frames with these bodies. `is_after_flush`: everything before them in the log has been flushed."""
    parts: list[bytes] = []
    mark = _AFTER_FLUSH if is_after_flush else 0
    for body in bodies:
        length = len(body) | mark
        parts += _FRAME.pack(crc32(body, crc32(length.to_bytes(4, "little"))), length), body
        mark = 0
    return b"".join(parts)


def opened(head: Head) -> bytes:
    """The beginning of a file."""
    return _OPENING.pack(_MAGIC, FORMAT) + framed([_encoder.encode(head)])


def frame_at(data: memoryview, start: int) -> memoryview | None:
    """The body of the frame that begins at this byte; None if there is no whole one."""
    body = start + FRAME_BYTES
    if body > len(data):
        return None
    checksum, length = _FRAME.unpack_from(data, start)
    end = body + (length & ~_AFTER_FLUSH)
    if end > len(data) or crc32(data[start + 4 : end]) != checksum:
        return None
    return data[body:end]


def frames(data: memoryview, start: int) -> Iterator[tuple[int, memoryview]]:
    """The frames from a byte on, each as the byte after it and its body, up to the first that is not whole."""
    while (body := frame_at(data, start)) is not None:
        start += FRAME_BYTES + len(body)
        yield start, body


def head_of(data: memoryview, name: str) -> tuple[Head, int]:
    """The head of a file, and the byte where its records begin."""
    if len(data) < _OPENING.size:
        raise damaged(name, len(data))
    magic, version = _OPENING.unpack_from(data)
    if magic != _MAGIC:
        raise damaged(name, 0)
    if version != FORMAT:
        raise JournalError(
            f"{name}: this log has format {version}, but this version of Fieldfare reads format {FORMAT}: "
            "use the version that wrote it, or another folder"
        )
    body = frame_at(data, _OPENING.size)
    if body is None:
        raise damaged(name, _OPENING.size)
    try:
        return _head_decoder.decode(body), _OPENING.size + FRAME_BYTES + len(body)
    except msgspec.MsgspecError as error:
        raise damaged(name, _OPENING.size) from error


def is_torn(data: memoryview, offset: int) -> bool:
    """Whether the bytes from here on, which are no frame, may be what a crash left of writes that were not flushed.

    They are not if a frame after them was written after a flush. Other frames after them prove nothing, since a disk
    may write later pages first.
    """
    # The last byte of a frame's length, for all lengths that fit into the file and have the bit set.
    highest = 0x80 | min(0x7F, len(data) - offset >> 24)
    marks = re.compile(b"[\x80-%c]" % highest)
    before = FRAME_BYTES - 1
    return all(frame_at(data, mark.start() - before) is None for mark in marks.finditer(data, offset + 1 + before))


def damaged(name: str, offset: int) -> JournalFailedError:
    """The error for a file that holds at this byte what the journal cannot have written so."""
    return JournalFailedError(f"{name}: damaged at byte {offset}: {RESTORE}")
