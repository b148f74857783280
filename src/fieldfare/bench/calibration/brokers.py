"""What edges and links cost: a real service and two real edges with a routing broker, on loopback.

CPU time of the brokers is fitted to loads that differ in one thing each: deliveries for an event, connections that
events spread over, rates. Latency is what clients saw, from when an event was due.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from fieldfare.bench.broker.crew import Crew, Run, Setting, crew
from fieldfare.bench.broker.load import Load, make_load
from fieldfare.bench.broker.servers import OURS
from fieldfare.bench.broker.workers import Pace, Saturate
from fieldfare.bench.overlay.crew import overlay_crew
from fieldfare.bench.overlay.fieldfare_system import BEST_EFFORT
from fieldfare.durable import flush_data
from fieldfare.planning.costs import EdgeCost, LinkCost, MatchCost

_SECONDS = 2.0
_FEW_PER_SECOND, _MANY_PER_SECOND = 300.0, 2_000.0
_TICKS_PER_SECOND = 200.0  # how often the publisher of the bench sends what is due
_SATURATE = Saturate(_SECONDS, 1_000, 4)


def edge_cost(reference: EdgeCost, match: MatchCost, progress: Callable[[str], None]) -> EdgeCost:
    """Costs of an edge; what is not measured here is as in the reference."""
    progress("an edge, few deliveries for each event")
    selective = make_load(10_000, 100, 1e-4)
    few, index_bytes = _saturated(selective)
    progress("an edge, many deliveries for each event")
    many, _ = _saturated(make_load(1_000, 100, 0.1))
    message = (few[1] - many[1]) / (few[0] - many[0])
    event = few[1] - few[0] * message - match.seconds(len(selective.wanted), few[0])
    progress("an edge, at fixed rates")
    spread = make_load(1_000, 1_000, 0.01)
    with crew(OURS, OURS.volatile, spread, Setting()) as workers:
        workers.run(Pace(0.5, _MANY_PER_SECOND))
        slow = workers.run(Pace(_SECONDS, _FEW_PER_SECOND), is_recording=True)
        quick = workers.run(Pace(_SECONDS, _MANY_PER_SECOND), is_recording=True)
    per_tick = [_cpu(run) * run.events / _SECONDS / _TICKS_PER_SECOND for run in (slow, quick)]
    messages = [run.deliveries / _SECONDS / _TICKS_PER_SECOND for run in (slow, quick)]
    work = [max(event, 0.0) * run.events / _SECONDS / _TICKS_PER_SECOND for run in (slow, quick)]
    each = (per_tick[1] - work[1] - per_tick[0] + work[0]) / (messages[1] - messages[0])
    round_seconds = per_tick[0] - work[0] - messages[0] * each
    p50, p99 = _percentiles(slow)
    busy = max(round_seconds, 1e-5) + messages[0] * each
    return replace(
        reference,
        round_seconds=max(round_seconds, 1e-5),
        event_seconds=max(event, 1e-7),
        write_seconds=max(each - message, 1e-7),
        message_seconds=max(message, 1e-8),
        flush_seconds=_flush_seconds(),
        delay_seconds=max(0.0, p50 - busy),
        tail_seconds=max(0.0, p99 - p50),
        bytes_per_subscription=max(0.0, index_bytes - match.bytes_per_subscription),
    )


def link_cost(reference: LinkCost, edge: EdgeCost, match: MatchCost, progress: Callable[[str], None]) -> LinkCost:
    """Two edges and a routing broker: what they use beyond what an edge would, and how much later events arrive."""
    progress("two edges and a routing broker")
    load = make_load(100, 100, 0.02)
    with overlay_crew(BEST_EFFORT, 2, load, 1) as workers:
        workers.run(Saturate(0.5, 1_000, 4))
        busy, _ = workers.run(_SATURATE)
        calm, link_bytes = workers.run(Pace(_SECONDS, _FEW_PER_SECOND), is_recording=True)
    each = busy.deliveries / busy.events
    alone = 2 * edge.event_seconds + 2 * match.seconds(100, each) + each * edge.message_seconds
    ends = 4 * (1 - (1 - 0.02) ** 100)  # out of one edge, in and out of the relay, into the other
    p50, p99 = _percentiles(calm)
    at_edge = edge.delay_seconds + edge.round_seconds + each * (edge.write_seconds + edge.message_seconds)
    own = 95.0  # of an event of the bench, with what is around it
    return replace(
        reference,
        event_seconds=max(1e-7, (_cpu(busy) - alone) / ends),
        hop_seconds=max(1e-5, (p50 - at_edge - edge.round_seconds - reference.round_seconds) / 2),
        tail_seconds=max(0.0, p99 - p50 - edge.tail_seconds),
        event_bytes=max(10.0, (link_bytes or 0) / calm.events / 2 - own),
    )


def _saturated(load: Load) -> tuple[tuple[float, float], float]:
    """Deliveries for an event, CPU seconds for an event; bytes of memory for a subscription."""
    with crew(OURS, OURS.volatile, load, Setting()) as workers:
        workers.run(Saturate(0.5, 1_000, 4))
        found = workers.run(_SATURATE)
        return (found.deliveries / found.events, _cpu(found)), _grown(workers) / len(load.wanted)


def _grown(workers: Crew) -> float:
    before, now = workers.memory_before_bytes, workers.broker.memory_bytes()
    return 0.0 if before is None or now is None else max(0.0, float(now - before))


def _cpu(run: Run) -> float:
    return (run.cpu_seconds or 0.0) / run.events


def _percentiles(run: Run) -> tuple[float, float]:
    settled = run.waits_ms[run.numbers >= run.events * 0.2]
    p50, p99 = (np.quantile(settled, (0.5, 0.99)) / 1e3).tolist()
    return p50, p99


def _flush_seconds() -> float:
    """The median time to bring a little to the disk, where temporary files are."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(40):
            os.write(file.fileno(), b"x" * 4_096)
            began = time.perf_counter()
            flush_data(file.fileno())
            times.append(time.perf_counter() - began)
    return float(np.median(times))
