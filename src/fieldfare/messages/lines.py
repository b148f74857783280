"""Frames as they travel over a link: lines of JSON, one frame on each; a message is one or more lines.

A `LineCodec` is one end of a protocol: what it reads and what it writes. `EDGE_LINES` is the edge's end of the client
protocol; the client has its own (`fieldfare.client.wire`), which decodes the events of a delivery with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from fieldfare.messages.frames import FRAME_BYTES_MAX
from fieldfare.messages.protocol import ClientFrame, EdgeFrame
from fieldfare.messages.wording import in_words

In = TypeVar("In")
Out = TypeVar("Out")

# Joining the bytes of a Deliver frame by hand was measured beside this, and is not faster: 180 ns either way.
_encode = msgspec.json.Encoder().encode
_LINE_BREAK = ord("\n")  # a number: bytes are searched for one in a tenth of the time that other bytes take


class UnreadableLine(msgspec.Struct, frozen=True):
    """A line that is no frame: why, and the number of the request, where at least that can be read."""

    ref: int | None
    reason: str


class _Numbered(msgspec.Struct):
    ref: int | None = None


_decode_numbered = msgspec.json.Decoder(_Numbered).decode


class LineCodec(Generic[In, Out]):
    """Reads frames of one type, commonly a union, and writes any."""

    def __init__(self, incoming: Any) -> None:
        decoder: msgspec.json.Decoder[In] = msgspec.json.Decoder(incoming)
        self._decode_frame, self._decode_lines = decoder.decode, decoder.decode_lines

    def encode_line(self, frame: Out) -> bytes:
        """A frame as a message of its own."""
        line = _encode(frame)
        if _LINE_BREAK in line:  # between the tokens of an event that came as JSON: inside a string JSON has none
            line = line.replace(b"\n", b" ")
        return line

    def encode(self, frames: Iterable[Out]) -> Iterator[bytes]:
        """Messages that hold the frames: as few as FRAME_BYTES_MAX allows. A longer frame is a message of its own."""
        lines: list[bytes] = []
        size_bytes = 0
        for frame in frames:
            line = self.encode_line(frame)
            if lines and size_bytes + len(line) > FRAME_BYTES_MAX:
                yield b"\n".join(lines)
                lines, size_bytes = [], 0
            lines.append(line)
            size_bytes += len(line) + 1
        if lines:
            yield b"\n".join(lines)

    def decode(self, message: bytes | str) -> list[In]:
        """The frames of a message; a msgspec.MsgspecError if one cannot be read."""
        return self._decode_lines(message)

    def decode_line(self, line: bytes | str) -> In | UnreadableLine:
        """The frame on a line, or why there is none: for an end that refuses a bad line and reads on."""
        try:
            return self._decode_frame(line)
        except RecursionError:
            return UnreadableLine(_ref_of(line), "nested too deep")
        except msgspec.DecodeError as error:
            return UnreadableLine(_ref_of(line), in_words(error))


def _ref_of(line: bytes | str) -> int | None:
    try:
        return _decode_numbered(line).ref
    except (msgspec.DecodeError, RecursionError):
        return None


EDGE_LINES: LineCodec[ClientFrame, EdgeFrame] = LineCodec(ClientFrame)
