"""What lies at a region: entries, each a condition and who is to be told of the events that satisfy it.

A peer that subscribed is told of events. A region of a space with several attributes is an entry too, in the space of
its primary attribute: events that satisfy it are to visit that region. All are matched by the one index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec

from fieldfare.dmm.regions import Target
from fieldfare.dmm.spaces import RegionName, Space, Spaces
from fieldfare.errors import ConditionError, CoveringError
from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.model import Box, Condition
from fieldfare.overlay.covering import Covering
from fieldfare.pastry.ports import MESSAGE_BYTES_MAX, Card
from fieldfare.routing.interest import Interest, compiled_condition

# A table travels in one message, with the names around it; so does the answer that names all peers in it.
TABLE_BYTES_MAX = MESSAGE_BYTES_MAX * 7 // 8
_compiled = lru_cache(maxsize=4096)(compile)
_encode = msgspec.msgpack.Encoder().encode


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One line of a region's table. Either a peer is to be told, or a region is to be visited."""

    id: str
    version: int  # of what is wanted: a later one replaces an earlier
    seconds_left: float  # until it is forgotten, unless it comes again
    peer: Card | None = None
    region: RegionName | None = None
    condition: str | None = None  # what a peer wants, as SQL,
    covering: bytes | None = None  # or what a region wants, as boxes

    @property
    def is_line(self) -> bool:
        """Whether it says only who has entries, and not what these want: see `sender_replicas`."""
        return self.condition is None and self.covering is None

    def boxes_in(self, space: Space, spaces: Spaces) -> tuple[Box, ...]:
        """The boxes that live in a space; a ConditionError or CoveringError if there is no telling."""
        if self.covering is not None:
            return Covering.decode(self.covering).boxes
        condition = _compiled(self.condition or "")
        return spaces.homes(space.topic, condition).get(space, ())


@dataclass(slots=True)
class _Row:
    """An entry in a table."""

    entry: Entry
    expires_at: float
    size_bytes: int
    boxes: tuple[Box, ...] | None = None  # when somebody has asked for them
    handle: int | None = None  # in the index, when an event has come since


class EntryTable:
    """The entries of one region. Most tables are copies that nobody asks: the index is made for the first event."""

    def __init__(self, space: Space, spaces: Spaces) -> None:
        self._space, self._spaces = space, spaces
        self._rows: dict[str, _Row] = {}
        self._lines: dict[str, Entry] = {}  # of a copy that says only who sent entries
        self._unindexed: dict[str, _Row] = {}
        self._by_handle: dict[int, _Row] = {}
        self._interest = Interest()
        self._handles = count()
        self.size_bytes = 0  # of all entries, as they travel

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._rows

    def has_room_for(self, entries: Collection[Entry], bytes_max: int = TABLE_BYTES_MAX) -> bool:
        """Whether the table still fits into a message, or into fewer bytes, when it has these entries, too."""
        former = sum(self._rows[entry.id].size_bytes for entry in entries if entry.id in self._rows)
        return self.size_bytes - former + sum(len(_encode(entry)) for entry in entries) <= bytes_max

    def put(self, entries: Iterable[Entry], now: float) -> bool:
        """Add entries, or let them live on; whether something is new."""
        is_new = False
        for entry in entries:
            if entry.is_line:
                is_new |= entry.id not in self._lines
                self.discard_line(entry.id)
                self._lines[entry.id] = entry
                self.size_bytes += len(_encode(entry))
                continue
            expires_at = now + entry.seconds_left
            row = self._rows.get(entry.id)
            if row is None or row.entry.version < entry.version:
                self.discard(entry.id)
                row = self._rows[entry.id] = self._unindexed[entry.id] = _Row(entry, expires_at, len(_encode(entry)))
                self.size_bytes += row.size_bytes
                is_new = True
            elif row.entry.version == entry.version:
                size_bytes = len(_encode(entry))
                self.size_bytes += size_bytes - row.size_bytes
                row.entry, row.size_bytes = entry, size_bytes  # the same condition; it may have come by another way
                row.expires_at = max(row.expires_at, expires_at)
        return is_new

    def remove(self, entry_id: str, version: int) -> None:
        """Forget an entry, unless it has come in a later version."""
        row = self._rows.get(entry_id)
        if row is not None and row.entry.version <= version:
            self.discard(entry_id)

    def discard(self, entry_id: str) -> None:
        """Forget an entry, whatever its version."""
        row = self._rows.pop(entry_id, None)
        if row is None:
            return
        self.size_bytes -= row.size_bytes
        self._unindexed.pop(entry_id, None)
        if row.handle is not None:
            self._interest.remove(row.handle)
            del self._by_handle[row.handle]

    @property
    def lines(self) -> tuple[Entry, ...]:
        """Who has entries that are not here: see `sender_replicas`."""
        return tuple(self._lines.values())

    def discard_line(self, line_id: str) -> None:
        """Forget that somebody has entries that are not here."""
        if (line := self._lines.pop(line_id, None)) is not None:
            self.size_bytes -= len(_encode(line))

    def remove_expired(self, now: float) -> list[str]:
        """Forget what did not come again in time."""
        expired = [entry_id for entry_id, row in self._rows.items() if row.expires_at <= now]
        for entry_id in expired:
            self.discard(entry_id)
        return expired

    def renew(self, expires_at: float) -> None:
        """Let all entries live on."""
        for row in self._rows.values():
            row.expires_at = max(row.expires_at, expires_at)

    def match(self, event: Mapping[str, Any]) -> list[Entry]:
        """The entries that an event satisfies."""
        for row in self._unindexed.values():
            row.handle = next(self._handles)
            self._by_handle[row.handle] = row
            self._interest.add(compiled_condition(row.handle, Condition("", self._boxes(row), disjoint=False)))
        self._unindexed.clear()
        return [self._by_handle[handle].entry for handle, _ in self._interest.match([event])]

    def _boxes(self, row: _Row) -> tuple[Box, ...]:
        """What an entry wants; of one that is not sound, nothing."""
        if row.boxes is None:
            try:
                row.boxes = row.entry.boxes_in(self._space, self._spaces)
            except (ConditionError, CoveringError):
                row.boxes = ()
        return row.boxes

    def entries(self, now: float) -> list[Entry]:
        """All entries, with the time that is left to each."""
        return [msgspec.structs.replace(row.entry, seconds_left=row.expires_at - now) for row in self._rows.values()]

    def targets(self) -> list[Target]:
        """Where the entries lie, in the order of `entries`."""
        grid = self._spaces.grid(self._space)
        return [grid.target_of_boxes(self._boxes(row)) for row in self._rows.values()]

    def boxes(self, entry_ids: Iterable[str] | None = None) -> tuple[Box, ...]:
        """What some of the entries want, or all of them together."""
        chosen = self._rows if entry_ids is None else [each for each in entry_ids if each in self._rows]
        return tuple(box for entry_id in chosen for box in self._boxes(self._rows[entry_id]))
