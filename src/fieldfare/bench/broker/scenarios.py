"""What is measured of a broker, and how: each scenario on ours and on every peer that is installed, in one run.

The peers filter by topic only, so their clients receive everything and filter themselves. No number is reported unless
every connection received exactly the events that it had to.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldfare.bench.broker.crew import Crew, Run, Setting, crew
from fieldfare.bench.broker.load import Load, make_load
from fieldfare.bench.broker.results import Result, Speed, render, to_json
from fieldfare.bench.broker.servers import OURS, PEERS, Server
from fieldfare.bench.broker.workers import Pace, Saturate
from fieldfare.errors import InputError, MissingDependencyError

__all__ = ["PEERS", "SCENARIOS", "BrokerOptions", "Result", "render", "run", "to_json"]

OPEN_FILES = 16_384
QUICK_SHARE = 0.02  # of the subscriptions, the connections and the time
WARM_UP_SHARE = 0.2  # of the seconds, before any of them counts


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many want how much, and what is asked of the broker."""

    title: str  # with the sizes left open
    subscriptions: int
    connections: int
    share: float  # of the events that a subscription wants
    batch_events: int = 1_000
    batches_under_way: int = 4
    is_durable: bool = False
    is_paced: bool = False  # then measure latency at half of the rate that was reached
    is_fan_out: bool = False  # measure the time until the last subscriber has an event
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
_MANY = "{0.subscriptions:,} subscriptions on {0.connections} connections"
SCENARIOS = {
    "selective": Scenario(_EACH, 1_000, 1_000, 0.01, is_paced=True),
    "durable": Scenario(f"{_EACH}, flushed to disk", 1_000, 1_000, 0.01, is_paced=True, is_durable=True),
    "edge-10k": Scenario(_MANY, 10_000, 100, 1e-4),
    "edge-100k": Scenario(_MANY, 100_000, 100, 1e-5),
    "fan-out": Scenario("one event to {0.connections:,} subscribers", 1_000, 1_000, 1.0, 1, 1, is_fan_out=True),
    "one-core": Scenario(
        f"{_MANY}, the broker on one core", 100_000, 100, 1e-5, on_one_core=True, why_no_peers="matches nothing"
    ),
}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What to measure."""

    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    peers: tuple[str, ...] = tuple(PEERS)
    seconds: float = 5.0  # for each broker in each scenario
    subscriber_processes: int = 1
    is_quick: bool = False  # sizes that only show that it works

    def __post_init__(self) -> None:
        for names, known, what in ((self.scenarios, SCENARIOS, "scenario"), (self.peers, PEERS, "peer")):
            for name in names:
                if name not in known:
                    raise InputError(f"there is no {what} {name!r}; there are {', '.join(known)}")
        if not self.seconds > 0 or self.subscriber_processes < 1:
            raise InputError("seconds and the number of processes must be above 0")


def run(options: BrokerOptions, progress: Callable[[str], None]) -> list[Result]:
    """Measure every scenario; `progress` is told what is being done."""
    _allow_many_connections()
    return [_measured(name, options, progress) for name in options.scenarios]


def _allow_many_connections() -> None:
    """A thousand connections need as many open files; the processes to be started inherit the right to them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _measured(name: str, options: BrokerOptions, progress: Callable[[str], None]) -> Result:
    scenario = SCENARIOS[name].sized(QUICK_SHARE if options.is_quick else 1.0)
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
    seconds = options.seconds * (QUICK_SHARE if options.is_quick else 1.0)
    with crew(server, guarantee, load, Setting(options.subscriber_processes, scenario.on_one_core)) as workers:
        workers.run(scenario.order(seconds * WARM_UP_SHARE))
        if scenario.is_fan_out:
            return replace(_fanned_out(workers, scenario.order(seconds)), note=note)
        speed = _saturated(workers, scenario.order(seconds), pace_seconds=seconds if scenario.is_paced else 0.0)
        return replace(speed, note=note)


def _saturated(workers: Crew, order: Saturate, pace_seconds: float) -> Speed:
    reached = workers.run(order)
    speed = _reached(reached)
    if not pace_seconds:
        return speed
    paced = workers.run(Pace(pace_seconds, reached.events_per_second / 2), is_recording=True)
    settled = paced.waits_ms[paced.numbers >= paced.events * WARM_UP_SHARE]
    return replace(
        speed,
        latency_p50_ms=float(np.quantile(settled, 0.5)),
        latency_p99_ms=float(np.quantile(settled, 0.99)),
        latency_events_per_second=reached.events_per_second / 2,
    )


def _fanned_out(workers: Crew, order: Saturate) -> Speed:
    reached = workers.run(order, is_recording=True)
    last_ms = np.zeros(reached.events)
    np.maximum.at(last_ms, reached.numbers, reached.waits_ms)
    p50, p99 = np.quantile(last_ms, [0.5, 0.99]).tolist()
    return replace(_reached(reached), events_per_second=None, latency_p50_ms=p50, latency_p99_ms=p99)


def _reached(run: Run) -> Speed:
    cpu_us = None if run.cpu_seconds is None else 1e6 * run.cpu_seconds / run.events
    return Speed(run.events_per_second, run.deliveries / run.seconds, cpu_us)
