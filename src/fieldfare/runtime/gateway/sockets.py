"""Limits that must hold beside any request: on connections that send nothing, too slowly or too much, or do not read.

The HTTP server hands over a request when its head is complete. Until then its client is unknown, so it gets little
memory and little time, and when too many are at that stage, the one that has been there longest goes. Nor may all
connections together take the file descriptors that the log needs.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from starlette.datastructures import Headers
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from fieldfare.runtime.gateway.handshake import UpgradeRequest
from fieldfare.runtime.gateway.pings import PingWheel
from fieldfare.runtime.gateway.ports import Gateway
from fieldfare.runtime.gateway.websocket import ClientSocket

SocketMaker: TypeAlias = Callable[[set[Any]], ClientSocket]  # given the server's connections

_DESCRIPTORS_KEPT = 512  # for the log, for webhooks, and for those who are just being turned away


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits on a server's connections, and those connections that have no request under way."""

    count_max: int = 256
    head_bytes_max: int = 32 * 1024
    head_seconds: float = 10.0
    open_max: int = 20_000  # all connections, known or not
    stall_seconds: float = 60.0  # a client that has something to read, and does not
    waiting: dict[GuardedProtocol, None] = field(default_factory=dict)  # the first has waited longest
    resting: dict[GuardedProtocol, None] = field(default_factory=dict)  # answered, and without a next request


class _Stalls:
    """Cuts off a client that does not read what it asked for: a connection that closes waits for that for ever."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _stall_seconds: float
    _stall: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._stall = self.loop.call_later(self._stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()  # type: ignore[misc]
        self._unstall()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)  # type: ignore[misc]
        self._unstall()

    def _unstall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None


class GuardedProtocol(_Stalls, HttpToolsProtocol):
    """An HTTP connection that keeps those limits."""

    def __init__(self, *args: Any, limits: ConnectionLimits, make_socket: SocketMaker, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._make_socket = make_socket
        self._stall_seconds = limits.stall_seconds
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # noqa: D102
        super().connection_made(transport)
        if len(self.connections) > self._limits.open_max:
            next(chain(self._limits.waiting, self._limits.resting), self)._cut_off()
        self._wait()

    def on_message_begin(self) -> None:  # noqa: D102
        super().on_message_begin()
        self._limits.resting.pop(self, None)
        self._wait()

    def on_headers_complete(self) -> None:  # noqa: D102
        self._known()
        super().on_headers_complete()

    def on_message_complete(self) -> None:  # noqa: D102
        super().on_message_complete()
        self._known()

    def on_response_complete(self) -> None:  # noqa: D102
        is_body_missing, is_next_there = self.cycle.more_body, bool(self.pipeline)
        super().on_response_complete()
        if not is_next_there and not self.transport.is_closing():
            self._limits.resting[self] = None
            if is_body_missing:  # which nobody wants any more: it is awaited only because the next request follows it
                self._timer = self.loop.call_later(self._limits.head_seconds, self.transport.abort)

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to a socket of its own. Nothing may hold on to this object, the parser included."""
        self._known()
        self.connections.discard(self)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:  # its answer would fall among the socket's
            self.transport.abort()
            return
        headers, client_host = Headers(raw=self.headers), self.client[0] if self.client else ""
        request = UpgradeRequest(self.scope["method"], self.url, headers, client_host)
        self._make_socket(self.connections).open(self.transport, request)
        self.parser = None  # type: ignore[assignment] # as uvicorn does in the end

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._known()
        self._limits.resting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:  # noqa: D102
        super().data_received(data)
        if self in self._limits.waiting:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes_max:
                self.transport.abort()

    def _wait(self) -> None:
        waiting = self._limits.waiting
        if self in waiting:
            return
        if len(waiting) >= self._limits.count_max:
            next(iter(waiting))._cut_off()
        waiting[self] = None
        self._head_bytes = 0
        self._timer = self.loop.call_later(self._limits.head_seconds, self.transport.abort)

    def _cut_off(self) -> None:
        """Make room for another."""
        self._known()
        self._limits.resting.pop(self, None)
        self.transport.abort()

    def _known(self) -> None:
        self._limits.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def room_for_connections(wanted: int) -> int:
    """How many connections there is room for; the system's limit on descriptors is raised for them, if it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _DESCRIPTORS_KEPT
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(soft - _DESCRIPTORS_KEPT, soft // 2)


def server_options(gateway: Gateway, limits: ConnectionLimits | None = None) -> dict[str, Any]:
    """What the HTTP server has to be given, as arguments of `uvicorn.Config`: our sockets, and their limits."""
    make_socket = partial(ClientSocket, gateway, PingWheel(gateway.options.ping_seconds))
    http: Callable[..., asyncio.Protocol] = partial(
        GuardedProtocol, limits=limits or ConnectionLimits(), make_socket=make_socket
    )
    return {
        "http": http,
        "ws": make_socket,  # which only tells the server that it need not refuse WebSockets
        "server_header": False,
        "access_log": False,
    }
