"""How much of the experiment to run, and how the applications of Table 1 are scaled to one machine."""

from __future__ import annotations

from dataclasses import dataclass

SEED = 1
BATCHES = 6  # of one run for throughput on Spark; the first warms up
FILES_PER_SECOND = 10  # in which events come to Spark


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes and times; the applications keep their shapes, their matches for an event and their kinds of delivery."""

    subscriptions_max: int = 10_000
    connections_max: int = 100
    events_per_second_max: float = 4_000.0  # at which latency is looked at
    pool_events: int = 4_096  # that are published over and over
    rounds: int = 3  # all ways once, then all again: the machine is not equally fast for long
    saturating_seconds: float = 1.0
    pacing_seconds: float = 2.0
    spark_events: int = 120_000  # of one run for throughput
    spark_pacing_seconds: float = 3.0
    peer_subscriptions_max: int = 300  # peers are asked one by one
    matchers: int = 12  # of the simulated clusters
    simulated_events: int = 20_000
    sizes: tuple[int, ...] = (1_000, 4_000, 16_000, 64_000, 256_000)  # at which matching is measured for the curves


QUICK = Scale(
    subscriptions_max=1_000,
    connections_max=20,
    events_per_second_max=1_000.0,
    pool_events=512,
    rounds=1,
    saturating_seconds=0.3,
    pacing_seconds=0.6,
    spark_events=24_000,
    spark_pacing_seconds=1.5,
    peer_subscriptions_max=100,
    matchers=6,
    simulated_events=3_000,
    sizes=(500, 2_000, 8_000),
)
