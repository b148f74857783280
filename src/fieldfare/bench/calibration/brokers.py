"""What edges and links cost: a real service and two real edges with a routing broker, on loopback.

CPU time of the brokers is fitted to loads that differ in one thing each: deliveries for an event, connections that
events spread over, rates. Latency is what clients saw, from when an event was due.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from fieldfare.bench.broker.crew import Crew, Run, Setting, crew
from fieldfare.bench.broker.load import Load, make_load
from fieldfare.bench.broker.servers import OURS, Guarantee
from fieldfare.bench.broker.workers import Pace, Saturate
from fieldfare.bench.overlay.crew import overlay_crew
from fieldfare.bench.overlay.fieldfare_system import BEST_EFFORT
from fieldfare.planning.costs import EdgeCost, LinkCost, MatchCost

_SECONDS = 2.0
_FEW_PER_SECOND, _MANY_PER_SECOND = 300.0, 2_000.0
_TICKS_PER_SECOND = 200.0  # how often the publisher of the bench sends what is due
_BATCH, _SMALL_BATCH = 1_000, 250  # events that are published together
_TAIL = math.log(100) / math.log(2)  # a tail is in the median, too: of an exponential law, so many times less
_SATURATE = Saturate(_SECONDS, _BATCH, 4)
_SELECTIVE, _POPULAR, _GROUPED = 10_000, 1_000, 100  # subscriptions
_PADDING = 4_000  # bytes of a large event


@dataclass(frozen=True, slots=True)
class Saturated:
    """An edge that gets as much as it can take: per event, but for the last two."""

    subscriptions: int
    deliveries: float
    cpu_seconds: float  # of the broker
    bytes_per_subscription: float = 0.0
    cpu_seconds_before: float = 0.0  # that the broker took to start, and to take subscribers in

    @property
    def frames(self) -> float:
        """One in a batch for each subscription that something is for."""
        return self.subscriptions * -math.expm1(-_BATCH * self.deliveries / self.subscriptions) / _BATCH


@dataclass(frozen=True, slots=True)
class Paced:
    """An edge at a rate; numbers are of a tick of the publisher, and so of a round. Each delivery is a write."""

    events: float
    deliveries: float
    cpu_seconds: float
    p50_seconds: float
    p99_seconds: float


@dataclass(frozen=True, slots=True)
class EdgeRuns:
    """Loads that differ in one thing each, from which costs follow."""

    few: Saturated  # deliveries, each to another subscription
    many: Saturated  # deliveries, to few subscriptions
    grouped: Saturated  # as few, but to few subscriptions
    large: Saturated  # events of `_PADDING` bytes
    kept_few: Saturated  # events that are on disk before they are delivered
    kept_many: Saturated
    slow: Paced
    quick: Paced
    kept_slow: Paced


def edge_cost(reference: EdgeCost, match: MatchCost, progress: Callable[[str], None]) -> EdgeCost:
    """Costs of an edge; what is not measured here is as in the reference."""
    return edge_cost_of(_edge_runs(progress), reference, match)


def _edge_runs(progress: Callable[[str], None]) -> EdgeRuns:
    progress("an edge, at fixed rates")
    (slow, quick), (kept_slow, _) = (_paced_runs(guarantee) for guarantee in (OURS.volatile, OURS.durable))
    selective, popular = make_load(_SELECTIVE, 100, 1e-4), make_load(_POPULAR, 100, 0.1)
    progress("an edge, few deliveries for each event")
    few = _saturated(OURS.volatile, selective)
    progress("an edge, many deliveries for each event")
    many = _saturated(OURS.volatile, popular)
    progress("an edge, few subscriptions")
    grouped = _saturated(OURS.volatile, make_load(_GROUPED, 100, 0.01))
    progress("an edge, large events")
    large = _saturated(OURS.volatile, _padded(make_load(_POPULAR, 100, 0.01), _PADDING))
    progress("an edge, events that are kept")
    kept_few, kept_many = (_saturated(OURS.durable, load) for load in (selective, popular))
    return EdgeRuns(few, many, grouped, large, kept_few, kept_many, slow, quick, kept_slow)


def edge_cost_of(runs: EdgeRuns, reference: EdgeCost, match: MatchCost) -> EdgeCost:
    """What each thing costs, from loads that differ in it."""
    few, many, slow, quick = runs.few, runs.many, runs.slow, runs.quick
    more = many.deliveries - few.deliveries
    message = max(1e-8, (many.cpu_seconds - few.cpu_seconds) / more)
    frame = max(0.0, few.cpu_seconds - runs.grouped.cpu_seconds) / (few.frames - runs.grouped.frames)

    def known(run: Saturated) -> float:
        matching = match.seconds(run.subscriptions, run.deliveries)
        return run.deliveries * message + run.frames * frame + matching

    event = max(1e-7, few.cpu_seconds - known(few))
    kept = [runs.kept_few.cpu_seconds - few.cpu_seconds, runs.kept_many.cpu_seconds - many.cpu_seconds]
    kept_message = max(0.0, (kept[1] - kept[0]) / more)
    of_padding = runs.large.cpu_seconds - event - known(runs.large)
    each = quick.cpu_seconds - slow.cpu_seconds - event * (quick.events - slow.events)
    each = max(0.0, each / (quick.deliveries - slow.deliveries))
    round_seconds = max(1e-5, slow.cpu_seconds - event * slow.events - each * slow.deliveries)
    kept_event = max(0.0, kept[0] - few.deliveries * kept_message)
    kept_round = runs.kept_slow.cpu_seconds - slow.cpu_seconds
    kept_round = max(0.0, kept_round - slow.events * kept_event - slow.deliveries * kept_message)
    tail = max(0.0, slow.p99_seconds - slow.p50_seconds)
    changes = few.cpu_seconds_before - many.cpu_seconds_before  # both have started, and taken as many connections
    return replace(
        reference,
        round_seconds=round_seconds,
        event_seconds=event,
        write_seconds=max(each - message - frame, 1e-7),
        frame_seconds=frame,
        message_seconds=message,
        kept_round_seconds=kept_round,
        kept_event_seconds=kept_event,
        kept_message_seconds=kept_message,
        flush_seconds=max(0.0, runs.kept_slow.p50_seconds - slow.p50_seconds - kept_round),
        delay_seconds=max(0.0, slow.p50_seconds - round_seconds - slow.deliveries * each / 2 - tail / _TAIL),
        byte_seconds=max(0.0, of_padding) / _PADDING / (1.0 + runs.large.deliveries),
        tail_seconds=tail,
        change_seconds=max(1e-6, changes / (few.subscriptions - many.subscriptions)),
        bytes_per_subscription=max(0.0, few.bytes_per_subscription - match.bytes_per_subscription),
    )


def link_cost(reference: LinkCost, edge: EdgeCost, match: MatchCost, progress: Callable[[str], None]) -> LinkCost:
    """Two edges and a routing broker: what they use beyond what one edge does, and how much later events arrive."""
    load = make_load(_POPULAR, 100, 0.01)
    progress("one edge with the subscribers")
    alone, calm_alone, _ = _overlay(1, load)
    progress("two edges and a routing broker")
    busy, calm, link_bytes = _overlay(2, load)
    more = _cpu(busy) - _cpu(alone) - match.seconds(_POPULAR, busy.deliveries / busy.events)
    ends = 4  # out of one edge, in and out of the relay, into the other; nearly every event is wanted there
    event = max(1e-7, more / ends)
    together = _FEW_PER_SECOND / _TICKS_PER_SECOND
    rounds = (_cpu(calm) - _cpu(calm_alone) - ends * event) * together
    relay = max(2e-5, rounds - edge.round_seconds)
    (p50, p99), (p50_alone, p99_alone) = _percentiles(calm), _percentiles(calm_alone)
    tail = max(0.0, p99 - p99_alone - p50 + p50_alone - edge.tail_seconds)
    own = 95.0  # of an event of the bench, with what is around it
    return replace(
        reference,
        round_seconds=relay,
        event_seconds=event,
        hop_seconds=(p50 - p50_alone - edge.round_seconds - relay - (edge.tail_seconds + tail) / _TAIL) / 2,
        tail_seconds=tail,
        event_bytes=max(10.0, (link_bytes or 0) / calm.events / 2 - own),
    )


def _overlay(edges: int, load: Load) -> tuple[Run, Run, int | None]:
    """As much as it can take; a calm rate, and the bytes that went over links meanwhile."""
    with overlay_crew(BEST_EFFORT, edges, load, 1) as workers:
        workers.run(Saturate(0.5, _SMALL_BATCH, 4))
        busy, _ = workers.run(Saturate(_SECONDS, _SMALL_BATCH, 4))
        calm, link_bytes = workers.run(Pace(_SECONDS, _FEW_PER_SECOND), is_recording=True)
        return busy, calm, link_bytes


def _saturated(guarantee: Guarantee | None, load: Load) -> Saturated:
    with crew(OURS, guarantee or OURS.volatile, load, Setting()) as workers:
        before = workers.broker.cpu_seconds() or 0.0
        workers.run(Saturate(0.5, _BATCH, 4))
        found = workers.run(_SATURATE)
        count = len(load.wanted)
        return Saturated(count, found.deliveries / found.events, _cpu(found), _grown(workers) / count, before)


def _paced_runs(guarantee: Guarantee | None) -> tuple[Paced, Paced]:
    load = make_load(_POPULAR, 1_000, 0.01)
    with crew(OURS, guarantee or OURS.volatile, load, Setting()) as workers:
        workers.run(Pace(0.5, _MANY_PER_SECOND))
        return _paced(workers, _FEW_PER_SECOND), _paced(workers, _MANY_PER_SECOND)


def _paced(workers: Crew, rate: float) -> Paced:
    run = workers.run(Pace(_SECONDS, rate), is_recording=True)
    ticks = _SECONDS * _TICKS_PER_SECOND
    return Paced(run.events / ticks, run.deliveries / ticks, (run.cpu_seconds or 0.0) / ticks, *_percentiles(run))


def _padded(load: Load, size: int) -> Load:
    """The same load of larger events."""
    padding = b',"padding":"%b"}' % (b"x" * (size - len(b',"padding":""')))
    return dataclasses.replace(load, tails=[tail[:-1] + padding for tail in load.tails])


def _grown(workers: Crew) -> float:
    before, now = workers.memory_before_bytes, workers.broker.memory_bytes()
    return 0.0 if before is None or now is None else max(0.0, float(now - before))


def _cpu(run: Run) -> float:
    return (run.cpu_seconds or 0.0) / run.events


def _percentiles(run: Run) -> tuple[float, float]:
    settled = run.waits_ms[run.numbers >= run.events * 0.2]
    p50, p99 = (np.quantile(settled, (0.5, 0.99)) / 1e3).tolist()
    return p50, p99
