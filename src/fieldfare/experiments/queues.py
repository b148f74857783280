"""A trace-driven model of matchers that work at measured speeds: events arrive, are forwarded, wait and are matched.

A matcher serves its events in their order, on one core. Once a second it reports, as in BlueDove section III-B, and
the dispatcher forwards by what was reported last. One modelled event may stand for many real ones: what counts is how
many are forwarded between two reports, not how fast a core is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from fieldfare.experiments.bluedove_workload import Floats, Places
from fieldfare.experiments.deployment import Deployment
from fieldfare.forwarding import Dispatcher, Load, Policy, busiest, forward
from fieldfare.partitioning.layout import Candidates, Layout

EVENTS_PER_REPORT = 4_096
GROWTH_MAX = 0.01  # seconds of backlog that a second may add before it is saturation
BISECTIONS = 9
MATCHERS_MAX = 256


@dataclass(frozen=True, slots=True)
class Cluster:
    """Matchers at work: a deployment, and the seconds that an event takes in each part."""

    deployment: Deployment
    service: Floats

    @property
    def rate_limit(self) -> float:
        """Events per second if every event took its quickest candidate and all matchers were always busy."""
        quickest = self.service[self.deployment.candidates.first].min(axis=1).mean()
        return float(len(self.deployment.layout.matchers) / quickest)


@dataclass(frozen=True, slots=True)
class ArrivedEvents:
    """Some events, by their place in the workload, and the seconds at which they came."""

    rows: Places
    arrivals: Floats


NONE = ArrivedEvents(np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True, slots=True)
class Second:
    """What was matched of what came between two reports, event by event, and what then still waits."""

    events: ArrivedEvents
    parts: Places  # where they were sent
    responses: Floats  # seconds from an event's arrival to its match
    stranded: ArrivedEvents  # sent to a matcher that is dead
    backlog: float  # seconds of work that wait at the matcher that has most of it


class Queues:
    """The matchers' queues. Time goes on second by second; the layout and the rate may change in between."""

    def __init__(self, policy: Policy) -> None:
        self.now = 0.0
        self._policy = policy
        self._next_row = 0
        self._free_at = np.zeros(MATCHERS_MAX)  # when each matcher will have done what it was sent
        self._reported: tuple[int, Load] | None = None  # by which version of the layout, and what
        self._waiting = np.empty(0, np.int64), np.empty(0)  # parts and ends of what is not yet matched

    def second(self, cluster: Cluster, rate: float, *, again: ArrivedEvents = NONE, dead: int | None = None) -> Second:
        """Let a second pass in which `rate` events arrive, evenly, after some that are sent once more.

        Nobody has noticed yet that a matcher is dead: what is sent to it is stranded, and nothing is reported.
        """
        deployment, weight = cluster.deployment, rate / EVENTS_PER_REPORT
        clock = np.concatenate([np.zeros(len(again.rows)), np.arange(EVENTS_PER_REPORT) / EVENTS_PER_REPORT])
        arrivals = np.concatenate([again.arrivals, self.now + clock[len(again.rows) :]])
        fresh = (self._next_row + np.arange(EVENTS_PER_REPORT)) % len(deployment.candidates.first)
        rows = np.concatenate([again.rows, fresh])
        parts = self._forwarded(deployment, rows, clock)
        alive = deployment.matcher_of[parts] != (-1 if dead is None else dead)
        stranded = ArrivedEvents(rows[~alive], arrivals[~alive])
        events, parts = ArrivedEvents(rows[alive], arrivals[alive]), parts[alive]
        seconds = cluster.service[parts] * weight
        ends = _serve(self.now + clock[alive], deployment.matcher_of[parts], seconds, self._free_at)
        self.now += 1.0
        self._next_row += EVENTS_PER_REPORT
        if dead is None:
            self._report(cluster, parts, ends, weight)
        backlog = max(0.0, float(self._free_at.max()) - self.now)
        return Second(events, parts, ends - events.arrivals, stranded, backlog)

    def busiest(self, layout: Layout) -> int:
        """The matcher with the most work, by the last report."""
        if self._reported is None or self._reported[0] != layout.version:
            return layout.matchers[0]
        return busiest(layout, self._reported[1])

    def _forwarded(self, deployment: Deployment, rows: Places, clock: Floats) -> Places:
        """The part that each event is sent to, by the last report; before the first one of a layout, by its sizes."""
        layout, candidates = deployment.layout, deployment.candidates
        load = Load.unmeasured(deployment.placement.subscriptions)
        if self._reported is not None and self._reported[0] == layout.version:
            load = self._reported[1]
        chosen = Candidates(candidates.first[rows], candidates.count[rows])
        dispatcher = Dispatcher(seed=int(self.now))
        visits = forward(layout, chosen, load, self._policy, seconds_since_report=clock, dispatcher=dispatcher)
        return visits.parts.astype(np.int64)

    def _report(self, cluster: Cluster, parts: Places, ends: Floats, weight: float) -> None:
        layout, placement = cluster.deployment.layout, cluster.deployment.placement
        if self._reported is not None and self._reported[0] == layout.version:
            sent, done = np.concatenate([self._waiting[0], parts]), np.concatenate([self._waiting[1], ends])
        else:
            sent, done = parts, ends  # what waits from before has parts of other numbers
        self._waiting = sent[done > self.now], done[done > self.now]
        queue, arrived = (np.bincount(found, minlength=layout.part_count) for found in (self._waiting[0], parts))
        rates = np.zeros(layout.part_count)
        rates[: len(cluster.service)] = 1.0 / (cluster.service * weight)
        load = Load(queue.astype(np.float64), arrived.astype(np.float64), rates, placement.subscriptions)
        self._reported = layout.version, load


