"""Messages as they travel in datagrams: MessagePack, one message in each, sealed where the deployment has a secret.

The seal is an HMAC over the packet. It proves that the sender has the secret, not that the packet is new: protocols on
datagrams must bear packets that come twice or late in any case.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from fieldfare.messages.lines import LineCodec

M = TypeVar("M")

SEAL_BYTES = 16  # half of a SHA-256: as RFC 2104 allows
_encode = msgspec.msgpack.Encoder().encode


class PacketCodec(LineCodec[M, M]):
    """Reads and writes packets of one type of message, commonly a union. It stands wherever a LineCodec is taken."""

    def __init__(self, message_type: Any, secret: bytes | None = None) -> None:
        super().__init__(message_type)
        decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(message_type)
        self._decode_message = decoder.decode
        self._seal = None if secret is None else hmac.new(secret, digestmod=hashlib.sha256)

    def encode_line(self, frame: M) -> bytes:
        """A message as a packet."""
        body = _encode(frame)
        return body if self._seal is None else body + self._seal_of(self._seal, body)

    def encode(self, frames: Iterable[M]) -> Iterator[bytes]:
        """A packet for each message."""
        return map(self.encode_line, frames)

    def decode(self, message: bytes | str) -> list[M]:
        """The message of a packet, as a list of one."""
        return [self.decode_packet(message if isinstance(message, bytes) else message.encode())]

    def decode_packet(self, packet: bytes) -> M:
        """The message of a packet; a msgspec.MsgspecError if it cannot be read, or is not sealed with the secret."""
        if self._seal is None:
            return self._decode_message(packet)
        body, seal = packet[:-SEAL_BYTES], packet[-SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal_of(self._seal, body)):
            raise msgspec.DecodeError("it is not sealed with the deployment's secret")
        return self._decode_message(body)

    @staticmethod
    def _seal_of(keyed: hmac.HMAC, body: bytes) -> bytes:
        seal = keyed.copy()  # the key has been taken in already
        seal.update(body)
        return seal.digest()[:SEAL_BYTES]
