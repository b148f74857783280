"""Frames between brokers as they travel over a link: msgpack. A message is a list of one or more frames.

msgpack rather than lines of JSON, because events travel as the bytes that the origin stored: JSON would have to escape
them. Both ends of a link between brokers read and write the same frames, so one codec serves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Raw

from fieldfare.messages.broker_frames import AnyBrokerFrame
from fieldfare.messages.frames import FRAME_BYTES_MAX
from fieldfare.messages.tree_frames import AnyTreeFrame
from fieldfare.placement.placement_frames import AnyPlacementFrame

_encode = msgspec.msgpack.Encoder().encode
_AnyFrame: TypeAlias = AnyBrokerFrame | AnyTreeFrame | AnyPlacementFrame
_decode = msgspec.msgpack.Decoder(list[_AnyFrame]).decode
_HEAD_BYTES = 5  # that say how many frames follow, at most


class BrokerCodec:
    """Reads and writes the frames of `broker_frames`, `tree_frames` and placement."""

    def encode(self, frames: Iterable[_AnyFrame]) -> Iterator[bytes]:
        """Messages that hold the frames: as few as FRAME_BYTES_MAX allows. A longer frame is a message of its own."""
        bodies: list[Raw] = []
        size_bytes = _HEAD_BYTES
        for frame in frames:
            body = _encode(frame)
            if bodies and size_bytes + len(body) > FRAME_BYTES_MAX:
                yield _encode(bodies)
                bodies, size_bytes = [], _HEAD_BYTES
            bodies.append(Raw(body))
            size_bytes += len(body)
        if bodies:
            yield _encode(bodies)

    def decode(self, message: bytes | memoryview) -> list[_AnyFrame]:
        """The frames of a message; a msgspec.MsgspecError if one cannot be read."""
        try:
            return _decode(message)
        except UnicodeDecodeError as error:  # msgspec lets these two pass, and callers should not have to know
            raise msgspec.DecodeError("a text in it is no UTF-8") from error
        except RecursionError as error:
            raise msgspec.DecodeError("it is nested too deep") from error


BROKER_FRAMES = BrokerCodec()
