"""Messages on a byte stream: four bytes, of which the first is the kind of the message and three are its length.

What is read goes into one buffer, from which short messages are copied; a long message gets a buffer of its own
length, into which the socket is read directly. Either way a message is never written to again, so frames may refer
to it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import cast

from fieldfare.errors import LinkRefusedError

HEADER_BYTES = 4
_LENGTH_BITS = 24
MESSAGE_BYTES_LIMIT = (1 << _LENGTH_BITS) - 1  # a length has no more bits
_LONG_BYTES = 32 * 1024  # from here on, a buffer of its own is cheaper than a copy


class Kind(IntEnum):
    """What a message is. The first two are all that a stranger may send."""

    GREETING = 1
    GOODBYE = 2  # holds a reason; the connection is closed after it
    FRAMES = 3
    PING = 4
    PONG = 5


_KINDS = {kind.value: kind for kind in Kind}


def header(kind: Kind, length_bytes: int) -> bytes:
    """What stands before a message."""
    return (kind << _LENGTH_BITS | length_bytes).to_bytes(HEADER_BYTES, "big")


def framed(kind: Kind, message: bytes = b"") -> bytes:
    """A short message as it travels."""
    return header(kind, len(message)) + message


class MessageReader:
    """Cuts a byte stream into messages of at most `bytes_max`. What comes is written into `space()`."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._view = memoryview(bytearray(bytes_max + HEADER_BYTES))
        self._start = self._end = 0  # of what is in the buffer and was not taken
        self._long: bytearray | None = None
        self._long_view = memoryview(b"")
        self._long_end = 0
        self._long_kind = Kind.FRAMES

    def widen(self, bytes_max: int, buffer_bytes: int = 128 * 1024) -> None:
        """Allow longer messages from now on, and keep a larger buffer."""
        self._bytes_max = bytes_max
        rest = self._view[self._start : self._end]
        self._view = memoryview(bytearray(buffer_bytes))
        self._view[: len(rest)] = rest
        self._start, self._end = 0, len(rest)

    def space(self) -> memoryview:
        """Where to write what comes next; never empty."""
        if self._long is not None:
            return self._long_view[self._long_end :]
        return self._view[self._end :]

    def wrote(self, count: int) -> None:
        """So many bytes came; take all messages with `next` before the next call of `space`."""
        if self._long is not None:
            self._long_end += count
        else:
            self._end += count

    def next(self) -> tuple[Kind, bytes] | None:
        """The next message that is complete. A LinkRefusedError if what comes is no message, or too long."""
        if self._long is not None:
            return self._next_long(self._long)
        start, view = self._start, self._view
        length = self._end - start - HEADER_BYTES  # of what is there after the header
        if length < 0:
            self._move_to_front()
            return None
        word = int.from_bytes(view[start : start + HEADER_BYTES], "big")
        size = word & MESSAGE_BYTES_LIMIT
        kind = _kind(word >> _LENGTH_BITS, size, self._bytes_max)
        start += HEADER_BYTES
        if length >= size:
            self._start = start + size
            return kind, bytes(view[start : start + size])
        if size >= _LONG_BYTES:
            self._begin_long(kind, size, view[start : self._end])
        else:
            self._move_to_front()
        return None

    def _begin_long(self, kind: Kind, size: int, begin: memoryview) -> None:
        self._long, self._long_kind, self._long_end = bytearray(size), kind, len(begin)
        self._long_view = memoryview(self._long)
        self._long_view[: len(begin)] = begin
        self._start = self._end = 0

    def _next_long(self, long: bytearray) -> tuple[Kind, bytes] | None:
        if self._long_end < len(long):
            return None
        self._long, self._long_view = None, memoryview(b"")
        return self._long_kind, cast("bytes", long)  # nobody writes to it any more, and a copy would cost

    def _move_to_front(self) -> None:
        """Make room at the end: what is left is less than one message that fits."""
        if self._start:
            rest = bytes(self._view[self._start : self._end])
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)


def _kind(number: int, size: int, bytes_max: int) -> Kind:
    if size > bytes_max:
        raise LinkRefusedError(f"a message has {size:,} bytes, and {bytes_max:,} are the most")
    kind = _KINDS.get(number)
    if kind is None:
        raise LinkRefusedError("what came is no message of a broker")
    return kind
