"""Whether a broker takes in one more publisher: not many at once, and none while it is nearly saturated.

Many first brokers may find the same broker the best at the same time, none of them knowing of the others. If all moved
at once, the broker would be overloaded, all would find another one better, and so on. If only some come at a time, the
delays that the next decisions stand on show those that came before.

POP knows no load: it sends every publisher to the middle of its subscribers, which may be the same broker for all.
"""

from __future__ import annotations

from collections import deque

from fieldfare.placement.options import DampingOptions


class ArrivalGate:
    """The arrivals at one broker; it is asked before a publisher begins to move there."""

    def __init__(self, options: DampingOptions) -> None:
        self._options = options
        self._arrivals: deque[float] = deque(maxlen=options.arrivals_max)  # the latest

    def admits(self, now: float, busy_share: float = 0.0) -> bool:
        """Whether one more publisher may come now; if so, it is counted. `busy_share`: of the time, measured lately."""
        arrivals, options = self._arrivals, self._options
        if busy_share > options.busy_share_max:
            return False
        if len(arrivals) == options.arrivals_max and now - arrivals[0] < options.arrivals_seconds:
            return False
        arrivals.append(now)
        return True
