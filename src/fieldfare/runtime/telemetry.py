"""Traces and metrics for OpenTelemetry, sent by OTLP over HTTP: the extra `otel`.

An edge tells the steps of traces as data; here they become spans, children of whatever span an event was published in.
Spans say how many events, in which topic and how long, and nothing of what the events hold. Metrics are those that
`/metrics` shows, without those of single tenants. What cannot be sent is dropped after a while: it is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from prometheus_client.parser import text_string_to_metric_families

from fieldfare import __version__
from fieldfare.messages import RecordStep
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.tasks import Tasks

_SEND_SECONDS = 5.0


class Telemetry(Capability):
    """Keeps the traces of an edge, and its metrics, which `metrics` gives as text for Prometheus."""

    def __init__(
        self, spans: SpanProcessor, reader: MetricReader, metrics: Callable[[], str], metrics_seconds: float = 60.0
    ) -> None:
        resource = Resource.create({"service.name": "fieldfare", "service.version": __version__})
        self._tracers = TracerProvider(resource=resource)
        self._tracers.add_span_processor(spans)
        self._tracer = self._tracers.get_tracer("fieldfare", __version__)
        self._meters = MeterProvider([reader], resource=resource)
        self._metrics, self._metrics_seconds = metrics, metrics_seconds
        self._read: dict[str, Any] = {}  # metrics as they were read last, by name; the SDK's threads only look at it
        self._tasks = Tasks()

    @classmethod
    def to(cls, endpoint: str, metrics_seconds: float, metrics: Callable[[], str]) -> Telemetry:
        """Send to a collector at a URL."""
        base = endpoint.rstrip("/")
        spans = BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces", timeout=_SEND_SECONDS))
        exporter = OTLPMetricExporter(f"{base}/v1/metrics", timeout=_SEND_SECONDS)
        reader = PeriodicExportingMetricReader(exporter, 1000 * metrics_seconds)
        return cls(spans, reader, metrics, metrics_seconds)

    def install(self, host: Host) -> None:
        """Perform RecordStep."""
        self._host = host
        host.kernel.provide(RecordStep, self.record)

    async def start(self) -> None:
        """Begin with the metrics that there are."""
        self._read_metrics()
        meter = self._meters.get_meter("fieldfare", __version__)
        for name, family in self._read.items():
            if family.type == "counter":
                meter.create_observable_counter(name, [self._observer(name)], "1", family.documentation)
            elif family.type == "gauge":
                meter.create_observable_gauge(name, [self._observer(name)], "1", family.documentation)
        self._tasks.start(self._keep_reading())

    async def stop(self) -> None:
        """Send what is left, or give it up in time."""
        await self._tasks.cancel()
        self._read_metrics()
        await asyncio.to_thread(self._tracers.shutdown)
        await asyncio.to_thread(self._meters.shutdown)

    def record(self, step: RecordStep) -> None:
        """A step of a trace ends now."""
        _, trace_id, span_id, flags = step.trace.split("-")
        parent = SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
        )
        span = self._tracer.start_span(
            f"{step.step} {step.topic}",
            set_span_in_context(NonRecordingSpan(parent)),
            SpanKind.PRODUCER if step.step == "deliver" else SpanKind.INTERNAL,
            {
                "messaging.system": "fieldfare",
                "messaging.destination.name": step.topic,
                "messaging.operation.name": step.step,
                "messaging.batch.message_count": step.events,
            },
            start_time=_nanoseconds(step.began_at),
        )
        span.end(_nanoseconds(max(self._host.now(), step.began_at)))

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            family = self._read.get(name)
            samples = [] if family is None else family.samples
            return [Observation(each.value, each.labels) for each in samples if not each.name.endswith("_created")]

        return observe

    async def _keep_reading(self) -> None:
        while True:
            await asyncio.sleep(self._metrics_seconds / 2)
            self._read_metrics()

    def _read_metrics(self) -> None:
        families: Iterable[Any] = text_string_to_metric_families(self._metrics())
        self._read = {family.name: family for family in families}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
