"""A broker inside the application: the same edge and log as the service has, without sockets.

    async with fieldfare.embedded("alerts") as broker:
        await broker.deliver("traffic", "speed < 25", print)
        await broker.publish("traffic", {"road": "A10", "speed": 12})

It is a client like any other: only the transport differs. A callback is called for one event after another; an event is
acknowledged when its callback has returned.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from fieldfare.client.aio import Client
from fieldfare.client.events import Event
from fieldfare.client.options import ClientOptions
from fieldfare.client.subscription import Subscription, SubscriptionOptions
from fieldfare.errors import NotConnectedError
from fieldfare.messages import EDGE_RECORDS, ClientFrame, EdgeFrame, Identity
from fieldfare.qos import Requested
from fieldfare.routing.edge import Edge
from fieldfare.routing.interest import warm_up
from fieldfare.routing.options import EdgeOptions
from fieldfare.runtime.absent import NoPipeline, NoWebhooks
from fieldfare.runtime.compiling import Compiling
from fieldfare.runtime.host import Host
from fieldfare.runtime.links import Connection
from fieldfare.runtime.log_thread import LogThread
from fieldfare.store.journal import Journal

_OWNER = Identity("default", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
_DEFAULTS = Requested()

_log = logging.getLogger(__name__)


class HostTransport:
    """Reaches a host in the same event loop. `log` is the id of its edge's log, if that is known."""

    def __init__(self, host: Host, identity: Identity = _OWNER, log: str | None = None) -> None:
        self._host, self._identity, self._log = host, identity, log

    async def connect(self) -> HostConnection:
        """A connection, which is there at once."""
        return HostConnection(self._host, self._identity, self._log)


class HostConnection:
    """A connection to a host in the same event loop. What waits in it is bounded by the windows of subscriptions."""

    def __init__(self, host: Host, identity: Identity, log: str | None) -> None:
        self.log = log
        self._frames: list[EdgeFrame] = []
        self._changed = asyncio.Event()
        self._over: str | None = None
        self._connection: Connection = host.connect(identity, self._came, self._closed)

    def _came(self, frames: list[EdgeFrame]) -> None:
        self._frames += frames
        self._changed.set()

    def _closed(self, reason: str) -> None:
        self._over = reason
        self._changed.set()

    async def receive(self) -> Sequence[EdgeFrame]:
        """The next frames."""
        while not self._frames:
            if self._over is not None:
                raise NotConnectedError(self._over)
            self._changed.clear()
            await self._changed.wait()
        frames, self._frames = self._frames, []
        return frames

    async def send(self, frames: Sequence[ClientFrame]) -> None:
        """Hand frames to the broker."""
        if self._over is not None:
            raise NotConnectedError(self._over)
        for frame in frames:
            self._connection.send(frame)

    def abort(self) -> None:
        """End at once."""
        self._connection.close()
        self._closed("the connection was closed")

    async def close(self) -> None:
        """End."""
        self.abort()


class Embedded(Client):
    """A broker of its own, and the client of it. Events and durable subscriptions are in the folder."""

    def __init__(self, folder: str | Path, options: ClientOptions | None = None) -> None:
        self._folder = Path(folder)
        self._client_options = options or ClientOptions()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        warm_up()
        self._journal = Journal(self._folder, EDGE_RECORDS)
        self.edge = edge = Edge("embedded", random.Random(), EdgeOptions(has_pipeline=False))  # noqa: S311 - names, not secrets
        self._host = Host(edge, LogThread(self._journal), Compiling(), NoWebhooks(), NoPipeline())
        await self._host.start()
        super().__init__(HostTransport(self._host, log=edge.log_id), self._client_options)
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await super().__aexit__(kind, error, traceback)
            await self._host.stop()
        finally:
            self._journal.close()

    @property
    def is_settled(self) -> bool:
        """Whether every event has been matched, and settled by all subscriptions that somebody takes."""
        return all(topic.matched >= topic.stored for topic in self.edge.parts.topics) and not any(
            taker.is_attached and (taker.is_behind or taker.waiting or taker.in_flight or taker.outstanding)
            for taker in self.edge.parts.takers
        )

    async def deliver(
        self,
        topic: str,
        condition: str,
        callback: Callable[[Event[dict[str, Any]]], Any],
        *,
        qos: Requested = _DEFAULTS,
        **options: Unpack[SubscriptionOptions],
    ) -> asyncio.Task[None]:
        """Call a function, or await a coroutine, for every event; returns when the subscription is in force.

        If the callback raises, the event of a named subscription is refused: it comes again after a while, and becomes
        a dead letter after too many times. Without a name the task ends with the error.
        """
        subscription = self.subscribe(topic, condition, qos=qos, **options)
        await subscription
        task = asyncio.create_task(_deliver(subscription, callback))
        self._tasks.add(task)
        return task


async def _deliver(
    subscription: Subscription[dict[str, Any]], callback: Callable[[Event[dict[str, Any]]], Any]
) -> None:
    async for event in subscription:
        try:
            result = callback(event)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            if not subscription.is_durable:
                raise
            _log.warning("a callback failed for an event of %s, which is refused: %r", subscription.id, error)
            subscription.nack(event, repr(error))


def embedded(folder: str | Path) -> Embedded:
    """A broker inside the application, with its log in a folder; to be entered with `async with`."""
    return Embedded(folder)
