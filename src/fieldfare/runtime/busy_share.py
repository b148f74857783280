"""How busy this process is: routing brokers tell the leader, brokers of a tree who would send them publishers."""

from __future__ import annotations

import time

_SHARE_SECONDS_MIN = 1.0  # less says little: a process that has just started is busy for a moment


class BusyShare:
    """The share of the time since it was measured last in which this process used a processor."""

    def __init__(self) -> None:
        self._wall, self._used = time.monotonic(), time.process_time()
        self._share = 0.0

    def __call__(self) -> float:
        """From 0 to 1, and beyond where threads help; asked again soon, it is the same as before."""
        wall, used = time.monotonic(), time.process_time()
        if wall - self._wall >= _SHARE_SECONDS_MIN:
            self._share = (used - self._used) / (wall - self._wall)
            self._wall, self._used = wall, used
        return self._share
