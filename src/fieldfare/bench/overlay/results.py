"""What a run of the overlay benchmark found, as JSON for programs and as tables for people, beside the aims."""

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
OURS_DURABLE = "fieldfare-durable"
RATIO_AIM = 10.0
ADDED_P50_MS_AIM = 2.0


@dataclass(frozen=True, slots=True)
class Speed:
    """A system in a scenario with some edges, or why it was not measured."""

    events_per_second: float | None = None  # at saturation: until the last subscriber had the last event
    deliveries_per_second: float | None = None  # of events that their subscriber wants
    brokers_cpu_us_per_event: float | None = None  # of the hub and all edges
    subscribers_cpu_us_per_event: float | None = None  # of their busiest process: receiving, reading, filtering
    link_bytes_per_event: float | None = None  # between the hub and the edges, both ways, over TCP
    memory_megabytes: float | None = None  # of the hub and all edges
    latency_events_per_second: float | None = None  # the rate at which latency was measured
    latency_p50_ms: float | None = None  # of a delivery, from when its event was due
    latency_p99_ms: float | None = None
    one_edge_p50_ms: float | None = None  # at the same rate, with publisher and subscribers at one edge
    note: str = ""
    skipped: str | None = None

    @property
    def cpu_us_per_event(self) -> float | None:
        """Of brokers and subscribers together: what a busy machine changes least."""
        if self.brokers_cpu_us_per_event is None or self.subscribers_cpu_us_per_event is None:
            return None
        return self.brokers_cpu_us_per_event + self.subscribers_cpu_us_per_event

    @property
    def added_p50_ms(self) -> float | None:
        """What two hops add to the median latency at the same rate."""
        if self.latency_p50_ms is None or self.one_edge_p50_ms is None:
            return None
        return self.latency_p50_ms - self.one_edge_p50_ms


@dataclass(frozen=True, slots=True)
class Result:
    """All systems in one scenario with some edges."""

    scenario: str
    title: str
    edges: int
    subscribers: int
    share: float  # of the events that a subscriber wants
    is_full_size: bool  # else it shows only that it works
    speeds: Mapping[str, Speed]

    def ratio_to_best_peer(self, name: str) -> float | None:
        """How many times as many events a second one of ours carries as the fastest peer."""
        ours = self.speeds[name].events_per_second
        peers = [rate for speed in self._peers() if (rate := speed.events_per_second)]
        return ours / max(peers) if ours and peers else None

    def cpu_ratio_to_best_peer(self, name: str) -> float | None:
        """How many times as much CPU the most economical peer and its subscribers take for an event."""
        ours = self.speeds[name].cpu_us_per_event
        peers = [cpu_us for speed in self._peers() if (cpu_us := speed.cpu_us_per_event)]
        return min(peers) / ours if ours and peers else None

    def _peers(self) -> list[Speed]:
        return [speed for name, speed in self.speeds.items() if not is_ours(name)]


def is_ours(name: str) -> bool:
    """Whether a system is Fieldfare, and no peer."""
    return name in (OURS, OURS_DURABLE)


def aims(results: Sequence[Result]) -> list[Aim]:
    """What was aimed at, as far as it was measured, at full size and over two hops."""
    return [aim for result in results if result.is_full_size and result.edges > 1 for aim in _aims_of(result)]


def _aims_of(result: Result) -> Iterator[Aim]:
    where = f"{result.scenario}, {result.edges} edges"
    if OURS not in result.speeds:
        return
    ratio, added_ms = result.ratio_to_best_peer(OURS), result.speeds[OURS].added_p50_ms
    if ratio is not None and result.share < 1:
        yield at_least(f"{where}: times the best peer's events/s", ratio, RATIO_AIM)
    if added_ms is not None:
        yield at_most(f"{where}: ms that the overlay adds to p50", added_ms, ADDED_P50_MS_AIM)


def to_json(results: Sequence[Result]) -> str:
    """One object. What was not measured is left out."""
    scenarios = [_to_object(result) for result in results]
    return json.dumps({"scenarios": scenarios, "aims": [asdict(aim) for aim in aims(results)]}, indent=2)


def _to_object(result: Result) -> dict[str, Any]:
    ours = [name for name in result.speeds if is_ours(name)]
    return asdict(result) | {
        "speeds": {name: _speed_to_object(speed) for name, speed in result.speeds.items()},
        "ratios_to_best_peer": {name: result.ratio_to_best_peer(name) for name in ours},
        "cpu_ratios_to_best_peer": {name: result.cpu_ratio_to_best_peer(name) for name in ours},
    }


def _speed_to_object(speed: Speed) -> dict[str, Any]:
    fields = asdict(speed) | {"cpu_us_per_event": speed.cpu_us_per_event, "added_p50_ms": speed.added_p50_ms}
    return {field: value for field, value in fields.items() if value not in (None, "")}


def render(results: Sequence[Result]) -> Group:
    """A table for each scenario, and the aims."""
    scenarios = dict.fromkeys(result.scenario for result in results)
    tables = [_scenario_table([result for result in results if result.scenario == name]) for name in scenarios]
    tables.append(aims_table(aims(results)))
    return Group(*(table for table in tables if table.row_count))


_CAPTION = (
    "events/s: end to end, at saturation. CPU: of the hub and all edges, and of the busiest process of subscribers. "
    "link bytes: between the hub and the edges. p50, p99: at half of that rate, or of the one edge's if that is less; "
    "added: compared with one edge at the same rate. ratio: ours to the best peer, in events/s and in CPU for an event."
)
_HEADINGS = ("events/s", "brokers' CPU µs/event", "subscribers' CPU µs/event", "link bytes/event", "memory MB")
_LATENCY_HEADINGS = ("at events/s", "p50 ms", "p99 ms", "added p50 ms", "ratio", "CPU ratio")


def _scenario_table(results: Sequence[Result]) -> Table:
    table = Table(title=results[0].title, caption=_CAPTION)
    table.add_column("edges", justify="right")
    table.add_column("system")
    for heading in (*_HEADINGS, *_LATENCY_HEADINGS):
        table.add_column(heading, justify="right")
    table.add_column("")
    for result in results:
        names = list(result.speeds)
        for name, speed in result.speeds.items():
            ratios = (result.ratio_to_best_peer(name), result.cpu_ratio_to_best_peer(name))
            table.add_row(
                str(result.edges) if name == names[0] else "",
                name,
                _compact(speed.events_per_second),
                *map(_precise, (speed.brokers_cpu_us_per_event, speed.subscribers_cpu_us_per_event)),
                *map(_compact, (speed.link_bytes_per_event, speed.memory_megabytes, speed.latency_events_per_second)),
                *map(_precise, (speed.latency_p50_ms, speed.latency_p99_ms, speed.added_p50_ms)),
                *(map(_precise, ratios) if is_ours(name) else ("", "")),
                speed.skipped or "",
                end_section=name == names[-1],
            )
    return table


def _compact(value: float | None) -> str:
    return "-" if value is None else compact(value)


def _precise(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
