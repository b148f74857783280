"""What lies where in the log: an index in memory, by which a reader touches only parts that hold what it wants.

The records of a topic are found by blocks: stretches of the log in which its records lie not far from each other. A
block costs three numbers, however many records it has.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from fieldfare.messages import EventsStored, Position, Record

BLOCK_BYTES = 256 * 1024
_SEGMENT_BITS = 40  # of bytes in a segment

Topic: TypeAlias = tuple[str, str]  # tenant and topic
Place: TypeAlias = int  # a segment's number and a byte in it; places grow along the log


def place_of(segment: int, offset: int) -> Place:
    """The place of a byte in a segment."""
    return segment << _SEGMENT_BITS | offset


def parts_of(place: Place) -> tuple[int, int]:
    """The segment of a place, and the byte in it."""
    return place >> _SEGMENT_BITS, place & ((1 << _SEGMENT_BITS) - 1)


def last_of(record: EventsStored) -> Position:
    """The position of a record's last event."""
    return record.position + len(record.deliveries) - 1


@dataclass(slots=True)
class Segment:
    """A file of the log."""

    number: int
    start: int  # the byte where its records begin
    size: int
    first: Position | None = None
    topics: dict[Topic, tuple[Position, float]] = field(default_factory=dict)  # the last one, and when all are expired

    @property
    def end(self) -> Place:
        """The place after its last record."""
        return place_of(self.number, self.size)

    def is_expired(self, now: float) -> bool:
        """Whether it holds no event that is alive."""
        return all(expires_at <= now for _, expires_at in self.topics.values())

    def alive(self, now: float) -> Iterator[tuple[Topic, Position]]:
        """The topics with events that may be alive, and the last position of each."""
        return ((topic, last) for topic, (last, expires_at) in self.topics.items() if expires_at > now)


class _Blocks:
    """The blocks of one topic."""

    __slots__ = ("_ends", "_positions", "_starts")

    def __init__(self) -> None:
        self._positions = array("q")  # of the first event
        self._starts = array("q")
        self._ends = array("q")

    def add(self, position: Position, start: Place, end: Place) -> None:
        if self._starts and start < self._starts[-1] + BLOCK_BYTES:
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
    """The segments, the oldest first, and where in them each topic is. Records are added to the last one."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._blocks: dict[Topic, _Blocks] = {}
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

    def add(self, record: Record, size: int) -> Place:
        """A record of so many bytes is written; the place where it begins."""
        segment = self.last
        place = segment.end
        segment.size += size
        if isinstance(record, EventsStored) and record.deliveries:
            topic = (record.tenant, record.topic)
            last = last_of(record)
            blocks = self._blocks.get(topic) or self._blocks.setdefault(topic, _Blocks())
            blocks.add(record.position, place, segment.end)
            _, expires_at = segment.topics.get(topic, (last, record.expires_at))
            segment.topics[topic] = last, max(expires_at, record.expires_at)
            segment.first = record.position if segment.first is None else segment.first
            self.last_position = max(self.last_position, last)
        return place

    def forget_first(self) -> None:
        """The oldest segment is gone."""
        segment = self._segments.pop(0)
        for topic in segment.topics:
            if self._blocks[topic].forget(place_of(segment.number + 1, 0)):
                del self._blocks[topic]

    def blocks_after(self, topic: Topic, position: Position) -> Iterator[tuple[Place, Place]]:
        """Where the records of a topic lie that hold events after a position: from a place to a place."""
        blocks = self._blocks.get(topic)
        return iter(()) if blocks is None else blocks.after(position)
