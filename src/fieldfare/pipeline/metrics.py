"""Metrics of pipelines for Prometheus, on a port of their own.

A pipeline counts without knowing of others; where several are served together, each sample gets the label `pipeline`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fieldfare.errors import FieldfareError, PipelineError
from fieldfare.pipeline.backlog import Backlog
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.pipeline.watching import Watcher

_LATENCY_BUCKETS_SECONDS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, math.inf)


class _Latency(Collector):
    """A histogram that takes a batch's events at once; the library's own takes them one by one."""

    def __init__(self) -> None:
        self._counts = [0] * len(_LATENCY_BUCKETS_SECONDS)
        self._sum_seconds = 0.0

    def count(self, latencies_ms: Mapping[int, int]) -> None:
        for milliseconds, events in latencies_ms.items():
            self._sum_seconds += events * milliseconds / 1000
            self._counts[bisect_left(_LATENCY_BUCKETS_SECONDS, milliseconds / 1000)] += events

    def collect(self) -> Iterator[Metric]:
        sums = accumulate(self._counts)
        buckets = [
            ("+Inf" if bound == math.inf else str(bound), total)
            for bound, total in zip(_LATENCY_BUCKETS_SECONDS, sums, strict=True)
        ]
        text = "From an event's arrival to the commit of its batch"
        yield HistogramMetricFamily("fieldfare_latency_seconds", text, buckets=buckets, sum_value=self._sum_seconds)


class _Waiting(Collector):
    """What waits in the source, found when somebody asks."""

    def __init__(self, backlog: Callable[[], Backlog]) -> None:
        self._backlog = backlog

    def describe(self) -> list[Metric]:
        """Nothing: else all of it would be collected once at the start, when the source may not be there."""
        return []

    def collect(self) -> Iterator[Metric]:
        try:
            found = self._backlog()
        except FieldfareError:
            return  # the source cannot be asked now: the other metrics are told all the same
        yield GaugeMetricFamily("fieldfare_waiting_events", "Events that no batch had yet", found.events)
        if found.files is not None:
            yield GaugeMetricFamily("fieldfare_waiting_files", "Files that no batch had to their ends", found.files)
            text = "Since the oldest of the waiting files was written"
            yield GaugeMetricFamily("fieldfare_oldest_waiting_seconds", text, found.oldest_seconds or 0.0)


class PipelineMetrics(Watcher):
    """Counts what the batches of one pipeline do."""

    def __init__(self, backlog: Callable[[], Backlog] | None = None) -> None:
        """`backlog` is asked for what waits whenever metrics are read."""
        self._registry = CollectorRegistry()
        if backlog is not None:
            self._registry.register(_Waiting(backlog))
        text = "Whether the pipeline works; 0 while it waits to be tried again"
        self._running = Gauge("fieldfare_pipeline_running", text, registry=self._registry)
        self._running.set(1)
        self._events = self._counter("events", "Events matched and committed")
        self._matches = self._counter("matches", "Pairs of an event and a subscription it satisfies")
        self._quarantined = self._counter("quarantined_events", "Events that could not be matched")
        self._lost = self._counter("lost_events", "Events that the source removed before they were read")
        self._behind = Gauge("fieldfare_lag_events", "Events beyond the last batch", registry=self._registry)
        self._batches = self._counter("batches", "Batches committed")
        self._seconds = Histogram("fieldfare_batch_seconds", "How long batches took", registry=self._registry)
        self._latency = _Latency()
        self._registry.register(self._latency)
        self._subscriptions = Gauge("fieldfare_subscriptions", "Active subscriptions", registry=self._registry)
        self._matchers = Gauge("fieldfare_matchers", "Matchers", ["layout"], registry=self._registry)
        self._busy = Counter(
            "fieldfare_matcher_busy_seconds", "How long each matcher worked", ["matcher"], registry=self._registry
        )

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"fieldfare_{name}", text, registry=self._registry)

    def collect(self) -> Iterator[Metric]:
        """All that was counted, as it is now."""
        return iter(self._registry.collect())

    def batch(self, summary: BatchSummary) -> None:
        """Count a batch."""
        self._running.set(1)
        self._batches.inc()
        self._events.inc(summary.events)
        self._matches.inc(summary.matches)
        self._quarantined.inc(summary.quarantined)
        self._lost.inc(summary.lost)
        if summary.behind is not None:
            self._behind.set(summary.behind)
        self._seconds.observe(summary.seconds)
        self._latency.count(summary.latencies_ms)
        self._subscriptions.set(summary.subscriptions)
        self._matchers.clear()
        self._matchers.labels(summary.layout).set(summary.matchers)
        for matcher, seconds in summary.busy_seconds.items():
            self._busy.labels(matcher).inc(seconds)

    def failed(self, reason: str) -> None:  # noqa: ARG002 - the log has it
        """The pipeline does not work now."""
        self._running.set(0)


class MetricsServer:
    """Serves the metrics of pipelines, by name. A context manager: the port is open inside. Port 0 takes a free one."""

    def __init__(self, port: int, pipelines: Mapping[str, PipelineMetrics], address: str = "127.0.0.1") -> None:
        registry = CollectorRegistry()
        registry.register(_ByPipeline(pipelines))
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            raise PipelineError(f"metrics cannot be served on {address}:{port}: {error.strerror}") from error
        self.address = f"http://{address}:{self._server.server_port}/metrics"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _ByPipeline(Collector):
    """Metrics of several pipelines, each with its name as a label; a pipeline without a name has none."""

    def __init__(self, pipelines: Mapping[str, PipelineMetrics]) -> None:
        self._pipelines = pipelines

    def describe(self) -> list[Metric]:
        """Nothing: else all of it would be collected once at the start."""
        return []

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, metrics in self._pipelines.items():
            label = {"pipeline": name} if name else {}
            for found in metrics.collect():
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                family.samples += [sample._replace(labels=label | sample.labels) for sample in found.samples]
        yield from families.values()
