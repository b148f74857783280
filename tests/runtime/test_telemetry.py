"""Traces from publisher to consumer, and metrics, as a collector of OpenTelemetry gets them, without secrets."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.client.fake import QUICK
from tests.routing.frames import publication
from tests.routing.harness import Harness
from tests.runtime.processes import ServiceProcess, run
from tests.runtime.serving import asking
from tests.runtime.test_webhooks import OK, Endpoint, answering
from tests.runtime.test_webhooks import serving as serving_endpoint

import fieldfare
from fieldfare.client.tracing import current_trace, processing
from fieldfare.handlers import Retries
from fieldfare.messages import RecordStep
from fieldfare.routing.options import EdgeOptions
from fieldfare.runtime.addresses import Addresses
from fieldfare.runtime.webhooks import Webhooks

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fieldfare.runtime.telemetry import Telemetry

SECONDS_MAX = 60
SECRETS = ("A10-secret", "payload-secret", "extension-secret", "condition-secret")
CONDITION = "road = 'A10-secret' OR road = 'condition-secret'"


@pytest.fixture(scope="module")
def application() -> Iterator[InMemorySpanExporter]:
    """An application that uses OpenTelemetry: its spans."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


async def publish_in_a_span(client: fieldfare.client.aio.Client) -> str:
    """Publish an event with secrets of every kind; the id of its trace."""
    with trace.get_tracer("test").start_as_current_span("order") as span:
        await client.publish("traffic", {"road": "A10-secret"}, payload=b"payload-secret")
        envelope = {"id": "1", "source": "/s", "type": "t", "lane": "extension-secret"}
        await client.publish("traffic", {"road": "A10-secret"}, envelope=envelope)
        return f"{span.get_span_context().trace_id:032x}"


def texts(spans: tuple[ReadableSpan, ...]) -> str:
    return "".join(span.to_json() for span in spans)


def test_a_trace_goes_from_the_publisher_to_the_consumer(application: InMemorySpanExporter) -> None:
    kept = InMemorySpanExporter()
    reader = InMemoryMetricReader()
    telemetry = Telemetry(SimpleSpanProcessor(kept), reader, lambda: "# TYPE x gauge\nx 7.0\n")

    async def story() -> str:
        async with (
            asyncio.timeout(SECONDS_MAX),
            serving_endpoint(Endpoint(answering(OK))) as endpoint,
            asking(telemetry=telemetry, webhooks=Webhooks(Addresses(("127.0.0.1",)))) as (http, served),
            fieldfare.connect(served.url, token="all", options=QUICK) as client,  # noqa: S106
        ):
            body = {"topic": "traffic", "condition": CONDITION, "name": "hook", "webhook": endpoint.url}
            assert (await http.post("/v1/subscriptions", json=body)).status_code == 201
            slow = await client.subscribe("traffic", CONDITION)
            trace_id = await publish_in_a_span(client)
            for _ in range(2):
                event = await anext(slow)
                with processing(event):
                    assert (current_trace() or "").split("-")[1] == trace_id
            while not endpoint.requests:  # noqa: ASYNC110 - a server has no event to wait for
                await asyncio.sleep(0.01)
            assert endpoint.requests[0].headers["traceparent"].split("-")[1] == trace_id
            other = f"00-{'1' * 32}-{'2' * 16}-01"
            await http.post("/v1/topics/traffic/events", json={"road": "B1"}, headers={"traceparent": other})
            await http.post("/v1/topics/traffic/events", json={"road": "B1"}, headers={"traceparent": "nonsense"})
            unsampled = f"00-{'3' * 32}-{'2' * 16}-00"
            await http.post("/v1/topics/traffic/events", json={"road": "B1"}, headers={"traceparent": unsampled})
            measured = reader.get_metrics_data()
            assert measured is not None
            [metric] = measured.resource_metrics[0].scope_metrics[0].metrics
            assert (metric.name, metric.data.data_points[0].value) == ("x", 7.0)  # type: ignore[union-attr]
            return trace_id

    trace_id = asyncio.run(story())
    spans = kept.get_finished_spans()
    [order] = [span for span in application.get_finished_spans() if span.name == "order"]
    assert order.context is not None
    own = [span for span in spans if span.context and f"{span.context.trace_id:032x}" == trace_id]
    assert {span.name for span in own} == {"store traffic", "match traffic", "deliver traffic"}
    assert {span.parent.span_id for span in own if span.parent} == {order.context.span_id}
    assert all(span.start_time and span.end_time and span.start_time <= span.end_time for span in own)
    others = {f"{span.context.trace_id:032x}" for span in spans if span.context} - {trace_id}
    assert others == {"1" * 32}, "of what nobody samples nothing is kept"
    processed = [span for span in application.get_finished_spans() if span.name == "process traffic"]
    assert {f"{span.context.trace_id:032x}" for span in processed if span.context} == {trace_id}
    everything = texts(spans) + texts(application.get_finished_spans())
    assert not [secret for secret in SECRETS if secret in everything]


