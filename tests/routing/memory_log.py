"""A log in memory, for tests: a list of records that is read in small pieces."""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.messages import EventsStored, Position, Record, stream_of
from fieldfare.store.journal import Piece


class MemoryLog:
    """A log that is a list. A piece of it has few records, so that readers have to ask often."""

    def __init__(self, piece_records: int = 3) -> None:
        self.checkpointed: list[Record] = []
        self.since: list[Record] = []
        self.all: list[Record] = []
        self._piece_records = piece_records
        self._lost: dict[str, Position] = {}

    def append(self, records: Sequence[Record], *, sync: bool) -> None:  # noqa: ARG002 - as a journal's
        self.since += records
        self.all += records

    def recover(self) -> list[Record]:
        return [*self.checkpointed, *self.since]

    def checkpoint(self, records: Sequence[Record]) -> None:
        self.checkpointed, self.since = list(records), []

    def trim(self, last: Position) -> None:
        """Remove the events of records up to a position, though they are alive."""
        for record in self._events():
            if _last(record) <= last:
                self._lost[stream_of(record.tenant, record.topic)] = _last(record)
                self.all.remove(record)

    def read(self, stream: str, after: Position) -> Piece:
        lost = self._lost.get(stream, -1)
        lost_before = lost if lost > after else -1
        events = self._events()
        wanted = [r for r in events if stream_of(r.tenant, r.topic) == stream and _last(r) > after]
        if len(wanted) > self._piece_records:
            records = wanted[: self._piece_records]
            return Piece(records, _last(records[-1]), is_end=False, lost_before=lost_before)
        return Piece(wanted, max(after, *map(_last, events), -1), is_end=True, lost_before=lost_before)

    def _events(self) -> list[EventsStored]:
        return [record for record in self.all if isinstance(record, EventsStored) and record.deliveries]


def _last(record: EventsStored) -> Position:
    return record.position + len(record.deliveries) - 1
