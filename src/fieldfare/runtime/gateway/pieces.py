"""WebSocket messages as bytes (RFC 6455), from the server's side: read from pieces, written in one piece.

What the RFC calls a frame is called a piece here, since a frame is a line of the client protocol. Sizes are looked at
before what they announce is waited for, so a reader never holds more than one message and what came in one read.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from fieldfare.messages import FRAME_BYTES_MAX

try:
    from websockets.speedups import apply_mask
except ImportError:
    from websockets.utils import apply_mask

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
PIECES_MAX = 1024  # of one message
_SKIPPED_BYTES_MAX = 2 * FRAME_BYTES_MAX
_IS_LAST, _IS_RESERVED, _IS_MASKED = 0x80, 0x70, 0x80
_CONTROL_BYTES_MAX = 125
_head_16, _head_64 = struct.Struct("!BBH").pack, struct.Struct("!BBQ").pack
_REASON_BYTES_MAX = 120  # what fits in a closing message


class Message(NamedTuple):
    """What a client sent."""

    kind: int  # TEXT, BINARY, CLOSE, PING or PONG
    payload: bytes


class WebSocketViolationError(Exception):
    """A client does not keep the rules, or not the limits: the code to close with. It never leaves the gateway."""

    def __init__(self, code: int, reason: str, *, is_readable: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.is_readable = is_readable  # what follows can be read all the same


class MessageReader:
    """Bytes in, messages out."""

    __slots__ = ("_at", "_data", "_kind", "_pieces", "_pieces_bytes", "_skipped_bytes")

    def __init__(self) -> None:
        self._data: bytes | bytearray = b""  # what came, of which everything before `_at` has been read
        self._at = 0
        self._pieces: list[bytes] | None = None  # of a message that is not complete
        self._pieces_bytes = 0
        self._kind = CONTINUATION  # of that message
        self._skipped_bytes = 0  # still to come, of a piece that is too large

    def feed(self, data: bytes) -> None:
        """Some bytes came."""
        if self._skipped_bytes:
            count = min(self._skipped_bytes, len(data))
            self._skipped_bytes -= count
            data = data[count:]
        if self._at == len(self._data):
            self._data = data
        else:
            if not isinstance(self._data, bytearray):
                self._data = bytearray(self._data)
            del self._data[: self._at]
            self._data += data
        self._at = 0

    def take(self) -> Message | None:
        """The next message that is complete. Control messages may come between the pieces of another."""
        while True:
            data, at = self._data, self._at
            if len(data) < at + 2:
                break
            first, second = data[at], data[at + 1]
            kind, size = first & 0x0F, second & 0x7F
            begin = at + 6 + (0 if size < 126 else 2 if size == 126 else 8)  # behind the mask
            if size >= 126:
                if len(data) < begin - 4:
                    break
                size = int.from_bytes(data[at + 2 : begin - 4], "big")
            self._check(first, second, size)
            if kind < CLOSE and self._pieces_bytes + size > FRAME_BYTES_MAX:
                raise self._too_large(begin + size)
            if len(data) < begin + size:
                break
            self._at = begin + size
            payload = apply_mask(data[begin : self._at], data[begin - 4 : begin])
            if kind >= CLOSE:
                return Message(kind, payload)
            if (message := self._joined(kind, payload, is_last=first >= _IS_LAST)) is not None:
                return message
        if self._at == len(self._data):
            self._data, self._at = b"", 0
        return None

    def _joined(self, kind: int, payload: bytes, *, is_last: bool) -> Message | None:
        if self._pieces is None:
            if is_last:
                return Message(kind, payload)
            self._pieces, self._kind = [], kind
        self._pieces.append(payload)
        self._pieces_bytes += len(payload)
        if not is_last:
            return None
        message = Message(self._kind, b"".join(self._pieces))
        self._pieces, self._pieces_bytes = None, 0
        return message

    def _too_large(self, end: int) -> WebSocketViolationError:
        """Skip a piece that is not much too large, so that a client that is told so can be heard to the end."""
        missing_bytes = end - len(self._data)
        is_readable = missing_bytes <= _SKIPPED_BYTES_MAX
        self._data, self._at = self._data[end:], 0
        self._skipped_bytes = max(0, missing_bytes)
        return WebSocketViolationError(
            1009, f"a message has at most {FRAME_BYTES_MAX:,} bytes", is_readable=is_readable
        )

    def _check(self, first: int, second: int, size: int) -> None:
        kind = first & 0x0F
        if first & _IS_RESERVED:
            raise WebSocketViolationError(1002, "no extension was agreed on: reserved bits must be 0")
        if not second & _IS_MASKED:
            raise WebSocketViolationError(1002, "what a client sends must be masked")
        if kind in (CLOSE, PING, PONG):
            if size > _CONTROL_BYTES_MAX or first < _IS_LAST:
                raise WebSocketViolationError(1002, "a control message has at most 125 bytes, in one piece")
            return
        if kind not in (CONTINUATION, TEXT, BINARY):
            raise WebSocketViolationError(1002, f"there is no opcode {kind}")
        if (kind == CONTINUATION) == (self._pieces is None):
            raise WebSocketViolationError(1002, "the pieces of a message follow each other")
        if self._pieces is not None and len(self._pieces) >= PIECES_MAX:
            raise WebSocketViolationError(1008, f"a message has at most {PIECES_MAX:,} pieces")


def written(kind: int, payload: bytes) -> bytes:
    """A message of the server's, ready to be sent."""
    size = len(payload)
    if size < 126:
        return bytes((_IS_LAST | kind, size)) + payload
    if size < 65_536:
        return _head_16(_IS_LAST | kind, 126, size) + payload
    return _head_64(_IS_LAST | kind, 127, size) + payload


def closing(code: int, reason: str) -> bytes:
    """A closing message; the reason is cut to what fits."""
    cut = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore").encode()
    return written(CLOSE, code.to_bytes(2, "big") + cut)
