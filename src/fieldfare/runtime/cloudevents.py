"""Events as CloudEvents 1.0 on their way out: structured (JSON) or binary (headers and a body).

What came in as a CloudEvent goes out with the same attributes. Another event gets an envelope that is made of what is
known of it. Either way `fieldfareposition` says where it stands in its topic, for who acknowledges by positions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
from msgspec import Raw

from fieldfare.messages import TRACEPARENT, Delivery, Envelope, Notice

JSON = "application/json"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
TYPE = "fieldfare.event"  # of events that did not come as CloudEvents
NOTICE_TYPE = "fieldfare.notice"
POSITION, PAYLOAD = "fieldfareposition", "fieldfarepayload"
_HEADER_BYTES_MAX = 4096  # of all attributes in headers: what servers take without a word of complaint
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')  # needs no escape in a header
_encode = msgspec.json.Encoder().encode
_delivery = msgspec.json.Decoder(Delivery)


def is_json(media_type: str) -> bool:
    """Whether data of this type are JSON."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind == JSON or kind.endswith("+json")


def structured(event: Raw, topic: str) -> bytes:
    """A delivery as a CloudEvent in JSON."""
    delivery = _delivery.decode(event)
    members: dict[str, object] = {**envelope_of(delivery, topic), POSITION: str(delivery.position)}
    if delivery.payload is None:
        if delivery.envelope is None or has_attributes(delivery):
            members["data"] = delivery.event
    elif has_attributes(delivery):  # no CloudEvent has two: the payload is an attribute, of the type Binary
        members |= {"data": delivery.event, PAYLOAD: delivery.payload}
    elif is_json(str(members.get("datacontenttype", JSON))) and _is_json_text(delivery.payload):
        members["data"] = Raw(delivery.payload)
    else:
        members["data_base64"] = delivery.payload
    return _encode(members)


def binary(event: Raw, topic: str) -> tuple[list[tuple[str, str]], bytes] | None:
    """A delivery as headers and a body; None for one that only the structured form can hold."""
    delivery = _delivery.decode(event)
    if delivery.payload is not None and has_attributes(delivery):
        return None
    envelope = {**envelope_of(delivery, topic), POSITION: str(delivery.position)}
    media_type = envelope.pop("datacontenttype", None)
    headers = [(f"ce-{name}", quote(_text(value), safe=_PLAIN)) for name, value in envelope.items()]
    if sum(len(name) + len(value) for name, value in headers) > _HEADER_BYTES_MAX:
        return None
    if delivery.payload is None and delivery.envelope is not None and not has_attributes(delivery):
        return headers, b""
    body = bytes(delivery.event) if delivery.payload is None else delivery.payload
    return [*headers, ("Content-Type", str(media_type or JSON))], body


def envelope_of(delivery: Delivery, topic: str) -> Envelope:
    """A delivery's envelope: its own, or one that is made for it."""
    if delivery.envelope is not None:
        envelope = dict(delivery.envelope)
        if delivery.trace is not None:
            envelope.setdefault(TRACEPARENT, delivery.trace)
        return envelope
    source = f"/v1/topics/{quote(topic)}"
    made: Envelope = {
        "specversion": "1.0",
        "id": delivery.id,
        "source": source if delivery.publisher is None else f"{source}/publishers/{quote(delivery.publisher, safe='')}",
        "type": TYPE,
        "time": datetime.fromtimestamp(delivery.at, UTC).isoformat(),
    }
    if delivery.trace is not None:
        made[TRACEPARENT] = delivery.trace
    if delivery.payload is not None and not has_attributes(delivery):
        made["datacontenttype"] = "application/octet-stream"
    return made


def notice_event(notice: Notice, number: int, now: float) -> bytes:
    """A notice as a CloudEvent in JSON: where events travel as such, a gap among them must not be silent."""
    moment = datetime.fromtimestamp(now, UTC).isoformat()
    return _encode(
        {
            "specversion": "1.0",
            "id": f"{moment}/{number}",
            "source": f"/v1/subscriptions/{quote(notice.subscription)}",
            "type": NOTICE_TYPE,
            "time": moment,
            "data": {"kind": notice.kind, "detail": notice.detail, "position": notice.position},
        }
    )


def batch(events: list[bytes]) -> bytes:
    """Structured events in one body."""
    return b"[%b]" % b",".join(events)


def has_attributes(delivery: Delivery) -> bool:
    """Whether an event has attributes of its own."""
    return bytes(delivery.event).strip() != b"{}"


def _is_json_text(payload: bytes) -> bool:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return b"\n" not in payload and b"\r" not in payload  # a line of a stream ends there


def _text(value: object) -> str:
    """A value as the HTTP binding has it, before what no header may hold is escaped."""
    return str(value).lower() if isinstance(value, bool) else str(value)
