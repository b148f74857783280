"""How many events a client lets be on their way to it, or wait in it, over all its subscriptions together.

Every subscription has a window: the edge sends so many events ahead of what the application took. The sum of all
windows is bounded, so the memory of a client is, however many subscriptions it has and whoever forgets to read them.

    begin   a few events each, fewer when there are many subscriptions
    grow    twice as many, for an application that takes what comes as quickly as it comes
    shrink  when others need the room: first those that have grown and have not been busy for the longest time

A window that shrinks gives its room back only when the edge has answered, and the application has taken what came.
The bound in bytes is kept by the mean size of the events: large ones get smaller windows. It has no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

BUFFERED_EVENTS_MAX = 65_536
BUFFERED_BYTES_MAX = 64 * 1024 * 1024
_WINDOW_AT_FIRST = 16
_BYTES_AT_FIRST = 256  # of an event, until some have come
_MEAN_OF_EVENTS = 256
_BUSY_WINDOWS = 2  # so many windows full of events are taken before it grows


@dataclass(slots=True, eq=False)
class WindowShare:
    """What one subscription has of the budget."""

    window_max: int  # that the application asked for
    changed: Callable[[WindowShare], None]  # told when there is a window for it at last, or another one
    window: int = 0  # 0: it waits for room
    held: int = 0  # what it takes of the budget: more than its window until a smaller one has come into effect
    outstanding: int = 0  # events that came, and that the application is not done with
    taken: int = 0  # since the window was set
    is_changing: bool = False  # the edge has not answered yet that it knows the window

    @property
    def is_waiting(self) -> bool:
        """Whether there is no room for it yet."""
        return self.window == 0

    @property
    def is_busy(self) -> bool:
        """Whether the application takes what comes as quickly as it comes, and might take more."""
        return self.taken >= _BUSY_WINDOWS * self.window and 2 * self.outstanding <= self.window


@dataclass(slots=True)
class WindowBudget:
    """The windows of all subscriptions of a client."""

    events_max: int = BUFFERED_EVENTS_MAX
    bytes_max: int = BUFFERED_BYTES_MAX
    reserved: int = 0  # never more than events_max
    event_bytes: float = float(_BYTES_AT_FIRST)  # the mean of what came
    _shares: dict[WindowShare, None] = field(default_factory=dict)  # those that grew last are last
    _waiting: dict[WindowShare, None] = field(default_factory=dict)
    _window_max: int = 0  # no share has more, but for those that are changing

    @property
    def room(self) -> int:
        """How many events may be given out, all in all."""
        return max(1, min(self.events_max, int(self.bytes_max / self.event_bytes)))

    @property
    def free(self) -> int:
        """How many are not given out."""
        return self.room - self.reserved

    @property
    def level(self) -> int:
        """A window that all subscriptions could have of half the budget: a power of two, so that it changes rarely."""
        fair = self.room // (2 * max(1, len(self._shares) + len(self._waiting)))
        return max(1, 1 << max(0, fair.bit_length() - 1))

    @property
    def is_given_out(self) -> bool:
        """Whether every event of the budget has a subscription already, or one that waits for it."""
        return len(self._shares) + len(self._waiting) >= self.events_max

    # Subscriptions come and go

    def join(self, share: WindowShare) -> None:
        """One more subscription. It has a window now, or is told when it has one."""
        self._waiting[share] = None
        self._admit(but=share)

    def leave(self, share: WindowShare) -> None:
        """A subscription is no more."""
        self._waiting.pop(share, None)
        if share in self._shares:
            del self._shares[share]
            self.reserved -= share.held
            share.held = 0
            self._admit()

    def _admit(self, but: WindowShare | None = None) -> None:
        """Give windows to those that wait, while there is room; and tell all but one of them, which knows."""
        while self._waiting and self.free > 0:
            share = next(iter(self._waiting))
            window = min(share.window_max, _WINDOW_AT_FIRST, self.level, self.free)
            del self._waiting[share]
            self._shares[share] = None
            share.window, share.taken = window, 0
            self._window_max = max(self._window_max, window)
            self._hold(share, window)
            if share is not but:
                share.changed(share)
        if self._waiting:
            self._shrink_all()

    # Events come and are taken

    def came(self, share: WindowShare, count: int, bytes_each: int) -> None:
        """Events came for a subscription."""
        share.outstanding += count
        before = self.room
        self.event_bytes += (bytes_each - self.event_bytes) * min(1.0, count / _MEAN_OF_EVENTS)
        if self.reserved > self.room < before:
            self._shrink_all()

    def took(self, share: WindowShare, count: int) -> None:
        """The application is done with some; it has a larger window from now on if it is busy."""
        share.outstanding = max(0, share.outstanding - count)
        share.taken += count
        if share.held > share.window and not share.is_changing:
            self._settle(share)
        elif share.is_busy and not share.is_changing and share.window < share.window_max:
            self._grow(share)

    # Windows change

    def _grow(self, share: WindowShare) -> None:
        share.taken = 0
        window = min(2 * share.window, share.window_max)
        if window - share.window > self.free or self._waiting:
            self._shrink_first(share)
            return
        del self._shares[share]
        self._shares[share] = None
        self._hold(share, window)
        self._window_max = max(self._window_max, window)
        self._set(share, window)

    def _shrink_first(self, but: WindowShare) -> None:
        """Take back from the one that grew longest ago."""
        level = self.level
        for share in self._shares:
            if share.window > level and not share.is_changing and share is not but:
                self._set(share, level)
                return

    def _shrink_all(self) -> None:
        level = self.level
        if self._window_max > level:  # many subscriptions at once do not have all of them looked at every time
            self._window_max = level
            for share in self._shares:
                if share.window > level and not share.is_changing:
                    self._set(share, level)

    def _set(self, share: WindowShare, window: int) -> None:
        share.window, share.taken, share.is_changing = window, 0, True
        share.changed(share)

    def in_effect(self, share: WindowShare) -> None:
        """The edge knows the window, or there is no connection: what it sent before has come, or never comes."""
        share.is_changing = False
        if share.held > share.window:
            self._settle(share)
        if self._waiting and share in self._shares and share.window > (level := self.level):
            self._set(share, level)

    def _settle(self, share: WindowShare) -> None:
        """Give back what a window that became smaller does not need any more."""
        if share in self._shares:
            self._hold(share, min(share.held, max(share.window, share.outstanding)))
            self._admit()

    def _hold(self, share: WindowShare, held: int) -> None:
        self.reserved += held - share.held
        share.held = held
