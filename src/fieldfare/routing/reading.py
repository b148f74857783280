"""Reading a topic's events from the log, for takers that are behind.

All of them read together: a piece is matched once, by the one index, for all. Takers that join later and need earlier
pieces wait for the next pass over the log, so that a pass always comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from fieldfare.messages import EventsStored, Fetch, Fetched, Position
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.ports import START, Emit
from fieldfare.routing.taker import TakerState


class ReadingTaker(Protocol):
    """Who the log is read for: a subscription of a client, or another edge."""

    handle: int
    state: TakerState
    resume_after: Position

    def read_on(self) -> None:
        """There is room: be given the next pieces of the log."""

    def give(self, entries: Sequence[EventEntry], waiting_max: int) -> None:
        """Matches of a piece of the log. Where there is no room for all of them, the rest is read later."""

    def read_to(self, position: Position, *, is_end: bool) -> None:
        """The log has been read up to a position."""

    def skip_removed(self, removed_before: Position) -> bool:
        """The log no longer has events up to a position. Whether the taker misses any by that."""


T = TypeVar("T", bound=ReadingTaker)


class StreamReader(Generic[T]):
    """Reads one stream of the log. `match` tells who wants which events of some records.

    Its takers are told of events that have left the log: of any in the stream, or of those of one part of it.
    """

    def __init__(
        self,
        key: Hashable,
        stream: str,
        emit: Emit,
        match: Callable[[Iterable[EventsStored]], Iterable[tuple[T, list[EventEntry]]]],
        part: str = "",
    ) -> None:
        self._key, self._stream, self._emit, self._match, self._part = key, stream, emit, match, part
        self._takers: dict[int, T] = {}  # all whose state is READING
        self._read_up_to: Position = START  # in this pass
        self._is_reading = False

    def join(self, taker: T) -> None:
        """Read for a taker that has room."""
        taker.read_on()
        self._takers[taker.handle] = taker
        if not self._is_reading:
            self._fetch_next()

    def leave(self, taker: T) -> None:
        """Read no more for a taker."""
        self._takers.pop(taker.handle, None)

    def skip_removed(self, removed_before: Position) -> list[T]:
        """The log no longer has events up to a position. Returns the takers that miss some of them."""
        return [taker for taker in self._takers.values() if taker.skip_removed(removed_before)]

    def fetched(self, piece: Fetched, stored: Position, waiting_max: int) -> list[T]:
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
            self._emit(Fetch(self._key, self._stream, self._read_up_to, self._part))
