"""OpenTelemetry in applications: what is published within a span belongs to its trace, and what is received can too.

    async for event in slow:
        with fieldfare.client.tracing.processing(event):
            ...  # a span in the trace that began where the event was published

Handlers of a `fieldfare.App` are called within such a span.

Where an application does not use OpenTelemetry, nothing of it is imported, and neither of these does anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fieldfare.client.events import Event

_SPANS = "opentelemetry.trace"  # the module, if the application uses it


def current_trace() -> str | None:
    """The context of the application's current span, as W3C's traceparent has it."""
    spans = sys.modules.get(_SPANS)
    if spans is None:
        return None
    context = spans.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@contextmanager
def processing(event: Event[Any]) -> Iterator[None]:
    """A span for what is done with an event, in the trace of its publication. Of an error it tells the type only."""
    spans = sys.modules.get(_SPANS)
    if spans is None or event.trace is None:
        yield
        return
    _, trace_id, span_id, flags = event.trace.split("-")
    parent = spans.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=spans.TraceFlags(int(flags, 16))
    )
    attributes = {
        "messaging.system": "fieldfare",
        "messaging.destination.name": event.topic,
        "messaging.operation.type": "process",
    }
    with spans.get_tracer("fieldfare").start_as_current_span(
        f"process {event.topic}",
        spans.set_span_in_context(spans.NonRecordingSpan(parent)),
        spans.SpanKind.CONSUMER,
        attributes,
        record_exception=False,  # its text may have what the event holds
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_status(spans.Status(spans.StatusCode.ERROR, type(error).__name__))
            raise
