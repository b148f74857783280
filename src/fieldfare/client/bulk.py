"""Publishing many events: in batches, several of them on their way at a time; what is bad goes to quarantine.

A file is cut into full batches. A stream is not: what has come is sent at once, and while that is on its way the next
batch gathers, so that a slow stream is prompt and a fast one is cheap.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from fieldfare.bisection import Bisection
from fieldfare.client.aio import Client
from fieldfare.errors import RefusedError
from fieldfare.files.documents import Document
from fieldfare.files.quarantine import BadRow, Quarantine
from fieldfare.messages import EVENTS_MAX

_BATCH_BYTES_MAX = 1024 * 1024
_UNANSWERED_MAX = 8
_WAITING_MAX = 10_000

Progress = Callable[[Document], None]  # told the last event of a batch that was accepted


class BulkPublisher:
    """Publishes many events to one topic."""

    def __init__(self, client: Client, topic: str, quarantine: Quarantine, progress: Progress) -> None:
        self.accepted = 0
        self._client = client
        self._topic = topic
        self._quarantine = quarantine
        self._progress = progress
        self._batch: list[Document] = []
        self._batch_bytes = 0
        self._unanswered: deque[tuple[asyncio.Future[Any], list[Document]]] = deque()

    async def publish_file(self, rows: Iterable[Document | BadRow], events_max: int = EVENTS_MAX) -> None:
        """Publish the events of a file; when this returns, all that are not in quarantine are accepted."""
        for row in rows:
            if len(self._batch) == events_max:
                await self._send(_UNANSWERED_MAX)
            await self._add(row)
        await self._send(0)

    async def publish_stream(self, rows: Iterable[Document | BadRow]) -> None:
        """Publish the events of a stream, each soon after it came, until the stream ends."""
        reader = _Reader(rows)
        while taken := await reader.take():
            for row in taken:
                await self._add(row)
            await self._send(1)
        await self._send(0)

    async def _add(self, row: Document | BadRow) -> None:
        if isinstance(row, BadRow):
            self._quarantine.add(row)
            return
        if self._batch_bytes + len(row.event) > _BATCH_BYTES_MAX:
            await self._send(_UNANSWERED_MAX)
        self._batch.append(row)
        self._batch_bytes += len(row.event)

    async def _send(self, unanswered_max: int) -> None:
        """Send the batch, and wait until at most `unanswered_max` batches have no answer."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch:
            self._unanswered.append((await self._publish_soon(batch), batch))
        while len(self._unanswered) > unanswered_max:
            await self._answered(*self._unanswered.popleft())

    async def _answered(self, answer: asyncio.Future[Any], batch: list[Document]) -> None:
        """Wait until a batch is accepted. If it is not, publish parts of it until the bad events stand alone."""
        parts = Bisection(len(batch))
        for part in parts:
            piece = batch[part]
            try:
                await (answer if len(piece) == len(batch) else await self._publish_soon(piece))
            except RefusedError as error:
                if error.code != "invalid":
                    raise
                if not parts.halve(part):
                    self._quarantine.add(piece[0].bad(error.reason))
            else:
                self.accepted += len(piece)
                self._progress(piece[-1])

    async def _publish_soon(self, batch: list[Document]) -> asyncio.Future[Any]:
        return await self._client.publish_soon(self._topic, [document.event for document in batch])


class _Reader:
    """Reads in a thread of its own, since nothing else can wait for a pipe and be interrupted."""

    def __init__(self, rows: Iterable[Document | BadRow]) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Document | BadRow] = []
        self._room = threading.Semaphore(_WAITING_MAX)
        self._has_come = asyncio.Event()
        self._is_ended = False
        self._error: BaseException | None = None
        threading.Thread(target=self._read, args=(rows,), daemon=True).start()

    async def take(self) -> list[Document | BadRow]:
        """What has come, once something has; nothing at the end."""
        await self._has_come.wait()
        taken, self._waiting = self._waiting, []
        if taken:
            self._room.release(len(taken))
        elif self._error is not None:
            raise self._error
        if not self._is_ended:
            self._has_come.clear()
        return taken

    def _read(self, rows: Iterable[Document | BadRow]) -> None:
        error: BaseException | None = None
        try:
            for row in rows:
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._come, row)
        except BaseException as raised:  # noqa: BLE001 - it is raised again where the rows are taken
            error = raised
        self._loop.call_soon_threadsafe(self._ended, error)

    def _come(self, row: Document | BadRow) -> None:
        self._waiting.append(row)
        self._has_come.set()

    def _ended(self, error: BaseException | None) -> None:
        self._is_ended, self._error = True, error
        self._has_come.set()
