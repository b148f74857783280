"""What may be said when publishing, and the frame that it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from fieldfare.client import wire
from fieldfare.client.tracing import current_trace
from fieldfare.errors import RefusedError
from fieldfare.messages import Publish, Trace
from fieldfare.qos import Published


class PublishOptions(TypedDict, total=False):
    """Options of `Client.publish`. Of those for several events, there is one for each, or None."""

    ids: Sequence[str] | None
    qos: Published | None
    payload: bytes | None  # of one event: bytes that travel beside it, and that nobody looks at on the way
    payloads: Sequence[bytes | None] | None
    envelope: Mapping[str, bool | int | str] | None  # of one event: the attributes of the CloudEvent that it is
    envelopes: Sequence[Mapping[str, bool | int | str] | None] | None
    trace: Trace | None  # W3C's traceparent; without one, that of OpenTelemetry's current span, if there is one


def publish_frame(topic: str, events: Any, options: PublishOptions) -> Publish:
    """A publication of one event or of a list."""
    events = events if isinstance(events, (list, tuple)) else [events]
    ids, envelopes = options.get("ids"), _each(events, options, "envelope", "envelopes")
    payloads = _each(events, options, "payload", "payloads")
    return Publish(
        0,
        topic,
        [wire.raw(event) for event in events],
        ids=None if ids is None else list(ids),
        qos=options.get("qos") or Published(),
        payloads=None if payloads is None else [each if each is None else bytes(each) for each in payloads],
        envelopes=None if envelopes is None else [each if each is None else _envelope(each) for each in envelopes],
        trace=options.get("trace") or current_trace(),
    )


def _each(events: Sequence[Any], options: Mapping[str, Any], one: str, several: str) -> Sequence[Any] | None:
    """What was given for the one event, or for each of several."""
    if options.get(one) is None:
        given: Sequence[Any] | None = options.get(several)
    elif len(events) == 1 and options.get(several) is None:
        given = [options[one]]
    else:
        raise RefusedError("invalid", f"{one} is that of one event: give {several}, one for each")
    if given is not None and len(given) != len(events):
        raise RefusedError("invalid", f"there are {len(given)} {several} for {len(events)} events")
    return given


def _envelope(given: Mapping[str, bool | int | str]) -> dict[str, bool | int | str]:
    return {"specversion": "1.0", **given}
