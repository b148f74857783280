"""A WebSocket server over the model edge, which misbehaves on request, and stories that are told with it."""

from __future__ import annotations

import asyncio
import http
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import websockets
from tests.client.model import ModelEdge
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.client.options import ClientOptions, SessionOptions
from fieldfare.messages import PROTOCOL, ClientFrame, EdgeFrame, Refused

_decoder = msgspec.json.Decoder(ClientFrame)

QUICK = ClientOptions(
    connect_timeout_seconds=30.0,
    reconnect_delay_seconds=0.01,
    reconnect_delay_seconds_max=0.05,
    session=SessionOptions(ack_delay_seconds=0.01, retry_delay_seconds=0.01),
)
TOKEN = "canary-5f1c"  # noqa: S105 - of nothing


@dataclass
class FakeService:
    """What it was sent, and what is to go wrong."""

    edge: ModelEdge = field(default_factory=ModelEdge)
    sockets: set[ServerConnection] = field(default_factory=set)
    received: list[ClientFrame] = field(default_factory=list)
    messages: int = 0
    handshakes: list[Request] = field(default_factory=list)
    status: int | None = None  # denies connections,
    problem: dict[str, Any] = field(default_factory=lambda: {"detail": "so it is"})  # and says why
    headers: dict[str, str] = field(default_factory=dict)  # of the answer to a handshake
    answer: Callable[[ClientFrame], EdgeFrame | None] = lambda _: None  # instead of the edge
    is_silent: bool = False  # takes everything, and says nothing
    port: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def frames(self, kind: type[Any]) -> list[Any]:
        return [frame for frame in self.received if isinstance(frame, kind)]

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(is_so)

    async def say(self, *frames: EdgeFrame) -> None:
        """Frames that no request led to."""
        for socket in self.sockets:
            await socket.send(b"\n".join(msgspec.json.encode(frame) for frame in frames), text=True)

    async def publish(self, topic: str, *events: bytes) -> None:
        """Somebody else publishes: the edge serves one client at a time."""
        self.edge.log += [(topic, event) for event in events]
        await self.say(*self.edge.deliveries())

    def drop(self) -> None:
        """All connections break."""
        for socket in self.sockets:
            socket.transport.abort()

    def handshake(self, _: ServerConnection, request: Request) -> Response | None:
        self.handshakes.append(request)
        if self.status is not None:
            body = msgspec.json.encode(self.problem)
            headers = websockets.Headers({"Content-Length": str(len(body)), "Connection": "close"})
            return Response(self.status, http.HTTPStatus(self.status).phrase, headers, body)
        return None

    def respond_to(self, _: ServerConnection, __: Request, response: Response) -> None:
        if self.edge.log_id:
            response.headers["Fieldfare-Log"] = self.edge.log_id
        for name, value in self.headers.items():
            response.headers[name] = value

    async def handle(self, socket: ServerConnection) -> None:
        self.edge.disconnect()
        self.sockets.add(socket)
        try:
            async for message in socket:
                assert isinstance(message, str)
                self.messages += 1
                answers = [answer for line in message.split("\n") for answer in self.respond(_decoder.decode(line))]
                async with self.changed:
                    self.changed.notify_all()
                if answers and not self.is_silent:
                    await socket.send(b"\n".join(msgspec.json.encode(answer) for answer in answers), text=True)
        except websockets.ConnectionClosed:
            return
        finally:
            self.sockets.discard(socket)
            async with self.changed:
                self.changed.notify_all()

    def respond(self, frame: ClientFrame) -> list[EdgeFrame]:
        self.received.append(frame)
        answer = self.answer(frame)
        return self.edge.handle(frame) if answer is None else [answer]


def refusing(kind: type[Any], **refusal: Any) -> Callable[[ClientFrame], EdgeFrame | None]:
    """Refuse a kind of frames."""
    return lambda frame: Refused(getattr(frame, "ref", None), **refusal) if isinstance(frame, kind) else None


@asynccontextmanager
async def faking(*, subprotocol: str | None = PROTOCOL, **options: Any) -> AsyncIterator[FakeService]:
    service = FakeService()
    protocols = None if subprotocol is None else [websockets.Subprotocol(subprotocol)]
    server: Server
    async with serve(
        service.handle,
        "127.0.0.1",
        0,
        subprotocols=protocols,
        process_request=service.handshake,
        process_response=service.respond_to,
        compression=None,
        **options,
    ) as server:
        service.port = next(iter(server.sockets)).getsockname()[1]
        yield service
        service.drop()


def story(tell: Callable[[Client, FakeService], Awaitable[None]]) -> Callable[[], None]:
    """A test with a client and its service."""

    async def main() -> None:
        async with (
            asyncio.timeout(120),
            faking() as service,
            fieldfare.connect(service.url, token=TOKEN, options=QUICK) as client,
        ):
            await tell(client, service)

    return lambda: asyncio.run(main())
