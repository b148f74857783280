"""A gateway on a real socket, over a real edge with a real log."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvicorn
import websockets

from fieldfare.errors import UnauthenticatedError
from fieldfare.messages import EDGE_RECORDS, PROTOCOL, Identity
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.runtime.absent import NoPipeline, NoWebhooks
from fieldfare.runtime.compiling import Compiling
from fieldfare.runtime.gateway.application import application
from fieldfare.runtime.gateway.ports import Broker, Gateway, GatewayOptions
from fieldfare.runtime.gateway.sockets import ConnectionLimits, server_options
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.log_thread import LogThread
from fieldfare.store.journal import Journal

ALL = Identity("acme", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
OTHER = Identity("other", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
READER = Identity("acme", {"subscribe": ("traffic",)})
TOKENS: Mapping[str, Identity] = {"all": ALL, "other": OTHER, "reader": READER}
AUTHORIZED = {"Authorization": "Bearer all"}


class Tokens:
    """An authenticator with a few tokens that everybody knows."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()  # tenants

    def identify(self, token: str | None, client_host: str) -> Identity:
        assert client_host == "127.0.0.1"
        if token is None or token not in TOKENS:
            raise UnauthenticatedError("the token is missing or not known")
        return TOKENS[token]

    def check_again(self, identity: Identity, client_host: str) -> None:
        assert client_host == "127.0.0.1"
        if identity.tenant in self.revoked:
            raise UnauthenticatedError("the token was revoked")


@dataclass
class Served:
    port: int
    edge: Edge
    host: Host
    is_stopped: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def websocket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/ws"

    async def stop(self) -> None:
        if not self.is_stopped:
            self.is_stopped = True
            await self.host.stop("the service stops")


def attached(served: Served, name: str) -> bool:
    """Whether somebody takes the events of a subscription."""
    taker = served.edge.parts.takers.get("acme", name)
    return taker is not None and taker.is_attached


@asynccontextmanager
async def serving(
    options: GatewayOptions | None = None,
    limits: ConnectionLimits | None = None,
    broker: Broker | None = None,
    webhooks: Capability | None = None,
    telemetry: Capability | None = None,
    **server_settings: Any,
) -> AsyncIterator[Served]:
    with (
        TemporaryDirectory() as folder,
        Journal(Path(folder, "log"), EDGE_RECORDS) as journal,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        edge = Edge("edge", random.Random(1), EdgeOptions(has_traces=telemetry is not None))
        host = Host(
            edge, LogThread(journal), Compiling(), webhooks or NoWebhooks(), NoPipeline(), *filter(None, [telemetry])
        )
        served = Served(listener.getsockname()[1], edge, host)
        await host.start()
        gateway = Gateway(broker or host, Tokens(), options or GatewayOptions())
        settings = server_options(gateway, limits) | {"log_config": None} | server_settings
        config = uvicorn.Config(application(gateway), **settings)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110 - the server has no event to wait for
            await asyncio.sleep(0.01)
        try:
            yield served
        finally:
            await served.stop()
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
