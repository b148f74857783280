"""The events of a Publish frame: checked, and as they are stored and delivered, with what they carry beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from fieldfare.events import UnreadableError, accepted_at, event_attributes
from fieldfare.messages import (
    EVENT_BYTES_MAX,
    Beside,
    Delivery,
    Position,
    Publish,
    beside,
    check_envelope,
    check_names,
    envelope_attributes,
    trace_of,
)
from fieldfare.routing.refusal import Refusal

_encode = msgspec.json.Encoder().encode


def check_counts(frame: Publish) -> None:
    """Refuse a frame that does not have one id, payload or envelope for each event."""
    count = len(frame.events)
    for what, given in (("ids", frame.ids), ("payloads", frame.payloads), ("envelopes", frame.envelopes)):
        if given is not None and len(given) != count:
            raise Refusal("invalid", f"there are {len(given)} {what} for {count} events")


def checked_rows(frame: Publish, keep: Sequence[int], now: float) -> list[dict[str, Any]]:
    """The attributes of some of a frame's events, which are accepted now; refused where one is no event."""
    rows = [_checked(number, frame.events[number]) for number in keep]
    if frame.payloads is not None or frame.envelopes is not None:
        for row, number in zip(rows, keep, strict=True):
            try:
                _add_beside(row, frame, number)
            except UnreadableError as error:
                raise Refusal("invalid", f"event {number}: {error}") from error
    for row in rows:
        accepted_at(row, now)
    return rows


def why_no_event(text: bytes) -> str | None:
    """Why a text cannot be published as an event; None if it can."""
    try:
        _checked(0, Raw(text))
    except Refusal as refusal:
        return refusal.reason.removeprefix("event 0: ").removeprefix("event 0 ")
    return None


def _checked(number: int, event: Raw) -> dict[str, Any]:
    text = bytes(event)
    if len(text) > EVENT_BYTES_MAX:
        raise Refusal("invalid", f"event {number} is longer than {EVENT_BYTES_MAX:,} bytes")
    try:
        attributes = event_attributes(text)
        check_names(attributes)
    except UnreadableError as error:
        raise Refusal("invalid", f"event {number}: {error}") from error
    return attributes


def _add_beside(row: dict[str, Any], frame: Publish, number: int) -> None:
    """Check what an event carries beside its attributes, and let its envelope be matched too."""
    payload = None if frame.payloads is None else frame.payloads[number]
    envelope = None if frame.envelopes is None else frame.envelopes[number]
    if len(payload or b"") + len(bytes(frame.events[number])) > EVENT_BYTES_MAX:
        raise UnreadableError(f"with its payload it is longer than {EVENT_BYTES_MAX:,} bytes")
    if envelope is not None:
        check_envelope(envelope)
        if payload is not None and row:
            raise UnreadableError("the data of a CloudEvent are its attributes or its payload, not both")
        row |= envelope_attributes(envelope)


def beside_of(frame: Publish, keep: Sequence[int]) -> list[Beside | None] | None:
    """What some of a frame's events carry beside their attributes; None where none has anything."""
    if frame.payloads is None and frame.envelopes is None and frame.trace is None:
        return None
    nothing: list[Any] = [None] * len(frame.events)
    payloads, envelopes = frame.payloads or nothing, frame.envelopes or nothing
    return [beside(payloads[each], envelopes[each], trace_of(envelopes[each], frame.trace)) for each in keep]


def deliveries(
    frame: Publish,
    events: Sequence[Raw],
    names: Sequence[str],
    carried: Sequence[Beside | None] | None,
    first: Position,
    now: float,
) -> list[bytes]:
    """Events as they are stored and delivered."""
    publisher = frame.publisher
    if carried is None:
        return [
            _encode(Delivery(position, name, now, event, publisher))
            for position, (name, event) in enumerate(zip(names, events, strict=True), first)
        ]
    made = []
    for position, (name, event, extra) in enumerate(zip(names, events, carried, strict=True), first):
        own = extra or Beside()
        made.append(_encode(Delivery(position, name, now, event, publisher, own.payload, own.envelope, own.trace)))
    return made
