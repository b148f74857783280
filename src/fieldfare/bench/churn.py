"""Matching while subscriptions come and go, measured against the wall clock.

Before every batch of events, all changes that have fallen due by the clock are applied, in one call where the engine
has one; then the batch is matched. Events per second are the events matched by the wall time that matching and changes
took together. So an engine that changes slowly matches less, and no engine may put a change off by more than a batch;
a batch is what the engine, undisturbed, matches in a tenth of a second. The oldest subscription is the first to go.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from fieldfare.bench.measuring import BATCH_EVENTS_MAX, ChangingEngine, Measurement

CHANGES_PER_SECOND = 10_000  # subscriptions that come; as many go
BATCH_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Churn:
    """How fast an engine matched, how fast it changed meanwhile, and how many subscriptions came and went in all."""

    events_per_second: float
    changes_per_second: float
    changes: int


def pool(live: int, seconds: float) -> int:
    """How many subscriptions are needed so that the live ones can be replaced for so long."""
    return live + int(CHANGES_PER_SECOND * seconds) + 1


def measure_churn(engine: ChangingEngine, quiet: Measurement, live: int, changes_max: int, seconds: float) -> Churn:
    """Match and change for some seconds; `quiet` is the engine's speed without changes."""
    events = len(quiet.counts)
    batch_events = max(1, min(int(quiet.events_per_second * BATCH_SECONDS), BATCH_EVENTS_MAX, events))
    changes = matched = start = 0
    began = time.perf_counter()
    elapsed = 0.0
    while elapsed < seconds or not changes:
        due = min(int(elapsed * CHANGES_PER_SECOND), changes_max)
        while changes < due:
            step = min(due - changes, live)
            engine.change(slice(live + changes, live + changes + step), slice(changes, changes + step))
            changes += step
        start = 0 if start + batch_events > events else start
        engine.match(start, start + batch_events)
        start += batch_events
        matched += batch_events
        elapsed = time.perf_counter() - began
    return Churn(matched / elapsed, changes / elapsed, changes)
