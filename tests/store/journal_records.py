"""Records to fill a log with, and the log's folder as a crash would leave it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fieldfare.messages import CursorsMoved, EventsStored, Position, Record
from fieldfare.store.journal import Journal, JournalOptions

FOREVER = 1e12
TENANT = "acme"


def events(
    position: Position, count: int = 1, *, topic: str = "news", expires_at: float = FOREVER, payload: bytes = b"{}"
) -> EventsStored:
    return EventsStored(position, TENANT, topic, 0.0, expires_at, [payload] * count)


def cursor(position: Position) -> CursorsMoved:
    return CursorsMoved(TENANT, {"s": position})


def opened(folder: Path, options: JournalOptions | None = None) -> tuple[Journal, list[Record]]:
    journal = Journal(folder, options)
    try:
        return journal, list(journal.recover())
    except BaseException:
        journal.close()
        raise


def recovered(folder: Path) -> list[Record]:
    journal, records = opened(folder)
    journal.close()
    return records


def read_all(journal: Journal, topic: str, after: Position = -1, bytes_max: int = 1) -> list[EventsStored]:
    found: list[EventsStored] = []
    while True:
        piece = journal.read(TENANT, topic, after, bytes_max)
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
