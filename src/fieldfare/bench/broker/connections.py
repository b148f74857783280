"""How the processes around a broker reach it: what a connection can do, and one that speaks a wire over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, cast

from fieldfare.bench.broker.load import ReceivedEvent, Wanted
from fieldfare.bench.broker.wires import Wire, WireError
from fieldfare.errors import FieldfareError

READY_SECONDS_MAX = 300.0

Take: TypeAlias = Callable[[list[ReceivedEvent]], None]  # is given the events that came


class ClientConnection(Protocol):
    """A client of a broker, connected. A failure is kept, for there is nobody to catch it."""

    failure: Exception | None

    def publish(self, events: Sequence[bytes]) -> None:
        """Publish some events, each of them JSON."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


# Given a host, a port, what the client subscribes to (nothing: it publishes) and who takes the events. The connection
# is returned when the broker has accepted every subscription.
Connect: TypeAlias = Callable[[str, int, Sequence[Wanted], Take], Awaitable[ClientConnection]]


async def connect_by_wire(
    make_wire: Callable[[], Wire], host: str, port: int, squares: Sequence[Wanted], take: Take
) -> ClientConnection:
    """Connect over TCP, with a wire that reads and writes the broker's protocol."""

    def make() -> _WireConnection:
        return _WireConnection(make_wire(), squares, take)

    _, connection = await asyncio.get_running_loop().create_connection(make, host, port)
    async with asyncio.timeout(READY_SECONDS_MAX):
        await connection.ready.wait()
    if connection.failure:
        raise connection.failure
    return connection


class _WireConnection(asyncio.Protocol):
    """A connection that reads with a wire."""

    def __init__(self, wire: Wire, squares: Sequence[Wanted], take: Take) -> None:
        self._wire = wire
        self._squares = squares
        self._take = take
        self.transport: asyncio.Transport
        self.ready = asyncio.Event()
        self.failure: Exception | None = None
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._wire.greeting(self._squares))

    def data_received(self, data: bytes) -> None:
        try:
            events = self._wire.feed(data)
        except (FieldfareError, ValueError) as error:
            self.failure = error
            self.ready.set()
            self.transport.abort()
            return
        if self._wire.reply:
            self.transport.write(self._wire.reply)
            self._wire.reply = b""
        if events:
            self._take(events)
        if self._wire.is_ready:
            self.ready.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_closing and self.failure is None:
            self.failure = exc or WireError("the broker closed a connection")
        self.ready.set()

    def publish(self, events: Sequence[bytes]) -> None:
        self.transport.write(self._wire.publication(events))

    def close(self) -> None:
        self._is_closing = True
        self.transport.abort()
