from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from fieldfare.client.wire import LINES, DecodedDeliver
from fieldfare.messages import (
    FRAME_BYTES_MAX,
    Accepted,
    Ack,
    Deliver,
    Delivery,
    Done,
    EdgeFrame,
    Notice,
    Publish,
    Subscribed,
    lines,
)
from fieldfare.messages.lines import EDGE_LINES, UnreadableLine

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
events = st.dictionaries(st.text(), values, max_size=3).map(lambda event: Raw(msgspec.json.encode(event)))
deliveries = st.builds(Delivery, st.integers(0, 2**63 - 1), st.text(), st.floats(0, 2e9), events)
edge_frames: st.SearchStrategy[EdgeFrame] = st.one_of(
    st.builds(Done, st.integers(0, 2**63 - 1)),
    st.builds(Accepted, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    st.builds(Subscribed, st.integers(0, 9), st.text(), st.integers(-1, 9)),
    st.builds(Notice, st.text(), st.sampled_from(["gap", "deadline", "detached"]), st.text()),
    st.builds(lambda name, some: Deliver(name, [Raw(msgspec.json.encode(one)) for one in some]),
              st.text(), st.lists(deliveries, max_size=3)),
)  # fmt: skip


@given(frames=st.lists(edge_frames, max_size=8), bytes_max=st.integers(1, 400))
def test_messages_are_as_few_as_their_limit_allows_and_say_what_the_encoder_says(
    frames: list[EdgeFrame], bytes_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "FRAME_BYTES_MAX", bytes_max)
        messages = list(EDGE_LINES.encode(frames))
    assert b"\n".join(messages) == b"\n".join(msgspec.json.encode(frame) for frame in frames)
    assert all(len(message) <= bytes_max or b"\n" not in message for message in messages)
    for first, second in pairwise(messages):
        assert len(first) + 1 + len(second.split(b"\n")[0]) > bytes_max


@given(frames=st.lists(edge_frames, max_size=8))
def test_a_client_reads_what_an_edge_writes(frames: list[EdgeFrame]) -> None:
    came = [frame for message in EDGE_LINES.encode(frames) for frame in LINES.decode(message)]
    assert [_plain(frame) for frame in came] == [_plain(frame) for frame in frames]


def _plain(frame: Any) -> Any:
    """A frame as plain values, whatever of it has been decoded."""
    kind = Deliver if isinstance(frame, DecodedDeliver) else type(frame)
    return kind.__name__, msgspec.json.decode(msgspec.json.encode(frame))


def test_frames_of_one_step_are_one_message_within_its_limit() -> None:
    large = Deliver("s", [Raw(b'"%b"' % (b"x" * (FRAME_BYTES_MAX // 2)))])
    assert list(EDGE_LINES.encode([Done(1), Accepted(2, 3)])) == [
        b'{"type":"done","ref":1}\n{"type":"accepted","ref":2,"count":3}'
    ]
    assert [message.count(b"\n") for message in EDGE_LINES.encode([Done(1), large, large, Done(2)])] == [1, 1]
    assert list(EDGE_LINES.encode([])) == []


def test_a_line_break_between_the_tokens_of_an_event_does_not_end_the_line() -> None:
    publish = Publish(1, "t", [Raw(b'{\n"a": "b\\n"\n}')])
    (message,) = LINES.encode([publish, Ack("s", 3)])
    first, second = EDGE_LINES.decode(message)
    assert isinstance(first, Publish)
    assert msgspec.json.decode(first.events[0]) == {"a": "b\n"}
    assert second == Ack("s", 3)


@pytest.mark.parametrize(
    ("line", "ref"),
    [
        ("", None),
        ("{", None),
        ("[1]", None),
        ('{"type":"done","ref":7}', 7),  # an edge's, not a client's
        ('{"type":"detach","subscription":"s","ref":7}', 7),
        ('{"type":"subscribe","ref":7,"topic":"t","condition":1}', 7),
        ('{"type":"subscribe","ref":"7","topic":"t","condition":"TRUE"}', None),
        ('{"type":"publish","ref":7,"topic":"t","events":[{"a":' + "[" * 5000 + "]" * 5000 + "}]}", None),
    ],
)
def test_a_line_that_is_no_frame_is_told_why_and_which_request_it_was(line: str, ref: int | None) -> None:
    for text in (line, line.encode()):
        frame = EDGE_LINES.decode_line(text)
        assert isinstance(frame, UnreadableLine)
        assert frame.ref == ref
        assert frame.reason
    assert EDGE_LINES.decode_line('{"type":"detach","subscription":"s"}') == EDGE_LINES.decode(
        b'{"type":"detach","subscription":"s"}'
    )[0]  # fmt: skip
