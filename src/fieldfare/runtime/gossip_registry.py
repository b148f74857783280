"""What a gossip knows, for people: the same that `zookeeper_registry` reads from ZooKeeper. For commands."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from fieldfare.coordination.gossip_messages import gossip_codec
from fieldfare.coordination.gossip_reader import GossipReader
from fieldfare.coordination.registered import Registered
from fieldfare.errors import CoordinationError
from fieldfare.messages import SendDatagram, TopicKey
from fieldfare.runtime.datagrams import DATAGRAM_BYTES_MAX
from fieldfare.runtime.gossip import resolve_seeds

_ROUND_SECONDS = 0.5  # so long an answer may take, before all is asked again
_SECONDS_MAX = 5.0


class GossipRegistry:
    """A socket for one command: `with GossipRegistry(seeds, secret) as registry`. Raises a CoordinationError.

    It does not join: the brokers are asked what they know, and are told nothing of this process.
    """

    def __init__(self, seeds: Sequence[str], secret: bytes | None) -> None:
        self._seeds, self._codec = seeds, gossip_codec(secret)

    def __enter__(self) -> Self:
        addresses = asyncio.run(resolve_seeds(self._seeds))
        family = socket.AF_INET6 if ":" in _host(addresses[0]) else socket.AF_INET
        addresses = [each for each in addresses if (":" in _host(each)) == (family == socket.AF_INET6)]
        self._reader = GossipReader(addresses, random.SystemRandom())
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._asked: set[str] = set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def read(self) -> Registered:
        """All that is known now."""
        self._read_all()
        return self._reader.read()

    def retire(self, edge: str) -> tuple[TopicKey, ...]:
        """Nobody waits any more for an edge that will not come back; returns the topics whose events it was owed."""
        self._read_all()
        if self._reader.may_live(edge):
            raise CoordinationError(
                f"the edge {edge!r} is there, or went away just now: stop it first, if its log is to be given up, and "
                "try again when `fieldfare brokers` does not show it any more"
            )
        topics = self._reader.owed_to(edge)
        if not self._reader.is_retired(edge):
            retirement = self._reader.retirement(edge, time.time())
            if not self._until(lambda: self._reader.is_retired(edge), retirement):
                raise CoordinationError(f"no broker has confirmed that {edge!r} is retired: try again")
        return topics

    def _read_all(self) -> None:
        is_complete = self._until(lambda: self._reader.is_complete)
        if not is_complete and not self._reader.table.members:  # of what changes all the time, what has come is enough
            raise CoordinationError(
                f"no broker answers at {', '.join(self._seeds)}: is one there, and has it the same secret?"
            )

    def _until(self, is_so: Callable[[], bool], told: Sequence[SendDatagram] = ()) -> bool:
        """Tell something and ask for all, again and again; whether it was so in time."""
        end = time.monotonic() + _SECONDS_MAX
        while time.monotonic() < end:
            self._send((*told, *self._reader.begin_round()))
            self._take_answers()
            if is_so():
                return True
        return False

    def _take_answers(self) -> None:
        end = time.monotonic() + _ROUND_SECONDS
        while not self._reader.is_answered and (seconds := end - time.monotonic()) > 0:
            self._socket.settimeout(seconds)
            try:
                packet, source = self._socket.recvfrom(DATAGRAM_BYTES_MAX)
                message = self._codec.decode_packet(packet)
            except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                continue  # nothing came, nobody listens there, or it is of somebody who has not the secret
            address = f"{source[0]}:{source[1]}"
            if address in self._asked:
                self._send(self._reader.receive(address, message))

    def _send(self, datagrams: Iterable[SendDatagram]) -> None:
        for datagram in datagrams:
            host, _, port = datagram.address.rpartition(":")
            self._asked.add(datagram.address)
            try:
                self._socket.sendto(self._codec.encode_line(datagram.message), (host.strip("[]"), int(port)))
            except OSError as error:
                raise CoordinationError(f"nothing can be sent to {datagram.address}: {error.strerror}") from error


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
