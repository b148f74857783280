"""What the parts of a broker are given instead of the broker: each port does one thing, by emitting effects.

Whatever waits for the log or the pipeline is a typed object (a publication, a pending subscription …) that stands in
one table here; when the answer comes, the broker hands it to the part that owns such objects. So the tables can be
printed, and say what waits for what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import Any, TypeAlias

from fieldfare.messages import Append, Effect, Position, Reached, Ref, Refused, Send, SetTimer
from fieldfare.routing.refusal import Refusal

Emit: TypeAlias = Callable[[Effect], None]

START: Position = -1  # before all events
RESTART_GAP = 1 << 32  # best-effort events use positions that are not stored: after a restart, begin beyond them


class Replies:
    """Answers to requests, by link."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.refused_counts: dict[str, int] = {}
        self.awaited: dict[tuple[str, Ref], Callable[[Any], None]] = {}  # whom to tell of an answer, too

    def send(self, link: str, frame: Any) -> None:
        """Send a frame."""
        if self.awaited and (tell := self.awaited.pop((link, getattr(frame, "ref", -1)), None)) is not None:
            tell(frame)
        self._emit(Send(link, frame))

    def refuse(self, link: str, ref: Ref | None, refusal: Refusal) -> None:
        """Answer that a request is not carried out."""
        if self.awaited and ref is not None:
            self.awaited.pop((link, ref), None)
        self.refused_counts[refusal.code] = self.refused_counts.get(refusal.code, 0) + 1
        self._emit(Send(link, Refused(ref, refusal.code, refusal.reason, refusal.expected, refusal.home)))


class Timers:
    """Timers that are set, by their keys."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._set: set[Hashable] = set()

    def set(self, key: Hashable, at: float) -> None:
        """Be told at this time; a timer of this key is moved."""
        self._set.add(key)
        self._emit(SetTimer(key, at))

    def ensure(self, key: Hashable, at: float) -> None:
        """Be told at this time, unless a timer of this key is set already."""
        if key not in self._set:
            self.set(key, at)

    def due(self, key: Hashable) -> None:
        """Its time has come."""
        self._set.discard(key)


class LogPort:
    """Appends records, and remembers who waits for each."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._number = 0
        self._waiting: deque[tuple[int, Any]] = deque()

    def append(self, record: Any, waiter: Any) -> None:
        """Store a record durably; `waiter` is told."""
        self._append(record, waiter, is_durable=True)

    def append_lazily(self, record: Any, waiter: Any = None) -> None:
        """Store a record whose loss in a crash of the machine is no harm."""
        self._append(record, waiter, is_durable=False)

    def _append(self, record: Any, waiter: Any, *, is_durable: bool) -> None:
        self._number += 1
        self._waiting.append((self._number, waiter))
        self._emit(Append(self._number, record, is_durable))

    def wait_for_all(self, waiter: Any) -> bool:
        """Have a waiter told when all records that are under way are stored; False if none is."""
        if not self._waiting:
            return False
        self._waiting.append((self._waiting[-1][0], waiter))
        return True

    def waits(self) -> list[str]:
        """Who waits for which record, for people who look at a failed run."""
        return [f"record {number}: {_named(waiter)}" for number, waiter in self._waiting if waiter is not None]

    def answered(self, number: int) -> Iterator[Any]:
        """Those that waited for records up to a number."""
        while self._waiting and self._waiting[0][0] <= number:
            waiter = self._waiting.popleft()[1]
            if waiter is not None:
                yield waiter


class Asking:
    """Effects that are answered one by one, by their numbers, and who waits for each."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._numbers = count(1)
        self._waiting: dict[int, Any] = {}

    def ask(self, effect: Callable[[int], Effect], waiter: Any) -> None:
        """Ask for something; `effect` is given the number."""
        number = next(self._numbers)
        self._waiting[number] = waiter
        self._emit(effect(number))

    def waits(self) -> list[str]:
        """Who waits for which answer, for people who look at a failed run."""
        return [f"answer {number}: {_named(waiter)}" for number, waiter in self._waiting.items() if waiter is not None]

    def answered(self, number: int) -> Any:
        """Who waited for this answer."""
        return self._waiting.pop(number)


def _named(waiter: Any) -> str:
    """What kind of thing waits, and in which state; not all that it holds."""
    state = getattr(waiter, "state", None)
    return type(waiter).__name__ + (f" {state.name}" if state is not None else "")


class Positions:
    """The positions of a broker's events: they only grow, and none is used twice, also after a crash.

    Events that are not in the log use positions that it does not hold. Before the first of them the log is told, so
    that a restart begins beyond all that may have been used.
    """

    def __init__(self, log: LogPort) -> None:
        self.last: Position = START
        self._log = log
        self._is_gap_known = False
        self._reserving_count = 0

    def take(self, count: int) -> Position:
        """So many positions; the first of them."""
        first = self.last + 1
        self.last += count
        return first

    def raise_to(self, position: Position) -> None:
        """A position has been used."""
        self.last = max(self.last, position)

    def restarted(self) -> None:
        """All that the log holds is known: begin beyond what it may not hold."""
        if self.last > START:
            self.last += RESTART_GAP

    def reserve(self, waiter: Any) -> bool:
        """Whether positions may be used that the log does not hold; if not yet, `waiter` is told when they may."""
        if self._is_gap_known and not self._reserving_count:  # nobody overtakes those who still wait
            return True
        self._reserving_count += 1
        self._log.append(Reached(self.last), waiter)
        return False

    def reserved(self, *, is_stored: bool) -> None:
        """The log has answered to one that waited."""
        self._reserving_count -= 1
        self._is_gap_known |= is_stored
