from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.messages import SEAL_BYTES, PacketCodec


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag=1):
    text: str


class Farewell(msgspec.Struct, frozen=True, array_like=True, tag=2):
    count: int


SECRET = b"a secret of a deployment"
messages = st.one_of(st.builds(Greeting, st.text()), st.builds(Farewell, st.integers(-(2**63), 2**63)))


def codec(secret: bytes | None) -> PacketCodec[Greeting | Farewell]:
    return PacketCodec(Greeting | Farewell, secret)


@given(messages, st.sampled_from([None, SECRET]))
def test_what_is_sent_is_read(message: Greeting | Farewell, secret: bytes | None) -> None:
    packet = codec(secret).encode_line(message)
    assert codec(secret).decode_packet(packet) == message
    assert codec(secret).decode(packet) == [message]
    assert list(codec(secret).encode([message, message])) == [packet, packet]
    assert len(packet) == len(codec(None).encode_line(message)) + (SEAL_BYTES if secret else 0)


@given(messages, st.data())
def test_a_packet_that_was_changed_anywhere_is_not_read(message: Greeting | Farewell, data: st.DataObject) -> None:
    packet = bytearray(codec(SECRET).encode_line(message))
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(msgspec.DecodeError, match="secret"):
        codec(SECRET).decode_packet(bytes(packet))


@pytest.mark.parametrize("packet", [b"", b"x", b"\x00" * SEAL_BYTES])
def test_what_is_no_packet_is_not_read(packet: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        codec(SECRET).decode_packet(packet)


def test_another_secret_or_none_is_not_enough() -> None:
    message = Greeting("hello")
    for secret in (None, b"another secret"):
        with pytest.raises(msgspec.DecodeError):
            codec(SECRET).decode_packet(codec(secret).encode_line(message))
    with pytest.raises(msgspec.MsgspecError):
        codec(None).decode_packet(codec(SECRET).encode_line(message))
