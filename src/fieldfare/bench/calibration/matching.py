"""What it costs to match: every shape, with few subscriptions and with more than the caches hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from fieldfare.bench.ours import OurEngine
from fieldfare.bench.workload import Size, Workload
from fieldfare.bench.workloads import generate
from fieldfare.cores import one_core
from fieldfare.planning.application import Shape
from fieldfare.planning.costs import MatchCost

_WORKLOADS: dict[Shape, tuple[str, tuple[int, ...]]] = {
    Shape.RANGES: ("large", (1_000, 40_000, 400_000, 1_000_000)),
    Shape.QUOTES: ("quotes", (1_000, 40_000, 300_000)),
    Shape.KEYWORDS: ("keywords", (1_000, 30_000, 200_000)),
    Shape.SETS: ("alerts", (1_000, 30_000, 150_000)),
    Shape.PLACES: ("geofences", (1_000, 20_000, 80_000)),
}
_EVENTS, _BATCH, _REPEATS = 16_384, 2_048, 16
_WIDTH = 50.0
_WIDE = Size(40_000, 250.0, _EVENTS)
_CALLS = 60
_CACHE_BYTES = 8 * 1024 * 1024


def match_costs(reference: dict[Shape, MatchCost], progress: Callable[[str], None]) -> dict[Shape, MatchCost]:
    """Measured costs; what is not measured here (coverings) is as in the reference."""
    with one_core():
        per_match = _seconds_of_a_match()
        return {
            shape: _measured(shape, name, sizes, reference[shape], per_match, progress)
            for shape, (name, sizes) in _WORKLOADS.items()
        }


def _measured(
    shape: Shape,
    name: str,
    sizes: tuple[int, ...],
    reference: MatchCost,
    per_match: float,
    progress: Callable[[str], None],
) -> MatchCost:
    seconds = []
    own_match = reference.match_seconds if shape is Shape.PLACES else per_match
    for size in sizes:
        progress(f"matching {size:,} {shape}")
        workload = generate(name, Size(size, _WIDTH, _EVENTS), seed=1)
        engine = OurEngine(workload, size)
        matches = _matches(engine)
        taken = min(_seconds(engine, _BATCH)) / _BATCH
        seconds.append(max(taken - own_match * matches, 0.1 * taken))
    call_seconds = max(0.0, _call_seconds(engine, workload) - taken)
    table_call_seconds = max(0.0, _table_call_seconds(engine) - taken)
    return MatchCost(
        subscriptions=sizes,
        event_seconds=tuple(np.maximum.accumulate(seconds).tolist()),
        match_seconds=own_match,
        call_seconds=call_seconds,
        table_call_seconds=table_call_seconds,
        bytes_per_subscription=engine.index.nbytes / sizes[-1],
        in_vain_share=reference.in_vain_share,
    )


def _seconds_of_a_match() -> float:
    """The difference between wide ranges, which match much, and narrow ones, as many."""
    found = []
    for width in (_WIDTH, _WIDE.width):
        engine = OurEngine(generate("large", Size(_WIDE.subscriptions, width, _EVENTS), seed=1), _WIDE.subscriptions)
        found.append((min(_seconds(engine, _BATCH)) / _BATCH, _matches(engine)))
    (narrow, few), (wide, many) = found
    return max(1e-10, (wide - narrow) / (many - few))


def _matches(engine: OurEngine) -> float:
    return float(engine.lists(engine.match(0, _BATCH)).counts.mean())


def _seconds(engine: OurEngine, batch: int) -> Iterator[float]:
    """CPU seconds of batches; others on the machine can only add to them."""
    for number in range(_REPEATS):
        start = number * batch % (_EVENTS - batch)
        began = time.thread_time()
        engine.match(start, start + batch)
        yield time.thread_time() - began


def _table_call_seconds(engine: OurEngine) -> float:
    """A call for one event, as a program makes it that has its events in tables."""
    return _cold_seconds(lambda number: engine.match(number, number + 1))


def _call_seconds(engine: OurEngine, workload: Workload) -> float:
    """A call for one event, as an edge makes it."""
    rows = workload.events.slice(0, _CALLS).to_pylist()
    return _cold_seconds(lambda number: engine.index.match_rows([rows[number]]))


def _cold_seconds(call: Callable[[int], object]) -> float:
    """The median of calls; between two of them the caches are used for something else, as they are at a calm rate."""
    other, times = np.zeros(_CACHE_BYTES // 8), []
    for number in range(_CALLS):
        other += 1.0
        began = time.thread_time()
        call(number)
        times.append(time.thread_time() - began)
    return float(np.median(times[1:]))
