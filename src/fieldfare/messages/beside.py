"""What an event carries beside its attributes: a payload, the envelope of a CloudEvent, the context of a trace.

A payload is bytes that nobody on the way looks at: matching sees attributes only, delivery needs neither. The envelope
of a CloudEvent is its context attributes; conditions know them by names that begin with `ce.`, which no event's own
attributes may. All of it is part of a Delivery, and so of the log, of links between edges and of every way out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.events import UnreadableError, accepted_at, event_attributes
from fieldfare.model import INT64_MAX, INT64_MIN

ENVELOPE_PREFIX = "ce."  # of the names by which conditions know a CloudEvent's attributes
ENVELOPE_BYTES_MAX = 16 * 1024
EnvelopeName: TypeAlias = Annotated[str, Meta(pattern="^[a-z0-9]{1,64}$(?!\n)")]
_Integer: TypeAlias = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
Envelope: TypeAlias = Annotated[dict[EnvelopeName, bool | _Integer | str], Meta(max_length=128)]
# The W3C context of a trace: a version, the trace's id, the id of the span that caused this, and flags.
Trace: TypeAlias = Annotated[str, Meta(pattern="^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$(?!\n)")]
TRACEPARENT = "traceparent"  # the attribute of a CloudEvent, and the header, that holds it
# How a webhook is called: with events as everywhere else, or with CloudEvents, one by one or in a batch.
WebhookForm: TypeAlias = Literal["fieldfare", "structured", "binary", "batch"]

_REQUIRED = ("id", "source", "type")
_NEVER = ("data", "data_base64")
_is_time = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Beside(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Of one event, on its way through a pipeline."""

    payload: bytes | None = None
    envelope: Envelope | None = None
    trace: Trace | None = None


def beside(payload: bytes | None, envelope: Envelope | None, trace: Trace | None) -> Beside | None:
    """What an event carries; None where it is nothing."""
    is_nothing = payload is None and envelope is None and trace is None
    return None if is_nothing else Beside(payload, envelope, trace)


def all_attributes(event: bytes, envelope: Envelope | None, at: float) -> dict[str, Any]:
    """The attributes that conditions see: those of an event's JSON, of its envelope, and when it was accepted."""
    attributes = event_attributes(event)
    return accepted_at(attributes if envelope is None else {**attributes, **envelope_attributes(envelope)}, at)


def envelope_attributes(envelope: Envelope) -> dict[str, bool | int | str]:
    """The attributes of an envelope, under the names by which conditions know them."""
    return {f"{ENVELOPE_PREFIX}{name}": value for name, value in envelope.items() if name != "specversion"}


def check_envelope(envelope: Mapping[str, object]) -> None:
    """An UnreadableError unless it is the envelope of a CloudEvent 1.0 whose types were checked already."""
    if envelope.get("specversion") != "1.0":
        raise UnreadableError("specversion: only CloudEvents 1.0 are understood")
    for name in _REQUIRED:
        if not isinstance(value := envelope.get(name), str) or not value:
            raise UnreadableError(f"a CloudEvent needs {name}, a string that is not empty")
    for name in _NEVER:
        if name in envelope:
            raise UnreadableError(f"{name} is no attribute of a CloudEvent")
    for name in ("subject", "time", "datacontenttype", "dataschema", TRACEPARENT):
        if not isinstance(envelope.get(name, ""), str):
            raise UnreadableError(f"{name} is not a string")
    time = envelope.get("time")
    if time is not None and not _is_time.fullmatch(str(time)):
        raise UnreadableError("time is not a timestamp as RFC 3339 has it: 2026-01-31T12:00:00Z")
    if len(msgspec.json.encode(envelope)) > ENVELOPE_BYTES_MAX:
        raise UnreadableError(f"the attributes of a CloudEvent have more than {ENVELOPE_BYTES_MAX:,} bytes")


def check_names(attributes: Mapping[str, Any]) -> None:
    """An UnreadableError if an event's own attributes have a name that belongs to envelopes."""
    if ENVELOPE_PREFIX not in " ".join(attributes):
        return  # nearly always, and quicker than looking at each name
    for name in attributes:
        if name.startswith(ENVELOPE_PREFIX):
            raise UnreadableError(f"{name!r}: names that begin with 'ce.' are those of a CloudEvent's envelope")


def trace_of(envelope: Envelope | None, trace: Trace | None) -> Trace | None:
    """The trace to which an event belongs: its envelope says it, or whoever published it; else none."""
    own = None if envelope is None else envelope.get(TRACEPARENT)
    return own if isinstance(own, str) and is_trace(own) else trace


def is_trace(text: str) -> bool:
    """Whether a text is the context of a trace in the version that is known here."""
    try:
        msgspec.convert(text, Trace)
    except msgspec.ValidationError:
        return False
    return True
