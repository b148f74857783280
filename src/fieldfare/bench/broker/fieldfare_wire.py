"""Our own protocol from the client's side: WebSocket messages of JSON lines.

Written down here a second time, like those of the peers, rather than taken from our client library: its reconnecting
and its queues have no counterpart there.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from fieldfare.bench.broker.load import ReceivedEvent, Wanted
from fieldfare.bench.broker.wires import TOPIC, WireError
from fieldfare.messages import PROTOCOL, Ack, DeclareTopic, Subscribe
from fieldfare.qos import Offered, Requested

_encode = msgspec.json.Encoder().encode


class _Frame(msgspec.Struct, tag_field="type", gc=False):
    pass


class _Done(_Frame, tag="done"):
    pass


class _Accepted(_Frame, tag="accepted"):
    pass


class _Subscribed(_Frame, tag="subscribed"):
    subscription: str
    position: int


class _Delivery(msgspec.Struct, gc=False):
    position: int
    event: ReceivedEvent


class _Deliver(_Frame, tag="deliver"):
    subscription: str
    events: list[_Delivery]


class _Refused(_Frame, tag="refused"):
    reason: str


class _Notice(_Frame, tag="notice"):
    detail: str


_EdgeFrame: TypeAlias = _Done | _Accepted | _Subscribed | _Deliver | _Refused | _Notice
_frames_of = msgspec.json.Decoder(_EdgeFrame).decode_lines


class FieldfareWire:
    """Ours: WebSocket messages of JSON lines. Events are typed as they are read, and acknowledged by the hundred."""

    _ACK_EVENTS = 256
    _VOLATILE = Offered(reliability="best_effort", durability="volatile")

    def __init__(self, *, is_durable: bool) -> None:
        self.is_ready = False
        self.reply = b""
        self._rest = b""
        self._is_open = False
        self._asked = b""  # to be sent when it is
        self._offered = Offered() if is_durable else self._VOLATILE
        self._requested = Requested(reliability=self._offered.reliability)
        self._answers_missing = 0
        self._seen: dict[str, int] = {}
        self._unacknowledged: dict[str, int] = {}

    def greeting(self, squares: Sequence[Wanted]) -> bytes:
        """A subscriber subscribes; a publisher, which connects first, declares the topic."""
        key = base64.b64encode(bytes(16)).decode()
        request = (
            f"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
        )
        self._answers_missing = max(1, len(squares))
        asked: list[Subscribe] | list[DeclareTopic] = [
            Subscribe(ref=ref, topic=TOPIC, condition=square.condition, qos=self._requested)
            for ref, square in enumerate(squares)
        ]
        self._asked = _message(*map(_encode, asked or [DeclareTopic(0, TOPIC, self._offered)]))
        return request.encode()

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return _message(b'{"type":"publish","ref":0,"topic":"%b","events":[%b]}' % (TOPIC.encode(), b",".join(events)))

    def feed(self, data: bytes) -> list[ReceivedEvent]:
        """The events that came."""
        data = self._rest + data if self._rest else data
        if not self._is_open:
            data = self._opened(data)
        events: list[ReceivedEvent] = []
        start, end = 0, len(data)
        while end - start >= 2:
            header, length = data[start], data[start + 1]
            begin = start + 2
            if length >= 126:
                begin += 2 if length == 126 else 8
                if begin > end:
                    break
                length = int.from_bytes(data[start + 2 : begin], "big")
            if begin + length > end:
                break
            start = begin + length
            if header == 0x81:
                for frame in _frames_of(data[begin:start]):
                    self._take(frame, events)
            elif header == 0x89:
                self.reply += _message(data[begin:start], header=0x8A)
            else:
                raise WireError(f"a WebSocket frame of type {header:#x}: {data[begin:start]!r}")
        self._rest = data[start:]
        return events

    def _opened(self, data: bytes) -> bytes:
        head, end, rest = data.partition(b"\r\n\r\n")
        if end and not head.startswith(b"HTTP/1.1 101"):
            raise WireError(head.decode())
        self._is_open = bool(end)
        if self._is_open:
            self.reply = self._asked
        return rest if end else data

    def _take(self, frame: _EdgeFrame, events: list[ReceivedEvent]) -> None:
        if isinstance(frame, _Deliver):
            self._delivered(frame, events)
        elif isinstance(frame, _Subscribed):
            self._seen[frame.subscription] = frame.position
            self._unacknowledged[frame.subscription] = 0
            self._answered()
        elif isinstance(frame, _Done):
            self._answered()
        elif isinstance(frame, _Refused):
            raise WireError(frame.reason)
        elif isinstance(frame, _Notice):
            raise WireError(frame.detail)

    def _answered(self) -> None:
        self._answers_missing -= 1
        self.is_ready = self._answers_missing == 0

    def _delivered(self, frame: _Deliver, events: list[ReceivedEvent]) -> None:
        subscription, deliveries = frame.subscription, frame.events
        seen = self._seen[subscription]
        events += [delivery.event for delivery in deliveries if delivery.position > seen]
        self._seen[subscription] = deliveries[-1].position
        self._unacknowledged[subscription] += len(deliveries)
        if self._unacknowledged[subscription] >= self._ACK_EVENTS:
            self._unacknowledged[subscription] = 0
            self.reply += _message(_encode(Ack(subscription, deliveries[-1].position)))


def _message(*frames: bytes, header: int = 0x81) -> bytes:
    """One WebSocket message, of text unless told; masked, as clients must, with zeros, which change nothing."""
    text = b"\n".join(frames)
    size = len(text)
    if size < 126:
        return struct.pack("!BB4x", header, 0x80 | size) + text
    if size < 65_536:
        return struct.pack("!BBH4x", header, 0xFE, size) + text
    return struct.pack("!BBQ4x", header, 0xFF, size) + text
