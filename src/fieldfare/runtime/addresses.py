"""Where webhooks may go: to public addresses, and beyond those only where the operator allows it.

A URL comes from a stranger, and the service can reach what the stranger cannot. So a name counts for what it resolves
to: every answer must be public, whatever it is wrapped in, and a connection is made to one of the addresses that were
looked at, never to the name again, which may have another answer by then.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import urlsplit

from fieldfare.errors import ConfigError, WebhookAddressError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[Address]]]

URL_CHARACTERS_MAX = 2048
_PORTS = {"http": 80, "https": 443}
_PORT_MIN = 1024  # of others: what listens below speaks mail, shell or directory protocols, not HTTP
_RESOLVING_THREADS = 32
_url_text = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")  # of RFC 3986: parsers agree only on these
_name = re.compile(r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")

_UNICAST_V6 = IPv6Network("2000::/3")  # all that is handed out; the rest is local, multicast, or not yet anybody's
_NAT64 = IPv6Network("64:ff9b::/96")
_NOT_PUBLIC_V4 = (
    IPv4Network("224.0.0.0/4"),  # multicast is "global" to Python
    IPv4Network("192.0.0.0/24"),  # and so was a part of these, which are for protocols
    IPv4Network("168.63.129.16/32"),  # public by number, but the inside of every machine on Azure
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The parts of a webhook's URL."""

    scheme: str
    host: str  # in lower case, without brackets and without a dot at the end
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port as they stand in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def endpoint_of(url: str) -> Endpoint:
    """The parts of a URL that a webhook may have, as far as one can tell without asking for its address."""
    if len(url) > URL_CHARACTERS_MAX or not _url_text.fullmatch(url):
        raise WebhookAddressError(
            f"the webhook's URL has spaces, or characters that must be percent-encoded (names: xn--…), or more than "
            f"{URL_CHARACTERS_MAX:,} of them"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").removesuffix(".")
        if "[" in parts.netloc:
            IPv6Address(host)
    except ValueError as error:
        raise WebhookAddressError(f"the webhook's URL is not one: {error}") from error
    if parts.scheme not in _PORTS:
        raise WebhookAddressError("a webhook's URL begins with https:// or http://")
    if "@" in parts.netloc:
        raise WebhookAddressError("a webhook's URL holds no user and no password: the signature says who calls")
    if "%" in host or ("[" not in parts.netloc and not _name.fullmatch(host)):
        raise WebhookAddressError("the webhook's URL names no host")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(parts.scheme, host, port or _PORTS[parts.scheme], target)


@dataclass(frozen=True, slots=True)
class _Allowed:
    """An entry of the allow list: a name, or a network; with a port, or with any."""

    place: str | Network
    port: int | None

    @staticmethod
    def parse(text: str) -> _Allowed:
        try:
            return _Allowed(ip_network(text), None)
        except ValueError:
            host, _, port = text.rpartition(":") if re.search(r"[^:]:\d+$", text) else (text, "", "")
        host = host.lower().removesuffix(".").removeprefix("[").removesuffix("]")
        try:
            return _Allowed(ip_network(host), int(port) if port else None)
        except ValueError:
            if _name.fullmatch(host):
                return _Allowed(host, int(port) if port else None)
            raise ConfigError(f"{text!r} is no host, address or network that webhooks could be allowed to") from None

    def covers(self, host: str, address: Address, port: int) -> bool:
        if self.port not in {None, port}:
            return False
        return self.place == host if isinstance(self.place, str) else address in self.place


class Addresses:
    """Tells which addresses a webhook may be called at. `allowed` has names, addresses and networks, `:port` or not."""

    def __init__(self, allowed: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        self._allowed = [_Allowed.parse(text) for text in allowed]
        # Threads of its own: a name server that does not answer must not hold up those who write to disk.
        self._threads = ThreadPoolExecutor(_RESOLVING_THREADS, "fieldfare-resolve")
        self._resolve = resolve or self._ask_system

    async def check_url(self, url: str) -> None:
        """Raise a WebhookAddressError unless a webhook with this URL may be called, as far as is known now."""
        endpoint = endpoint_of(url)
        try:
            await self.of(endpoint.host, endpoint.port)
        except OSError as error:
            raise WebhookAddressError(f"the webhook's host {endpoint.host!r} has no address: {error}") from error

    async def of(self, host: str, port: int) -> list[Address]:
        """The addresses of a host, which are all allowed; an OSError if it has none."""
        found = await self._resolve(host, port)
        if not found:
            raise OSError("the name has no address")
        for address in found:
            if any(entry.covers(host, address, port) for entry in self._allowed):
                continue
            if not is_public(address):
                raise WebhookAddressError(
                    f"the webhook's host {host!r} is, or leads to, an address that is not public: use another, or ask "
                    "the operator to allow it"
                )
            if port < _PORT_MIN and port not in _PORTS.values():
                raise WebhookAddressError(f"a webhook's port is 80, 443 or from {_PORT_MIN} on, not {port}")
        return found

    async def _ask_system(self, host: str, port: int) -> list[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return [ip_address(place[0]) for *_, place in found]

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, itself and what it wraps."""
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _NOT_PUBLIC_V4)
    wrapped = address.ipv4_mapped or address.sixtofour
    if address in _NAT64:
        wrapped = IPv4Address(int(address) & 0xFFFF_FFFF)
    if wrapped is not None:
        return is_public(wrapped)
    return address in _UNICAST_V6 and address.is_global
