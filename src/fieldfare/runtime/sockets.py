"""Limits that must hold before there is a request: on connections that send nothing, too slowly or too much.

The HTTP server hands over a request when its head is complete. Until then its client is unknown, so it gets little
memory and little time, and when too many are at that stage, the one that has been there longest goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fieldfare.messages import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Strangers:
    """The connections of one server whose request is not known yet, and the limits on them."""

    count_max: int = 256
    head_bytes_max: int = 32 * 1024
    head_seconds: float = 10.0
    waiting: dict[GuardedProtocol, None] = field(default_factory=dict)  # the first has waited longest


class GuardedProtocol(HttpToolsProtocol):
    """An HTTP connection that keeps those limits."""

    def __init__(self, *args: Any, strangers: Strangers, **options: Any) -> None:
        super().__init__(*args, **options)
        self._strangers = strangers
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # noqa: D102
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:  # noqa: D102
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:  # noqa: D102
        self._known()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._known()
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
            next(iter(waiting)).transport.abort()
        waiting[self] = None
        self._head_bytes = 0
        self._timer = self.loop.call_later(self._strangers.head_seconds, self.transport.abort)

    def _known(self) -> None:
        self._strangers.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def server_options(strangers: Strangers | None = None) -> dict[str, Any]:
    """What the HTTP server has to be given, as arguments of `uvicorn.Config`, for its part of the limits."""
    protocol: Callable[..., asyncio.Protocol] = partial(GuardedProtocol, strangers=strangers or Strangers())
    return {
        "http": protocol,
        "ws": "websockets-sansio",
        "ws_max_size": FRAME_BYTES_MAX,
        "ws_per_message_deflate": False,  # a small message that grows to a large one costs memory before it is known
        "server_header": False,
        "access_log": False,
    }
