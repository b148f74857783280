"""A service: settings in, a process that serves until it is told to stop.

What can go wrong goes wrong before the first client: settings, certificate, tokens, port and data folder are looked at
in this order. Stopping loses nothing: nobody new comes in, requests in hand are answered, streams end with "come back",
and the log is flushed last.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import uvicorn

from fieldfare.errors import ServiceError
from fieldfare.messages import DeclareTopic, Done, Identity
from fieldfare.routing.edge import Edge
from fieldfare.runtime.addresses import Addresses
from fieldfare.runtime.config import Server, Settings, Topic
from fieldfare.runtime.exchange import REF, Exchange
from fieldfare.runtime.exposure import check_certificate, is_development
from fieldfare.runtime.gateway import application
from fieldfare.runtime.host import Host
from fieldfare.runtime.metrics import Metrics
from fieldfare.runtime.ports import Gateway, GatewayOptions
from fieldfare.runtime.problems import ProblemError
from fieldfare.runtime.sockets import server_options
from fieldfare.runtime.tokens import EVERYBODY, Authenticator, TokenFile
from fieldfare.runtime.webhooks import WebhookOptions, Webhooks
from fieldfare.store.journal import Journal, JournalOptions

_BACKLOG = 2048
_EDGE_NAME = "edge"
_log = logging.getLogger(__name__)


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `announce` is told the address as soon as clients can connect."""
    check_certificate(settings.server)
    folder = Path(settings.server.data)
    is_open = is_development(settings.server, has_tokens=bool(TokenFile(folder).tokens()))
    if is_open:
        _log.warning(
            "DEVELOPMENT MODE: there are no tokens, so every program on this machine may do everything here; "
            "`fieldfare tokens create` makes one and ends this"
        )
    with _listening(settings.server) as listener:
        _make(folder)
        log = JournalOptions(settings.log.segment_bytes, settings.log.retention_bytes)
        with Journal(folder / "log", log) as journal:
            ...


def _listening(server: Server) -> socket.socket:
    """A socket that is bound, so that from now on nobody else takes the port."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except socket.gaierror as error:
        raise ServiceError(f"server.host: {server.host!r} is not an address of this machine: {error.strerror}") from error
    except OSError as error:
        raise ServiceError(_why_not_bound(server, error)) from error


def _why_not_bound(server: Server, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {server.port} is in use: stop what uses it, or take another with --port; 0 takes a free one"
        case errno.EACCES:
            return f"port {server.port} is not for this user: take one from 1024 on with --port"
        case errno.EADDRNOTAVAIL:
            return f"server.host: {server.host} is not an address of this machine"
    return f"{server.host}:{server.port} cannot be listened on: {error.strerror}"


def _address(server: Server, listener: socket.socket) -> str:
    scheme = "http" if server.tls_certificate is None else "https"
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ServiceError(f"server.data: {folder} cannot be made: {error.strerror}") from error
