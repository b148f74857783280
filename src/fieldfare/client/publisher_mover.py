"""Moves a client's publisher from edge to edge on asyncio: opens the second connection, and carries a move's steps out.

Subscriptions stay where they are; from the move on, publications have a connection of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fieldfare.client.options import ClientOptions
from fieldfare.client.outputs import Completed, Failed, MoveAsked, PingsAsked
from fieldfare.client.publisher_move import PublisherMove, PublisherMoveState, Steps
from fieldfare.client.session_runner import SessionRunner
from fieldfare.client.transport import Edges
from fieldfare.errors import FieldfareError, NotConnectedError, RefusedError
from fieldfare.messages import List

_PINGS = 3  # of each edge, of which the quickest counts
_CANDIDATES_MAX = 64
_log = logging.getLogger("fieldfare.client")


class PublisherMover:
    """Where a client publishes. `runner_at` finds the runner for an edge; None: it may not be used."""

    def __init__(
        self,
        runner: SessionRunner,
        edges: Edges,
        options: ClientOptions,
        runner_at: Callable[[str], SessionRunner | None],
    ) -> None:
        self.publishing = runner  # the runner whose session has the publications
        self._edges, self._options, self._runner_at = edges, options, runner_at
        self._move: PublisherMove | None = None
        self._runners: Mapping[object, SessionRunner] = {}
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.serve(runner)

    def serve(self, runner: SessionRunner) -> None:
        """Hear what a runner's session says of moves."""
        runner.on_move = self._told
        runner.on_pings = self._asked_to_ping

    async def move(self, url: str, name: str | None = None) -> None:
        """Publish at another edge from now on; returns when it does. If it cannot, it goes on where it is."""
        while self._move is not None and not self._move.is_over:
            await self._until_over()
        source = self.publishing
        if source.url == url:
            return
        target = self._runner_at(url)
        if target is None:
            raise RefusedError("invalid", f"this client may not use the edge at {url!r}")
        move = PublisherMove(source.session, target.session, name or url[-256:], url)
        self._move, self._runners = move, {source.session: source, target.session: target}
        self._step(move.begin(source.now))
        try:
            async with asyncio.timeout(self._options.connect_timeout_seconds):
                while move.state is PublisherMoveState.ADVERTISING:
                    await self._until_over()
        except TimeoutError:
            late = NotConnectedError(f"the edge at {url!r} was not reached in time")
            self._step(move.failed(late, source.now))
        while not move.is_over:
            await self._until_over()
        if move.error is not None:
            raise move.error

    async def _until_over(self) -> None:
        """Wait until a move has come further."""
        self._over.clear()
        await self._over.wait()

    def _told(self, told: Completed | Failed | MoveAsked) -> None:
        move = self._move
        if isinstance(told, MoveAsked):
            self._begin(self._try_to_move(told))
        elif move is not None and told.key is move:
            now = self.publishing.now
            if isinstance(told, Completed):
                self._step(move.completed(told.answer, now))
            else:
                self._step(move.failed(told.error, now))

    def _step(self, steps: Steps) -> None:
        for session, outputs in steps:
            self._runners[session].perform(outputs)
        if self._move is not None and self.publishing.session is not self._move.publishing:
            former, self.publishing = self.publishing, self._runners[self._move.publishing]
            former.wake()
        self._over.set()

    async def _try_to_move(self, asked: MoveAsked) -> None:
        if self._move is not None and not self._move.is_over:
            return
        try:
            await self.move(asked.url, asked.target)
        except FieldfareError as error:
            _log.warning("the publisher stays where it is: %s", error)

    # Pings

    def _asked_to_ping(self, runner: SessionRunner, asked: PingsAsked) -> None:
        self._begin(self._answer_pings(runner, asked))

    async def _answer_pings(self, runner: SessionRunner, asked: PingsAsked) -> None:
        measured = await self.ping(asked.urls[:_CANDIDATES_MAX])
        missing: list[float | None] = [None] * (len(asked.urls) - len(measured))
        runner.perform(runner.session.answer_pings(asked.number, [*measured, *missing]))

    async def ping(self, urls: Sequence[str]) -> list[float | None]:
        """Seconds for a request and its answer, of each edge; None where it cannot be reached in time."""
        return list(await asyncio.gather(*(self._ping(url) for url in urls)))

    async def _ping(self, url: str) -> float | None:
        """Ask an edge something small, over a connection of its own: so it waits its turn like any publication."""
        if not self._edges.allows(url):
            return None
        runner = SessionRunner(Edges((url,), self._edges.transport_to), self._options)
        try:
            async with asyncio.timeout(self._options.ping_timeout_seconds):
                await runner.open()
                seconds = []
                for _ in range(_PINGS):
                    began_at = runner.now
                    await runner.request(List(0, "edges", count_max=1))
                    seconds.append(runner.now - began_at)
                return min(seconds)
        except (TimeoutError, FieldfareError):
            return None
        finally:
            await runner.close(is_patient=False)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End what is being done in the background."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
