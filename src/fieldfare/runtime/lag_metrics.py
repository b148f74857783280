"""Who is behind, for Prometheus: subscriptions, topics and pipelines, of which only so many have numbers of their own.

A tenant may have a million subscriptions, and Prometheus would keep a series for each for months. So only those that
are furthest behind have one, chosen anew at every scrape, and the sums say how it is with all of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from fieldfare.routing.statistics import SubscriptionLag, TopicLoad
from fieldfare.runtime.kafka.status import LinkStatus
from fieldfare.runtime.kafka_metrics import kafka_metrics
from fieldfare.runtime.pipeline_status import PipelineStatus

_SUBSCRIPTION = ("tenant", "topic", "subscription")
_TOPIC = ("tenant", "topic")


@dataclass(frozen=True, slots=True)
class LagMetrics:
    """What is asked of a service about one tenant, and for how many at most there are numbers."""

    lags: Callable[[str], Iterable[SubscriptionLag]]
    topics: Callable[[str], Iterable[TopicLoad]]
    pipelines: Callable[[str], Iterable[PipelineStatus]]
    count_max: int
    kafka: Callable[[str], Sequence[LinkStatus]] = lambda _: ()

    def of(self, tenant: str) -> Iterator[Metric]:
        """All of them as they are now."""
        yield from _subscriptions(tenant, self.lags(tenant), self.count_max)
        yield from _topics(tenant, self.topics(tenant), self.count_max)
        yield from _pipelines(tenant, self.pipelines(tenant), self.count_max)
        yield from kafka_metrics(self.kafka(tenant))


def _subscriptions(tenant: str, lags: Iterable[SubscriptionLag], count_max: int) -> Iterator[Metric]:
    behind = list(lags)
    untaken = [each for each in behind if not each.is_taken]
    yield _gauge("behind_events", "Events that match subscriptions and are not acknowledged", _sum(behind))
    yield _gauge(
        "behind_seconds_max", "Since when the oldest of them waits", max((one.lag.seconds for one in behind), default=0)
    )
    yield _gauge("subscriptions_behind", "Subscriptions with such events", len(behind))
    yield _gauge("subscriptions_untaken", "Those of them that nobody takes events of", len(untaken))
    events = GaugeMetricFamily("fieldfare_subscription_behind_events", "Events it is behind", labels=_SUBSCRIPTION)
    seconds = GaugeMetricFamily("fieldfare_subscription_behind_seconds", "Seconds it is behind", labels=_SUBSCRIPTION)
    taken = GaugeMetricFamily("fieldfare_subscription_taken", "Whether anybody takes its events", labels=_SUBSCRIPTION)
    for each in heapq.nlargest(count_max, behind, key=lambda each: (each.lag.events, each.subscription)):
        labels = [tenant, each.topic, each.subscription]
        events.add_metric(labels, each.lag.events)
        seconds.add_metric(labels, each.lag.seconds)
        taken.add_metric(labels, each.is_taken)
    yield from (events, seconds, taken)


def _sum(behind: Iterable[SubscriptionLag]) -> int:
    return sum(each.lag.events for each in behind)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"fieldfare_{name}", text, value=value)


def _topics(tenant: str, loads: Iterable[TopicLoad], count_max: int) -> Iterator[Metric]:
    known = list(loads)
    yield _gauge("kept_bytes", "Bytes of events that topics keep", sum(each.kept.size_bytes for each in known))
    events = CounterMetricFamily("fieldfare_topic_events", "Events of a topic", labels=_TOPIC)
    rate = GaugeMetricFamily("fieldfare_topic_events_per_second", "Over the last minute", labels=_TOPIC)
    kept = GaugeMetricFamily("fieldfare_topic_kept_bytes", "Bytes of its events that are kept", labels=_TOPIC)
    oldest = GaugeMetricFamily("fieldfare_topic_oldest_seconds", "Age of the oldest that is kept", labels=_TOPIC)
    for each in heapq.nlargest(count_max, known, key=lambda each: (each.events_per_second, each.events, each.topic)):
        labels = [tenant, each.topic]
        events.add_metric(labels, each.events)
        rate.add_metric(labels, each.events_per_second)
        kept.add_metric(labels, each.kept.size_bytes)
        if each.kept.oldest_seconds is not None:
            oldest.add_metric(labels, each.kept.oldest_seconds)
    yield from (events, rate, kept, oldest)


def _pipelines(tenant: str, statuses: Iterable[PipelineStatus], count_max: int) -> Iterator[Metric]:
    known = heapq.nlargest(count_max, statuses, key=lambda each: (each.waiting_events, each.topic))
    if not known:
        return
    events = GaugeMetricFamily("fieldfare_pipeline_waiting_events", "Events that are not matched yet", labels=_TOPIC)
    files = GaugeMetricFamily("fieldfare_pipeline_waiting_files", "The files in which they are", labels=_TOPIC)
    oldest = GaugeMetricFamily("fieldfare_pipeline_oldest_seconds", "Age of the oldest of them", labels=_TOPIC)
    running = GaugeMetricFamily("fieldfare_pipeline_running", "Whether it runs", labels=_TOPIC)
    batches = SummaryMetricFamily("fieldfare_pipeline_batch_seconds", "How long its batches took", labels=_TOPIC)
    for each in known:
        labels = [tenant, each.topic]
        events.add_metric(labels, each.waiting_events)
        files.add_metric(labels, each.waiting_files)
        oldest.add_metric(labels, each.oldest_seconds or 0.0)
        running.add_metric(labels, each.is_running)
        batches.add_metric(labels, each.batches, each.batch_seconds)
    yield from (events, files, oldest, running, batches)
