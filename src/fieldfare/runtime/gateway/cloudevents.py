"""Publications in a request's body: plain JSON, bytes, or CloudEvents 1.0 structured, in batches, or in headers.

A CloudEvent's data, where they are a JSON object, are the event's attributes; other data are its payload, and an event
without data has neither. Its id is the event's id, its source the publisher, and all but its data is its envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from fieldfare.events import UnreadableError, json_values
from fieldfare.messages import EVENTS_MAX, Envelope, Text, check_envelope
from fieldfare.runtime.cloudevents import BATCH, JSON, STRUCTURED, is_json
from fieldfare.runtime.gateway.bodies import convert
from fieldfare.runtime.gateway.problems import ProblemError, invalid

BYTES = "application/octet-stream"
NO_ATTRIBUTES = Raw(b"{}")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Publication:
    """The events of a request, as they go to the broker."""

    events: list[Raw]
    ids: list[str] | None = None
    publisher: str | None = None
    payloads: list[bytes | None] | None = None
    envelopes: list[Envelope | None] | None = None


@dataclass(frozen=True, slots=True)
class _CloudEvent:
    envelope: Envelope
    event: Raw
    payload: bytes | None


def is_binary(headers: Mapping[str, str]) -> bool:
    """Whether a request is a CloudEvent whose attributes are headers: then its body may be of any type."""
    return "ce-specversion" in headers


def read_publications(media_type: str, body: bytes, headers: Mapping[str, str]) -> list[Publication]:
    """The events of a body; of a batch whose events have several sources, those that follow each other with one."""
    if media_type == STRUCTURED:
        return [_published([_structured(_json(body))])]
    if media_type == BATCH:
        events = [_structured(bytes(one)) for one in _bounded(_decoded(_json(body), list[Raw]))]
        groups = groupby(events, lambda one: one.envelope["source"])
        return [_published(list(alike)) for _, alike in groups] or [Publication([])]
    if is_binary(headers):
        return [_published([_binary(body, headers)])]
    if media_type == BYTES:
        attributes = headers.get("fieldfare-event", "{}").encode("latin-1", "replace")
        return [Publication([Raw(_json(attributes))], payloads=[body])]
    text = _json(body)
    plain = msgspec.json.decode(text, type=list[Raw]) if text.startswith(b"[") else [Raw(text)]
    return [Publication(_bounded(plain))]


def _published(events: list[_CloudEvent]) -> Publication:
    ids = convert([one.envelope["id"] for one in events], list[Text], place="the id of a CloudEvent")
    publisher = convert(events[0].envelope["source"], Text, place="the source of a CloudEvent")
    payloads = [one.payload for one in events]
    return Publication(
        [one.event for one in events],
        ids,
        publisher,
        None if payloads.count(None) == len(payloads) else payloads,
        [one.envelope for one in events],
    )


def _structured(text: bytes) -> _CloudEvent:
    try:
        json_values(text)
    except UnreadableError as error:
        raise invalid(f"not a CloudEvent: {error}") from error
    members = _decoded(text, dict[str, Raw])
    data, encoded = members.pop("data", None), members.pop("data_base64", None)
    values = {name: msgspec.json.decode(value) for name, value in members.items()}
    envelope = _envelope({name: value for name, value in values.items() if value is not None})
    data = None if data is not None and bytes(data) == b"null" else data
    if encoded is not None and data is not None:
        raise invalid("a CloudEvent has data or data_base64, not both")
    if encoded is not None:
        return _CloudEvent(envelope, NO_ATTRIBUTES, _decoded(encoded, bytes))
    if data is None:
        return _CloudEvent(envelope, NO_ATTRIBUTES, None)
    if is_json(str(envelope.get("datacontenttype", JSON))):
        return _of_json(envelope, bytes(data))
    if bytes(data)[:1] != b'"':
        raise ProblemError(415, "media_type", "data that are not JSON are a string, or data_base64")
    return _CloudEvent(envelope, NO_ATTRIBUTES, _decoded(data, str).encode())


def _binary(body: bytes, headers: Mapping[str, str]) -> _CloudEvent:
    values: dict[str, Any] = {
        name[3:]: unquote(value) for name, value in headers.items() if name.startswith("ce-") and value
    }
    if "datacontenttype" in values:
        raise invalid("ce-datacontenttype: Content-Type says it")
    media_type = headers.get("content-type")
    is_without_data = not body and (media_type is None or is_json(media_type))  # of other types, no bytes are data too
    if media_type is not None and not is_without_data:
        values["datacontenttype"] = media_type
    envelope = _envelope(values, lambda name: f"ce-{name}")
    if is_without_data:
        return _CloudEvent(envelope, NO_ATTRIBUTES, None)
    if is_json(str(envelope.get("datacontenttype", JSON))):
        return _of_json(envelope, _json(body))
    return _CloudEvent(envelope, NO_ATTRIBUTES, body)


def _of_json(envelope: Envelope, text: bytes) -> _CloudEvent:
    """An event whose data are JSON. Without attributes they are carried as they are: not the same as no data."""
    if text[:1] == b"{" and text != b"{}":
        return _CloudEvent(envelope, Raw(text), None)
    return _CloudEvent(envelope, NO_ATTRIBUTES, text)


def _envelope(values: Mapping[str, Any], shown: Callable[[str], str] = str) -> Envelope:
    missing = [shown(name) for name in ("specversion", "id", "source", "type") if not values.get(name)]
    if missing:
        raise invalid(f"a CloudEvent needs {', '.join(missing)}")
    envelope: Envelope = convert(values, Envelope, place="the attributes of a CloudEvent")
    try:
        check_envelope(envelope)
    except UnreadableError as error:
        raise invalid(f"not a CloudEvent: {error}") from error
    return envelope


def _bounded(events: list[T]) -> list[T]:
    if len(events) > EVENTS_MAX:
        raise ProblemError(413, "too_large", f"a batch has at most {EVENTS_MAX:,} events: send several")
    return events


def _json(body: bytes) -> bytes:
    """JSON without line breaks: a frame, and a line of a stream, ends at one; between tokens, none is needed."""
    try:
        return msgspec.json.format(body, indent=-1)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(f"the body is not JSON: {_reason(error)}") from error


def _decoded(body: bytes | Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise invalid(f"not a CloudEvent: {error}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    return "not valid UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