@numba.njit(cache=True)
def _serve(arrivals: Floats, matchers: Places, seconds: Floats, free_at: Floats) -> Floats:
    """When each event is done; every matcher serves its events one after the other."""
    ends = np.empty(len(arrivals))
    for event in range(len(arrivals)):
        matcher = matchers[event]
        ends[event] = max(arrivals[event], free_at[matcher]) + seconds[event]
        free_at[matcher] = ends[event]
    return ends


@dataclass(frozen=True, slots=True)
class Saturation:
    """The highest rate that can be sustained, and some seconds at that rate, once the policy has settled."""

    cluster: Cluster
    rate: float
    seconds: list[Second]

    @property
    def rows(self) -> Places:
        """The events of these seconds."""
        return np.concatenate([second.events.rows for second in self.seconds])

    @property
    def parts(self) -> Places:
        """Where they were sent."""
        return np.concatenate([second.parts for second in self.seconds])

    @property
    def busy(self) -> Floats:
        """Seconds that each matcher worked on them."""
        return busy_seconds(self.cluster.deployment, self.cluster.service, self.parts)


def busy_seconds(deployment: Deployment, service: Floats, parts: Places) -> Floats:
    """Seconds that each matcher works on events that were sent to parts."""
    weights = service[parts]
    return np.bincount(deployment.matcher_of[parts], weights, len(deployment.layout.matchers)).astype(np.float64)


def saturation(cluster: Cluster, policy: Policy, reports: int) -> Saturation:
    """Bisect for the rate above which work piles up at some matcher."""
    low, high = 0.0, cluster.rate_limit * 1.02
    settled: list[Second] = []
    for _ in range(BISECTIONS):
        rate = (low + high) / 2
        seconds = run(cluster, policy, rate, reports)
        if _growth(seconds) > GROWTH_MAX:
            high = rate
        else:
            low, settled = rate, seconds[reports // 2 :]
    return Saturation(cluster, low, settled)


def run(cluster: Cluster, policy: Policy, rate: float, reports: int) -> list[Second]:
    """Some seconds at a steady rate."""
    queues = Queues(policy)
    return [queues.second(cluster, rate) for _ in range(reports)]


def _growth(seconds: list[Second]) -> float:
    """Seconds of backlog that a second adds, from the second quarter to the last."""
    quarter = len(seconds) // 4
    backlogs = np.array([second.backlog for second in seconds])
    return float((backlogs[-quarter:].mean() - backlogs[quarter : 2 * quarter].mean()) / (2 * quarter))
