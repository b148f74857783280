"""Another edge that takes this edge's events of a topic: a state machine.

    ... taken | in flight ... sent | waiting ... | resume_after: the rest is read from the log

The receiving edge owns the cursor: it says where to resume, and what it has taken. Whatever is in doubt is sent again.
A taker that is slow or new holds no memory here: what it has not got is found again by reading the log.

    DETACHED   its interest is known, but not where to resume
    LIVE       every new match is sent to it at once
    BEHIND     it is behind, and too much is in flight
    READING    it is behind, and gets the next pieces of the log
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fieldfare.messages import LogId, Position, Version
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.ports import START
from fieldfare.routing.taker import TakerState


class NextRange(NamedTuple):
    """The next range for a taker."""

    after: Position
    upto: Position
    entries: Sequence[EventEntry]
    lost_upto: Position
    expired_upto: Position


@dataclass(slots=True, eq=False)
class RemoteTaker:
    """One receiving edge of one topic."""

    receiver: LogId
    handle: int
    window_bytes: int
    version: Version = -1  # of its interest
    state: TakerState = TakerState.DETACHED
    routes: list[str] = field(default_factory=list)  # links over which it has joined, the latest last
    direct: str | None = None  # the one of them that leads to it without a routing broker: the second path
    resume_after: Position = START  # all up to here is sent, or waits
    sent: Position = START
    taken: Position = START
    waiting: list[EventEntry] = field(default_factory=list)
    sent_at: float = 0.0  # when something was sent, or taken, last
    event_count: int = 0
    owes_answer: bool = False  # it said where to resume, and nothing was sent since
    _in_flight: deque[tuple[Position, int]] = field(default_factory=deque)  # ends of ranges, and their bytes
    _in_flight_bytes: int = 0
    _lost_upto: Position = START
    _expired_upto: Position = START

    @property
    def has_room(self) -> bool:
        """Whether more may be sent before something is taken."""
        return self._in_flight_bytes < self.window_bytes

    @property
    def is_unanswered(self) -> bool:
        """Whether something is in flight."""
        return bool(self._in_flight)

    # Where it stands

    def resume(self, position: Position, matched: Position, *, reads_log: bool) -> None:
        """The receiver says where to go on; `matched` is the last position that was matched here."""
        self.detach()
        self.resume_after = self.sent = self.taken = position
        self.owes_answer = True
        is_behind = reads_log and position < matched  # what is not kept cannot be read again: it is passed over
        self.state = TakerState.BEHIND if is_behind else TakerState.LIVE

    def detach(self) -> None:
        """Nothing is sent until the receiver says where to resume."""
        self.state = TakerState.DETACHED
        self.waiting.clear()
        self._in_flight.clear()
        self._in_flight_bytes = 0
        self._lost_upto = self._expired_upto = START

    def rewind(self) -> None:
        """What is in flight may be lost: send it again."""
        position = self.taken
        self.detach()
        self.resume_after = self.sent = position
        self.state = TakerState.BEHIND

    def fall_behind(self) -> None:
        """What comes next has to be read from the log, when there is room."""
        self.resume_after = self.sent
        self.state = TakerState.BEHIND

    def take(self, position: Position) -> None:
        """The receiver has all up to a position."""
        self.taken = max(self.taken, min(position, self.sent))
        while self._in_flight and self._in_flight[0][0] <= position:
            self._in_flight_bytes -= self._in_flight.popleft()[1]

    def sending(self, upto: Position, size_bytes: int, count: int, now: float) -> None:
        """A range up to a position is being sent."""
        if upto > self.sent:  # else the receiver has it all, and says nothing
            self._in_flight.append((upto, size_bytes))
            self._in_flight_bytes += size_bytes
        self.sent = self.resume_after = upto
        self.sent_at, self.owes_answer = now, False
        self.event_count += count

    # Reading the log

    def read_on(self) -> None:
        """There is room: be given the next pieces of the log."""
        self.state = TakerState.READING

    def give(self, entries: Sequence[EventEntry], waiting_max: int) -> None:
        """Matches of a piece of the log. Where there is no room for all of them, the rest is read later."""
        entries = [entry for entry in entries if entry[0] > self.resume_after]
        self.waiting += entries[:waiting_max]
        if len(entries) > waiting_max:
            self.resume_after = entries[waiting_max][0] - 1
            self.state = TakerState.BEHIND

    def read_to(self, position: Position, *, is_end: bool) -> None:
        """The log has been read up to a position; at its end, be sent what is matched from then on."""
        self.resume_after = max(self.resume_after, position)
        self.state = TakerState.LIVE if is_end else TakerState.BEHIND

    def skip_removed(self, removed_before: Position) -> bool:
        """The log no longer has events up to a position. Whether the receiver may miss any by that.

        One that begins at the start may: its subscriptions were acknowledged before it heard of this log.
        """
        after, self.resume_after = self.resume_after, max(self.resume_after, removed_before)
        return after < removed_before

    def lose(self, removed_before: Position, *, is_expired: bool) -> None:
        """The receiver is to be told that events up to a position are gone."""
        if is_expired:
            self._expired_upto = removed_before
        else:
            self._lost_upto = removed_before

    def next_piece(self) -> NextRange | None:
        """What was read for it and is not sent yet; None: nothing new."""
        if self.resume_after <= self.sent:
            return None
        piece = NextRange(self.sent, self.resume_after, tuple(self.waiting), self._lost_upto, self._expired_upto)
        self.waiting.clear()
        self._lost_upto = self._expired_upto = START
        return piece
