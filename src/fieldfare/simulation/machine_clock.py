"""The clock of one machine: it may be ahead of the world's clock or behind, and run faster or slower.

While a node lives its clock never jumps, whatever its rate: `now` only grows, and another rate counts from where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from fieldfare.simulation.clock import Clock, Timer


class _Alarm(NamedTuple):
    """When a machine is to be woken, by its own clock; and the world's timer that does it."""

    at: float
    ring: Callable[[], object]
    timer: Timer


class MachineClock:
    """What a machine takes for the time, and one alarm that goes by it."""

    __slots__ = ("_ahead_seconds", "_alarm", "_error_seconds", "_rate", "_since", "_world")

    def __init__(self, world: Clock) -> None:
        self._world = world
        self._since = world.now
        self._ahead_seconds = 0.0  # at that moment
        self._error_seconds = 0.0  # until then
        self._rate = 1.0
        self._alarm: _Alarm | None = None

    @property
    def now(self) -> float:
        """The time by this clock."""
        return self._at(self._world.now)

    def _at(self, world_time: float) -> float:
        ahead = self._ahead_seconds
        if self._rate != 1.0:
            ahead += (self._rate - 1.0) * (world_time - self._since)
        return world_time + ahead

    @property
    def ahead_seconds(self) -> float:
        """How far it is ahead of the world's clock now. Setting it lets the clock jump: only while its node is down."""
        return self._ahead_seconds + (self._rate - 1.0) * (self._world.now - self._since)

    @ahead_seconds.setter
    def ahead_seconds(self, seconds: float) -> None:
        self._count_from_now()
        self._error_seconds += abs(seconds - self._ahead_seconds)
        self._ahead_seconds = seconds
        self._move_alarm()

    @property
    def rate(self) -> float:
        """How many seconds it counts in a second of the world. It may be set at any time, and nothing jumps."""
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        if not rate > 0:
            raise ValueError(f"a clock has to go forward: its rate cannot be {rate}")
        self._count_from_now()
        self._rate = rate
        self._move_alarm()

    @property
    def error_seconds(self) -> float:
        """By how much a duration that was measured with this clock may be wrong: its jumps and its drift together."""
        return self._error_seconds + abs(self._rate - 1.0) * (self._world.now - self._since)

    def trust(self) -> None:
        """From now on count errors anew: that a clock is hours ahead all along makes no duration wrong."""
        self._count_from_now()
        self._error_seconds = 0.0

    def _count_from_now(self) -> None:
        self._error_seconds, self._ahead_seconds = self.error_seconds, self.ahead_seconds
        self._since = self._world.now

    # The alarm

    def wake_by(self, at: float, ring: Callable[[], object]) -> None:
        """Ring at this time by this clock, unless the alarm rings earlier anyway."""
        if self._alarm is None or at < self._alarm.at:
            self.cancel_alarm()
            self._alarm = _Alarm(at, ring, self._world.at(self._world_time(at), ring))

    def cancel_alarm(self) -> None:
        """Do not ring; or, when it has rung, let the next alarm be set."""
        if self._alarm is not None:
            self._alarm.timer.cancel()
            self._alarm = None

    def _move_alarm(self) -> None:
        if (alarm := self._alarm) is not None:
            self.cancel_alarm()
            self.wake_by(alarm.at, alarm.ring)

    def _world_time(self, at: float) -> float:
        """The first moment at which this clock shows `at`, in the time of the world."""
        if self._rate == 1.0:
            return at - self._ahead_seconds
        world_time = self._since + (at - self._since - self._ahead_seconds) / self._rate
        while self._at(world_time) < at:  # floats are rounded, and an alarm that rings too early would ring for ever
            world_time = math.nextafter(world_time, math.inf)
        return world_time
