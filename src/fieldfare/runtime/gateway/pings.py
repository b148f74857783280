"""Pings for all WebSockets of a server with one timer, whether there are ten or ten thousand."""

from __future__ import annotations

import asyncio
from typing import Protocol

_SLOTS = 64


class Pinged(Protocol):
    """A WebSocket, as far as it is pinged."""

    def ping(self) -> None:
        """Send a ping, or give the client up if the last one was not answered."""
        ...


class PingWheel:
    """Calls each one's `ping` once in so many seconds, in 64 groups, so that not all are sent in one go.

    The group of a socket is its hash, so that nothing has to be kept to find it again.
    """

    def __init__(self, seconds: float) -> None:
        self._slot_seconds = seconds / _SLOTS
        self._slots: list[set[Pinged]] = [set() for _ in range(_SLOTS)]
        self._next = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, socket: Pinged) -> None:
        """Ping a socket from now on."""
        self._slots[hash(socket) % _SLOTS].add(socket)
        if self._timer is None:
            self._wait()

    def remove(self, socket: Pinged) -> None:
        """Ping it no more."""
        self._slots[hash(socket) % _SLOTS].discard(socket)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._slot_seconds, self._turn)

    def _turn(self) -> None:
        self._timer = None
        sockets = self._slots[self._next]
        self._next = (self._next + 1) % _SLOTS
        if any(self._slots):
            self._wait()
        for socket in list(sockets):
            socket.ping()
