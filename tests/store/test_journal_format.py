"""The bytes of a journal: what earlier versions wrote is read, and the same records give the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.journal_records import FOREVER, opened, recovered

from fieldfare.messages import (
    CursorsMoved,
    DeadLetter,
    EventsStored,
    PublishersMoved,
    Reached,
    Record,
    SubscriptionRemoved,
    SubscriptionStored,
    TopicStored,
    names_of,
    stream_of,
)
from fieldfare.qos import Offered, Requested
from fieldfare.store.journal import JournalOptions
from fieldfare.store.journal_format import framed, is_torn

# Written by version 0.3.0: the journal that `write` writes.
WRITTEN = {
    "checkpoint-000000000001.log": """
        6669656c64666172656c6f6701000000362bed8a1600000093aa636865636b706f696e74cf000003000000007503f6611bbe1200000093
        a16e029194a461636d65a46e6577730109f063d5ec1b00000095a170a461636d65a46e65777381a170049292a170a16992c0a16bbec459
        9c1d00000096a164a461636d65a173cb3ff0000000000000a4676f6e6591c4027b7d
    """,
    "lost-000000000001.log": """
        6669656c64666172656c6f67010000009aed198d1f00000092a46c6f73749293a461636d65a46e6577730193a4612f6225a46e65777302
    """,
    "segment-000000000003.log": """
        6669656c64666172656c6f6701000000398638bc0d00000094a77365676d656e740302cc8a3c6e97773600008098a173a173a461636d65
        a46e657773a561203c203181a96b6565705f6c6173740307b368747470733a2f2f6578616d706c652e6f7267d03d24630a00000093a172
        a461636d65a173
    """,
    "segment-000000000004.log": """
        6669656c64666172656c6f670100000021dff5480c00000094a77365676d656e740402751050e0792f0000809ca16503a461636d65a46e
        657773cb3ff8000000000000cb426d1a94a200000091c4077b2261223a317dc0c0c2c0c0
    """,
}
# The same by version 0.4.0, before subscriptions said how they are consumed.
WRITTEN_LATER = {
    "checkpoint-000000000001.log": """
        6669656c64666172656c6f6701000000b449dbb81600000093aa636865636b706f696e74cf000003000000007703f6611bbe1200000093
        a16e029194a461636d65a46e6577730109044e17251c00000096a170a461636d65a46e65777381a170049292a170a16992c0a16b90bec4
        599c1d00000096a164a461636d65a173cb3ff0000000000000a4676f6e6591c4027b7d
    """,
    "lost-000000000001.log": """
        6669656c64666172656c6f670100000082f09b1f4100000092a46c6f73749493a461636d65a46e6577730195a461636d65a46e657773a0
        a36f776e0193a4612f6225a46e6577730295a4612f6225a46e657773a0a36f776e02
    """,
    "segment-000000000003.log": """
        6669656c64666172656c6f6701000000f92e53d80d00000094a77365676d656e740302cc93730ee6d3380000809aa173a173a461636d65
        a46e657773a561203c203181a96b6565705f6c6173740307b368747470733a2f2f6578616d706c652e6f7267a080d03d24630a00000093
        a172a461636d65a173
    """,
    "segment-000000000004.log": """
        6669656c64666172656c6f67010000000dbefba60c00000094a77365676d656e740402778eee544136000080dc0011a16503a461636d65
        a46e657773cb3ff8000000000000cb426d1a94a200000091c4077b2261223a317dc0c0c2c0c0c090ff8080
    """,
}
# The same before publishers read other logs.
WRITTEN_BEFORE_READERS = {
    "checkpoint-000000000001.log": """
        6669656c64666172656c6f6701000000834088561600000093aa636865636b706f696e74cf000003000000008d03f6611bbe1200000093
        a16e029194a461636d65a46e6577730109044e17251c00000096a170a461636d65a46e65777381a170049292a170a16992c0a16b909038
        a1af1e00000097a164a461636d65a173cb3ff0000000000000a4676f6e6591c4027b7d00
    """,
    "lost-000000000001.log": """
        6669656c64666172656c6f670100000082f09b1f4100000092a46c6f73749493a461636d65a46e6577730195a461636d65a46e657773a0
        a36f776e0193a4612f6225a46e6577730295a4612f6225a46e657773a0a36f776e02
    """,
    "segment-000000000003.log": """
        6669656c64666172656c6f6701000000f92e53d80d00000094a77365676d656e740302cc93d3d678134e0000809fa173a173a461636d65
        a46e657773a561203c203181a96b6565705f6c6173740307b368747470733a2f2f6578616d706c652e6f7267a08080cb00000000000000
        00c2c2a96669656c6466617265d03d24630a00000093a172a461636d65a173
    """,
    "segment-000000000004.log": """
        6669656c64666172656c6f6701000000232b8bbf0d00000094a77365676d656e740402cc8d8eee544136000080dc0011a16503a461636d
        65a46e657773cb3ff8000000000000cb426d1a94a200000091c4077b2261223a317dc0c0c2c0c0c090ff8080
    """,
}
# What this version writes: the records have grown by fields that earlier versions pass over.
WRITTEN_NOW = {
    "checkpoint-000000000001.log": """
        6669656c64666172656c6f6701000000834088561600000093aa636865636b706f696e74cf000003000000008d03f6611bbe1200000093
        a16e029194a461636d65a46e657773010949e6b0701d00000097a170a461636d65a46e65777381a170049292a170a16992c0a16b909090
        38a1af1e00000097a164a461636d65a173cb3ff0000000000000a4676f6e6591c4027b7d00
    """,
    "lost-000000000001.log": """
        6669656c64666172656c6f670100000082f09b1f4100000092a46c6f73749493a461636d65a46e6577730195a461636d65a46e657773a0
        a36f776e0193a4612f6225a46e6577730295a4612f6225a46e657773a0a36f776e02
    """,
    "segment-000000000003.log": """
        6669656c64666172656c6f67010000005abb37460d00000094a77365676d656e740302cc94d3d678134e0000809fa173a173a461636d65
        a46e657773a561203c203181a96b6565705f6c6173740307b368747470733a2f2f6578616d706c652e6f7267a08080cb00000000000000
        00c2c2a96669656c6466617265d03d24630a00000093a172a461636d65a173
    """,
    "segment-000000000004.log": """
        6669656c64666172656c6f6701000000232b8bbf0d00000094a77365676d656e740402cc8dc60202a937000080dc0012a16503a461636d
        65a46e657773cb3ff8000000000000cb426d1a94a200000091c4077b2261223a317dc0c0c2c0c0c090ff8080c0
    """,
}
CHECKPOINT: list[Record] = [
    Reached(2, [("acme", "news", 1, 9)]),
    PublishersMoved("acme", "news", {"p": 4}, [("p", "i"), (None, "k")]),
    DeadLetter("acme", "s", 1.0, "gone", [b"{}"]),
]
LAST = EventsStored(3, "acme", "news", 1.5, FOREVER, [b'{"a":1}'])


def write(folder: Path) -> None:
    journal, _ = opened(folder, JournalOptions(segment_bytes=150, retention_bytes=150))
    webhook = "https://example.org"
    matched = EventsStored(
        0, "acme", "news", 1.5, FOREVER, [b'{"a":1}', b"{}"], "p", 4, subscriptions=[["s"], []], batch=9
    )
    with journal:
        journal.append([matched], sync=True)
        journal.append([EventsStored(2, "a/b%", "news", 1.5, FOREVER, [b'{"a":1}'])], sync=False)
        journal.append([TopicStored("acme", "news", Offered(), "edge"), CursorsMoved("acme", {"s": 1})], sync=True)
        subscription = SubscriptionStored("s", "acme", "news", "a < 1", Requested(keep_last=3), 7, webhook)
        journal.append([subscription, SubscriptionRemoved("acme", "s")], sync=True)
        journal.checkpoint(CHECKPOINT)
        journal.append([LAST], sync=True)
        journal.trim(now=2.0)


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        name: bytes.fromhex(data) for name, data in WRITTEN_NOW.items()
    }


@pytest.mark.parametrize(
    "written", [WRITTEN, WRITTEN_LATER, WRITTEN_BEFORE_READERS, WRITTEN_NOW], ids=["0.3.0", "0.4.0", "before", "now"]
)
def test_what_an_earlier_version_wrote_is_read(tmp_path: Path, written: dict[str, str]) -> None:
    for name, data in written.items():
        (tmp_path / name).write_bytes(bytes.fromhex(data))
    journal, found = opened(tmp_path)
    with journal:
        assert found == [*CHECKPOINT, LAST]
        assert journal.read(stream_of("acme", "news"), -1) == ([LAST], 3, True, 1, -1)
        assert journal.read(stream_of("a/b%", "news"), -1) == ([], 3, True, 2, -1)
        assert journal.read(stream_of("a", "b%/news"), -1) == ([], 3, True, -1, -1)


def test_a_journal_that_was_read_can_be_written(tmp_path: Path) -> None:
    for name, data in WRITTEN.items():
        (tmp_path / name).write_bytes(bytes.fromhex(data))
    journal, _ = opened(tmp_path)
    with journal:
        journal.append([CursorsMoved("acme", {"s": 3})], sync=True)
    assert recovered(tmp_path) == [*CHECKPOINT, LAST, CursorsMoved("acme", {"s": 3})]


@given(st.lists(st.lists(st.text(alphabet="a/%2F5\n", max_size=6), min_size=1, max_size=3), min_size=2, max_size=2))
def test_other_names_give_another_stream(names: list[list[str]]) -> None:
    streams = [stream_of(*each) for each in names]
    assert [names_of(stream) for stream in streams] == names
    assert (streams[0] == streams[1]) == (names[0] == names[1])


@given(st.binary(max_size=40), st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.binary(max_size=40))
def test_a_frame_that_was_written_after_a_flush_shows_that_what_lies_before_it_was_damaged(
    before: bytes, bodies: list[bytes], after: bytes
) -> None:
    offset = len(before)
    rest = framed([b"x", *bodies])
    assert not is_torn(memoryview(before + b"?" + framed(bodies, is_after_flush=True) + after), offset)
    assert is_torn(memoryview(before + b"?" + rest), offset)
