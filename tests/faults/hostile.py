"""What attacks a service: connections that keep no rules, and an endpoint that leads where nobody may go."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import websockets
from tests.runtime.processes import ServiceProcess

from fieldfare.messages import PROTOCOL

WAIT_SECONDS = 60.0
MEBIBYTE = 1024 * 1024
UPGRADE = "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
UPGRADE += (
    f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {PROTOCOL}"
)


class Redirecting:
    """A webhook that the operator allows, and that leads elsewhere; and elsewhere, where nobody may come."""

    def __init__(self) -> None:
        self._door, self._inside = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self.port, self.inside_port = (each.getsockname()[1] for each in (self._door, self._inside))
        self.calls = 0
        self._inside.settimeout(0.2)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                connection, _ = self._door.accept()
                with connection:
                    connection.recv(MEBIBYTE)
                    self.calls += 1
                    place = b"http://127.0.0.1:%d/" % self.inside_port
                    connection.sendall(b"HTTP/1.1 307 X\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % place)

    def is_untouched(self) -> bool:
        """Whether nobody knocked inside."""
        try:
            self._inside.accept()[0].close()
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._inside.close()


class Target:
    """The service, and how the two tenants come to it."""

    def __init__(self, service: ServiceProcess, tokens: dict[str, str], endpoint: Redirecting) -> None:
        self.service, self.tokens, self.endpoint = service, tokens, endpoint
        self.port = int(service.url.rpartition(":")[2])

    def headers(self, tenant: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[tenant]}"}

    def client(self, tenant: str = "evil") -> httpx.Client:
        return httpx.Client(base_url=self.service.url, headers=self.headers(tenant), timeout=WAIT_SECONDS)

    def websocket(self, tenant: str = "evil", **options: Any) -> websockets.connect:
        options = {"additional_headers": self.headers(tenant), "subprotocols": [PROTOCOL], "max_size": None, **options}
        return websockets.connect(f"ws://127.0.0.1:{self.port}/v1/ws", **options)

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)
        connection.sendall(sent)
        return connection

    def upgraded(self) -> socket.socket:
        """A WebSocket without a library, which would keep the rules."""
        connection = self.connect(f"{UPGRADE}\r\nAuthorization: Bearer {self.tokens['evil']}\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 101")
        return connection

    @property
    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.service.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


def is_cut_off(connection: socket.socket) -> bool:
    """Whether the service ends a connection."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def is_cut_off_by(connection: socket.socket, piece: bytes, bytes_max: int) -> bool:
    """Whether it does so before this has been sent again and again, so many bytes in all."""
    pieces = piece * max(1, 65536 // len(piece))
    try:
        for _ in range(bytes_max // len(pieces)):
            connection.sendall(pieces)
    except TimeoutError:
        return False
    except OSError:
        return True
    return False
