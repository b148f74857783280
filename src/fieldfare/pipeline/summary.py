"""What a batch, and a whole run, came to: the numbers behind the progress line, the metrics and the JSON at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fieldfare.pipeline.batches import MatchedBatch

_LATENCIES_KEPT = 100_000  # distinct milliseconds of which the run's percentiles are made


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One committed batch."""

    batch_id: int
    events: int
    matches: int
    quarantined: int
    seconds: float
    subscriptions: int
    layout: str
    busy_seconds: dict[int, float]  # by matcher
    matchers: int
    lost: int  # events that the source did not have any more
    behind: int | None  # events that the source had beyond this batch; None: it cannot tell
    visits: int  # pairs of an event and a part that it visited
    hops_max: int  # parts that one event visited, at most
    latencies_ms: dict[int, int] = field(repr=False)  # from arrival to commit: how many events took so long

    @staticmethod
    def of(batch: MatchedBatch, seconds: float) -> BatchSummary:
        """What a batch that was just committed came to."""
        report = batch.report
        moments, counts = report.arrivals
        waited = np.maximum(0, int(time.time() * 1000) - moments)
        return BatchSummary(
            batch_id=batch.batch_id,
            events=report.events,
            matches=report.matches,
            quarantined=len(report.faults),
            seconds=seconds,
            subscriptions=batch.subscriptions,
            layout=batch.layout.kind,
            busy_seconds=report.seconds_by_matcher(),
            matchers=len(batch.layout.matchers),
            lost=batch.events.lost,
            behind=batch.events.behind,
            visits=report.visits,
            hops_max=report.hops_max,
            latencies_ms=dict(zip(waited.tolist(), counts.tolist(), strict=True)),
        )

    @property
    def hops(self) -> float:
        """Parts that an event visited, on average."""
        return self.visits / self.events if self.events else 0.0

    def latency_seconds(self, share: float) -> float | None:
        """The latency that this share of the events did not exceed."""
        return _quantile(self.latencies_ms, share)


@dataclass(slots=True)
class Summary:
    """All batches of a run."""

    batches: int = 0
    events: int = 0
    matches: int = 0
    quarantined: int = 0
    lost: int = 0
    busy_seconds: float = 0.0  # in batches
    subscriptions: int = 0
    layout: str = ""
    matchers: int = 0
    visits: int = 0
    hops_max: int = 1
    _latencies_ms: dict[int, int] = field(default_factory=dict, repr=False)

    def add(self, batch: BatchSummary) -> None:
        """Count a batch."""
        self.batches += 1
        self.events += batch.events
        self.matches += batch.matches
        self.quarantined += batch.quarantined
        self.lost += batch.lost
        self.visits += batch.visits
        self.hops_max = max(self.hops_max, batch.hops_max)
        self.busy_seconds += batch.seconds
        self.subscriptions, self.layout, self.matchers = batch.subscriptions, batch.layout, batch.matchers
        if len(self._latencies_ms) < _LATENCIES_KEPT:
            for milliseconds, count in batch.latencies_ms.items():
                self._latencies_ms[milliseconds] = self._latencies_ms.get(milliseconds, 0) + count

    def sentence(self) -> str:
        """The run in a sentence."""
        rate = self.events / self.busy_seconds if self.busy_seconds else 0.0
        text = f"{self.events:,} events in {self.batches:,} batches, {self.matches:,} matches, {rate:,.0f} events/s"
        p50, p99 = (_quantile(self._latencies_ms, share) for share in (0.5, 0.99))
        if self.hops_max > 1:
            text += f"; {self.visits / max(1, self.events):.2f} hops on average, {self.hops_max} at most"
        if p50 is not None and p99 is not None:
            text += f"; latency p50 {p50:.2f} s, p99 {p99:.2f} s"
        return f"{text}; {self.quarantined:,} quarantined" if self.quarantined else text

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON has it."""
        return {
            "batches": self.batches,
            "events": self.events,
            "matches": self.matches,
            "quarantined": self.quarantined,
            "lost": self.lost,
            "subscriptions": self.subscriptions,
            "layout": self.layout,
            "matchers": self.matchers,
            "hops_mean": round(self.visits / self.events, 3) if self.events else 0.0,
            "hops_max": self.hops_max,
            "seconds_in_batches": round(self.busy_seconds, 3),
            "events_per_second": round(self.events / self.busy_seconds) if self.busy_seconds else 0,
            "latency_p50_seconds": _quantile(self._latencies_ms, 0.5),
            "latency_p99_seconds": _quantile(self._latencies_ms, 0.99),
        }


def _quantile(counts: dict[int, int], share: float) -> float | None:
    if not counts:
        return None
    values = sorted(counts)
    sums = np.cumsum([counts[value] for value in values])
    return float(values[int(np.searchsorted(sums, share * sums[-1]))]) / 1000
