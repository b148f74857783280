"""What a run of the broker benchmark found, as JSON for programs and as a table for people, beside the aims."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.table import Table

from fieldfare.bench.aims import Aim, aims_table, at_least, at_most
from fieldfare.bench.results import compact

OURS = "fieldfare"


@dataclass(frozen=True, slots=True)
class RatePoint:
    """A broker at a rate of events."""

    events_per_second: float
    latency_p50_ms: float  # of a delivery
    latency_p99_ms: float
    cpu_us_per_message: float | None
    broker_busy: float | None  # share of a core
    subscribers_busy: float  # of their busiest process: near 1, it is they who limit


@dataclass(frozen=True, slots=True)
class Speed:
    """A broker in a scenario, or why it was not measured."""

    events_per_second: float | None = None  # end to end: until the last subscriber had the last event
    deliveries_per_second: float | None = None  # to a subscriber that wants it
    cpu_us_per_event: float | None = None  # of the broker's process: what a busy machine changes least
    cpu_us_per_message: float | None = None  # the same, for each message to a subscriber, whether it wants it or not
    latency_p50_ms: float | None = None  # of a delivery; in a fan-out, of the last
    latency_p99_ms: float | None = None
    latency_events_per_second: float | None = None  # the rate at which latency was measured
    points: tuple[RatePoint, ...] = ()  # at the rates that it can do
    bytes_per_connection: float | None = None
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


def aims(results: Sequence[Result]) -> list[Aim]:
    """What was aimed at, as far as it was measured, and at full size."""
    return [aim for result in results if result.subscriptions >= 1000 for aim in _aims_of(result)]


def _aims_of(result: Result) -> Iterator[Aim]:
    ours, ratio = result.speeds[OURS], result.ratio_to_best_peer
    if result.scenario == "selective":
        if ratio:
            yield at_least("selective: times the best peer's events/s", ratio, 10.0)
        if ours.latency_p99_ms:
            yield at_most("selective: p99 at half of saturation, ms", ours.latency_p99_ms, 10.0)
    elif result.scenario == "one-core" and (rate := ours.events_per_second):
        yield at_least("one-core: events/s against 100,000 subscriptions", rate, 80_000.0)
    elif result.scenario == "fan-out" and ratio:
        yield at_most("fan-out: times the better peer's time", 1.0 / ratio, 1.2)
    elif result.scenario == "idle" and ours.bytes_per_connection:
        yield at_most("idle: kB for each connection", ours.bytes_per_connection / 1000, 20.0)
    for point in ours.points:
        at = f"{result.scenario}: {{}} at {point.events_per_second:,.0f} events/s"
        if point.events_per_second == 2_000 and point.cpu_us_per_message:
            yield at_most(at.format("CPU µs a message"), point.cpu_us_per_message, 13.0)
        if aim_ms := _P99_AIMS_MS.get(point.events_per_second):
            yield at_most(at.format("p99 ms"), point.latency_p99_ms, aim_ms)


_P99_AIMS_MS = {4_000.0: 10.0, 8_000.0: 60.0}


def to_json(results: Sequence[Result]) -> str:
    """One object. What does not apply to a broker in a scenario is left out."""
    scenarios = [_to_object(result) for result in results]
    return json.dumps({"scenarios": scenarios, "aims": [asdict(aim) for aim in aims(results)]}, indent=2)


def _to_object(result: Result) -> dict[str, Any]:
    return asdict(result) | {
        "speeds": {
            name: {field: value for field, value in asdict(speed).items() if value not in (None, "", ())}
            for name, speed in result.speeds.items()
        },
        "ratio_to_best_peer": result.ratio_to_best_peer,
    }


def render(results: Sequence[Result]) -> Group:
    """One row for each broker in each scenario, what was measured at some rates, memory, and the aims."""
    tables = [make(results) for make in (_speeds_table, _rates_table, _memory_table)] + [aims_table(aims(results))]
    return Group(*(table for table in tables if table.row_count))


def _speeds_table(results: Sequence[Result]) -> Table:
    caption = (
        "events/s: end to end, at saturation. CPU: of the broker's process. p50, p99: latency at half of that rate; in "
        "fan-out, until the last has it. ratio: ours to the best peer."
    )
    headings = ("events/s", "deliveries/s", "CPU µs/event", "CPU µs/message", "p50 ms", "p99 ms", "ratio")
    table = _table("Brokers on loopback, every delivery counted", ("scenario", "broker"), headings, caption)
    table.add_column("")
    for result, name, speed in _rows(results, "speeds"):
        ratio = result.ratio_to_best_peer if name == OURS else None
        table.add_row(
            result.title if name == OURS else "",
            name,
            *map(_compact, (speed.events_per_second, speed.deliveries_per_second)),
            *map(_precise, (speed.cpu_us_per_event, speed.cpu_us_per_message)),
            *map(_precise, (speed.latency_p50_ms, speed.latency_p99_ms)),
            "" if ratio is None else f"{ratio:,.1f}",
            speed.skipped or speed.note,
            end_section=name == list(result.speeds)[-1],
        )
    return table


def _rates_table(results: Sequence[Result]) -> Table:
    caption = (
        "CPU: of the broker's process, for each message that it sends. busy: the broker, and the busiest process of "
        "subscribers. A rate above what a broker reaches at saturation is left out."
    )
    shown = list(_rows(results, "rates"))
    rates = sorted({point.events_per_second for _, _, speed in shown for point in speed.points})
    headings = [f"{rate:,.0f}/s" for rate in rates]
    table = _table("Latency at some rates of events", ("scenario", "broker", ""), headings, caption)
    table.add_column("")
    for result, name, speed in shown:
        points = {point.events_per_second: point for point in speed.points}
        for what, show in _POINT_ROWS.items():
            is_first = show is _latency
            labels = (result.title if name == OURS else "", name) if is_first else ("", "")
            note = speed.skipped or f"at most {_compact(speed.events_per_second)} events/s; {speed.note}"
            cells = [show(points[rate]) if rate in points else "-" for rate in rates]
            table.add_row(*labels, what, *cells, note if is_first else "", end_section=show is _busy)
    return table


def _latency(point: RatePoint) -> str:
    return f"{point.latency_p50_ms:.1f} / {point.latency_p99_ms:.1f}"


def _cpu(point: RatePoint) -> str:
    return _precise(point.cpu_us_per_message)


def _busy(point: RatePoint) -> str:
    return f"{point.broker_busy or 0:.0%}, {point.subscribers_busy:.0%}"


_POINT_ROWS = {"p50 / p99 ms": _latency, "CPU µs/message": _cpu, "busy": _busy}


def _memory_table(results: Sequence[Result]) -> Table:
    table = _table("Memory of idle connections", ("scenario", "broker"), ("kB/connection",))
    table.add_column("")
    for result, name, speed in _rows(results, "memory"):
        size = None if speed.bytes_per_connection is None else speed.bytes_per_connection / 1000
        table.add_row(result.title if name == OURS else "", name, _precise(size), speed.skipped or speed.note)
    return table


def _table(title: str, texts: Sequence[str], numbers: Sequence[str], caption: str | None = None) -> Table:
    table = Table(title=title, caption=caption)
    for heading in texts:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def _rows(results: Sequence[Result], table: str) -> Iterator[tuple[Result, str, Speed]]:
    return (
        (result, name, speed)
        for result in results
        if _table_of(result) == table
        for name, speed in result.speeds.items()
    )


def _table_of(result: Result) -> str:
    speeds = result.speeds.values()
    if any(speed.points for speed in speeds):
        return "rates"
    return "memory" if any(speed.bytes_per_connection is not None for speed in speeds) else "speeds"


def _compact(rate: float | None) -> str:
    return "-" if rate is None else compact(rate)


def _precise(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
