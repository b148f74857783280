"""Events that walk from matcher to matcher, one after the other ("Revisiting CBPS", section 4.2), simulated.

Where each event goes is decided by the real layout, summary and dispatcher; how long a matcher works on it was
measured; waiting is what is simulated: every matcher is a core that serves its visitors in the order they come.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from fieldfare.forwarding import Visits

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Walks:
    """All visits of some events, in the order in which each event makes them."""

    visits: Visits
    seconds: Floats  # of each visit
    events: int

    @property
    def hops(self) -> npt.NDArray[np.int64]:
        """Visits of each event."""
        return np.bincount(self.visits.events, minlength=self.events)

    @property
    def busy(self) -> Floats:
        """Seconds that each matcher works."""
        return np.bincount(self.visits.matchers, self.seconds).astype(np.float64)

    @property
    def throughput(self) -> float:
        """Events per second at which the busiest matcher works all the time."""
        return float(self.events / self.busy.max())

    def latencies(self, rate: float, hop_seconds: float, rng: np.random.Generator) -> Floats:
        """Seconds from each event's coming until its last visit is over, where they come by Poisson."""
        arrivals = np.cumsum(rng.exponential(1.0 / rate, self.events))
        starts = np.searchsorted(self.visits.events, np.arange(self.events + 1))
        found: Floats = _walked(arrivals, starts, self.visits.matchers, self.seconds, hop_seconds)
        return found


@numba.njit(cache=True)
def _walked(arrivals, starts, matchers, seconds, hop_seconds):  # type: ignore[no-untyped-def]
    free_at, ends = np.zeros(matchers.max() + 1), np.zeros(len(arrivals))
    coming = [(arrivals[0] + hop_seconds, 0, starts[0])]
    following = 1
    while coming:
        now, event, visit = heapq.heappop(coming)
        if event == following - 1 and visit == starts[event] and following < len(arrivals):
            heapq.heappush(coming, (arrivals[following] + hop_seconds, following, starts[following]))
            following += 1
        matcher = matchers[visit]
        free_at[matcher] = max(free_at[matcher], now) + seconds[visit]
        if visit + 1 < starts[event + 1]:
            heapq.heappush(coming, (free_at[matcher] + hop_seconds, event, visit + 1))
        else:
            ends[event] = free_at[matcher]
    return ends - arrivals
