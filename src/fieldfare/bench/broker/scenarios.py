"""What is measured of a broker, and how: each scenario on ours and on every peer that is installed, in one run.

The peers filter by topic only, so their clients receive everything and filter themselves. No number is reported unless
every connection received exactly the events that it had to.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from fieldfare.bench.broker.crew import Crew, Run, Setting, crew
from fieldfare.bench.broker.load import Load, make_load
from fieldfare.bench.broker.results import RatePoint, Result, Speed, render, to_json
from fieldfare.bench.broker.servers import OURS, PEERS, Guarantee, Server
from fieldfare.bench.broker.workers import Pace, Saturate
from fieldfare.errors import InputError, MissingDependencyError

__all__ = ["PEERS", "SCENARIOS", "BrokerOptions", "Result", "render", "run", "to_json"]

OPEN_FILES = 16_384
OTHER_FILES = 1_024  # that a broker needs beside its connections
RATES = (300.0, 1_000.0, 2_000.0, 4_000.0, 8_000.0)  # events per second at which latency is measured
REHEARSING = 100  # subscribers that come and go before memory is measured
SETTLING_SECONDS = 1.0
QUICK_SHARE = 0.02  # of the subscriptions, the connections and the time
WARM_UP_SHARE = 0.2  # of the seconds, before any of them counts


Measure: TypeAlias = Literal[
    "speed",  # the highest rate
    "latency",  # that, and the latency at half of it
    "rates",  # the latency at some rates
    "fan-out",  # the time until the last subscriber has an event
    "idle",  # the memory of connections on which nothing happens
]


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many want how much, and what is asked of the broker."""

    title: str  # with the sizes left open
    subscriptions: int
    connections: int
    share: float  # of the events that a subscription wants
    batch_events: int = 1_000
    batches_under_way: int = 4
    measure: Measure = "speed"
    is_durable: bool = False
    on_one_core: bool = False
    why_no_peers: str = ""

    def order(self, seconds: float) -> Saturate:
        """How to find the highest rate."""
        return Saturate(seconds, self.batch_events, self.batches_under_way)

    def sized(self, factor: float) -> Scenario:
        """The same with fewer subscriptions, connections and events; each subscription wants as many more of them."""
        subscriptions = max(4, round(self.subscriptions * factor))
        share = min(1.0, self.share * self.subscriptions / subscriptions)
        return replace(
            self,
            subscriptions=subscriptions,
            connections=max(2, round(self.connections * factor)),
            share=share,
            batch_events=max(1, round(self.batch_events * factor)),
        )


_EACH = "{0.connections:,} subscribers, each wants {0.share:.0%}"
_DURABLE = f"{_EACH}, flushed to disk"
_MANY = "{0.subscriptions:,} subscriptions on {0.connections} connections"
SCENARIOS = {
    "selective": Scenario(_EACH, 1_000, 1_000, 0.01, measure="latency"),
    "durable": Scenario(_DURABLE, 1_000, 1_000, 0.01, measure="latency", is_durable=True),
    "rates": Scenario(_EACH, 1_000, 1_000, 0.01, measure="rates"),
    "rates-durable": Scenario(_DURABLE, 1_000, 1_000, 0.01, measure="rates", is_durable=True),
    "edge-10k": Scenario(_MANY, 10_000, 100, 1e-4),
    "edge-100k": Scenario(_MANY, 100_000, 100, 1e-5),
    "fan-out": Scenario("one event to {0.connections:,} subscribers", 1_000, 1_000, 1.0, 1, 1, measure="fan-out"),
    "one-core": Scenario(
        f"{_MANY}, the broker on one core", 100_000, 100, 1e-5, on_one_core=True, why_no_peers="matches nothing"
    ),
    "idle": Scenario("{0.connections:,} connections, nothing happens", 10_000, 10_000, 1e-3, 10, measure="idle"),
}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What to measure."""

    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    peers: tuple[str, ...] = tuple(PEERS)
    seconds: float = 5.0  # for each broker in each scenario, and at each rate
    rates: tuple[float, ...] = RATES
    subscriber_processes: int = 1
    is_quick: bool = False  # sizes that only show that it works

    def __post_init__(self) -> None:
        for names, known, what in ((self.scenarios, SCENARIOS, "scenario"), (self.peers, PEERS, "peer")):
            for name in names:
                if name not in known:
                    raise InputError(f"there is no {what} {name!r}; there are {', '.join(known)}")
        if not self.seconds > 0 or self.subscriber_processes < 1 or not all(rate > 0 for rate in self.rates):
            raise InputError("seconds, rates and the number of processes must be above 0")


def run(options: BrokerOptions, progress: Callable[[str], None]) -> list[Result]:
    """Measure every scenario; `progress` is told what is being done."""
    connections_max = _allow_many_connections()
    return [_measured(name, connections_max, options, progress) for name in options.scenarios]


def _allow_many_connections() -> int:
    """Ask for as many open files as connections need, also for the processes to be started; returns how many fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        soft = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return OPEN_FILES if soft == resource.RLIM_INFINITY else soft - OTHER_FILES


