from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.messages import (
    AnyBrokerFrame,
    Confirm,
    ExportedEvent,
    Join,
    Leave,
    Ranges,
    Resume,
    Share,
    Taken,
    broker_codec,
)
from fieldfare.messages.broker_codec import BROKER_FRAMES
from fieldfare.messages.frame_codec import FrameCodec
from fieldfare.messages.lines import LineCodec

topics = st.tuples(st.text(max_size=5), st.text(max_size=5))
logs = st.text(min_size=1, max_size=64)
positions = st.integers(-1, 2**63 - 1)
versions = st.integers(0, 2**63 - 1)
exported = st.builds(
    ExportedEvent,
    positions,
    st.floats(0, 1e9),
    st.binary(max_size=50),
    st.none() | st.lists(st.text(max_size=5), max_size=3),
)
shares = st.builds(
    Share, logs, positions, versions, st.none() | st.lists(st.integers(0, 9), max_size=3), positions, positions
)
broker_frames: st.SearchStrategy[AnyBrokerFrame] = st.one_of(
    st.builds(Join, topics, logs, versions, st.binary(max_size=50)),
    st.builds(Leave, topics, logs),
    st.builds(Confirm, topics, logs, logs, versions, positions),
    st.builds(Resume, topics, logs, logs, positions, versions),
    st.builds(Taken, topics, logs, logs, positions),
    st.builds(Ranges, topics, logs, positions, st.lists(exported, max_size=3), st.lists(shares, max_size=3)),
)


def test_it_has_the_interface_that_links_ask_for() -> None:
    codecs: list[FrameCodec[object, AnyBrokerFrame]] = [BROKER_FRAMES, LineCodec(AnyBrokerFrame)]
    frame = Taken(("acme", "traffic"), "origin", "receiver", 7)
    for codec in codecs:
        assert [codec.decode(message) for message in codec.encode([frame, frame])] == [[frame, frame]]


@given(frames=st.lists(broker_frames, max_size=8), bytes_max=st.integers(1, 400))
def test_what_is_written_is_read_again_in_as_few_messages_as_their_limit_allows(
    frames: list[AnyBrokerFrame], bytes_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_codec, "FRAME_BYTES_MAX", bytes_max)
        messages = list(BROKER_FRAMES.encode(frames))
    came = [BROKER_FRAMES.decode(message) for message in messages]
    assert [frame for part in came for frame in part] == frames
    assert all(len(message) <= bytes_max or len(part) == 1 for message, part in zip(messages, came, strict=True))
    for (first, _), (_, part) in pairwise(zip(messages, came, strict=True)):
        head_bytes = 5
        assert len(first) + len(msgspec.msgpack.encode(part[0])) + head_bytes > bytes_max


def test_nothing_to_say_is_no_message() -> None:
    assert list(BROKER_FRAMES.encode([])) == []


MESSAGE = next(
    BROKER_FRAMES.encode(
        [
            Join(("acme", "traffic"), "edge", 3, b"covering"),
            Ranges(("acme", "traffic"), "origin", 9, [ExportedEvent(8, 1.5, b"{}")], [Share("edge", 7, 3)]),
        ]
    )
)


@given(st.binary(max_size=200) | st.lists(st.tuples(st.integers(0, len(MESSAGE) - 1), st.integers(0, 255)), max_size=4))
def test_bytes_that_are_no_frames_are_an_error_of_one_kind(damage: bytes | list[tuple[int, int]]) -> None:
    message = bytearray(MESSAGE if isinstance(damage, list) else damage)
    for place, byte in damage if isinstance(damage, list) else ():
        message[place] = byte
    try:
        frames = BROKER_FRAMES.decode(bytes(message))
    except msgspec.MsgspecError:
        return
    assert all(isinstance(frame, AnyBrokerFrame) for frame in frames)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        MESSAGE[:-1],
        MESSAGE + b"\x00",
        b"\xdd\xff\xff\xff\xff",  # four billion frames are announced, and none follows
        msgspec.msgpack.encode([["taken", ["acme", "traffic"], "", "receiver", 7]]),
        msgspec.msgpack.encode([["taken", ["acme", "traffic"], "origin", "receiver", -2]]),
        msgspec.msgpack.encode([["nothing", ["acme", "traffic"]]]),
        msgspec.msgpack.encode([["leave", ["acme", "traffic"], b"edge"]]),
        MESSAGE.replace(b"traffic", b"traf\xffic"),
        b"\x91\x94\xa5leave\x92\xa1a\xa1b\xa1e" + b"\x91" * 100_000,  # deep in what a later release may have added
        b'["leave",["acme","traffic"],"edge"]',  # a line of JSON
    ],
)
def test_messages_that_are_wrong(message: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        BROKER_FRAMES.decode(message)


def test_what_a_later_release_adds_is_passed_over() -> None:
    message = msgspec.msgpack.encode([["leave", ["acme", "traffic"], "edge", "something new", 5]])
    assert BROKER_FRAMES.decode(message) == [Leave(("acme", "traffic"), "edge")]
