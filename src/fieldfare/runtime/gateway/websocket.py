"""A client's WebSocket: a text message is one or more frames, one on each line, in both directions.

What the broker has for a client at the end of a round is written to the transport at once, without a task or a queue.
What the client does not read waits in the transport's buffer; when too much does, the socket is closed, and the client
comes back to where it was. A line that is no frame is refused, and the connection goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import Enum
from typing import Any

from fieldfare.messages import EdgeFrame, List, Refused
from fieldfare.messages.lines import EDGE_LINES, UnreadableLine
from fieldfare.runtime.gateway.handshake import UpgradeRequest, admitted, refusing, switching
from fieldfare.runtime.gateway.mailbox import OVERFLOW
from fieldfare.runtime.gateway.pieces import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    Message,
    MessageReader,
    WebSocketViolationError,
    closing,
    written,
)
from fieldfare.runtime.gateway.pings import PingWheel
from fieldfare.runtime.gateway.ports import Connection, Gateway
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.slow_reader import SlowReader

_CLOSE_SECONDS = 5.0  # for a client to take what is left, and to answer
# What the broker is given of one client at a time, so that it can serve others in between. A list, which is short to
# ask for and long to answer, and a frame that is long itself, such as one with a long condition, end a turn.
_TURN_CHARACTERS = 128 * 1024
_LONG_CHARACTERS = 8 * 1024
_ANSWER_CHARACTERS = 256  # what something that is answered here counts
_SHORT_BYTES = 64 * 1024  # a message for which there is room in any case, unless the client reads slowly
_PING = written(PING, b"")


class _State(Enum):
    OPEN = 1
    CLOSING = 2  # the client has been told, and is to answer
    LEAVING = 3  # nothing that the client sends matters any more


_OPEN, _CLOSING, _LEAVING = _State  # for each message one is compared, which takes longer by way of the class


class ClientSocket(asyncio.Protocol):
    """One client, from its handshake on."""

    __slots__ = (
        "_connection",
        "_connections",
        "_gateway",
        "_is_ping_unanswered",
        "_pings",
        "_reader",
        "_slow_reader",
        "_state",
        "_transport",
        "_turns",
    )

    def __init__(self, gateway: Gateway, pings: PingWheel, connections: set[Any]) -> None:
        self._gateway = gateway
        self._pings = pings
        self._connections = connections  # of the server
        self._state = _OPEN
        self._transport: asyncio.Transport
        self._connection: Connection | None = None  # once the client is admitted
        self._reader = MessageReader()
        self._turns: Iterator[bool] | None = None  # what came and waits for the next turn; nothing is read meanwhile
        self._slow_reader: SlowReader | None = None  # while the client has much to read, or is to go
        self._is_ping_unanswered = False

    def open(self, transport: asyncio.Transport, request: UpgradeRequest) -> None:
        """Answer a request for a WebSocket. Its connection is this socket's from now on."""
        self._transport = transport
        self._connections.add(self)
        transport.set_protocol(self)
        try:
            identity = admitted(request, self._gateway)
        except ProblemError as error:
            transport.write(refusing(request, error, self._gateway))
            self._leave()
            return
        self._gateway.inside.count += 1
        self._pings.add(self)
        transport.write(switching(request, self._gateway))
        self._connection = self._gateway.broker.connect(identity, self._deliver, self._ended)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002, D102 - as asyncio calls it
        self._state = _LEAVING
        self._connections.discard(self)
        if self._slow_reader is not None:
            self._slow_reader.stop()
        if self._connection is not None:
            self._connection.close()
            self._connection = None  # it refers to this socket, too
            self._pings.remove(self)
            self._gateway.inside.count -= 1

    # To the client

    def _deliver(self, frames: list[EdgeFrame]) -> None:
        """Send what the broker has for the client."""
        if len(frames) == 1 and self._state is _OPEN:  # nearly always
            self._write(written(TEXT, EDGE_LINES.encode_line(frames[0])))
            return
        for text in EDGE_LINES.encode(frames):
            if self._state is not _OPEN:
                break  # the rest need not even be encoded
            self._write(written(TEXT, text))

    def _write(self, data: bytes) -> None:
        if self._slow_reader is None and len(data) < _SHORT_BYTES:
            self._transport.write(data)  # which may call pause_writing
        elif self._transport.get_write_buffer_size() + len(data) > self._gateway.options.waiting_bytes_max:
            self._close(1013, OVERFLOW)
        elif self._slow_reader is None:
            self._transport.write(data)
        else:
            self._slow_reader.write(data)

    def pause_writing(self) -> None:  # noqa: D102
        if self._slow_reader is None:
            self._slow_reader = SlowReader(self._transport, self._gateway.options.stall_seconds)

    def resume_writing(self) -> None:  # noqa: D102
        if self._slow_reader is not None and self._state is _OPEN:
            self._slow_reader.stop()
            self._slow_reader = None

    def ping(self) -> None:
        """Send a ping, or give the client up if the last one was not answered.

        Of a client that reads slowly nothing is known by that, and what one sends that is kept waiting is not seen.
        """
        if self._state is not _OPEN or self._slow_reader is not None or self._turns is not None:
            return
        if self._is_ping_unanswered:
            self._close(1011, "keepalive ping timeout")
            self._leave()
            return
        self._is_ping_unanswered = True
        self._write(_PING)

    # From the client

    def data_received(self, data: bytes) -> None:  # noqa: D102
        self._is_ping_unanswered = False
        if self._state is not _OPEN and self._slow_reader is not None:
            self._slow_reader.discard(len(data))
        self._reader.feed(data)
        if self._turns is None:
            self._take_turn()

    def _take_turn(self) -> None:
        """Deal with what came, for one turn. If something is left, nothing more is read until its turn has come."""
        turns = self._turns or self._dealing()
        try:
            is_more_left = next(turns, False)
        except Exception:  # an error of ours; it goes on to the loop, which logs it
            self._transport.abort()
            raise
        if self._transport.is_closing():
            self._turns = None
        elif is_more_left:
            if self._turns is None:
                self._turns = turns
                self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._take_turn)
        elif self._turns is not None:
            self._turns = None
            self._transport.resume_reading()

    def _dealing(self) -> Iterator[bool]:
        """Deal with what came; yields True where a turn ends."""
        left = _TURN_CHARACTERS
        for line in self._lines():
            left -= self._deal_with(line)
            if left <= 0:
                yield True
                left = _TURN_CHARACTERS

    def _deal_with(self, line: str | None) -> int:
        """Hand a frame to the broker, or refuse it; returns how much of a turn that was."""
        if line is None or self._connection is None or self._state is not _OPEN:
            return _ANSWER_CHARACTERS
        frame = EDGE_LINES.decode_line(line)
        if isinstance(frame, UnreadableLine):
            self._deliver([Refused(frame.ref, "invalid", frame.reason)])
            return len(line) + _ANSWER_CHARACTERS
        self._connection.send(frame)
        return _TURN_CHARACTERS if isinstance(frame, List) or len(line) > _LONG_CHARACTERS else len(line)

    def _lines(self) -> Iterator[str | None]:
        """The lines of the messages that came; None for a message that has none, which is dealt with here."""
        while (message := self._next_message()) is not None:
            if message.kind != TEXT:
                self._control(message)
                yield None
                continue
            try:
                text = message.payload.decode()
            except UnicodeDecodeError:
                self._close(1007, "text is UTF-8")
                continue
            start = 0
            while self._state is _OPEN and (end := text.find("\n", start)) >= 0:
                yield text[start:end]
                start = end + 1
            yield text[start:]

    def _next_message(self) -> Message | None:
        while self._state is not _LEAVING:
            try:
                return self._reader.take()
            except WebSocketViolationError as error:
                is_first = self._state is _OPEN
                self._close(error.code, str(error))
                if not (is_first and error.is_readable):
                    self._leave()
        return None

    def _control(self, message: Message) -> None:
        if message.kind == CLOSE:
            if self._state is _OPEN:
                self._transport.write(written(CLOSE, message.payload[:2]))
            self._leave()
        elif message.kind == PING and self._state is _OPEN:
            self._write(written(PONG, message.payload))
        elif message.kind == BINARY:
            self._close(1003, "frames are text")

    # The end

    def _ended(self, reason: str) -> None:
        """The broker has parted from the client."""
        self._close(1001, reason)

    def _close(self, code: int, reason: str) -> None:
        """Tell the client that it is over: 1001 the broker ends, 1013 it reads too slowly and may resume."""
        if self._state is not _OPEN:
            return
        self._state = _CLOSING
        if self._connection is not None:
            self._connection.close()
        self._transport.write(closing(code, reason))
        self._hurry()

    def _leave(self) -> None:
        """Close the connection as soon as the client has taken what was written, or does not take it."""
        self._state = _LEAVING
        if self._connection is not None:
            self._connection.close()
        self._hurry()
        self._transport.close()

    def _hurry(self) -> None:
        if self._slow_reader is not None:
            self._slow_reader.stop()
        self._slow_reader = SlowReader(self._transport, _CLOSE_SECONDS)

    def eof_received(self) -> None:
        """The client sends nothing more."""
        self._leave()

    def shutdown(self) -> None:
        """The server stops; the broker has parted from its clients before."""
        self._close(1012, "the server stops")
        self._leave()
