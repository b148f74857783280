"""What a run of the broker benchmark found, as JSON for programs and as a table for people, beside the aims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.table import Table

from fieldfare.bench.results import compact

OURS = "fieldfare"


@dataclass(frozen=True, slots=True)
class Speed:
    """A broker in a scenario, or why it was not measured."""

    events_per_second: float | None = None  # end to end: until the last subscriber had the last event
    deliveries_per_second: float | None = None  # to a subscriber that wants it
    cpu_us_per_event: float | None = None  # of the broker's process: what a busy machine changes least
    latency_p50_ms: float | None = None  # of a delivery; in a fan-out, of the last
    latency_p99_ms: float | None = None
    latency_events_per_second: float | None = None  # the rate at which latency was measured
    note: str = ""
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """All brokers in one scenario."""

    scenario: str
    title: str
    subscriptions: int
    connections: int
    share: float
    speeds: Mapping[str, Speed]

    @property
    def ratio_to_best_peer(self) -> float | None:
        """How many times faster than the fastest peer; in a fan-out, by the median time to the last."""
        ours, peers = self.speeds[OURS], [speed for name, speed in self.speeds.items() if name != OURS]
        rates = [peer.events_per_second for peer in peers if peer.events_per_second]
        if ours.events_per_second and rates:
            return ours.events_per_second / max(rates)
        times = [peer.latency_p50_ms for peer in peers if peer.latency_p50_ms]
        if ours.latency_p50_ms and times:
            return min(times) / ours.latency_p50_ms
        return None


@dataclass(frozen=True, slots=True)
class Aim:
    """Something to be reached; a ratio of 1 or more reaches it."""

    what: str
    measured: float
    aim: float
    ratio: float


def aims(results: Sequence[Result]) -> list[Aim]:
    """What was aimed at, as far as it was measured, and at full size."""
    by_name = {result.scenario: result for result in results if result.subscriptions >= 1000}
    found: list[Aim] = []
    if selective := by_name.get("selective"):
        if ratio := selective.ratio_to_best_peer:
            found.append(Aim("selective: times the best peer's events/s", ratio, 10.0, ratio / 10.0))
        if p99_ms := selective.speeds[OURS].latency_p99_ms:
            found.append(Aim("selective: p99 at half of saturation, ms", p99_ms, 10.0, 10.0 / p99_ms))
    if (one_core := by_name.get("one-core")) and (rate := one_core.speeds[OURS].events_per_second):
        found.append(Aim("one-core: events/s against 100,000 subscriptions", rate, 50_000.0, rate / 50_000.0))
    return found


def to_json(results: Sequence[Result]) -> str:
    """One object. What does not apply to a broker in a scenario is left out."""
    scenarios = [_to_object(result) for result in results]
    return json.dumps({"scenarios": scenarios, "aims": [asdict(aim) for aim in aims(results)]}, indent=2)


def _to_object(result: Result) -> dict[str, Any]:
    return asdict(result) | {
        "speeds": {
            name: {field: value for field, value in asdict(speed).items() if value not in (None, "")}
            for name, speed in result.speeds.items()
        },
        "ratio_to_best_peer": result.ratio_to_best_peer,
    }


def render(results: Sequence[Result]) -> Group:
    """One row for each broker in each scenario, and a table of the aims."""
    table = Table(title="Brokers on loopback, every delivery counted", caption=_CAPTION)
    for heading in ("scenario", "broker"):
        table.add_column(heading)
    for heading in ("events/s", "deliveries/s", "CPU µs/event", "p50 ms", "p99 ms", "ratio"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for result in results:
        for name, speed in result.speeds.items():
            table.add_row(*_row(result, name, speed), end_section=name == list(result.speeds)[-1])
    return Group(table, _aims_table(results)) if aims(results) else Group(table)


_CAPTION = (
    "events/s: end to end, at saturation. CPU: of the broker's process. p50, p99: latency at half of that rate; in "
    "fan-out, until the last has it. ratio: ours to the best peer."
)


def _row(result: Result, name: str, speed: Speed) -> list[str]:
    ratio = result.ratio_to_best_peer if name == OURS else None
    return [
        result.title if name == OURS else "",
        name,
        *("-" if rate is None else compact(rate) for rate in (speed.events_per_second, speed.deliveries_per_second)),
        "-" if speed.cpu_us_per_event is None else f"{speed.cpu_us_per_event:,.1f}",
        *("-" if time is None else f"{time:,.2f}" for time in (speed.latency_p50_ms, speed.latency_p99_ms)),
        "" if ratio is None else f"{ratio:,.1f}",
        speed.skipped or speed.note,
    ]


def _aims_table(results: Sequence[Result]) -> Table:
    table = Table(title="Aims")
    table.add_column("what")
    for heading in ("measured", "aim", "ratio"):
        table.add_column(heading, justify="right")
    for aim in aims(results):
        table.add_row(aim.what, f"{aim.measured:,.1f}", f"{aim.aim:,.0f}", f"{aim.ratio:.2f}")
    return table
