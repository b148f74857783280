"""The protocols of the brokers, each from its client's side: bytes to send, and the events in the bytes that came.

All are read in bulk and by the same means, splitting and one JSON decoder in C, so that no broker is measured by a
slower client than another: a wire never looks at single bytes, and it knows that no event contains a line break.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from fieldfare.bench.broker.load import ReceivedEvent, Wanted
from fieldfare.errors import FieldfareError

TOPIC = "bench"
_LINE = b"\r\n"
_events_of = msgspec.json.Decoder(list[ReceivedEvent]).decode


class WireError(FieldfareError):
    """A broker answered something that its client did not expect."""


class Wire(Protocol):
    """One connection. What `feed` has to send in turn is left in `reply`."""

    is_ready: bool  # greeted, and every subscription is in force
    reply: bytes

    def greeting(self, squares: Sequence[Wanted]) -> bytes:
        """What a client sends first: who it is, and what it subscribes to."""
        ...

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events to be published."""
        ...

    def feed(self, data: bytes) -> list[ReceivedEvent]:
        """The events in what came."""
        ...


def decoded(payloads: Sequence[bytes]) -> list[ReceivedEvent]:
    """Events from their JSON, by one call."""
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

    def greeting(self, squares: Sequence[Wanted]) -> bytes:
        """The first bytes."""
        self._is_subscriber = bool(squares)
        return _command(b"SUBSCRIBE", self._CHANNEL) if squares else _command(b"PING")

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return b"".join([_command(b"PUBLISH", self._CHANNEL, event) for event in events])

    def feed(self, data: bytes) -> list[ReceivedEvent]:
        """The events that came."""
        if not self._is_subscriber:
            self._answered(data)
            return []
        if not self.is_ready:
            data = self._subscribed(data)
        return decoded(self._lines(data, 7)[6::7])

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

    def greeting(self, squares: Sequence[Wanted]) -> bytes:
        """The first bytes."""
        self._is_subscriber = bool(squares)
        return _command(b"PING") + (self._read() if squares else b"")

    def _read(self) -> bytes:
        return _command(b"XREAD", b"COUNT", b"1000", b"BLOCK", b"0", b"STREAMS", self._CHANNEL, self._last_id)

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return b"".join([_command(b"XADD", self._CHANNEL, *self._KEEP, b"*", b"e", event) for event in events])

    def feed(self, data: bytes) -> list[ReceivedEvent]:
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
        return decoded(lines[12::8])


class NatsWire(_Lines):
    """NATS: a message is two lines, the second of them the event."""

    _SUBJECT = TOPIC.encode()

    def greeting(self, squares: Sequence[Wanted]) -> bytes:
        """The first bytes."""
        subscribe = b"SUB %b 1\r\n" % self._SUBJECT if squares else b""
        return b'CONNECT {"verbose":false,"pedantic":false}\r\n%bPING\r\n' % subscribe

    def publication(self, events: Sequence[bytes]) -> bytes:
        """Some events."""
        return b"".join([b"PUB %b %d\r\n%b\r\n" % (self._SUBJECT, len(event), event) for event in events])

    def feed(self, data: bytes) -> list[ReceivedEvent]:
        """The events that came."""
        data, self._rest = self._rest + data, b""
        if not self.is_ready:
            data = self._connected(data)
        if not self.is_ready:
            return []
        if b"PING\r\n" in data:
            data = data.replace(b"PING\r\n", b"")
            self.reply = b"PONG\r\n"
        if data.startswith(b"-ERR"):
            raise WireError(data.decode())
        return decoded(self._lines(data, 2)[1::2])

    def _connected(self, data: bytes) -> bytes:
        """Take off the server's INFO, and the answer to PING, which says that the subscription is in force."""
        if b"-ERR" in data:
            raise WireError(data.decode())
        _, answer, rest = data.partition(b"PONG\r\n")
        self.is_ready = bool(answer)
        if not self.is_ready:
            self._rest = data
        return rest
