"""Where a peer listens, where others reach it, and where it finds members of its ring.

A peer tells others its address, so it must know it: the socket is bound before the peer is made.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from contextlib import suppress

from fieldfare.errors import ConfigError, PortTakenError, ServiceError
from fieldfare.runtime.datagrams import datagram_address
from fieldfare.runtime.socket_addresses import SocketAddress

_RECEIVE_BYTES = 1 << 20  # what waits while the process is busy; the system may allow less


def parsed(text: str, setting: str) -> SocketAddress:
    """An address as somebody wrote it; a ConfigError if it is none."""
    try:
        return SocketAddress.parse(text)
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from error


def seed_texts(join: str | Sequence[str] | None) -> tuple[str, ...]:
    """Addresses of members, given as one text with commas, or as several."""
    texts = join.split(",") if isinstance(join, str) else list(join or ())
    return tuple(text.strip() for text in texts if text.strip())


async def resolved(texts: Sequence[str]) -> tuple[str, ...]:
    """Addresses of members by number: datagrams go to numbers only. A ConfigError if a name is not known."""
    loop, found = asyncio.get_running_loop(), []
    for text in texts:
        address = parsed(text, "join")
        if address.port == 0:
            raise ConfigError(f"join: {text} has no port: name the one that a member listens on")
        try:
            answers = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
        except (socket.gaierror, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"join: {address.host!r} is not known: {reason}") from error
        found.append(datagram_address(answers[0][4]))
    return tuple(dict.fromkeys(found))


def bound(listen: str) -> socket.socket:
    """A socket for datagrams that nobody else has; an error that says why, if there can be none."""
    address = parsed(listen, "listen")
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ServiceError(f"listen: {address.host!r} is no address of this machine: {reason}") from error
    family, kind, protocol, _, name = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.bind(name)
    except OSError as error:
        opened.close()
        raise _not_bound(address, error) from error
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    opened.setblocking(False)  # noqa: FBT003 - as sockets call it
    return opened


def _not_bound(address: SocketAddress, error: OSError) -> ServiceError:
    match error.errno:
        case errno.EADDRINUSE:
            return PortTakenError(f"listen: UDP port {address.port} is in use: choose another; 0 takes a free one")
        case errno.EACCES:
            return ServiceError(f"listen: port {address.port} is not for this user: choose one from 1024 on")
        case errno.EADDRNOTAVAIL:
            return ServiceError(f"listen: {address.host} is no address of this machine")
    return ServiceError(f"listen: {address} cannot be used: {error.strerror}")


def reachable_address(opened: socket.socket, advertise: str | None, seeds: Sequence[str]) -> str:
    """Where others send to this socket. One that listens everywhere is reached where the way to a member begins."""
    here = SocketAddress(*opened.getsockname()[:2])
    if advertise is not None:
        told = parsed(advertise, "advertise")
        if told.is_wildcard or told.host == "localhost":
            raise ConfigError(f"advertise: nobody can send to {advertise}: name the address that others use")
        return datagram_address((told.host, told.port or here.port))
    if not here.is_wildcard:
        return datagram_address(here)
    if not seeds:
        raise ConfigError(
            f"listen: {here} stands for all addresses of this machine, and others need one: listen on the one that "
            "they use, or say it with advertise"
        )
    host, _, port = seeds[0].rpartition(":")
    try:
        with socket.socket(opened.family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))  # which sends nothing
            return datagram_address((probe.getsockname()[0], here.port))
    except OSError as error:
        raise ServiceError(f"join: there is no way to {seeds[0]}: {error.strerror}") from error
