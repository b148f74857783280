"""A client on the live stage: the real client library, whose connections can be cut, and which writes a history.

It has the methods of `fieldfare.simulation.client.SimulatedClient`, and means the same by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from fieldfare.client import wire
from fieldfare.client.aio import Client, connect
from fieldfare.client.events import Event
from fieldfare.client.options import ClientOptions
from fieldfare.client.subscription import Subscription
from fieldfare.client.transport import Connection, Transport
from fieldfare.errors import FieldfareError, NotConnectedError
from fieldfare.messages import Accepted, Attach, ClientFrame, Delivery, Notice, Subscribe
from fieldfare.qos import Offered
from fieldfare.simulation.history import History, Publication, Reception

_CONNECT_SECONDS = 120.0  # it may begin while the edge is down


class CuttableTransport:
    """Connections that break when they are told to, and that are gone for good after a crash."""

    def __init__(self, transport: Transport, client: LiveClient) -> None:
        self._transport = transport
        self.client = client
        self.is_crashed = False
        self.connection: Connection | None = None

    async def connect(self) -> Connection:
        self.connection = await self._transport.connect()
        return _CuttableConnection(self.connection, self)

    def cut(self) -> None:
        if self.connection is not None:
            self.connection.abort()


class _CuttableConnection:
    def __init__(self, connection: Connection, transport: CuttableTransport) -> None:
        self._connection, self._transport = connection, transport

    async def receive(self) -> Sequence[Any]:
        frames = await self._connection.receive()
        client = self._transport.client
        if client.answers_to_lose and any(isinstance(frame, Accepted) for frame in frames):
            client.answers_to_lose -= 1
            self._connection.abort()
            raise NotConnectedError("the answer got lost")
        return frames

    async def send(self, frames: Sequence[ClientFrame], /) -> None:
        if self._transport.is_crashed:  # a client that crashed says no last words
            raise NotConnectedError("crashed")
        await self._connection.send(frames)

    def abort(self) -> None:
        self._connection.abort()

    async def close(self) -> None:
        await self._connection.close()


@dataclass(frozen=True, eq=False)
class _Taking:
    """A subscription that is received; it is there when there is a connection."""

    task: asyncio.Task[None]
    subscription: asyncio.Future[Subscription[dict[str, Any]]]


class LiveClient:
    """A client of a real edge. Whatever it does goes into the history."""

    def __init__(self, name: str, tenant: str, transport: Transport, history: History, edge: str = "") -> None:
        self.name, self.tenant, self._edge = name, tenant, edge
        self.answers_to_lose = 0
        self.on_event: Callable[[dict[str, Any]], None] = lambda _: None  # called with every event that comes
        self._service = transport
        self._history = history
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._receptions: dict[Reception, _Taking] = {}  # of this life
        self._client: Client | None = None
        self.start()

    # What an application does

    def declare(self, topic: str, offered: Offered) -> None:
        self._history.offered[self.tenant, topic] = offered
        self._begin(self._declare(topic, offered))

    async def _declare(self, topic: str, offered: Offered) -> None:
        await self._connected.wait()
        await self.living.declare_topic(topic, offered)

    def publish(self, topic: str, *events: Any) -> Publication:
        content = tuple(bytes(wire.raw(event)) for event in events)
        publication = Publication(
            self._publisher, topic, content, self._loop.time(), tenant=self.tenant, client=self.name, edge=self._edge
        )
        self._history.publications.append(publication)
        self._unsent.put_nowait(publication)
        return publication

    def subscribe(self, topic: str, condition: str, **options: Any) -> Reception:
        return self._receive(Subscribe(0, topic, condition, **options))

    def attach(self, subscription: str, **options: Any) -> Reception:
        return self._receive(Attach(0, subscription, **options))

    def unsubscribe(self, reception: Reception) -> None:
        reception.ended_at = self._loop.time()
        reception.unsubscription = "waiting"
        self._begin(self._unsubscribe(reception, self._receptions.pop(reception)))

    async def _unsubscribe(self, reception: Reception, taking: _Taking) -> None:
        subscription = await taking.subscription
        taking.task.cancel()
        try:
            await subscription.unsubscribe()
        except FieldfareError:
            reception.unsubscription = "refused"
        else:
            reception.unsubscription = "accepted"

    def pause(self) -> None:
        self._going.clear()

    def go_on(self) -> None:
        self._going.set()

    # Its life

    @property
    def is_up(self) -> bool:
        return self._client is not None

    @property
    def living(self) -> Client:
        assert self._client is not None, "it has crashed"
        return self._client

    def start(self) -> None:
        self._connected, self._going = asyncio.Event(), asyncio.Event()
        self._going.set()
        self._unsent: asyncio.Queue[Publication] = asyncio.Queue()
        self._transport = CuttableTransport(self._service, self)
        options = ClientOptions(
            connect_timeout_seconds=_CONNECT_SECONDS,
            reconnect_delay_seconds=0.05,
            reconnect_delay_seconds_max=0.2,
            publisher=self.name,
        )
        self._client = connect(self._transport, options=options)
        self._publisher = self._client._runner.session.publisher
        self._begin(self._live(self._client))
        for reception in list(self._receptions):
            del self._receptions[reception]
            self._receive(reception.request)

    async def _live(self, client: Client) -> None:
        """Connect, and publish in the order in which it was asked."""
        async with client:
            self._connected.set()
            while True:
                publication = await self._unsent.get()
                events = [Raw(event) for event in publication.events]
                future = await client.publish_soon(publication.topic, events)
                future.add_done_callback(lambda done, publication=publication: self._answered(publication, done))  # type: ignore[misc]

    def _answered(self, publication: Publication, done: asyncio.Future[Any]) -> None:
        if done.cancelled() or publication.outcome != "waiting":
            done.cancelled() or done.exception()  # it is known what became of it
            return
        error = done.exception()
        publication.outcome = "accepted" if error is None else "refused"
        publication.error = error if isinstance(error, FieldfareError) else None
        publication.answered_at = self._loop.time()

    def crash(self) -> None:
        """Nothing more is sent or received."""
        self._transport.is_crashed = True
        self._transport.cut()
        for task in self._tasks:
            task.cancel()
        self._client = None
        for reception in self._receptions:
            reception.ended_at = self._loop.time()
        for publication in self._history.publications:
            if publication.publisher == self._publisher and publication.outcome == "waiting":
                publication.outcome = "unknown"
        for reception in self._history.receptions:
            if reception.client == self.name and reception.unsubscription == "waiting":
                reception.unsubscription = "unknown"

    async def close(self) -> None:
        """Leave nothing behind."""
        if self.is_up:
            self.crash()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self._transport.cut()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # What it receives

    def _receive(self, request: Subscribe | Attach) -> Reception:
        reception = Reception(self.name, request, tenant=self.tenant, edge=self._edge)
        self._history.receptions.append(reception)
        subscription: asyncio.Future[Subscription[dict[str, Any]]] = self._loop.create_future()
        task = self._begin(self._take(reception, subscription))
        self._receptions[reception] = _Taking(task, subscription)
        return reception

    async def _take(self, reception: Reception, asked: asyncio.Future[Subscription[dict[str, Any]]]) -> None:
        """Subscribe, and take one event after the other, unless it is paused."""
        await self._connected.wait()
        subscription = self._ask(reception)
        asked.set_result(subscription)
        try:
            await subscription
            reception.subscription, reception.confirmed_at = subscription.id, self._loop.time()
            async for event in subscription:
                reception.events.append(_delivery(event))
                self.on_event(event.attributes)
                await self._going.wait()
        except FieldfareError as error:
            reception.error, reception.ended_at = error, self._loop.time()
            self._receptions.pop(reception, None)

    def _ask(self, reception: Reception) -> Subscription[dict[str, Any]]:
        request = reception.request

        def on_notice(notice: Notice) -> None:
            reception.notices.append(notice)
            if notice.kind == "gap":
                reception.gaps_told_at.append(self._loop.time())

        if isinstance(request, Attach):
            return self.living.attach(request.subscription, window=request.window, on_notice=on_notice)
        options: dict[str, Any] = {"window": request.window}
        if request.name is not None:
            options["name"] = request.name
        if request.webhook is not None:
            options["webhook"] = request.webhook
        return self.living.subscribe(request.topic, request.condition, qos=request.qos, on_notice=on_notice, **options)


def _delivery(event: Event[dict[str, Any]]) -> Delivery:
    return Delivery(event.position, event.id, event.at, Raw(event.json), event.publisher)
