"""One connection between two brokers: greeting, then frames, pings while it is quiet, and a reason when it ends.

What a round sends goes to the socket in one write. A link whose other end does not read, does not answer, or sends what
is no frame, is closed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from fieldfare.errors import LinkRefusedError
from fieldfare.messages import FRAME_BYTES_MAX, BrokerIdentity
from fieldfare.messages.frame_codec import FrameCodec
from fieldfare.runtime.link_framing import HEADER_BYTES, Kind, MessageReader, framed, header
from fieldfare.runtime.link_greeting import GREETING_BYTES_MAX, REASON_CHARACTERS_MAX, Greeting, readable
from fieldfare.runtime.link_security import LinkSecurity, certificate_name
from fieldfare.runtime.links import Connection

_JOINED_BYTES_MAX = 64 * 1024  # more than this is not copied to be written in one piece
_PARTING_SECONDS = 5.0  # for what was sent before a link is closed
_UNSENT_BYTES = 256 * 1024
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TcpLinkOptions:
    """Limits of the links of one broker."""

    greeting_seconds: float = 5.0  # for a connection, and until both ends have proved who they are
    greetings_max: int = 64  # connections that have not; one more, and the oldest of them is closed
    message_bytes_max: int = 2 * FRAME_BYTES_MAX  # a message is filled up to one frame beyond the limit of a frame
    unread_bytes_max: int = 16 * 1024 * 1024  # beyond this, the other end is too slow
    probe_seconds: float = 5.0  # after a silence of this length the other end is asked whether it lives
    silence_seconds_max: float = 15.0  # after this one it is given up

    @property
    def tick_seconds(self) -> float:
        """How often links are looked at."""
        return self.probe_seconds / 2


@dataclass(frozen=True, slots=True)
class LinkPorts:
    """What a connection is given by its owner."""

    codec: FrameCodec[Any, Any]
    security: LinkSecurity
    options: TcpLinkOptions
    open: Callable[[LinkProtocol, BrokerIdentity], Connection]
    alive: set[LinkProtocol] = field(default_factory=set)  # all connections that are not over


class LinkProtocol(asyncio.BufferedProtocol):
    """A connection. `link` is the name that the node gave it, if the node dialled."""

    def __init__(self, ports: LinkPorts, greeting: Greeting, link: str | None) -> None:
        self.link = link
        self._ports, self._greeting = ports, greeting
        self._loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._reader = MessageReader(GREETING_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._other = "a stranger"  # for the log
        self._why_over = "the other end closed the connection"
        self.heard_at = self._loop.time()
        self._written_bytes = self._drained_bytes = 0
        self._was_stuck = False  # at the last look, more was written than the system would take

    # As asyncio calls it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        self._transport = cast("asyncio.Transport", transport)
        self.heard_at = self._loop.time()
        self._ports.alive.add(self)
        try:
            self._look_at_socket(self._transport)
        except LinkRefusedError as error:
            self.close(str(error))
            return
        self._write(framed(Kind.GREETING, self._greeting.hello()))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it
        """Where the socket is read to."""
        return self._reader.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Something came."""
        self.heard_at = self._loop.time()
        reader = self._reader
        reader.wrote(nbytes)
        try:
            while (message := reader.next()) is not None and not self._is_closing:
                self._receive(*message)
        except LinkRefusedError as error:
            self.close(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._over(str(exc) if exc is not None else self._why_over)
        self._ports.alive.discard(self)
        self.ended.set_result(None)
        if self._connection is not None:
            _log.info("The link to %s is closed: %s", self._other, self._why_over)
            self._connection.close()

    # Greeting

    def _look_at_socket(self, transport: asyncio.Transport) -> None:
        connected = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # What waits for a slow line is to wait here, where one can see whether it moves, and not in the system.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        host = transport.get_extra_info("peername")[0]
        if (unsafe := self._ports.security.why_not(host)) is not None:
            raise LinkRefusedError(unsafe)
        if self._ports.security.tls is not None:
            self._greeting.certificate_name = certificate_name(transport.get_extra_info("ssl_object").getpeercert())

    def _greet(self, message: bytes) -> None:
        answer = self._greeting.receive(message)
        if answer is not None:
            self._write(framed(Kind.GREETING, answer))
        if (name := self._greeting.name) is not None:
            self._other = name
            self._reader.widen(self._ports.options.message_bytes_max)
            self._connection = self._ports.open(self, BrokerIdentity(name))
            if not self.greeted.done():
                self.greeted.set_result(None)

    # Messages

    def _receive(self, kind: Kind, message: bytes) -> None:
        if kind is Kind.FRAMES and self._connection is not None:
            self._receive_frames(self._connection, message)
        elif kind is Kind.GREETING and self._connection is None:
            self._greet(message)
        elif kind is Kind.GOODBYE:
            self._over(readable(message))
            self.close()
        elif kind is Kind.PING and self._connection is not None:
            self._write(framed(Kind.PONG))
        elif kind is not Kind.PONG or self._connection is None:
            raise LinkRefusedError("a message came out of turn")

    def _receive_frames(self, connection: Connection, message: bytes) -> None:
        try:
            frames = self._ports.codec.decode(message)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise LinkRefusedError(f"what came is no frame: {error}") from error
        connection.send_all(frames)

    def send(self, frames: list[Any]) -> None:
        """Send what a round has for the other end."""
        pieces: list[bytes] = []
        size_bytes = 0
        for message in self._ports.codec.encode(frames):
            if len(message) > self._ports.options.message_bytes_max:
                _log.error("A message of %d bytes for %s is too long: the link is closed", len(message), self._other)
                self.close("a message would have been too long")
                return
            pieces += (header(Kind.FRAMES, len(message)), message)
            size_bytes += HEADER_BYTES + len(message)
        if size_bytes <= _JOINED_BYTES_MAX:
            pieces = [b"".join(pieces)]
        self._write(*pieces)

    def _write(self, *pieces: bytes) -> None:
        if self._transport is None or self._is_closing:
            return
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)
        self._written_bytes += sum(map(len, pieces))
        if self._transport.get_write_buffer_size() > self._ports.options.unread_bytes_max:
            self._over("the other end does not read fast enough")
            self.abort()

    # Living and ending

    def look(self, now: float) -> None:
        """Ask the other end whether it lives if it has been silent, and give it up if it has been for too long.

        While more is written than the system takes, a ping would wait behind it; then it counts that the other end
        reads. What the system has taken already proves nothing: it takes some for a process that has stopped, too.
        """
        if self._transport is None or not self.is_open:
            return
        waiting_bytes = self._transport.get_write_buffer_size()
        drained_bytes = self._written_bytes - waiting_bytes
        if self._was_stuck and drained_bytes > self._drained_bytes:
            self.heard_at = now
        self._was_stuck, self._drained_bytes = waiting_bytes > 0, drained_bytes
        silence_seconds = now - self.heard_at
        if silence_seconds >= self._ports.options.silence_seconds_max:
            self._over(f"nothing was heard for {silence_seconds:.0f} seconds")
            self.abort()
        elif silence_seconds >= self._ports.options.probe_seconds:
            self._write(framed(Kind.PING))

    def close(self, reason: str = "") -> None:
        """End the connection when what was sent before has left, which is given some seconds."""
        if self._transport is None or self._is_closing:
            return
        if reason:
            self._write(framed(Kind.GOODBYE, reason[:REASON_CHARACTERS_MAX].encode("utf-8", "replace")))
            self._over(reason)
        self._transport.close()
        self._loop.call_later(_PARTING_SECONDS, self.abort)

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        """Whether both ends have proved who they are, and it is not over."""
        return self._connection is not None and not self._is_closing

    @property
    def _is_closing(self) -> bool:
        return self._transport is not None and self._transport.is_closing()

    def _over(self, reason: str) -> None:
        """Remember why the connection ends, and tell whoever waits for the greeting."""
        self._why_over = reason
        if not self.greeted.done():
            self.greeted.set_exception(LinkRefusedError(reason))
            self.greeted.exception()  # so that it is no mistake if nobody waits any more
