"""The protocols of the brokers, each from its client's side: bytes to send, and the events in the bytes that came.

All are read in bulk and by the same means, splitting and one JSON decoder in C, so that no broker is measured by a
slower client than another: a wire never looks at single bytes, and it knows that no event contains a line break.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from fieldfare.bench.broker.load import Event, Square
from fieldfare.errors import FieldfareError
from fieldfare.messages import PROTOCOL, Ack, DeclareTopic, Subscribe
from fieldfare.qos import Offered, Requested

TOPIC = "bench"
_LINE = b"\r\n"
_events_of = msgspec.json.Decoder(list[Event]).decode
_encode = msgspec.json.Encoder().encode


class WireError(FieldfareError):
    """A broker answered something that its client did not expect."""


class Wire(Protocol):
    """One connection. What `feed` has to send in turn is left in `reply`."""

    is_ready: bool  # greeted, and every subscription is in force
    reply: bytes

    def greeting(self, squares: Sequence[Square]) -> bytes:
        """What a client sends first: who it is, and what it subscribes to."""
        ...

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events to be published."""
        ...

    def feed(self, data: bytes) -> list[Event]:
        """The events in what came."""
        ...


def _decoded(payloads: Sequence[bytes]) -> list[Event]:
    return _events_of(b"[%b]" % b",".join(payloads)) if payloads else []


class _Lines:
    """Lines that came whole; the rest of one waits for what comes next."""

    def __init__(self) -> None:
        self.is_ready = False
        self.reply = b""
        self._rest = b""

    def _lines(self, data: bytes, multiple: int = 1) -> list[bytes]:
        """As many whole lines as there are, in multiples of some."""
        lines = (self._rest + data if self._rest else data).split(_LINE)
        whole = (len(lines) - 1) // multiple * multiple
        self._rest = _LINE.join(lines[whole:])
        del lines[whole:]
        return lines


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def _refuse_errors(lines: Sequence[bytes]) -> None:
    for line in lines:
        if line.startswith(b"-"):
            raise WireError(line.decode())


class RedisWire(_Lines):
    """Redis publish/subscribe: a message is seven lines, the last of them the event."""

    _CHANNEL = TOPIC.encode()

    def greeting(self, squares: Sequence[Square]) -> bytes:
        """The first bytes."""
        self._is_subscriber = bool(squares)
        return _command(b"SUBSCRIBE", self._CHANNEL) if squares else _command(b"PING")

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return b"".join([_command(b"PUBLISH", self._CHANNEL, event) for event in events])

    def feed(self, data: bytes) -> list[Event]:
        """The events that came."""
        if not self._is_subscriber:
            self._answered(data)
            return []
        if not self.is_ready:
            data = self._subscribed(data)
        return _decoded(self._lines(data, 7)[6::7])

    def _answered(self, data: bytes) -> None:
        _refuse_errors(self._lines(data))
        self.is_ready = True

    def _subscribed(self, data: bytes) -> bytes:
        """Take off the answer to SUBSCRIBE, which is six lines."""
        lines = (self._rest + data).split(_LINE, 6)
        _refuse_errors(lines[:1])
        self.is_ready = len(lines) > 6
        self._rest = b"" if self.is_ready else _LINE.join(lines)
        return lines[6] if self.is_ready else b""


