"""WebSockets below their messages: handshakes, pings, turns, and clients that do not read or do not go."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import websockets
from msgspec import Raw
from tests.runtime.certificates import make_certificate
from tests.runtime.serving import AUTHORIZED, connecting, serving
from websockets.exceptions import ConnectionClosed

from fieldfare.messages import PROTOCOL, ClientFrame, Deliver, EdgeFrame, Identity, List
from fieldfare.runtime.gateway.ports import GatewayOptions
from fieldfare.runtime.gateway.slow_reader import SlowReader
from fieldfare.runtime.gateway.sockets import GuardedProtocol

KEY = base64.b64encode(bytes(16)).decode()
HEAD = {
    "Host": "localhost",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Protocol": PROTOCOL,
    **AUTHORIZED,
}


def request(first: str = "GET /v1/ws", **changed: str | None) -> bytes:
    """A request for a WebSocket, with some headers changed (None: left out)."""
    headers = HEAD | {name.replace("_", "-"): value for name, value in changed.items()}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"{first} HTTP/1.1\r\n{''.join(lines)}\r\n".encode()


class StubBroker:
    """A broker that does what a test tells it to, and remembers what it was told."""

    def __init__(self, on_frame: Callable[[StubConnection, ClientFrame], object] = lambda *_: None) -> None:
        self.on_frame = on_frame
        self.told: list[object] = []
        self.connections: list[StubConnection] = []
        self.closed = asyncio.Event()

    def connect(
        self, _: Identity, on_frames: Callable[[list[EdgeFrame]], None], on_close: Callable[[str], None]
    ) -> StubConnection:
        connection = StubConnection(self, on_frames, on_close)
        self.connections.append(connection)
        return connection


class StubConnection:
    def __init__(
        self, broker: StubBroker, on_frames: Callable[[list[EdgeFrame]], None], on_close: Callable[[str], None]
    ) -> None:
        self.broker, self.on_frames, self.on_close = broker, on_frames, on_close

    def send(self, frame: ClientFrame) -> None:
        self.broker.told.append(frame)
        self.broker.on_frame(self, frame)

    def close(self) -> None:
        self.broker.closed.set()


def large(size_bytes: int) -> Deliver:
    return Deliver("s", [Raw(b'"%b"' % (b"x" * size_bytes))])


async def opened(port: int, head: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket without a library, after its handshake."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head or request())
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).startswith(b"HTTP/1.1 101")
    return reader, writer


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the connection ends, in whatever way."""
    found = b""
    with suppress(ConnectionError):
        while piece := await asyncio.wait_for(reader.read(65_536), 60):
            found += piece
    return found


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (request("GET /v1/other"), 404, "unknown"),
        (request("POST /v1/ws"), 405, "method"),
        (request(Sec_WebSocket_Key=None), 400, "invalid"),
        (request(Sec_WebSocket_Key="short"), 400, "invalid"),
        (request(Sec_WebSocket_Key=f"{KEY}\r\nSec-WebSocket-Key: {KEY}"), 400, "invalid"),
        (request(Sec_WebSocket_Version="8"), 400, "invalid"),
        (request(Sec_WebSocket_Protocol="fieldfare.v0, other"), 400, "invalid"),
        (request(Content_Length="5") + b"hello", 400, "invalid"),
        (request(Transfer_Encoding="chunked") + b"0\r\n\r\n", 400, "invalid"),
        (request(Authorization=None), 401, "unauthenticated"),
        (request(Origin="https://evil.example"), 403, "origin"),
        (request(Origin="https://app.example\r\nOrigin: https://evil.example"), 403, "origin"),
        (request(X_Long="x" * 9_000), 431, "too_large"),
        (request("GET /v1/ws?" + "x" * 9_000), 431, "too_large"),
    ],
)
def test_a_handshake_is_refused_with_a_problem(
    head: bytes, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        options = GatewayOptions(origins=frozenset({"https://app.example"}), head_bytes_max=8_000)
        async with serving(options) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(head)
            answer, _, body = (await rest(reader)).partition(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b"fieldfare-version" in answer.lower()
            assert b"content-length: %d" % len(body) in answer.lower()
            problem = json.loads(body)
            assert (problem["status"], problem["code"]) == (status, code)
            assert len(served.edge.parts.links) == 0
            writer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert caplog.records == []


def test_in_development_mode_a_foreign_name_does_not_lead_to_a_websocket() -> None:
    async def story() -> None:
        async with serving(GatewayOptions(is_development=True)) as served:
            _, writer = await opened(served.port, request(Host="localhost:7380"))
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(request(Host="rebound.example"))
            assert (await rest(reader)).startswith(b"HTTP/1.1 421 ")
            writer.close()

    asyncio.run(story())


def test_websockets_are_counted_and_counted_out() -> None:
    async def story() -> None:
        async with serving(GatewayOptions(connections_max=1)) as served:
            for _ in range(3):
                async with connecting(served):
                    with pytest.raises(websockets.InvalidStatus) as caught:
                        await websockets.connect(served.websocket_url, additional_headers=AUTHORIZED)
                    assert caught.value.response.status_code == 503
                while served.edge.parts.links:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)

    asyncio.run(story())


def test_nothing_is_left_of_the_http_connection_after_the_handshake() -> None:
    async def story() -> None:
        gc.disable()
        try:
            async with serving() as served, connecting(served):
                assert not any(isinstance(each, GuardedProtocol) for each in gc.get_objects())
        finally:
            gc.enable()

    gc.collect()
    asyncio.run(story())


def test_a_client_that_does_not_answer_pings_is_given_up() -> None:
    async def story() -> None:
        async with serving(GatewayOptions(ping_seconds=0.2)) as served:
            async with connecting(served, ping_interval=None) as answering:
                reader, writer = await opened(served.port)
                came = await rest(reader)
                assert came.startswith(b"\x89\x00")  # a ping
                assert came[2:6] == b"\x88" + bytes([len(came) - 4]) + (1011).to_bytes(2, "big")
                writer.close()
                await answering.send('{"type":"list","ref":1,"what":"topics"}')
                assert json.loads(await asyncio.wait_for(answering.recv(), 60))["type"] == "listed"
            while served.edge.parts.links:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    asyncio.run(story())


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    async def story() -> None:
        broker = StubBroker()
        async with serving(GatewayOptions(stall_seconds=0.2), broker=broker) as served:
            reader, writer = await opened(served.port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            (connection,) = broker.connections
            for _ in range(4):  # more than the kernel takes, less than may wait
                connection.on_frames([large(3 * 1024 * 1024)])
            await asyncio.wait_for(broker.closed.wait(), 60)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await rest(reader)) < 12 * 1024 * 1024
            writer.close()

    asyncio.run(story())


class StubTransport:
    """A transport whose client takes a byte between two looks, until it takes no more."""

    def __init__(self) -> None:
        self.sizes = list(range(20, 0, -1))
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]

    def abort(self) -> None:
        self.aborted.set()


