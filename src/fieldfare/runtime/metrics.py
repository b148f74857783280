"""What a service has done, in Prometheus' text format.

Nothing is counted here: the broker and its log count for themselves, and are asked when somebody looks. Subscriptions
may be many and their ids are their owners', so that only the busiest have numbers of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from fieldfare.routing.quotas import Usage
from fieldfare.routing.statistics import OverlayStatistics, Statistics, SubscriptionCounts
from fieldfare.runtime.lag_metrics import LagMetrics
from fieldfare.runtime.log_thread import LogThread

_COUNTERS = {
    "published": "Events accepted from publishers",
    "repeated": "Events that had been accepted before, and were sent again",
    "matched": "Pairs of an event and a subscription that it satisfies",
    "delivered": "Events sent to subscribers",
    "acknowledged": "Events that subscribers acknowledged",
    "dropped": "Events that were not delivered, as their subscription allows",
    "expired": "Events that expired before they were delivered",
    "refused_events": "Events that consumers refused, each time counted",
    "overdue": "Events that a consumer of a shared subscription did not deal with in time",
    "dead_letters": "Events that were refused too often",
}
_GAUGES = {
    "connections": "Clients that are connected",
    "topics": "Topics",
    "subscriptions": "Subscriptions in force",
}
_OVERLAY_COUNTERS = {
    "exported": "Events sent to other edges, each counted for every edge",
    "imported": "Events that came from other edges",
    "refused_ranges": "Messages of other edges that did not continue what was here, and come again",
    "missed_budgets": "Events that came later than a latency budget allows",
}
_OVERLAY_GAUGES = {"links": "Links to other brokers", "second_paths": "Direct links to other edges"}
_LABELS = ("tenant", "topic", "subscription")


class Metrics:
    """The numbers of one service."""

    def __init__(
        self,
        statistics: Callable[[], Statistics],
        usage: Callable[[str], Usage],
        log: LogThread,
        lag: LagMetrics,
        dds_counts: Callable[[], Mapping[str, int]] = dict,
        peer_counts: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._statistics, self._usage = statistics, usage
        self._log = log
        self._lag = lag
        self._dds_counts, self._peer_counts = dds_counts, peer_counts

    def render(self, tenant: str) -> str:
        """All of them as they are now, but of the subscriptions only this tenant's: what others have is theirs."""
        now = self._statistics()
        own = (counts for counts in now.per_subscription if counts.tenant == tenant)
        metrics = [*_counts(now), *_log(self._log), *_quota(self._usage(tenant))]
        metrics += _busiest(own, self._lag.count_max)
        metrics += self._lag.of(tenant)
        metrics += _dds(self._dds_counts())
        metrics += _peers(self._peer_counts())
        if now.overlay is not None:
            metrics += _overlay(now.overlay)
        return generate_latest(_Collected(metrics)).decode()


@dataclass(frozen=True, slots=True)
class _Collected(Collector):
    """Numbers as the library wants to be given them."""

    metrics: Sequence[Metric]

    def collect(self) -> Sequence[Metric]:
        return self.metrics


def _counts(now: Statistics) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "fieldfare_start_time_seconds",
        "When the service started: counters begin then",
        value=now.started_at,
    )
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(f"fieldfare_{name}", text, value=getattr(now, name))
    for name, text in _GAUGES.items():
        yield GaugeMetricFamily(f"fieldfare_{name}", text, value=getattr(now, name))
    refused = CounterMetricFamily("fieldfare_refused", "Requests refused", labels=["code"])
    for code, count in now.refused.items():
        refused.add_metric([code], count)
    yield refused
    calls = CounterMetricFamily("fieldfare_webhook_calls", "Calls of webhooks", labels=["outcome"])
    calls.add_metric(["taken"], now.calls - now.calls_failed)
    calls.add_metric(["failed"], now.calls_failed)
    yield calls


def _log(log: LogThread) -> Iterator[Metric]:
    journal = log.journal
    yield GaugeMetricFamily("fieldfare_log_bytes", "Size of the log on disk", value=journal.size_bytes)
    for end, position in (("first", journal.first_position), ("last", journal.last_position)):
        yield GaugeMetricFamily(f"fieldfare_log_{end}_position", f"Of the {end} event in the log", value=position)
    flushes = SummaryMetricFamily("fieldfare_log_flush_seconds", "How long writing to the log took")
    flushes.add_metric([], log.flush_count, log.flush_seconds)
    yield flushes


def _quota(usage: Usage) -> Iterator[Metric]:
    used = GaugeMetricFamily("fieldfare_tenant_used", "What this tenant uses now", labels=["resource"])
    for resource in ("subscriptions", "connections", "kept_bytes"):
        used.add_metric([resource], getattr(usage, resource))
    quota = GaugeMetricFamily("fieldfare_tenant_quota", "What this tenant may use", labels=["resource"])
    for resource, most in msgspec.structs.asdict(usage.quota).items():
        if most is not None:
            quota.add_metric([resource.removesuffix("_max")], most)
    yield from (used, quota)


def _overlay(now: OverlayStatistics) -> Iterator[Metric]:
    for name, text in _OVERLAY_COUNTERS.items():
        yield CounterMetricFamily(f"fieldfare_overlay_{name}", text, value=getattr(now, name))
    for name, text in _OVERLAY_GAUGES.items():
        yield GaugeMetricFamily(f"fieldfare_overlay_{name}", text, value=getattr(now, name))
    behind = GaugeMetricFamily(
        "fieldfare_overlay_behind", "Positions that an edge has not taken, at most", labels=["edge"]
    )
    for edge, count in sorted(now.behind.items()):
        behind.add_metric([edge], count)
    yield behind


def _dds(counts: Mapping[str, int]) -> Iterator[Metric]:
    if counts:
        bridged = CounterMetricFamily("fieldfare_dds", "Samples and endpoints at the bridge to DDS", labels=["what"])
        for what, count in sorted(counts.items()):
            bridged.add_metric([what], count)
        yield bridged


def _peers(counts: Mapping[str, int]) -> Iterator[Metric]:
    if counts:
        carried = CounterMetricFamily("fieldfare_peers", "Events at the bridge to peers", labels=["what"])
        for what, count in sorted(counts.items()):
            carried.add_metric([what], count)
        yield carried


def _busiest(counts: Iterable[SubscriptionCounts], count_max: int) -> Iterator[Metric]:
    accepted = CounterMetricFamily("fieldfare_subscription_accepted", "Events that satisfied it", labels=_LABELS)
    rejected = CounterMetricFamily("fieldfare_subscription_rejected", "Events that did not", labels=_LABELS)
    waiting = GaugeMetricFamily("fieldfare_subscription_waiting", "Events in memory for it", labels=_LABELS)
    for each in heapq.nlargest(count_max, counts, key=lambda each: (each.accepted, each.waiting)):
        names = [each.tenant, each.topic, each.subscription]
        accepted.add_metric(names, each.accepted)
        rejected.add_metric(names, each.rejected)
        waiting.add_metric(names, each.waiting)
    yield from (accepted, rejected, waiting)
