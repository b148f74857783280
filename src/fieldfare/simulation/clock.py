"""A virtual clock: time passes only from one scheduled action to the next, so hours run in milliseconds.

What is due at the same moment happens in the order in which it was scheduled, so a run is the same every time. Most
actions are never taken back: `call_at` schedules those, and costs one entry in a heap. `at` and `after` return a timer
that can be cancelled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

START = 1_800_000_000.0  # seconds since 1970; any moment will do, as long as it is always the same
_CANCELLED_MIN = 64  # fewer cancelled timers may stay in the heap, even if they are most of it


class Timer:
    """An action that is to happen, unless it is cancelled."""

    __slots__ = ("_action", "_clock")

    def __init__(self, clock: Clock, action: Callable[[], object]) -> None:
        self._clock = clock
        self._action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Do not do it; after it happened, this does nothing."""
        if self._action is not None:
            self._action = None
            self._clock._timer_cancelled()


class Clock:
    """The time of a simulated world, and what is to happen in it."""

    def __init__(self, now: float = START) -> None:
        self.now = now
        # A heap. The numbers are unique, so that the rest of an entry is never compared.
        self._due: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._cancelled = 0  # timers in the heap that will do nothing

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to happen any more."""
        return len(self._due) == self._cancelled

    def call_at(self, at: float, action: Callable[..., object], *arguments: Any) -> None:
        """Call this with these arguments at that time, or at once where it has passed."""
        heappush(self._due, (max(self.now, at), next(self._numbers), action, arguments))

    def at(self, at: float, action: Callable[[], object]) -> Timer:
        """Do this at that time, or at once where it has passed, unless the timer is cancelled."""
        timer = Timer(self, action)
        self.call_at(at, _fire, timer)
        return timer

    def after(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Do this some seconds from now, unless the timer is cancelled."""
        return self.at(self.now + seconds, action)

    def run_until(self, at: float) -> None:
        """Let time pass up to a moment; what is due then happens too."""
        due = self._due
        while due and due[0][0] <= at:
            self.now, _, action, arguments = heappop(due)
            action(*arguments)
        self.now = max(self.now, at)

    def run_for(self, seconds: float) -> None:
        """Let time pass; what is due meanwhile happens."""
        self.run_until(self.now + seconds)

    def _timer_cancelled(self) -> None:
        """Its entry stays in the heap until it is due, or until such entries are most of the heap."""
        self._cancelled += 1
        if self._cancelled > _CANCELLED_MIN and 2 * self._cancelled > len(self._due):
            self._due[:] = [entry for entry in self._due if entry[2] is not _fire or entry[3][0]._action is not None]
            heapify(self._due)
            self._cancelled = 0


def _fire(timer: Timer) -> None:
    action, timer._action = timer._action, None
    if action is None:
        timer._clock._cancelled -= 1
    else:
        action()
