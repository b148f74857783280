"""Links between nodes over TCP: each end says hello, then frames travel as lines of the link's wire protocol.

A node dials and is told Opened or Unreachable; whoever dials it appears as Opened. Who is at the other end is what
`identify` makes of its hello. A link that the other end does not read, or over which it sends what is no frame, is
closed, and both ends are told.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import msgspec

from fieldfare.errors import UnauthenticatedError
from fieldfare.messages import FRAME_BYTES_MAX, Dial, LinkIdentity, Unreachable
from fieldfare.messages.lines import LineCodec
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.links import Connection
from fieldfare.runtime.tasks import Tasks

_GREETING_SECONDS = 5.0  # for a connection, and for a hello
_HELLO_BYTES_MAX = 4096
_LINE_BYTES_MAX = 2 * FRAME_BYTES_MAX  # a message is filled up to one frame beyond the limit of a frame
_UNREAD_BYTES_MAX = 16 * 1024 * 1024


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of each end: which protocol it speaks, who it is, and how it proves that."""

    protocol: str
    name: str
    proof: str = ""


_hello = msgspec.json.Decoder(Hello)


class TcpLinks(Capability):
    """Dials other nodes, and with an address listens for them."""

    def __init__(
        self,
        codec: LineCodec[Any, Any],
        hello: Hello,
        identify: Callable[[Hello], LinkIdentity],
        listen_at: tuple[str, int] | None = None,
    ) -> None:
        self.codec, self.hello, self.identify = codec, hello, identify
        self.address = ""  # where others can dial, once it has started
        self._listen_at = listen_at
        self._tasks = Tasks()
        self._server: asyncio.Server | None = None

    def install(self, host: Host) -> None:
        """Perform Dial."""
        self.host = host
        host.kernel.provide(Dial, lambda effect: self._tasks.start(self._dial(effect)))

    async def start(self) -> None:
        """Listen, if there is an address to listen at."""
        if self._listen_at is not None:
            self._server = await self.host.loop.create_server(lambda: _Line(self, None), *self._listen_at)
            host, port = self._server.sockets[0].getsockname()[:2]
            self.address = f"{host}:{port}"

    async def stop(self) -> None:
        """Let nobody in, and dial no more."""
        if self._server is not None:
            self._server.close()
        await self._tasks.cancel()

    async def _dial(self, effect: Dial) -> None:
        host, _, port = effect.address.rpartition(":")
        try:
            async with asyncio.timeout(_GREETING_SECONDS):
                _, line = await self.host.loop.create_connection(lambda: _Line(self, effect.link), host, int(port))
                await line.greeted
        except TimeoutError:
            self.host.tell(Unreachable(effect.link, f"{effect.address} did not answer in time"))
        except (OSError, ValueError, OverflowError, UnauthenticatedError) as error:
            self.host.tell(Unreachable(effect.link, f"{effect.address}: {error}"))


class _Line(asyncio.Protocol):
    """One connection. `link` is the name that the node gave it, if the node dialled."""

    def __init__(self, links: TcpLinks, link: str | None) -> None:
        self._links, self._link = links, link
        self.greeted: asyncio.Future[None] = links.host.loop.create_future()
        self._rest = bytearray()
        self._connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.write(msgspec.json.encode(self._links.hello) + b"\n")
        self._patience = self._links.host.loop.call_later(_GREETING_SECONDS, self._end, "no hello came in time")

    def data_received(self, data: bytes) -> None:
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        for line in lines:
            if self._transport.is_closing():
                return
            if self._connection is None:
                self._greet(bytes(line))
            else:
                self._receive(self._connection, bytes(line))
        self._rest = rest
        if len(rest) > (_LINE_BYTES_MAX if self._connection is not None else _HELLO_BYTES_MAX):
            self._end("a line is too long")

    def _greet(self, line: bytes) -> None:
        try:
            hello = _hello.decode(line)
            if hello.protocol != self._links.hello.protocol:
                raise UnauthenticatedError(f"it speaks {hello.protocol!r}, not {self._links.hello.protocol!r}")
            identity = self._links.identify(hello)
        except (UnauthenticatedError, msgspec.MsgspecError) as error:
            self._end(str(error))
            return
        self._patience.cancel()
        self._connection = self._links.host.open_link(self._link, identity, self._send, self._end)
        if not self.greeted.done():
            self.greeted.set_result(None)

    def _receive(self, connection: Connection, line: bytes) -> None:
        try:
            frames = self._links.codec.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._end(f"what came is no frame: {error}")
            return
        for frame in frames:
            connection.send(frame)

    def _send(self, frames: list[Any]) -> None:
        for message in self._links.codec.encode(frames):
            self._transport.write(message + b"\n")
        if self._transport.get_write_buffer_size() > _UNREAD_BYTES_MAX:
            self._transport.abort()

    def _end(self, reason: str) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(UnauthenticatedError(reason))
            if self._link is None:
                self.greeted.exception()  # nobody waits for it
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        if not self.greeted.done():
            self._end(str(exc or "it closed the connection"))
        if self._connection is not None:
            self._connection.close()
