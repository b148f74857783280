"""Publications in a request's body: plain JSON, or CloudEvents 1.0 structured, in batches, or in headers.

A CloudEvent's data are the event's attributes, its id the event's id, and its source the publisher.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from fieldfare.messages import EVENTS_MAX, Text
from fieldfare.runtime.gateway.bodies import convert
from fieldfare.runtime.gateway.forms import CloudEvent
from fieldfare.runtime.gateway.problems import ProblemError, invalid

JSON = "application/json"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Publication:
    """The events of a request, as they go to the broker."""

    events: list[Raw]
    ids: list[str] | None = None
    publisher: str | None = None


def read_publication(media_type: str, body: bytes, headers: Mapping[str, str]) -> Publication:
    """The events of a body."""
    try:
        # A frame, and a line of a stream, ends at a line break: between the tokens of JSON, none is needed.
        body = msgspec.json.format(body, indent=-1)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(f"the body is not JSON: {_reason(error)}") from error
    if media_type == STRUCTURED:
        return _structured([_decoded(body, CloudEvent)])
    if media_type == BATCH:
        return _structured(_decoded(body, list[CloudEvent]))
    if "ce-specversion" in headers:
        return _binary(body, headers)
    events = msgspec.json.decode(body, type=list[Raw]) if body.startswith(b"[") else [Raw(body)]
    return Publication(_bounded(events))


def _structured(events: list[CloudEvent]) -> Publication:
    sources = {event.source for event in events}
    if len(sources) > 1:
        raise invalid("the events of one batch must have the same source: send a batch for each")
    for number, event in enumerate(events):
        if not _is_json(event.datacontenttype):
            raise ProblemError(415, "media_type", f"event {number} has data that are not JSON")
    ids = [event.id for event in events]
    return Publication(_bounded([event.data for event in events]), ids, next(iter(sources), None))


def _binary(body: bytes, headers: Mapping[str, str]) -> Publication:
    named = {name: unquote(headers.get(f"ce-{name}", "")) for name in ("specversion", "id", "source", "type")}
    if named["specversion"] != "1.0":
        raise invalid("ce-specversion: only CloudEvents 1.0 are understood")
    missing = [f"ce-{name}" for name, value in named.items() if not value]
    if missing:
        raise invalid(f"a CloudEvent needs the headers {', '.join(missing)}")
    ids = convert([named["id"], named["source"]], list[Text])
    return Publication([Raw(body)], ids[:1], ids[1])


def _bounded(events: list[Raw]) -> list[Raw]:
    if len(events) > EVENTS_MAX:
        raise ProblemError(413, "too_large", f"a batch has at most {EVENTS_MAX:,} events: send several")
    return events


def _is_json(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind == JSON or kind.endswith("+json")


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise invalid(f"not a CloudEvent: {error}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    return "not valid UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
