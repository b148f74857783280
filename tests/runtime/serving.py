"""A gateway on a real socket, over a real edge whose log is a list in memory."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
import websockets

from fieldfare.errors import UnauthenticatedError
from fieldfare.messages import (
    PROTOCOL,
    Append,
    ClientFrame,
    Close,
    Closed,
    EdgeFrame,
    EventsStored,
    Fetch,
    Fetched,
    Identity,
    Input,
    Opened,
    Received,
    Record,
    Send,
    SetTimer,
    Started,
    Stored,
    TimerDue,
)
from fieldfare.routing.edge import Edge
from fieldfare.runtime.gateway import GatewayOptions, application
from fieldfare.runtime.ports import Broker
from fieldfare.runtime.sockets import Strangers, server_options

ALL = Identity("acme", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
OTHER = Identity("other", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
READER = Identity("acme", {"subscribe": ("traffic",)})
TOKENS: Mapping[str, Identity] = {"all": ALL, "other": OTHER, "reader": READER}
AUTHORIZED = {"Authorization": "Bearer all"}


class Tokens:
    """An authenticator with a few tokens that everybody knows."""

    def identify(self, token: str | None, client_host: str) -> Identity:
        assert client_host == "127.0.0.1"
        if token is None or token not in TOKENS:
            raise UnauthenticatedError("the token is missing or not known")
        return TOKENS[token]


@dataclass
class Client:
    host: MemoryHost
    id: str
    on_frames: Callable[[list[EdgeFrame]], None]
    on_close: Callable[[str], None]

    def send(self, frame: ClientFrame) -> None:
        self.host.tell(Received(self.id, frame))

    def close(self) -> None:
        if self.host.clients.pop(self.id, None):
            self.host.tell(Closed(self.id))


@dataclass
class MemoryHost:
    edge: Edge = field(default_factory=lambda: Edge("edge", random.Random(1)))
    clients: dict[str, Client] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self.tell(Started())

    def connect(
        self, identity: Identity, on_frames: Callable[[list[EdgeFrame]], None], on_close: Callable[[str], None]
    ) -> Client:
        self.connections += 1
        client = self.clients[f"c{self.connections}"] = Client(self, f"c{self.connections}", on_frames, on_close)
        self.tell(Opened(client.id, identity))
        return client

    def tell(self, message: Input) -> None:
        frames: dict[str, list[EdgeFrame]] = {}
        loop = asyncio.get_running_loop()
        for effect in self.edge.handle(message, time.time()):
            match effect:
                case Send():
                    frames.setdefault(effect.connection, []).append(effect.frame)
                case Append():
                    self.records.append(effect.record)
                    loop.call_soon(self.tell, Stored(effect.number))
                case SetTimer():
                    loop.call_later(max(0.0, effect.at - time.time()), self.tell, TimerDue(effect.key))
                case Fetch():
                    loop.call_soon(self.tell, self._fetched(effect))
                case Close():
                    self.clients[effect.connection].on_close(effect.reason)
                case _:
                    raise NotImplementedError(type(effect).__name__)
        for name, came in frames.items():
            if name in self.clients:
                self.clients[name].on_frames(came)

    def _fetched(self, fetch: Fetch) -> Fetched:
        found = [
            record
            for record in self.records
            if isinstance(record, EventsStored)
            and (record.tenant, record.topic) == (fetch.tenant, fetch.topic)
            and record.position + len(record.deliveries) - 1 > fetch.after
        ]
        last = max([fetch.after, *(record.position + len(record.deliveries) - 1 for record in found)])
        return Fetched(fetch.reader, list(found), last, is_end=True)


@dataclass(frozen=True)
class Served:
    port: int
    host: MemoryHost

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def websocket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/ws"


@asynccontextmanager
async def serving(
    options: GatewayOptions | None = None, strangers: Strangers | None = None, broker: Broker | None = None
) -> AsyncIterator[Served]:
    host = MemoryHost()
    app = application(broker or host, Tokens(), options or GatewayOptions())
    server = uvicorn.Server(uvicorn.Config(app, **server_options(strangers), log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.01)
        try:
            yield Served(listener.getsockname()[1], host)
        finally:
            for client in list(host.clients.values()):
                client.on_close("the service stops")
            server.should_exit = True
            await task


@asynccontextmanager
async def asking(
    options: GatewayOptions | None = None, identity: str = "all", **more: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Served]]:
    """A service, and a client of it."""
    headers = {"Authorization": f"Bearer {identity}"}
    async with (
        serving(options, **more) as served,
        httpx.AsyncClient(base_url=served.url, headers=headers, timeout=30) as client,
    ):
        yield client, served


@asynccontextmanager
async def connecting(served: Served, **options: Any) -> AsyncIterator[websockets.ClientConnection]:
    """A WebSocket."""
    options = {"additional_headers": AUTHORIZED, "subprotocols": [PROTOCOL], **options}
    async with websockets.connect(served.websocket_url, **options) as connection:
        yield connection


async def subscribed(client: httpx.AsyncClient, name: str, condition: str = "TRUE") -> None:
    body = {"topic": "traffic", "condition": condition, "name": name}
    assert (await client.post("/v1/subscriptions", json=body)).status_code == 201


async def published(client: httpx.AsyncClient, *events: object) -> None:
    response = await client.post("/v1/topics/traffic/events", json=list(events))
    assert response.json() == {"count": len(events)}
