"""What waits for a client that reads slower than it is sent to: bounded in bytes.

A mailbox that overflows forgets what it holds and says so: the client is cut off, and resumes from its own position,
so that it costs bounded memory here and loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
OVERFLOW = "too much waited to be read: read faster, and resume"


class MailboxClosedError(Exception):
    """Nothing is left, and nothing will come; the message says why. It never leaves the gateway."""


class Mailbox(Generic[T]):
    """A queue with one reader."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._items: list[T] = []
        self._bytes = 0
        self._changed = asyncio.Event()
        self._closed: str | None = None

    @property
    def is_closed(self) -> bool:
        """Whether what is put here is dropped."""
        return self._closed is not None

    def put(self, item: T, size_bytes: int) -> None:
        """Add something, unless it is closed."""
        if self.is_closed:
            return
        self._items.append(item)
        self._bytes += size_bytes
        self._changed.set()
        if self._bytes > self.bytes_max:
            self._items.clear()
            self.close(OVERFLOW)

    def close(self, reason: str) -> None:
        """End it; what is in it can still be taken."""
        if not self.is_closed:
            self._closed = reason
            self._changed.set()

    async def take(self) -> list[T]:
        """All that is there, once there is something."""
        await self._changed.wait()
        if not self._items:
            raise MailboxClosedError(self._closed)
        items, self._items, self._bytes = self._items, [], 0
        if not self.is_closed:
            self._changed.clear()
        return items


async def first_of(*coroutines: Coroutine[Any, Any, T]) -> T:
    """The result of the one that ends first. The others are cancelled, and have ended when this returns."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
