"""Datagrams of a node over UDP: messages that may be lost, doubled or overtaken, each in one packet."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec

from fieldfare.messages import DatagramReceived, SendDatagram
from fieldfare.runtime.host import Capability, Host

DATAGRAM_BYTES_MAX = 60_000
_UNSENT_BYTES_MAX = 4 * 1024 * 1024  # what the system does not take is dropped beyond that, as networks do
_log = logging.getLogger(__name__)


class Datagrams(Capability):
    """Sends and receives at one address. What cannot be decoded, or goes to no address, is counted and dropped."""

    def __init__(
        self,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        listen_at: tuple[str, int] | socket.socket = ("127.0.0.1", 0),
    ) -> None:
        self.address = ""  # where others can send, once it has started
        self.unreadable_count = 0
        self.unsent_count = 0
        self._encode, self._decode, self._listen_at = encode, decode, listen_at
        self._transport: asyncio.DatagramTransport | None = None

    def install(self, host: Host) -> None:
        """Perform SendDatagram."""
        self._host = host
        host.kernel.provide(SendDatagram, self._send)

    async def start(self) -> None:
        """Listen."""
        where: dict[str, Any] = (
            {"sock": self._listen_at} if isinstance(self._listen_at, socket.socket) else {"local_addr": self._listen_at}
        )
        transport, _ = await self._host.loop.create_datagram_endpoint(lambda: _Receiver(self._received), **where)
        self._transport = transport
        self.address = datagram_address(transport.get_extra_info("sockname"))

    async def stop(self) -> None:
        """Hear no more."""
        if self._transport is not None:
            self._transport.close()

    def _send(self, effect: SendDatagram) -> None:
        packet = self._encode(effect.message)
        if len(packet) > DATAGRAM_BYTES_MAX:
            _log.error("a datagram of %d bytes is dropped: %d are the most", len(packet), DATAGRAM_BYTES_MAX)
        elif self._transport is not None:
            target = _target(effect.address)
            if target is None or self._transport.get_write_buffer_size() > _UNSENT_BYTES_MAX:  # type: ignore[attr-defined]
                self.unsent_count += 1
            else:
                self._transport.sendto(packet, target)

    def _received(self, packet: bytes, address: str) -> None:
        try:
            message = self._decode(packet)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            self.unreadable_count += 1
            self._unreadable(packet, address)
            return
        self._host.tell(DatagramReceived(address, message))

    def _unreadable(self, packet: bytes, address: str) -> None:
        """A packet cannot be decoded."""

    def _send_packet(self, packet: bytes, address: str) -> None:
        """Send bytes as they are."""
        if self._transport is not None and (target := _target(address)) is not None:
            self._transport.sendto(packet, target)


def datagram_address(name: tuple[Any, ...]) -> str:
    """The address of a socket as nodes write it, an IPv6 address without brackets: so they compare it."""
    return f"{name[0]}:{name[1]}"


@lru_cache(maxsize=8192)
def _target(address: str) -> tuple[str, int] | None:
    """Where a datagram goes; None: nowhere. Names are not looked up, since that would hold up everything."""
    host, _, port = address.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
        number = int(port)
    except ValueError:
        return None
    return (host.strip("[]"), number) if 0 < number < 65_536 else None


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, str], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self._received(data, datagram_address(addr))

    def error_received(self, exc: Exception) -> None:
        """A packet did not arrive, which is as if it was lost."""


def json_codec(message_type: Any) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """How messages of a type, commonly a union of msgspec structs, become packets and back."""
    decoder = msgspec.json.Decoder(message_type)
    return msgspec.json.Encoder().encode, cast("Callable[[bytes], Any]", decoder.decode)
