"""A client that has something to read, and may not do so: because it is slow, or because it is to go.

A transport that is closed waits until its client has taken everything, for ever if need be. What waits is counted by
the transport; here it is looked at whether it grows less.
"""

from __future__ import annotations

import asyncio

from fieldfare.messages import FRAME_BYTES_MAX

_DISCARDED_BYTES_MAX = 2 * FRAME_BYTES_MAX  # of what a client still sends after it has been told to go


class SlowReader:
    """Cuts off a client that takes nothing for some time; whoever writes to it meanwhile does so by `write`."""

    __slots__ = ("_at", "_discarded_bytes", "_given_bytes", "_seconds_max", "_taken_bytes", "_timer", "_transport")

    def __init__(self, transport: asyncio.Transport, seconds_max: float) -> None:
        self._transport = transport
        self._seconds_max = seconds_max
        self._given_bytes = transport.get_write_buffer_size()
        self._taken_bytes = 0
        self._discarded_bytes = 0
        self._at = asyncio.get_running_loop().time()  # when it last took some
        self._wait()

    def write(self, data: bytes) -> None:
        """Write more."""
        before = self._transport.get_write_buffer_size()
        self._transport.write(data)
        # Not the size of the data, which grows by encryption.
        self._given_bytes += self._transport.get_write_buffer_size() - before

    def discard(self, count: int) -> None:
        """The client, which is to go, sends so many bytes all the same."""
        self._discarded_bytes += count
        if self._discarded_bytes > _DISCARDED_BYTES_MAX:
            self._transport.abort()

    def stop(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds_max / 4, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        taken_bytes = self._given_bytes - self._transport.get_write_buffer_size()
        if taken_bytes > self._taken_bytes:
            self._taken_bytes, self._at = taken_bytes, now
        elif now - self._at >= self._seconds_max:
            self._transport.abort()
            return
        self._wait()