class RedisStreamWire(RedisWire):
    """Redis streams, read by XREAD from where the last answer ended: five lines, and eight for each event."""

    _KEEP = (b"MAXLEN", b"~", b"1000000")

    def __init__(self) -> None:
        super().__init__()
        self._last_id = b"0"

    def greeting(self, squares: Sequence[Square]) -> bytes:
        """The first bytes."""
        self._is_subscriber = bool(squares)
        return _command(b"PING") + (self._read() if squares else b"")

    def _read(self) -> bytes:
        return _command(b"XREAD", b"COUNT", b"1000", b"BLOCK", b"0", b"STREAMS", self._CHANNEL, self._last_id)

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return b"".join([_command(b"XADD", self._CHANNEL, *self._KEEP, b"*", b"e", event) for event in events])

    def feed(self, data: bytes) -> list[Event]:
        """The events that came."""
        if not self._is_subscriber:
            self._answered(data)
            return []
        lines = (self._rest + data).split(_LINE)
        if not self.is_ready and len(lines) > 1:
            _refuse_errors(lines[:1])
            self.is_ready = True
            del lines[0]
        if len(lines) < 6 or len(lines) < 6 + 8 * int(lines[4][1:]):
            self._rest = _LINE.join(lines)
            return []
        _refuse_errors(lines[:1])
        self._rest = b""
        self._last_id = lines[-7]
        self.reply = self._read()
        return _decoded(lines[12::8])


class NatsWire(_Lines):
    """NATS: a message is two lines, the second of them the event."""

    _SUBJECT = TOPIC.encode()

    def greeting(self, squares: Sequence[Square]) -> bytes:
        """The first bytes."""
        subscribe = b"SUB %b 1\r\n" % self._SUBJECT if squares else b""
        return b'CONNECT {"verbose":false,"pedantic":false}\r\n%bPING\r\n' % subscribe

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return b"".join([b"PUB %b %d\r\n%b\r\n" % (self._SUBJECT, len(event), event) for event in events])

    def feed(self, data: bytes) -> list[Event]:
        """The events that came."""
        if not self.is_ready:
            data = self._connected(data)
        if b"PING\r\n" in data:
            data = data.replace(b"PING\r\n", b"")
            self.reply = b"PONG\r\n"
        if data.startswith(b"-ERR"):
            raise WireError(data.decode())
        return _decoded(self._lines(data, 2)[1::2])

    def _connected(self, data: bytes) -> bytes:
        """Take off the server's INFO, and the answer to PING, which says that the subscription is in force."""
        self._rest += data
        if b"-ERR" in self._rest:
            raise WireError(self._rest.decode())
        _, answer, rest = self._rest.partition(b"PONG\r\n")
        self.is_ready = bool(answer)
        if self.is_ready:
            self._rest = b""
        return rest


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
    event: Event


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
    """Ours: WebSocket messages of JSON lines. Events are typed as they are read, and acknowledged by half windows."""

    _WINDOW = 1024
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

    def greeting(self, squares: Sequence[Square]) -> bytes:
        """A subscriber subscribes; a publisher, which connects first, declares the topic."""
        key = base64.b64encode(bytes(16)).decode()
        request = (
            f"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
        )
        self._answers_missing = max(1, len(squares))
        asked: list[Subscribe] | list[DeclareTopic] = [
            Subscribe(ref=ref, topic=TOPIC, condition=square.condition, qos=self._requested, window=self._WINDOW)
            for ref, square in enumerate(squares)
        ]
        self._asked = _message(*map(_encode, asked or [DeclareTopic(0, TOPIC, self._offered)]))
        return request.encode()

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return _message(b'{"type":"publish","ref":0,"topic":"%b","events":[%b]}' % (TOPIC.encode(), b",".join(events)))

    def feed(self, data: bytes) -> list[Event]:
        """The events that came."""
        data = self._rest + data if self._rest else data
        if not self._is_open:
            data = self._opened(data)
        events: list[Event] = []
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

    def _take(self, frame: _EdgeFrame, events: list[Event]) -> None:
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

    def _delivered(self, frame: _Deliver, events: list[Event]) -> None:
        subscription, deliveries = frame.subscription, frame.events
        seen = self._seen[subscription]
        events += [delivery.event for delivery in deliveries if delivery.position > seen]
        self._seen[subscription] = deliveries[-1].position
        self._unacknowledged[subscription] += len(deliveries)
        if self._unacknowledged[subscription] >= self._WINDOW // 2:
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
