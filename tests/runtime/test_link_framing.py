"""Messages cut from a byte stream, however it comes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.errors import LinkRefusedError
from fieldfare.runtime.link_framing import HEADER_BYTES, Kind, MessageReader, framed, header

LENGTHS = st.sampled_from([0, 1, 3, 4, 100, 1024, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, 200_000])
MESSAGES = st.lists(st.tuples(st.sampled_from(list(Kind)), LENGTHS), max_size=8)


def pour(reader: MessageReader, stream: bytes, pieces: st.DataObject) -> list[tuple[Kind, bytes]]:
    """Write a stream into a reader as a socket would, in pieces of any length; the messages that come of it."""
    taken: list[tuple[Kind, bytes]] = []
    view = memoryview(stream)
    while view:
        space = reader.space()
        most = min(len(space), len(view))
        size = pieces.draw(st.sampled_from([most, most, max(1, most // 2), 1]))
        space[:size] = view[:size]
        reader.wrote(size)
        view = view[size:]
        while (message := reader.next()) is not None:
            taken.append(message)
    return taken


@settings(max_examples=60)
@given(MESSAGES, st.data())
def test_messages_arrive_as_they_were_sent(sizes: list[tuple[Kind, int]], pieces: st.DataObject) -> None:
    sent = [(kind, bytes([number + 1]) * size) for number, (kind, size) in enumerate(sizes)]
    reader = MessageReader(1024)
    reader.widen(200_000)
    taken = pour(reader, b"".join(framed(kind, message) for kind, message in sent), pieces)
    assert [(kind, bytes(message)) for kind, message in taken] == sent  # the last one changed none before


@given(st.data())
def test_what_followed_the_greeting_is_kept_when_more_is_allowed(pieces: st.DataObject) -> None:
    reader = MessageReader(100)
    stream = framed(Kind.GREETING, b"hello") + framed(Kind.FRAMES, b"frames")
    space = reader.space()
    cut = pieces.draw(st.integers(9, len(stream)))
    space[:cut] = stream[:cut]
    reader.wrote(cut)
    assert reader.next() == (Kind.GREETING, b"hello")
    reader.widen(100_000)
    taken = [] if (first := reader.next()) is None else [first]
    assert taken + pour(reader, stream[cut:], pieces) == [(Kind.FRAMES, b"frames")]


@pytest.mark.parametrize("bad", [header(Kind.FRAMES, 101), bytes([0, 0, 0, 1]), bytes([9, 0, 0, 1]), b"GET "])
def test_what_is_no_message_is_refused_by_its_first_bytes(bad: bytes) -> None:
    reader = MessageReader(100)
    assert len(reader.space()) == 100 + HEADER_BYTES  # all the memory that a stranger gets
    reader.space()[:HEADER_BYTES] = bad
    reader.wrote(HEADER_BYTES)
    with pytest.raises(LinkRefusedError):
        reader.next()
