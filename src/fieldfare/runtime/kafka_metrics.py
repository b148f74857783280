"""How the carriers between the edge and Kafka are, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fieldfare.runtime.kafka.status import CarrierState, LinkStatus

_LABELS = ("tenant", "topic", "kafka", "direction")


def kafka_metrics(statuses: Sequence[LinkStatus]) -> Iterator[Metric]:
    """All of them. How far an outflow is behind is a metric of its subscription."""
    if not statuses:
        return
    running = GaugeMetricFamily("fieldfare_kafka_running", "Whether events are carried", labels=_LABELS)
    behind = GaugeMetricFamily("fieldfare_kafka_behind_messages", "Messages not read yet, about", labels=_LABELS)
    events = CounterMetricFamily("fieldfare_kafka_events", "Events carried", labels=_LABELS)
    bad = CounterMetricFamily("fieldfare_kafka_quarantined", "Messages or events that cannot be", labels=_LABELS)
    lost = CounterMetricFamily("fieldfare_kafka_lost", "What was removed before it was read", labels=_LABELS)
    for each in statuses:
        labels = [each.tenant, each.topic, each.kafka, each.direction]
        running.add_metric(labels, each.state is CarrierState.RUNNING)
        if each.behind is not None:
            behind.add_metric(labels, each.behind)
        events.add_metric(labels, each.events)
        bad.add_metric(labels, each.quarantined)
        lost.add_metric(labels, each.lost)
    yield from (running, behind, events, bad, lost)
