"""What a run of the benchmark found, as JSON for programs and as a table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Ours:
    """Our index on a workload."""

    events_per_second: float
    pairs_per_second: float
    build_seconds: float
    bytes_per_subscription: float
    writing_limit_pairs_per_second: float
    conditions_per_second: float | None = None  # compiled to boxes, where the subscriptions are SQL
    changes_per_second: float | None = None  # subscriptions that came, and as many that went, where they do


@dataclass(frozen=True, slots=True)
class PeerSpeed:
    """A peer on a workload, or why it was not measured."""

    events_per_second: float | None = None
    build_seconds: float | None = None
    changes_per_second: float | None = None
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class EngineResult:
    """All engines on one workload at one size."""

    workload: str
    subscriptions: int
    width: float | None
    matches_per_event: float
    ours: Ours
    peers: Mapping[str, PeerSpeed]

    @property
    def ratio_to_best_peer(self) -> float | None:
        """How many times faster than the fastest peer; None without peers."""
        speeds = [peer.events_per_second for peer in self.peers.values() if peer.events_per_second is not None]
        return self.ours.events_per_second / max(speeds) if speeds else None


def to_json(results: Sequence[EngineResult]) -> str:
    """A list of objects, one per result. What does not apply to a workload is left out of its object."""
    return json.dumps([_to_object(result) for result in results], indent=2)


def _to_object(result: EngineResult) -> dict[str, Any]:
    return _applicable(
        {
            "workload": result.workload,
            "subscriptions": result.subscriptions,
            "width": result.width,
            "matches_per_event": result.matches_per_event,
            "ours": _applicable(asdict(result.ours)),
            "peers": {
                name: {"events_per_second": peer.events_per_second} | _applicable(asdict(peer))
                for name, peer in result.peers.items()
            },
        }
    ) | {"ratio_to_best_peer": result.ratio_to_best_peer}


def _applicable(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def render(results: Sequence[EngineResult]) -> Table:
    """One row per result; speeds in events per second unless a column says otherwise."""
    peers = list(dict.fromkeys(name for result in results for name in result.peers))
    table = Table(title="Events per second on one core, ours and the peers", caption=_CAPTION, padding=0)
    table.add_column("workload")
    for heading in ("subscrip-\ntions", "matches\n/event", "ours", "pairs\n/s", "of\nlimit", "build\ns", "bytes\n/sub"):
        table.add_column(heading, justify="right")
    for name in peers:
        table.add_column(name if len(name) <= 6 else f"{name[:5]}-\n{name[5:]}", justify="right")
    table.add_column("ratio", justify="right", style="bold")
    for result in results:
        table.add_row(*_row(result, peers))
    return table


_CAPTION = (
    "pairs/s: matches found. of limit: pairs/s as a share of what merely writing lists of these lengths reaches. "
    "ratio: ours to the best peer."
)


def _row(result: EngineResult, peers: Sequence[str]) -> list[str]:
    ours, ratio = result.ours, result.ratio_to_best_peer
    limit = ours.writing_limit_pairs_per_second
    return [
        result.workload if result.width is None else f"{result.workload} {result.width:g}",
        f"{result.subscriptions:,}",
        f"{result.matches_per_event:,.1f}",
        compact(ours.events_per_second),
        compact(ours.pairs_per_second),
        f"{ours.pairs_per_second / limit:.0%}" if limit else "-",
        f"{ours.build_seconds:.2f}",
        f"{ours.bytes_per_subscription:.0f}",
        *(_peer_cell(result.peers.get(name)) for name in peers),
        "-" if ratio is None else f"{ratio:,.1f}",
    ]


def _peer_cell(peer: PeerSpeed | None) -> str:
    if peer is None:
        return "-"
    return "skipped" if peer.events_per_second is None else compact(peer.events_per_second)


def compact(number: float) -> str:
    """A number in three digits and a unit: 831k, 1.21M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"
