"""The socket on which a service listens: bound before anything else is opened, so that two services never mix."""

from __future__ import annotations

import errno
import socket

from fieldfare.errors import PortTakenError, ServiceError
from fieldfare.runtime.config import Server


def bound(server: Server) -> socket.socket:
    """A socket that is bound: nobody else takes the port, and clients are turned away until the service is ready."""
    try:
        found = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:  # what is too long for a name does not get as far as a resolver
        reason = getattr(error, "strerror", None) or error
        raise ServiceError(f"server.host: {server.host!r} is no address of this machine: {reason}") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _not_bound(server, error) from error
    return listener


def _not_bound(server: Server, error: OSError) -> ServiceError:
    match error.errno:
        case errno.EADDRINUSE:
            return PortTakenError(
                f"port {server.port} is in use: stop what uses it, or choose another with --port; 0 takes a free one"
            )
        case errno.EACCES:
            return ServiceError(f"port {server.port} is not for this user: choose one from 1024 on with --port")
        case errno.EADDRNOTAVAIL:
            return ServiceError(f"server.host: {server.host} is no address of this machine")
    return ServiceError(f"{server.host}:{server.port} cannot be used: {error.strerror}")
