"""A virtual clock: time passes only from one scheduled action to the next, so hours run in milliseconds.

What is due at the same moment happens in the order in which it was scheduled, so a run is the same every time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

START = 1_800_000_000.0  # seconds since 1970; any moment will do, as long as it is always the same


class Timer:
    """An action that is to happen, unless it is cancelled."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Do not do it; after it happened, this does nothing."""
        self._action = None

    def fire(self) -> None:
        """Do it, once, if it was not cancelled."""
        action, self._action = self._action, None
        if action is not None:
            action()


class Clock:
    """The time of a simulated world, and what is to happen in it."""

    def __init__(self, now: float = START) -> None:
        self.now = now
        self._due: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def at(self, at: float, action: Callable[[], object]) -> Timer:
        """Do this at that time, or at once where it has passed."""
        timer = Timer(action)
        heapq.heappush(self._due, (max(at, self.now), next(self._numbers), timer))
        return timer

    def after(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Do this so many seconds from now."""
        return self.at(self.now + seconds, action)

    def run_until(self, at: float) -> None:
        """Let time pass up to a moment; what is due then happens too."""
        while self._due and self._due[0][0] <= at:
            self.now, _, timer = heapq.heappop(self._due)
            timer.fire()
        self.now = max(self.now, at)

    def run_for(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.run_until(self.now + seconds)
