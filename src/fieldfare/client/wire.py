"""The client's end of the wire protocol: lines of JSON. The attributes of events stay JSON until they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from fieldfare.errors import RefusedError
from fieldfare.messages import (
    EVENT_BYTES_MAX,
    EVENTS_MAX,
    FRAME_BYTES_MAX,
    Accepted,
    ClientFrame,
    Deliver,
    Delivery,
    Done,
    Listed,
    MovePublisher,
    Notice,
    PingEdges,
    Publish,
    Refused,
    Sealed,
    Subscribed,
    Unsubscribed,
)
from fieldfare.messages.lines import LineCodec
from fieldfare.messages.wording import in_words


class DecodedDeliver(msgspec.Struct, frozen=True, tag="deliver", tag_field="type"):
    """A Deliver frame whose deliveries were decoded together with it, which is faster than one by one."""

    subscription: str
    events: list[Delivery]


DecodedEdgeFrame: TypeAlias = (
    Accepted
    | Subscribed
    | DecodedDeliver
    | Notice
    | Unsubscribed
    | Done
    | Listed
    | Refused
    | Sealed
    | MovePublisher
    | PingEdges
)

LINES: LineCodec[DecodedEdgeFrame, ClientFrame] = LineCodec(DecodedEdgeFrame)  # the client's end of the protocol
decode, encode = LINES.decode, LINES.encode

_requests = msgspec.json.Decoder(ClientFrame)
_deliveries = msgspec.json.Decoder(Delivery)
_encoder = msgspec.json.Encoder()
_HEAD_BYTES = 4096  # of a Publish frame, without its events and their ids


def decoded(frame: Deliver) -> DecodedDeliver:
    """The same for a frame that came as an object, from an edge in the same process."""
    return DecodedDeliver(frame.subscription, [_deliveries.decode(event) for event in frame.events])


def raw(event: Any) -> msgspec.Raw:
    """An event's JSON: of a mapping, a struct or a dataclass. Bytes are JSON already, and are checked; a Raw is not."""
    if isinstance(event, msgspec.Raw):
        return event
    try:
        if isinstance(event, (bytes, bytearray, memoryview)):
            msgspec.json.decode(event)
            return msgspec.Raw(bytes(event).replace(b"\n", b" "))  # a frame is a line; strings have no line break
        return msgspec.Raw(_encoder.encode(event))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RefusedError("invalid", f"an event cannot be sent as JSON: {error}") from error


def check(frame: ClientFrame) -> None:
    """Raise RefusedError for a frame that an edge could not read: it could not say which request it refuses."""
    if isinstance(frame, Publish):
        if frame.events or frame.upto is None:  # who reads another log may pass over what holds no events
            _check_events(frame.events, frame.payloads or ())
        frame = replace(frame, events=[], payloads=None)
    try:
        line = _encoder.encode(frame)
        _requests.decode(line)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise RefusedError("invalid", in_words(error)) from error


def _check_events(events: Sequence[msgspec.Raw], payloads: Sequence[bytes | None]) -> None:
    sizes = [memoryview(event).nbytes for event in events]
    for number, payload in enumerate(payloads):
        sizes[number] += len(payload or b"")
    if not 1 <= len(sizes) <= EVENTS_MAX:
        raise RefusedError("invalid", f"a publication has 1 to {EVENTS_MAX:,} events, not {len(sizes):,}: divide it")
    if max(sizes) > EVENT_BYTES_MAX:
        raise RefusedError("invalid", f"an event has {max(sizes):,} bytes, but {EVENT_BYTES_MAX:,} are the most")
    in_base64 = sum(len(payload or b"") // 3 + 4 for payload in payloads)  # more than the bytes that are encoded
    if sum(sizes) + in_base64 + len(sizes) > FRAME_BYTES_MAX - _HEAD_BYTES:
        raise RefusedError("invalid", f"a publication has {sum(sizes):,} bytes in all, which is too much: divide it")