def _measured(name: str, connections_max: int, options: BrokerOptions, progress: Callable[[str], None]) -> Result:
    fitting = min(1.0, connections_max / SCENARIOS[name].connections)
    scenario = SCENARIOS[name].sized(QUICK_SHARE if options.is_quick else fitting)
    load = make_load(scenario.subscriptions, scenario.connections, scenario.share)
    speeds: dict[str, Speed] = {}
    for server in (OURS, *(PEERS[peer] for peer in options.peers)):
        progress(f"{name}: {server.name}")
        try:
            speeds[server.name] = _speed(server, scenario, load, options)
        except MissingDependencyError as error:
            speeds[server.name] = Speed(skipped=str(error))
    title = scenario.title.format(scenario)
    return Result(name, title, scenario.subscriptions, scenario.connections, scenario.share, speeds)


def _speed(server: Server, scenario: Scenario, load: Load, options: BrokerOptions) -> Speed:
    if not server.filters and scenario.why_no_peers:
        return Speed(skipped=scenario.why_no_peers)
    guarantee = server.durable if scenario.is_durable else server.volatile
    if guarantee is None:
        return Speed(skipped=server.why_not_durable)
    note = guarantee.note
    if not server.filters and scenario.subscriptions > scenario.connections:
        load = make_load(scenario.connections, scenario.connections, 1.0)
        note += "; in its favour, its clients receive everything and do not filter"
    setting = Setting(options.subscriber_processes, scenario.on_one_core)
    if scenario.measure == "idle":
        return replace(_idle(server, guarantee, load, setting), note=note)
    seconds = options.seconds * (QUICK_SHARE if options.is_quick else 1.0)
    with crew(server, guarantee, load, setting) as workers:
        workers.run(scenario.order(seconds * WARM_UP_SHARE))
        speed = _measured_with(workers, scenario, seconds, options.rates)
    return replace(speed, note=note)


def _measured_with(workers: Crew, scenario: Scenario, seconds: float, rates: tuple[float, ...]) -> Speed:
    is_fan_out = scenario.measure == "fan-out"
    reached = workers.run(scenario.order(seconds), is_recording=is_fan_out)
    speed = Speed(
        events_per_second=reached.events_per_second,
        deliveries_per_second=reached.deliveries / reached.seconds,
        cpu_us_per_event=None if reached.cpu_seconds is None else 1e6 * reached.cpu_seconds / reached.events,
        cpu_us_per_message=reached.cpu_us_per_message,
    )
    if is_fan_out:
        return _fanned_out(reached, speed)
    if scenario.measure == "latency":
        point = _point(workers, seconds, reached.events_per_second / 2)
        return replace(
            speed,
            latency_p50_ms=point.latency_p50_ms,
            latency_p99_ms=point.latency_p99_ms,
            latency_events_per_second=point.events_per_second,
        )
    if scenario.measure == "rates":
        possible = [rate for rate in rates if rate <= reached.events_per_second]
        return replace(speed, points=tuple(_point(workers, seconds, rate) for rate in possible))
    return speed


def _point(workers: Crew, seconds: float, rate: float) -> RatePoint:
    paced = workers.run(Pace(seconds, rate), is_recording=True)
    settled = paced.waits_ms[paced.numbers >= paced.events * WARM_UP_SHARE]
    p50, p99 = np.quantile(settled, [0.5, 0.99]).tolist()
    return RatePoint(
        events_per_second=rate,
        latency_p50_ms=p50,
        latency_p99_ms=p99,
        cpu_us_per_message=paced.cpu_us_per_message,
        broker_busy=None if paced.cpu_seconds is None else paced.cpu_seconds / paced.seconds,
        subscribers_busy=paced.subscribers_cpu_seconds / paced.seconds,
    )


def _fanned_out(reached: Run, speed: Speed) -> Speed:
    last_ms = np.zeros(reached.events)
    np.maximum.at(last_ms, reached.numbers, reached.waits_ms)
    p50, p99 = np.quantile(last_ms, [0.5, 0.99]).tolist()
    return replace(speed, events_per_second=None, latency_p50_ms=p50, latency_p99_ms=p99)


def _idle(server: Server, guarantee: Guarantee, load: Load, setting: Setting) -> Speed:
    """The memory of all connections, before anything is published; then that they are all there."""
    rehearsal = make_load(REHEARSING, REHEARSING, 1.0, pool_events=1)
    with crew(server, guarantee, load, setting, rehearsal) as workers:
        time.sleep(SETTLING_SECONDS)
        before, after = workers.memory_before_bytes, workers.broker.memory_bytes()
        workers.run(Saturate(0.0, SCENARIOS["idle"].batch_events, 1))
    return Speed(bytes_per_connection=None if before is None or after is None else (after - before) / load.connections)
