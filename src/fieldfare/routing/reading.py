"""Reading a topic's events from the log, for takers that are behind.

All of them read together: a piece is matched once, by the one index, for all. Takers that join later and need earlier
pieces wait for the next pass over the log, so that a pass always comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fieldfare.messages import EventsStored, Fetch, Fetched, Position
from fieldfare.routing.matches import Matches
from fieldfare.routing.ports import START, Emit
from fieldfare.routing.taker import Taker, TakerState


class StreamReader:
    """Reads one stream of the log. `match` tells who wants which events of some records."""

    def __init__(
        self, key: tuple[str, str], stream: str, emit: Emit, match: Callable[[Iterable[EventsStored]], Matches]
    ) -> None:
        self._key, self._stream, self._emit, self._match = key, stream, emit, match
        self._takers: dict[int, Taker] = {}  # all whose state is READING
        self._read_up_to: Position = START  # in this pass
        self._is_reading = False

    def join(self, taker: Taker) -> None:
        """Read for a taker that has room."""
        taker.read_on()
        self._takers[taker.handle] = taker
        if not self._is_reading:
            self._fetch_next()

    def leave(self, taker: Taker) -> None:
        """Read no more for a taker."""
        self._takers.pop(taker.handle, None)

    def skip_removed(self, removed_before: Position) -> list[Taker]:
        """The log no longer has events up to a position. Returns the takers that miss some of them."""
        return [taker for taker in self._takers.values() if taker.skip_removed(removed_before)]

    def fetched(self, piece: Fetched, stored: Position, waiting_max: int) -> list[Taker]:
        """Give a piece of the log to those who wait for it, and ask for the next. Returns to whom it was given.

        `stored` is the last position that the log holds of this topic.
        """
        self._is_reading = False
        readers = {handle: taker for handle, taker in self._takers.items() if taker.resume_after >= self._read_up_to}
        for taker, entries in self._match(piece.records):
            if taker.handle in readers and taker.state is TakerState.READING:
                taker.give(entries, waiting_max)
        self._read_up_to = piece.position
        for handle, taker in readers.items():
            if taker.state is TakerState.READING:
                taker.read_to(piece.position, is_end=piece.position >= stored)
            if taker.state is not TakerState.READING:
                del self._takers[handle]
        self._fetch_next()
        return list(readers.values())

    def _fetch_next(self) -> None:
        """Go on in this pass, or begin the next one where somebody needs it."""
        if self._takers:
            starts = [taker.resume_after for taker in self._takers.values()]
            self._read_up_to = min((start for start in starts if start >= self._read_up_to), default=min(starts))
            self._is_reading = True
            self._emit(Fetch(self._key, self._stream, self._read_up_to))
