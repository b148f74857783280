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
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from fieldfare.messages import FRAME_BYTES_MAX

_DESCRIPTORS_KEPT = 512  # for the log, for webhooks, and for those who are just being turned away
_FRAGMENTS_MAX = 1024  # of one WebSocket message
_PONGS_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class Strangers:
    """The connections of one server whose request is not known yet, and the limits on them and on all the others."""

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

    def __init__(self, *args: Any, strangers: Strangers, **options: Any) -> None:
        super().__init__(*args, **options)
        self._strangers = strangers
        self._stall_seconds = strangers.stall_seconds
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # noqa: D102
        super().connection_made(transport)
        if len(self.connections) > self._strangers.open_max:
            next(chain(self._strangers.waiting, self._strangers.resting), self)._cut_off()
        self._wait()

    def on_message_begin(self) -> None:  # noqa: D102
        super().on_message_begin()
        self._strangers.resting.pop(self, None)
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
            self._strangers.resting[self] = None
            if is_body_missing:  # which nobody wants any more: it is awaited only because the next request follows it
                self._timer = self.loop.call_later(self._strangers.head_seconds, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._known()
        self._strangers.resting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:  # noqa: D102
        super().data_received(data)
        if self in self._strangers.waiting:
            self._head_bytes += len(data)
            if self._head_bytes > self._strangers.head_bytes_max:
                self.transport.abort()

    def _wait(self) -> None:
        waiting = self._strangers.waiting
        if self in waiting:
            return
        if len(waiting) >= self._strangers.count_max:
            next(iter(waiting))._cut_off()
        waiting[self] = None
        self._head_bytes = 0
        self._timer = self.loop.call_later(self._strangers.head_seconds, self.transport.abort)

    def _cut_off(self) -> None:
        """Make room for another."""
        self._known()
        self._strangers.resting.pop(self, None)
        self.transport.abort()

    def _known(self) -> None:
        self._strangers.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class GuardedWebSocket(_Stalls, WebSocketsSansIOProtocol):
    """A WebSocket that keeps those limits, also on what no application sees: fragments and pings."""

    def __init__(self, *args: Any, stall_seconds: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stall_seconds = stall_seconds

    def data_received(self, data: bytes) -> None:  # noqa: D102
        super().data_received(data)
        if not self.handshake_initiated:  # it begins with its whole head, or, if that is not one, it never does
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:  # noqa: D102
        super().handle_cont(event)
        if len(self.frames) > _FRAGMENTS_MAX:
            self.transport.abort()

    def handle_ping(self) -> None:  # noqa: D102
        super().handle_ping()
        if self.transport.get_write_buffer_size() > FRAME_BYTES_MAX + _PONGS_BYTES_MAX:
            self.transport.abort()


def room_for_connections(wanted: int) -> int:
    """How many connections there is room for; the system's limit on descriptors is raised for them, if it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _DESCRIPTORS_KEPT
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(soft - _DESCRIPTORS_KEPT, soft // 2)


def server_options(strangers: Strangers | None = None) -> dict[str, Any]:
    """What the HTTP server has to be given, as arguments of `uvicorn.Config`, for its part of the limits."""
    strangers = strangers or Strangers()
    http: Callable[..., asyncio.Protocol] = partial(GuardedProtocol, strangers=strangers)
    websocket: Callable[..., asyncio.Protocol] = partial(GuardedWebSocket, stall_seconds=strangers.stall_seconds)
    return {
        "http": http,
        "ws": websocket,
        "ws_max_size": FRAME_BYTES_MAX,
        "ws_per_message_deflate": False,  # a small message that grows to a large one costs memory before it is known
        "server_header": False,
        "access_log": False,
    }
