"""Our reading of WebSockets beside that of a library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN, SERVER, Protocol

from fieldfare.messages import FRAME_BYTES_MAX
from fieldfare.runtime.gateway import pieces
from fieldfare.runtime.gateway.pieces import Message, MessageReader, WebSocketViolationError, closing, written

BYTES_MAX = 200
payloads = st.binary(max_size=40) | st.binary(min_size=BYTES_MAX - 2, max_size=BYTES_MAX + 2)


@st.composite
def piece(draw: st.DrawFn) -> bytes:
    """A piece, mostly sound."""
    kind = draw(st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.CONT, Opcode.PING, Opcode.PONG]))
    is_last = draw(st.booleans()) or kind >= Opcode.CLOSE
    # Between the pieces of a message, the library counts what a ping holds as a part of the message.
    payload = b"" if kind >= Opcode.CLOSE else draw(payloads)
    data = Frame(kind, payload, is_last).serialize(mask=True)
    if draw(st.integers(0, 19)) == 0:  # and rarely with any other beginning
        data = draw(st.binary(min_size=2, max_size=2)) + data[2:]
    return data


def theirs(data: bytes) -> tuple[list[Message], int | None]:
    """The messages, and the code with which the connection is closed, as the library has them."""
    protocol = Protocol(SERVER, state=OPEN, max_size=BYTES_MAX)
    protocol.receive_data(data)
    found: list[Message] = []
    begun: list[Frame] = []
    for frame in protocol.events_received():
        assert isinstance(frame, Frame)
        if frame.opcode >= Opcode.CLOSE:
            found.append(Message(frame.opcode, bytes(frame.data)))
            continue
        begun.append(frame)
        if frame.fin:
            found.append(Message(begun[0].opcode, b"".join(bytes(each.data) for each in begun)))
            begun = []
    return found, protocol.close_sent.code if protocol.close_sent else None


def ours(data: bytes, cuts: list[int]) -> tuple[list[Message], int | None]:
    reader, found = MessageReader(), []
    try:
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            reader.feed(data[start:end])
            while (message := reader.take()) is not None:
                found.append(message)
    except WebSocketViolationError as error:
        return found, error.code
    return found, None


@given(data=st.lists(piece(), max_size=12).map(b"".join), draw=st.data())
def test_messages_are_read_as_a_library_reads_them_however_the_bytes_are_cut(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(data)), max_size=12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "FRAME_BYTES_MAX", BYTES_MAX)
        found, code = ours(data, cuts)
    expected, expected_code = theirs(data)
    if any(message.kind == pieces.CLOSE for message in expected + found):
        return  # nothing after it matters, and the library looks into it
    assert found == expected
    if expected_code is not None:
        assert code in (1002, 1009)  # one of the two, if both apply
    elif code is not None:  # the library waits for the whole piece before it looks at its kind
        assert theirs(data + b"x" * 2**16)[1] is not None


@given(kind=st.sampled_from([pieces.TEXT, pieces.BINARY, pieces.PING, pieces.PONG]), payload=st.binary(max_size=125))
def test_a_library_reads_what_is_written(kind: int, payload: bytes) -> None:
    protocol = Protocol(CLIENT, state=OPEN)
    protocol.receive_data(written(kind, payload))
    assert protocol.events_received() == [Frame(Opcode(kind), payload)]


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_every_length_has_its_form(size: int) -> None:
    protocol = Protocol(CLIENT, state=OPEN)
    protocol.receive_data(written(pieces.TEXT, b"x" * size))
    assert protocol.events_received() == [Frame(Opcode.TEXT, b"x" * size)]


@given(reason=st.text(max_size=200))
def test_a_reason_to_close_is_cut_to_what_fits(reason: str) -> None:
    protocol = Protocol(CLIENT, state=OPEN)
    protocol.receive_data(closing(1001, reason))
    assert protocol.close_rcvd is not None
    assert protocol.close_rcvd.code == 1001
    assert reason.startswith(protocol.close_rcvd.reason)
    assert len(protocol.close_rcvd.reason.encode()) > 110 or protocol.close_rcvd.reason == reason


def test_a_ping_may_come_between_the_pieces_of_a_message() -> None:
    reader, ping = MessageReader(), b"p" * 125
    frames = [Frame(Opcode.TEXT, b"a", fin=False), Frame(Opcode.PING, ping), Frame(Opcode.CONT, b"b")]
    reader.feed(b"".join(frame.serialize(mask=True) for frame in frames))
    assert [reader.take() for _ in range(3)] == [Message(pieces.PING, ping), Message(pieces.TEXT, b"ab"), None]


def test_a_message_has_few_pieces() -> None:
    reader = MessageReader()
    reader.feed(b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 2000)
    with pytest.raises(WebSocketViolationError) as caught:
        reader.take()
    assert caught.value.code == 1008


def test_what_follows_a_message_that_is_too_large_can_be_read() -> None:
    reader = MessageReader()
    large = Frame(Opcode.TEXT, b"x" * (FRAME_BYTES_MAX + 1)).serialize(mask=True)
    for start in range(0, len(large), 65_536):
        reader.feed(large[start : start + 65_536])
        if start == 0:
            with pytest.raises(WebSocketViolationError) as caught:
                reader.take()
            assert (caught.value.code, caught.value.is_readable) == (1009, True)
        else:
            assert reader.take() is None
    reader.feed(Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=True))
    assert reader.take() == Message(pieces.CLOSE, b"\x03\xe8")


def test_a_message_that_is_far_too_large_is_not_waited_for() -> None:
    reader = MessageReader()
    reader.feed(b"\x81\xff" + (2**62).to_bytes(8, "big"))
    with pytest.raises(WebSocketViolationError) as caught:
        reader.take()
    assert not caught.value.is_readable
