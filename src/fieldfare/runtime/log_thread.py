"""The log of a node on asyncio: a journal, used by a thread of its own, one thing at a time.

While a group of records is being flushed the next one gathers, so that the cost of a flush is shared by however many
wait for it. Reading and appending take turns.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from fieldfare.errors import JournalError, JournalFullError
from fieldfare.messages import Append, Fetch, Fetched, LoggingNode, NotStored, Stored
from fieldfare.runtime.host import Capability
from fieldfare.store.journal import Journal

if TYPE_CHECKING:
    from fieldfare.runtime.host import Host

_log = logging.getLogger(__name__)


class LogThread(Capability):
    """Stores and reads a node's records."""

    def __init__(self, journal: Journal[Any]) -> None:
        self.journal = journal
        self.flush_seconds = 0.0  # of all flushes together
        self.flush_count = 0
        self._appends: list[Append] = []
        self._fetches: deque[Fetch] = deque()
        self._is_readers_turn = False
        self._is_checkpoint_due = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fieldfare-log")

    def install(self, host: Host) -> None:
        """Perform Append and Fetch."""
        if not isinstance(host.kernel.node, LoggingNode):
            raise TypeError(f"{host.kernel.node!r} keeps no log")
        self._host, self._node = host, host.kernel.node
        host.kernel.provide(Append, self._take)
        host.kernel.provide(Fetch, self._fetches.append)
        host.kernel.at_round_end(self._feed)

    def _take(self, effect: Append) -> None:
        self._appends.append(effect)

    async def start(self) -> None:
        """Recover the node from what the journal holds."""
        await self._host.loop.run_in_executor(self._thread, self._recover)

    def _recover(self) -> None:
        for record in self.journal.recover():
            self._node.recover(record)

    async def stop(self) -> None:
        """Leave a log that is quick to recover."""
        await self._host.loop.run_in_executor(self._thread, self._write_checkpoint, self._node.checkpoint())
        self.is_busy = True  # for good: nothing more is stored
        self._thread.shutdown()

    # Work for the thread

    def _feed(self) -> None:
        """Give the thread its next work. At the end of a round the node has heard of all that is in the log."""
        if self.is_busy:
            return
        if self._is_checkpoint_due:
            self._is_checkpoint_due = False
            self._begin(self._checkpoint, (self._node.checkpoint(), self._host.now()), _nothing)
        elif self._fetches and (self._is_readers_turn or not self._appends):
            self._is_readers_turn = False
            self._begin(self._fetch, self._fetches.popleft(), self._fetched)
        elif self._appends:
            self._is_readers_turn = True  # or who publishes without a pause would keep them waiting
            group, self._appends = self._appends, []
            self._begin(self._append, group, self._appended)

    def _begin(self, work: Callable[[Any], Any], argument: Any, then: Callable[[Any], None]) -> None:
        self.is_busy = True

        def done(future: Future[Any]) -> None:
            if error := future.exception():  # a fault of ours: nothing more is stored, and everybody is told
                self._fail(error)
                return
            self.is_busy = False
            then(future.result())
            self._host.wake()

        self._thread.submit(work, argument).add_done_callback(
            lambda future: self._host.loop.call_soon_threadsafe(done, future)
        )

    def _append(self, group: Sequence[Append]) -> Stored | NotStored:
        number = group[-1].number
        began = time.monotonic()
        try:
            self.journal.append([append.record for append in group], sync=any(append.is_durable for append in group))
        except JournalFullError as error:
            return NotStored(number, str(error))
        except JournalError as error:
            self._fail(error)
            return NotStored(number, str(error))
        self.flush_seconds += time.monotonic() - began
        self.flush_count += 1
        return Stored(number, self.journal.first_position)

    def _appended(self, outcome: Stored | NotStored) -> None:
        if isinstance(outcome, Stored):
            self._is_checkpoint_due = self.journal.is_due_for_checkpoint
        elif self._appends:  # what follows it must not be stored without it
            outcome = NotStored(self._appends[-1].number, outcome.reason)
            self._appends.clear()
        self._host.tell_first(outcome)

    def _fetch(self, fetch: Fetch) -> Fetched | None:
        try:
            piece = self.journal.read(fetch.stream, fetch.after, losses_of=fetch.part)
        except JournalError as error:
            self._fail(error)
            return None
        return Fetched(fetch.reader, piece.records, piece.position, piece.lost_before, piece.expired_before)

    def _fetched(self, piece: Fetched | None) -> None:
        if piece is not None:
            self._host.tell(piece)

    def _checkpoint(self, work: tuple[Sequence[Any], float]) -> None:
        records, now = work
        if self._write_checkpoint(records):
            try:
                self.journal.trim(now)
            except JournalError as error:
                _log.warning("the log could not be shortened: %s", error)

    def _write_checkpoint(self, records: Sequence[Any]) -> bool:
        try:
            self.journal.checkpoint(records)
        except JournalError as error:
            _log.warning("no checkpoint was written, so the log cannot be shortened: %s", error)
            return False
        return True

    def _fail(self, error: BaseException) -> None:
        self._host.fail(f"the log failed, restart the service: {error}")


def _nothing(_: object) -> None:
    """What follows a checkpoint."""
