"""Nodes on hosts with sockets, for tests of links."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import msgspec

from fieldfare.messages import (
    Close,
    Closed,
    DatagramReceived,
    Effect,
    Input,
    Opened,
    Received,
    Send,
    SendDatagram,
    Unreachable,
)
from fieldfare.messages.lines import LineCodec
from fieldfare.runtime.datagrams import Datagrams, json_codec
from fieldfare.runtime.host import Host
from fieldfare.runtime.link_framing import HEADER_BYTES, Kind, framed
from fieldfare.runtime.link_greeting import Greeting
from fieldfare.runtime.link_protocol import TcpLinkOptions
from fieldfare.runtime.link_security import LinkSecurity
from fieldfare.runtime.socket_addresses import SocketAddress
from fieldfare.runtime.tcp_links import TcpLinks

PATIENCE_SECONDS = 30.0
LOOPBACK = SocketAddress("127.0.0.1", 0)
SECRET = b"a secret of all brokers"
PROTOCOL = "test.v1"
QUICK = TcpLinkOptions(greeting_seconds=0.3, probe_seconds=0.1, silence_seconds_max=0.5)
Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]  # runs a story in an event loop


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    number: int
    text: str = ""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    number: int


class Do(Input, frozen=True):
    """What a test has a node do."""

    effects: tuple[Effect, ...]


class PingNode:
    """Answers pings, and keeps what it is told. It has no log, and does not pretend to have one."""

    def __init__(self) -> None:
        self.told: list[Input] = []
        self.heard = asyncio.Event()

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - as a node's
        if isinstance(message, Do):
            return message.effects
        self.told.append(message)
        self.heard.set()
        match message:
            case Received(link, Ping(0)):
                return [Send(link, Pong(0)), Close(link, "enough")]
            case Received(link, Ping(number)):
                return [Send(link, Pong(number))]
            case DatagramReceived(address, Ping(number)):
                return [SendDatagram(address, Pong(number))]
        return []

    async def until(self, *messages: Input) -> None:
        """Until it has been told these, in this order."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while [each for each in self.told if each in messages] != list(messages):
                self.heard.clear()
                await self.heard.wait()

    async def until_kind(self, kind: type[Input]) -> Input:
        """The first message of a kind, when it has been told one."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := [each for each in self.told if isinstance(each, kind)]):
                self.heard.clear()
                await self.heard.wait()
        return found[0]

    @property
    def links(self) -> list[Input]:
        """All that it was told of links, but for frames."""
        return [each for each in self.told if isinstance(each, (Opened, Closed, Unreachable))]


CODEC: LineCodec[Ping | Pong, Ping | Pong] = LineCodec(Ping | Pong)


class Machine:
    """A node on a host with sockets."""

    def __init__(
        self,
        name: str,
        security: LinkSecurity = LinkSecurity(SECRET),  # noqa: B008 - it is frozen
        protocol: str = PROTOCOL,
        options: TcpLinkOptions = TcpLinkOptions(),  # noqa: B008 - it is frozen
        listen_at: SocketAddress | None = LOOPBACK,
    ) -> None:
        self.node = PingNode()
        self.tcp = TcpLinks(CODEC, name, security, listen_at, options, protocol=protocol)
        self.udp = Datagrams(*json_codec(Ping | Pong))
        self.host = Host(self.node, self.tcp, self.udp)

    def do(self, *effects: Effect) -> None:
        """Have the node ask for effects."""
        self.host.tell(Do(effects))


@asynccontextmanager
async def machines(*made: Machine) -> AsyncIterator[None]:
    for machine in made:
        await machine.host.start()
    try:
        yield
    finally:
        for machine in made:
            await machine.host.stop()


class RawBroker:
    """A connection of which a test sends every byte itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.sent: list[tuple[Kind, bytes]] = []

    @classmethod
    async def dial(cls, address: str, receive_buffer_bytes: int | None = None) -> RawBroker:
        dialled = socket.socket()
        if receive_buffer_bytes is not None:
            dialled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        dialled.setblocking(False)
        await asyncio.get_running_loop().sock_connect(dialled, SocketAddress.parse(address))
        return cls(*await asyncio.open_connection(sock=dialled))

    async def greet(self, name: str = "raw", secret: bytes | None = SECRET) -> None:
        """Do what a broker does first."""
        greeting = Greeting(PROTOCOL, name, secret, is_dialling=True)
        self.send(Kind.GREETING, greeting.hello())
        while greeting.name is None:
            kind, message = await self.receive()
            assert kind is Kind.GREETING, message
            if (answer := greeting.receive(message)) is not None:
                self.send(Kind.GREETING, answer)

    def send(self, kind: Kind, message: bytes = b"") -> None:
        self.sent.append((kind, message))
        self.writer.write(framed(kind, message))

    async def receive(self) -> tuple[Kind, bytes]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = await self.reader.readexactly(HEADER_BYTES)
            return Kind(head[0]), await self.reader.readexactly(int.from_bytes(head[1:], "big"))

    async def until_closed(self) -> list[tuple[Kind, bytes]]:
        """All that comes before the connection is closed."""
        came = []
        try:
            while True:
                came.append(await self.receive())
        except (asyncio.IncompleteReadError, ConnectionError):
            return came

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