def test_a_handler_is_a_part_of_the_trace(application: InMemorySpanExporter) -> None:
    app = fieldfare.App("http://nowhere")
    handled: list[str | None] = []

    @app.on("traffic", "speed < 25", name="slow", retries=Retries(attempts_max=1))
    async def slow(event: dict[str, Any]) -> None:
        handled.append(current_trace())
        raise ValueError(event["road"])

    async def run_app() -> str:
        async with app.test() as harness:
            with trace.get_tracer("test").start_as_current_span("publish") as span:
                await harness.publish("traffic", {"road": "A10-secret", "speed": 12})
        return f"{span.get_span_context().trace_id:032x}"

    trace_id = asyncio.run(run_app())
    assert [each.split("-")[1] for each in handled if each is not None] == [trace_id]
    (span,) = [
        span for span in application.get_finished_spans() if span.name == "process traffic" and not span.status.is_ok
    ]
    assert span.status.description == "ValueError"
    assert not span.events
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("has_traces", [True, False])
def test_an_edge_tells_steps_only_if_its_host_keeps_traces(has_traces: bool) -> None:
    harness = Harness(EdgeOptions(has_traces=has_traces))
    told: list[RecordStep] = []
    harness.kernel.provide(RecordStep, told.append)
    harness.connect().send(publication(1, "traffic", {"n": 1}))
    assert told == []
    harness.connect().send(replace(publication(2, "traffic", {"n": 1}, {"n": 2}), trace=f"00-{'1' * 32}-{'2' * 16}-01"))
    assert [(each.step, each.events) for each in told] == ([("store", 2), ("match", 2)] if has_traces else [])


@dataclass
class Collector:
    """What an OTLP collector was sent."""

    traces: list[bytes] = field(default_factory=list)
    metrics: list[bytes] = field(default_factory=list)
    url: str = ""


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            {"/v1/traces": collector.traces, "/v1/metrics": collector.metrics}[self.path].append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        collector.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def test_a_service_sends_traces_and_metrics_to_a_collector(tmp_path: Path, application: InMemorySpanExporter) -> None:
    assert application is not None

    async def story(url: str) -> str:
        async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(url) as client:
            slow = await client.subscribe("traffic", CONDITION)
            trace_id = await publish_in_a_span(client)
            await anext(slow)
            return trace_id

    with (
        collecting() as collector,
        ServiceProcess(tmp_path / "data", FIELDFARE_TELEMETRY_ENDPOINT=collector.url) as service,
    ):
        trace_id = asyncio.run(story(service.url))
        assert service.stop() == 0
    spans = [
        span
        for body in collector.traces
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert {span.name for span in spans} == {"store traffic", "match traffic", "deliver traffic"}
    assert {span.trace_id.hex() for span in spans} == {trace_id}
    metrics = {
        metric.name
        for body in collector.metrics
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert metrics >= {"fieldfare_published", "fieldfare_delivered", "fieldfare_connections", "fieldfare_log_bytes"}
    sent = b"".join([*collector.traces, *collector.metrics])
    assert not [secret for secret in SECRETS if secret.encode() in sent]
    assert "Traceback" not in service.log


def test_a_collector_that_is_away_stops_nothing(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path / "data", FIELDFARE_TELEMETRY_ENDPOINT="http://127.0.0.1:9") as service:

        async def story() -> None:
            async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(service.url) as client:
                slow = await client.subscribe("traffic", "n > 0")
                await client.publish("traffic", {"n": 1}, trace=f"00-{'1' * 32}-{'2' * 16}-01")
                assert (await anext(slow)).attributes == {"n": 1}

        asyncio.run(story())
        assert service.stop() == 0


def test_a_bad_endpoint_is_refused(tmp_path: Path) -> None:
    done = run("serve", "--port", "0", "--data", str(tmp_path), FIELDFARE_TELEMETRY_ENDPOINT="collector:4318")
    assert done.returncode != 0
    assert "telemetry" in done.stderr.lower()
