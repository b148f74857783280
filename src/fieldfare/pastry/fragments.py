"""Frames that are too large for a datagram: cut into pieces, and joined again.

Each piece is acknowledged by itself, and only some are under way at a time. A receiver holds the pieces of incomplete
frames within a bound; what does not fit is not acknowledged, so that it comes again.
"""

from __future__ import annotations

from collections import deque

import msgspec

from fieldfare.pastry.pastry_frames import PIECE_BYTES, Hop, Note, Piece
from fieldfare.pastry.ports import Contact, NodeId

WINDOW = 32  # pieces of one frame that may be under way
_PATIENCE_SECONDS = 60.0
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Hop | Note] = msgspec.msgpack.Decoder(Hop | Note)


class Transfer:
    """A frame on its way in pieces."""

    __slots__ = ("count", "frame", "numbers", "previous", "target", "unsent")

    def __init__(self, target: Contact, frame: Hop | Note, previous: Contact | None) -> None:
        body = _encode(frame)
        self.target, self.frame, self.previous = target, frame, previous
        self.numbers: set[int] = set()  # of the pieces under way
        self.unsent = deque(body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES))
        self.count = len(self.unsent)

    @staticmethod
    def is_needed(frame: Hop | Note) -> bool:
        """Whether a frame is too large to go in one datagram."""
        return len(frame.message) > PIECE_BYTES


class _Assembly:
    __slots__ = ("began_at", "bytes", "pieces")

    def __init__(self, now: float) -> None:
        self.began_at = now
        self.pieces: dict[int, bytes] = {}
        self.bytes = 0


class Assemblies:
    """The frames of which some pieces have come."""

    __slots__ = ("_bytes_held", "_bytes_max", "_incomplete")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes_held = 0
        self._incomplete: dict[tuple[NodeId, int], _Assembly] = {}  # by sender and number, the oldest first

    def has_room(self, piece: Piece, now: float) -> bool:
        """Whether a piece can be held; what waits for long is dropped first."""
        while self._incomplete:
            oldest = next(iter(self._incomplete))
            if now - self._incomplete[oldest].began_at < _PATIENCE_SECONDS:
                break
            self._drop(oldest)
        return self._bytes_held + len(piece.data) <= self._bytes_max

    def add(self, sender: NodeId, piece: Piece, now: float) -> Hop | Note | None:
        """A piece has come; the frame if that was the last one. A msgspec.MsgspecError if that cannot be read."""
        key = sender, piece.whole
        assembly = self._incomplete.get(key)
        if assembly is None:
            assembly = self._incomplete[key] = _Assembly(now)
        if piece.index not in assembly.pieces:
            assembly.pieces[piece.index] = piece.data
            assembly.bytes += len(piece.data)
            self._bytes_held += len(piece.data)
        if len(assembly.pieces) < piece.count:
            return None
        self._drop(key)
        return _decoder.decode(b"".join(data for _, data in sorted(assembly.pieces.items())))

    def _drop(self, key: tuple[NodeId, int]) -> None:
        self._bytes_held -= self._incomplete.pop(key).bytes
