"""`fieldfare bench engine`: one core, ours and the peers in one run, every answer checked against brute force.

A number is only ever reported for an engine whose matches were compared with brute force in the same run, event by
event and id by id, and whose counts agree with the other engines' on every event that both were measured on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfare.bench.churn import measure_churn, pool
from fieldfare.bench.floor import writing_limit_pairs_per_second
from fieldfare.bench.measuring import ChangingEngine, Counts, count_all, measure, verify, verify_counts
from fieldfare.bench.ours import OurEngine, conditions_per_second
from fieldfare.bench.peers import PEERS
from fieldfare.bench.results import EngineResult, Ours, PeerSpeed, render, to_json
from fieldfare.bench.spatial import DOMAIN_LENGTH
from fieldfare.bench.workload import Size, Workload
from fieldfare.bench.workloads import WORKLOADS, generate, sizes
from fieldfare.cores import one_core
from fieldfare.errors import InputError, MissingDependencyError

__all__ = ["PEERS", "WORKLOADS", "EngineOptions", "EngineResult", "render", "run", "to_json"]

VERIFIED_EVENTS = 200
VERIFIED_EVENTS_OF_PEERS = 16
WARM_UP = Size(1_000, 250.0, 1_000)
CALIBRATION_SHARE = 0.2  # of the seconds, to find an engine's speed before subscriptions start to change


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What to measure. Where `subscriptions`, `width` or `events` is None, the workload's usual sizes are taken."""

    workloads: tuple[str, ...] = tuple(WORKLOADS)
    peers: tuple[str, ...] = tuple(PEERS)
    subscriptions: int | None = None
    width: float | None = None  # of bluedove's, large's and churn's ranges
    events: int | None = None
    seconds: float = 3.0  # for each engine on each workload
    seed: int = 1

    def __post_init__(self) -> None:
        for names, known, what in ((self.workloads, WORKLOADS, "workload"), (self.peers, PEERS, "peer")):
            for name in names:
                if name not in known:
                    raise InputError(f"there is no {what} {name!r}; there are {', '.join(known)}")
        for option, value in (("subscriptions", self.subscriptions), ("events", self.events), ("width", self.width)):
            if value is not None and not value > 0:
                raise InputError(f"{option} must be above 0, not {value}")
        if self.width is not None and self.width > DOMAIN_LENGTH:
            raise InputError(f"width must be at most {DOMAIN_LENGTH:g}, the length of the domain, not {self.width}")
        if not self.seconds > 0:
            raise InputError(f"seconds must be above 0, not {self.seconds}")


def run(options: EngineOptions, progress: Callable[[str], None]) -> list[EngineResult]:
    """Measure every workload at every size; `progress` is told what is being done."""
    with one_core():
        return [
            _measure_workload(name, size, options, progress)
            for name in options.workloads
            for size in sizes(WORKLOADS[name], options.subscriptions, options.width, options.events)
        ]


def _measure_workload(name: str, size: Size, options: EngineOptions, progress: Callable[[str], None]) -> EngineResult:
    title = f"{name} with {size.subscriptions:,} subscriptions"
    progress(f"{title}: generating")
    live = size.subscriptions
    if WORKLOADS[name].changing:
        size = Size(pool(live, options.seconds), size.width, size.events)
    workload = generate(name, size, options.seed)
    _warm_up(name, options)
    progress(f"{title}: ours")
    ours, counts = _measure_ours(workload, live, options)
    peers = {}
    for peer in options.peers:
        if PEERS[peer].knows(workload):
            progress(f"{title}: {peer}")
            peers[peer] = _measure_peer(peer, workload, live, counts, options)
    return EngineResult(name, live, workload.width, float(counts.mean()), ours, peers)


def _warm_up(name: str, options: EngineOptions) -> None:
    """Load the kernels, which a long-running process does once."""
    workload = generate(name, WARM_UP, options.seed)
    live = len(workload) // 2 if WORKLOADS[name].changing else len(workload)
    engine = OurEngine(workload, live)
    engine.match(0, WARM_UP.events)
    if live < len(workload):
        engine.change(slice(live, len(workload)), slice(0, live))
        engine.match(0, WARM_UP.events)


def _measure_ours(workload: Workload, live: int, options: EngineOptions) -> tuple[Ours, Counts]:
    """Our speed, and the number of matches of every event, which the peers must find too."""
    engine = OurEngine(workload, live)
    bytes_per_subscription = engine.index.nbytes / live
    counts = count_all(engine, len(workload.events))
    speed = _measure_engine(engine, workload, live, VERIFIED_EVENTS, options)
    verify_counts(engine.name, workload.name, speed.counts, counts)
    limit = writing_limit_pairs_per_second(workload.ids[:live], counts, np.random.default_rng(options.seed))
    ours = Ours(
        events_per_second=speed.events_per_second,
        pairs_per_second=speed.events_per_second * float(counts.mean()),
        build_seconds=engine.build_seconds,
        bytes_per_subscription=bytes_per_subscription,
        writing_limit_pairs_per_second=limit,
        conditions_per_second=conditions_per_second(workload),
        changes_per_second=speed.changes_per_second,
    )
    return ours, counts


def _measure_peer(name: str, workload: Workload, live: int, expected: Counts, options: EngineOptions) -> PeerSpeed:
    try:
        engine = PEERS[name].build(workload, live)
    except MissingDependencyError as error:
        return PeerSpeed(skipped=str(error))
    speed = _measure_engine(engine, workload, live, VERIFIED_EVENTS_OF_PEERS, options)
    verify_counts(name, workload.name, speed.counts, expected)
    return PeerSpeed(speed.events_per_second, engine.build_seconds, speed.changes_per_second)


@dataclass(frozen=True, slots=True)
class _Speed:
    events_per_second: float
    counts: Counts  # of matches, before any changes
    changes_per_second: float | None = None


def _measure_engine(
    engine: ChangingEngine, workload: Workload, live: int, verified_events: int, options: EngineOptions
) -> _Speed:
    """Check an engine, measure it, and check again what changed meanwhile."""
    events = len(workload.events)
    verified = min(verified_events, events)
    verify(engine, workload.between(0, live), verified)
    if live == len(workload):
        measurement = measure(engine, events, options.seconds)
        return _Speed(measurement.events_per_second, measurement.counts)
    quiet = measure(engine, events, options.seconds * CALIBRATION_SHARE)
    churn = measure_churn(engine, quiet, live, len(workload) - live, options.seconds)
    verify(engine, workload.between(churn.changes, live + churn.changes), verified)
    return _Speed(churn.events_per_second, quiet.counts, churn.changes_per_second)
