"""The status of a peer over HTTP, for programs on the same machine: `GET /status` answers one JSON object.

It listens on loopback only, answers nothing but that, and takes requests only under a name of this machine, so that
a web page elsewhere cannot read it through somebody's browser.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from fieldfare.errors import PortTakenError, ServiceError
from fieldfare.runtime.exposure import is_loopback
from fieldfare.runtime.peers.status import PeerStatus

_HOST = "127.0.0.1"
_REQUEST_BYTES_MAX = 8192
_REQUEST_SECONDS = 5.0
_CONNECTIONS_MAX = 32


class StatusServer:
    """A context manager: inside, it answers at `url`."""

    def __init__(self, status: Callable[[], PeerStatus], port: int, fallback_port: int | None = None) -> None:
        self.url = ""
        self._status, self._port, self._fallback_port = status, port, fallback_port
        self._connections = 0

    async def __aenter__(self) -> Self:
        try:
            self._server = await self._listen(self._port)
        except PortTakenError:
            if self._fallback_port is None:
                raise
            self._server = await self._listen(self._fallback_port)
        self.url = f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def _listen(self, port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._serve, _HOST, port, limit=_REQUEST_BYTES_MAX)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortTakenError(
                    f"TCP port {port} is in use, where the status would be: choose another with --status-port; 0 takes "
                    "a free one"
                ) from error
            raise ServiceError(f"the status cannot be served at {_HOST}:{port}: {error.strerror}") from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _CONNECTIONS_MAX:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head.decode("latin-1")))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _answer(self, head: str) -> bytes:
        first, *lines = head.split("\r\n")
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        if len(hosts) != 1 or not is_loopback(hosts[0].rpartition(":")[0] or hosts[0]):
            return _response("403 Forbidden", b'{"error":"ask under a name of this machine"}')
        if first.split(" ")[:2] != ["GET", "/status"]:
            return _response("404 Not Found", b'{"error":"there is only GET /status"}')
        return _response("200 OK", msgspec.json.encode(self._status()))


def _response(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