def test_a_client_that_reads_slowly_is_not_cut_off_before_it_stops() -> None:
    async def story() -> None:
        transport: Any = StubTransport()
        SlowReader(transport, seconds_max=0.04)
        await asyncio.wait_for(transport.aborted.wait(), 60)
        assert transport.sizes == [1]

    asyncio.run(story())


def test_what_waits_is_bounded_and_nothing_is_sent_after_the_end() -> None:
    async def story() -> None:
        broker = StubBroker()
        async with serving(GatewayOptions(waiting_bytes_max=2 * 1024 * 1024), broker=broker) as served:
            reader, writer = await opened(served.port)
            (connection,) = broker.connections
            while not broker.closed.is_set():
                connection.on_frames([large(50_000)])  # without a pause, so that nobody can read
            connection.on_frames([large(9)])
            came = await rest(reader)
            assert len(came) < 16 * 1024 * 1024  # what waited, and what the kernel had taken
            assert b'"xxxxxxxxx"' not in came
            assert (1013).to_bytes(2, "big") + b"too much waited" in came[-200:]
            writer.close()

    asyncio.run(story())


def test_a_list_ends_a_turn_and_the_broker_answers_before_the_next() -> None:
    async def story() -> None:
        broker = StubBroker(lambda *_: asyncio.get_running_loop().call_soon(broker.told.append, "round"))
        async with serving(broker=broker) as served, connecting(served) as socket:
            await socket.send("\n".join(['{"type":"list","ref":1,"what":"topics"}'] * 3 + ["nonsense"] * 1000))
            for _ in range(1000):
                refused = json.loads(await asyncio.wait_for(socket.recv(), 60))
                assert (refused["type"], refused["code"]) == ("refused", "invalid")
            assert broker.told == [List(1, "topics"), "round"] * 3

    asyncio.run(story())


def test_a_broker_that_fails_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def fail(connection: StubConnection, _: ClientFrame) -> None:
        if len(connection.broker.told) == 2:  # in the second turn, which no data brings about
            raise ZeroDivisionError

    async def story() -> None:
        broker = StubBroker(fail)
        async with serving(broker=broker) as served, connecting(served) as socket:
            await socket.send("\n".join(['{"type":"list","ref":1,"what":"topics"}'] * 3))
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(socket.recv(), 60)
            assert broker.closed.is_set()

    asyncio.run(story())
    assert "ZeroDivisionError" in caplog.text


def test_text_that_is_not_utf_8_ends_the_connection() -> None:
    async def story() -> None:
        async with serving() as served:
            reader, writer = await opened(served.port)
            writer.write(b'\x81\x83\0\0\0\0"\xff"')
            assert (await asyncio.wait_for(reader.readexactly(4), 60))[2:] == (1007).to_bytes(2, "big")
            writer.write(b"\x88\x80\0\0\0\0")
            await rest(reader)
            writer.close()

    asyncio.run(story())


def test_the_server_stops_although_the_broker_has_not_parted_from_its_clients() -> None:
    async def story() -> None:
        broker = StubBroker()
        async with serving(broker=broker) as served:
            socket = await websockets.connect(
                served.websocket_url, additional_headers=AUTHORIZED, subprotocols=[websockets.Subprotocol(PROTOCOL)]
            )
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 60)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012
        assert broker.closed.is_set()

    asyncio.run(story())


def test_encrypted_sockets_keep_the_same_bounds(tmp_path: Path) -> None:
    files = make_certificate(tmp_path)

    async def story() -> None:
        broker = StubBroker()
        tls = ssl.create_default_context(cafile=str(files[0]))
        options: dict[str, Any] = {"ssl_certfile": str(files[0]), "ssl_keyfile": str(files[1])}
        async with serving(GatewayOptions(waiting_bytes_max=2 * 1024 * 1024), broker=broker, **options) as served:
            reader, writer = await asyncio.open_connection("localhost", served.port, ssl=tls)
            writer.write(request())
            assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).startswith(b"HTTP/1.1 101")
            (connection,) = broker.connections
            connection.on_frames([large(9)])
            assert b'"xxxxxxxxx"' in await asyncio.wait_for(reader.readuntil(b"]}"), 60)
            sent = 0
            while not broker.closed.is_set():
                connection.on_frames([large(50_000)])
                sent += 50_000
            assert sent < 16 * 1024 * 1024
            assert b"too much waited" in (await rest(reader))[-200:]
            writer.close()

    asyncio.run(story())
