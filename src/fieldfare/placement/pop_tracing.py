"""POP, phase 1 (section III-A): which publications are traced, and how their deliveries are counted back.

A broker that delivers a traced publication, or sends it on, owes its upstream neighbour the number of deliveries at and
downstream of itself. It tells when all neighbours that it sent the publication to have told theirs.

The paper sends a message back for each traced publication and link. Here the brokers where publications end gather
their counts for a while, and those in between send what has come together, so that a message tells of several.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fieldfare.placement.options import PopOptions
from fieldfare.placement.passages import Passage, ToNeighbour
from fieldfare.placement.placement_frames import (
    RESULTS_MAX,
    BrokerName,
    PublisherName,
    TraceId,
    TraceResult,
    TraceResults,
)
from fieldfare.placement.pop_averages import DeliveryAverages

_OUTSTANDING_MAX = 100_000  # traces at one broker; the oldest is given up
_GATHERED_MAX = 100  # counts for one neighbour; then they are sent


class TraceSampler:
    """Which publications of one publisher are traced: each with the probability 1 - T/N.

    T have been traced in this window, and N is the most that may be. So a slow publisher's first publication of each
    window is always traced, and a fast one's traces are spread.
    """

    def __init__(self, options: PopOptions, now: float) -> None:
        self._options = options
        self._window_ends_at = now + options.window_seconds
        self._traced = 0
        self._calm = 1

    def calm(self) -> None:
        """Trace half as many from now on."""
        self._calm = min(2 * self._calm, self._options.calm_factor_max)

    def draws(self, rng: random.Random, now: float) -> bool:
        """Whether to trace this publication."""
        if now >= self._window_ends_at:
            self._window_ends_at, self._traced = now + self._options.window_seconds, 0
        if rng.random() >= 1.0 - self._traced * self._calm / self._options.traces_max:
            return False
        self._traced += 1
        return True


@dataclass(slots=True)
class _Outstanding:
    passage: Passage
    deadline: float
    results: dict[BrokerName, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Gathered:
    since: float
    results: list[TraceResult] = field(default_factory=list)


class DeliveryTracer:
    """The traces that have passed one broker, and the averages that they make for each publisher."""

    def __init__(self, options: PopOptions) -> None:
        self._options = options
        self._outstanding: dict[TraceId, _Outstanding] = {}
        self._gathered: dict[BrokerName, _Gathered] = {}  # by the upstream neighbour that is owed them
        self.averages: dict[PublisherName, DeliveryAverages] = {}

    def __len__(self) -> int:
        return len(self._outstanding)

    def handled(self, trace: TraceId, passage: Passage, now: float) -> tuple[list[ToNeighbour], list[TraceId]]:
        """A traced publication has passed this broker. Returns what to send, and which own traces have ended."""
        if passage.downstream:
            if len(self._outstanding) >= _OUTSTANDING_MAX:
                del self._outstanding[next(iter(self._outstanding))]
            self._outstanding[trace] = _Outstanding(passage, now + self._options.timeout_seconds)
            return [], []
        self._count(trace, passage, {})
        if passage.upstream is None:
            return [], [trace]
        waiting = self._gather(passage.upstream, TraceResult(trace, passage.deliveries), now)
        is_due = not self._options.gather_seconds or len(waiting.results) >= _GATHERED_MAX
        return self._send([passage.upstream]) if is_due else [], []

    def told(self, neighbour: BrokerName, counted: TraceResults, now: float) -> tuple[list[ToNeighbour], list[TraceId]]:
        """A downstream neighbour's counts. What they complete goes on at once, with what was gathered meanwhile."""
        upstreams: dict[BrokerName, None] = {}
        ended = []
        for result in counted.results:
            waiting = self._outstanding.get(result.trace)
            if waiting is None or neighbour not in waiting.passage.downstream:
                continue
            waiting.results[neighbour] = result.deliveries
            passage = waiting.passage
            if len(waiting.results) < len(passage.downstream):
                continue
            del self._outstanding[result.trace]
            self._count(result.trace, passage, waiting.results)
            if passage.upstream is None:
                ended.append(result.trace)
            else:
                deliveries = passage.deliveries + sum(waiting.results.values())
                self._gather(passage.upstream, TraceResult(result.trace, deliveries), now)
                upstreams[passage.upstream] = None
        return self._send(upstreams), ended

    def expire(self, now: float) -> list[ToNeighbour]:
        """Send what was gathered for long enough.

        Traces whose counts did not come are given up: a part of the deliveries would say something wrong.
        """
        for trace in [trace for trace, waiting in self._outstanding.items() if waiting.deadline <= now]:
            del self._outstanding[trace]
        gathered, wait_seconds = self._gathered, self._options.gather_seconds
        return self._send([upstream for upstream, each in gathered.items() if now - each.since >= wait_seconds])

    def forget(self, publisher: PublisherName) -> None:
        """A publisher has moved along this broker: what was downstream may be upstream now."""
        self.averages.pop(publisher, None)
        for trace in [trace for trace in self._outstanding if trace.publisher == publisher]:
            del self._outstanding[trace]

    def _count(self, trace: TraceId, passage: Passage, beyond: Mapping[BrokerName, int]) -> None:
        averages = self.averages.get(trace.publisher)
        if averages is None or averages.upstream != passage.upstream:  # it has moved: what was downstream no longer is
            averages = DeliveryAverages(self._options.newest_weight, passage.upstream)
            self.averages[trace.publisher] = averages
        averages.add(passage.deliveries, beyond)

    def _gather(self, upstream: BrokerName, result: TraceResult, now: float) -> _Gathered:
        gathered = self._gathered.setdefault(upstream, _Gathered(now))
        gathered.results.append(result)
        return gathered

    def _send(self, upstreams: Iterable[BrokerName]) -> list[ToNeighbour]:
        owed = [(upstream, self._gathered.pop(upstream).results) for upstream in upstreams]
        return [
            ToNeighbour(upstream, TraceResults(tuple(results[start : start + RESULTS_MAX])))
            for upstream, results in owed
            for start in range(0, len(results), RESULTS_MAX)
        ]
