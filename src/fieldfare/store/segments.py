"""Where the events of each stream lie in the journal's segments: an index in memory, built while records are stored.

The records of a stream are found by blocks. A block is a stretch of the journal in which records of the stream lie
close to each other; it costs three numbers, however many records it has. A reader reads only the blocks of its stream.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from fieldfare.messages import Position, Span

_SEGMENT_BITS = 40  # of bytes in a segment

Place: TypeAlias = int  # a segment's number and a byte in it; places grow along the journal


def place_of(segment: int, offset: int) -> Place:
    """The place of a byte in a segment."""
    return segment << _SEGMENT_BITS | offset


def parts_of(place: Place) -> tuple[int, int]:
    """The segment of a place, and the byte in it."""
    return place >> _SEGMENT_BITS, place & ((1 << _SEGMENT_BITS) - 1)


@dataclass(slots=True)
class Segment:
    """A file of the journal."""

    number: int
    start: int  # the byte where its records begin
    size: int
    first: Position | None = None
    # For each stream, and each part of one: the last position, and when all are expired.
    streams: dict[str, tuple[Position, float]] = field(default_factory=dict)

    @property
    def end(self) -> Place:
        """The place after its last record."""
        return place_of(self.number, self.size)

    def is_expired(self, now: float) -> bool:
        """Whether it holds no event that is alive."""
        return all(expires_at <= now for _, expires_at in self.streams.values())

    def alive(self, now: float) -> Iterator[tuple[str, Position]]:
        """The streams with events that may be alive, and the last position of each."""
        return ((stream, last) for stream, (last, expires_at) in self.streams.items() if expires_at > now)

    def expired(self, now: float) -> Iterator[tuple[str, Position]]:
        """The other streams, and the last position of each."""
        return ((stream, last) for stream, (last, expires_at) in self.streams.items() if expires_at <= now)


class _Blocks:
    """The blocks of one stream."""

    __slots__ = ("_block_bytes", "_ends", "_positions", "_starts")

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._positions = array("q")  # of the first event
        self._starts = array("q")
        self._ends = array("q")

    def add(self, position: Position, start: Place, end: Place) -> None:
        if self._starts and start < self._starts[-1] + self._block_bytes:
            self._ends[-1] = end
        else:
            self._positions.append(position)
            self._starts.append(start)
            self._ends.append(end)

    def after(self, position: Position) -> Iterator[tuple[Place, Place]]:
        first = max(0, bisect_right(self._positions, position) - 1)
        return ((self._starts[block], self._ends[block]) for block in range(first, len(self._starts)))

    def forget(self, before: Place) -> bool:
        count = bisect_left(self._starts, before)
        for numbers in (self._positions, self._starts, self._ends):
            del numbers[:count]
        return not self._starts


class Segments:
    """The segments, the oldest first, and where in them each stream is. Records are added to the last one."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._segments: list[Segment] = []
        self._blocks: dict[str, _Blocks] = {}
        self.last_position: Position = -1

    @property
    def is_empty(self) -> bool:
        """Whether there are none yet."""
        return not self._segments

    @property
    def last(self) -> Segment:
        """The one that is written."""
        return self._segments[-1]

    @property
    def finished(self) -> list[Segment]:
        """All but the one that is written."""
        return self._segments[:-1]

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        return sum(segment.size for segment in self._segments)

    @property
    def first_position(self) -> Position:
        """The first that is still there, or else the next one."""
        return next((one.first for one in self._segments if one.first is not None), self.last_position + 1)

    def begin(self, number: int, start: int, position: Position) -> None:
        """A new last segment, with the last position before it."""
        self._segments.append(Segment(number, start, start))
        self.last_position = max(self.last_position, position)

    def add(self, span: Span | None, size: int) -> Place:
        """A record of this size was written, with the events of this span; the place where the record begins."""
        segment = self._segments[-1]
        place = segment.end
        segment.size += size
        if span is not None:
            stream, first, last, expires_at, part = span
            blocks = self._blocks.get(stream)
            if blocks is None:
                blocks = self._blocks[stream] = _Blocks(self._block_bytes)
            blocks.add(first, place, place + size)
            for name in (stream, part) if part else (stream,):
                known = segment.streams.get(name)
                segment.streams[name] = last, expires_at if known is None else max(known[1], expires_at)
            if segment.first is None:
                segment.first = first
            self.last_position = max(self.last_position, last)
        return place

    def forget_first(self) -> None:
        """The oldest segment was removed."""
        segment = self._segments.pop(0)
        for stream in segment.streams:
            blocks = self._blocks.get(stream)  # a part of a stream has none
            if blocks is not None and blocks.forget(place_of(segment.number + 1, 0)):
                del self._blocks[stream]

    def blocks_after(self, stream: str, position: Position) -> Iterator[tuple[Place, Place]]:
        """The blocks of a stream that may hold events after a position, each from a place to a place."""
        blocks = self._blocks.get(stream)
        return iter(()) if blocks is None else blocks.after(position)
