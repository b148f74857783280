"""The handshake of a WebSocket: a request for an upgrade, checked as every request is, and the answer to it.

A request that is refused is answered with a problem, as over HTTP, and its connection is closed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, unquote

import httptools
from starlette.datastructures import Headers, MutableHeaders

from fieldfare.messages import PROTOCOL, Identity
from fieldfare.runtime.gateway import guard
from fieldfare.runtime.gateway.ports import Gateway
from fieldfare.runtime.gateway.problems import ProblemError, invalid
from fieldfare.runtime.gateway.requests import identify
from fieldfare.runtime.gateway.routes import WEBSOCKET_PATH

_in_a_list = re.compile(r"[!-+\--~]+")  # what can stand in a header, between commas
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The head of a request for a WebSocket."""

    method: str
    target: bytes  # path and query
    headers: Headers
    client_host: str


def admitted(request: UpgradeRequest, gateway: Gateway) -> Identity:
    """Who asks; a ProblemError if the request is refused. Whoever is admitted is not counted as inside yet."""
    guard.check(request.headers, len(request.target), gateway)
    if _path(request.target) != WEBSOCKET_PATH:
        raise ProblemError(404, "unknown", f"there is no such path for a WebSocket; there is {WEBSOCKET_PATH}")
    if request.method != "GET":
        raise ProblemError(405, "method", "a WebSocket is asked for by GET", {"Allow": "GET"})
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise invalid("a request for a WebSocket has no body")
    if request.headers.getlist("sec-websocket-version") != ["13"]:
        raise invalid("a request for a WebSocket has the header Sec-WebSocket-Version: 13")
    _key(request.headers)
    identity = identify(request.headers, request.client_host, gateway, _ticket(request.target))
    offered = ",".join(request.headers.getlist("sec-websocket-protocol")).split(",")
    if PROTOCOL not in (name.strip() for name in offered):
        raise invalid(f"offer the subprotocol {PROTOCOL}")
    return identity


def switching(request: UpgradeRequest, gateway: Gateway) -> bytes:
    """The answer to who is let in. It agrees on no extension, and so on no compression.

    It names the edge's log, to which positions and a publisher's numbers belong, and other edges of the network.
    """
    accept = base64.b64encode(hashlib.sha1(_key(request.headers) + _MAGIC, usedforsecurity=False).digest())
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += f"Sec-WebSocket-Protocol: {PROTOCOL}\r\nSec-WebSocket-Accept: {accept.decode()}\r\n"
    if log := gateway.options.log_id():
        head += f"Fieldfare-Log: {log}\r\n"
    if edges := [url for url in gateway.options.other_edges() if _in_a_list.fullmatch(url)]:
        head += f"Fieldfare-Edges: {', '.join(edges)}\r\n"
    return f"{head}\r\n".encode()


def refusing(request: UpgradeRequest, error: ProblemError, gateway: Gateway) -> bytes:
    """The answer to who is not."""
    response = error.response()
    headers = MutableHeaders(raw=response.raw_headers)
    guard.mark(headers, request.headers, gateway)
    headers["Connection"] = "close"
    status = HTTPStatus(response.status_code)
    lines = [b"%b: %b\r\n" % header for header in headers.raw]
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, status.phrase.encode(), b"".join(lines), bytes(response.body))


def _path(target: bytes) -> str:
    try:
        return unquote((httptools.parse_url(target).path or b"").decode("latin-1"))
    except httptools.HttpParserError:
        return ""


def _ticket(target: bytes) -> str | None:
    """The ticket in a query, if there is one."""
    query = httptools.parse_url(target).query or b""
    return next(iter(parse_qs(query.decode("latin-1")).get("ticket", [])), None)


def _key(headers: Headers) -> bytes:
    keys = headers.getlist("sec-websocket-key")
    try:
        if len(keys) == 1 and len(base64.b64decode(keys[0], validate=True)) == 16:
            return keys[0].encode()
    except (binascii.Error, ValueError):
        pass
    raise invalid("a request for a WebSocket has one Sec-WebSocket-Key, of 16 bytes in base64")
