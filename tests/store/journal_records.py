"""Records to fill a log with, and the log's folder as a crash would leave it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from fieldfare.messages import EDGE_RECORDS, CursorsMoved, EventsStored, Position, Record, stream_of
from fieldfare.store.disk import Disk
from fieldfare.store.journal import READ_BYTES, Journal, JournalOptions, StreamPart

FOREVER = 1e12
TENANT = "acme"


def events(
    position: Position, count: int = 1, *, topic: str = "news", expires_at: float = FOREVER, payload: bytes = b"{}"
) -> EventsStored:
    return EventsStored(position, TENANT, topic, 0.0, expires_at, [payload] * count)


def cursor(position: Position) -> CursorsMoved:
    return CursorsMoved(TENANT, {"s": position})


def last_of(record: EventsStored) -> Position:
    """The position of a record's last event."""
    return record.position + len(record.deliveries) - 1


def opened(disk: Disk | Path, options: JournalOptions | None = None) -> tuple[Journal[Record], list[Record]]:
    journal = Journal(disk, EDGE_RECORDS, options)
    try:
        return journal, list(journal.recover())
    except BaseException:
        journal.close()
        raise


def recovered(disk: Disk | Path) -> list[Record]:
    journal, records = opened(disk)
    journal.close()
    return records


def read(
    journal: Journal[Record], topic: str, after: Position, bytes_max: int = READ_BYTES
) -> StreamPart[EventsStored]:
    return cast("StreamPart[EventsStored]", journal.read(stream_of(TENANT, topic), after, bytes_max))


def read_all(journal: Journal[Record], topic: str, after: Position = -1, bytes_max: int = 1) -> list[EventsStored]:
    found: list[EventsStored] = []
    while True:
        piece = read(journal, topic, after, bytes_max)
        assert piece.records or piece.is_end
        assert piece.position > after or piece.is_end
        found += piece.records
        after = piece.position
        if piece.is_end:
            return found


def filled(folder: Path, batches: Iterable[list[Record]], options: JournalOptions | None = None) -> None:
    """A log with these batches, each of them durable."""
    journal, _ = opened(folder, options)
    with journal:
        for batch in batches:
            journal.append(batch, sync=True)
