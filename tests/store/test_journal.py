"""The edge's log against a list that remembers everything."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.store.crashing_disk import without_flushes
from tests.store.journal_records import (
    FOREVER,
    TENANT,
    cursor,
    events,
    filled,
    last_of,
    opened,
    read,
    read_all,
    recovered,
)

from fieldfare.errors import JournalError, JournalFailedError
from fieldfare.messages import (
    EDGE_RECORDS,
    EventsStored,
    Position,
    Reached,
    Record,
    Span,
    SubscriptionStored,
    own_part_of,
    stream_of,
)
from fieldfare.qos import Requested
from fieldfare.simulation.disk import SimulatedDisk
from fieldfare.store import journal_format
from fieldfare.store.journal import Journal, JournalOptions

SMALL = JournalOptions(segment_bytes=300, retention_bytes=1_000)
TOPICS = ["news", "quotes", "rare"]


class JournalAgainstList(RuleBasedStateMachine):
    """What is read is what was stored, and retention takes only what it may.

    A checkpoint holds how many records had been stored: so what is recovered tells its place in the list.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[Record] = []
        self.checkpoints: list[int] = []
        self.lost: dict[str, Position] = {}
        self.now = 0.0
        self.next_position = 0

    @initialize(block_bytes=st.sampled_from([1, 100, 1000]), retention_bytes=st.sampled_from([300, 1_500]))
    def open(self, block_bytes: int, retention_bytes: int) -> None:
        self.until = ExitStack()
        self.disk = self.new_disk()
        # Small blocks make readers cross them.
        self.options = JournalOptions(segment_bytes=300, retention_bytes=retention_bytes, block_bytes=block_bytes)
        self.journal, found = opened(self.disk, self.options)
        assert found == []

    def new_disk(self) -> Path | SimulatedDisk:
        without_flushes(self.until.enter_context(pytest.MonkeyPatch.context()))
        return Path(self.until.enter_context(tempfile.TemporaryDirectory())) / "log"

    def file_sizes(self, kind: str) -> list[int]:
        """Of the files that the disk holds."""
        if isinstance(self.disk, Path):
            return [path.stat().st_size for path in self.disk.glob(f"{kind}-*")]
        return [len(self.disk.read(kind, number)) for number in self.disk.numbers(kind)]

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
            self.until.close()

    @rule(
        batch=st.lists(
            st.one_of(
                st.tuples(
                    st.sampled_from(TOPICS),
                    st.integers(0, 4),  # events
                    st.integers(0, 3),  # positions that are passed over
                    st.sampled_from([1.0, 5.0, FOREVER]),  # lifespan
                    st.sampled_from([0, 10, 400]),  # bytes of an event
                ),
                st.none(),
            ),
            max_size=5,
        ),
        sync=st.booleans(),
    )
    def append(self, batch: list[tuple[str, int, int, float, int] | None], sync: bool) -> None:
        records: list[Record] = []
        for entry in batch:
            if entry is None:
                records.append(cursor(self.next_position))
                continue
            topic, count, gap, lifespan, size = entry
            position = self.next_position + gap
            self.next_position = position + count
            records.append(events(position, count, topic=topic, expires_at=self.now + lifespan, payload=b"x" * size))
        self.journal.append(records, sync=sync)
        self.stored += records

    @rule()
    def reopen(self) -> None:
        self.journal.close()
        self.journal, found = opened(self.disk, self.options)
        count = self.checkpoints[-1] if self.checkpoints else 0
        expected = [Reached(count)] if self.checkpoints else []
        assert found == [*expected, *self.stored[count:]]

    @rule(after=st.one_of(st.just(-1), st.integers(0, 40)), bytes_max=st.sampled_from([1, 100, 10_000]))
    def read(self, after: Position, bytes_max: int) -> None:
        for topic in TOPICS:
            expected = [record for record in self.kept() if record.topic == topic and last_of(record) > after]
            assert read_all(self.journal, topic, after, bytes_max) == expected

            piece = read(self.journal, topic, after, bytes_max)
            lost = self.lost.get(topic, -1)
            assert piece.lost_before == (lost if lost > after else -1)

    @rule()
    def checkpoint(self) -> None:
        self.journal.checkpoint([Reached(len(self.stored))])
        self.checkpoints.append(len(self.stored))
        assert not self.journal.is_due_for_checkpoint

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0]))
    def trim(self, seconds: float) -> None:
        self.now += seconds
        before = self.kept()
        size = self.journal.size_bytes
        self.journal.trim(self.now)
        gone = [record for record in before if record.position < self.journal.first_position]
        old = self.stored[: self.checkpoints[-2:][0] if self.checkpoints else 0]
        assert all(record in old for record in gone)
        alive = {record.topic for record in gone if record.expires_at > self.now}
        assert not alive or size > self.options.retention_bytes
        for topic in alive:  # a segment's worth of the topic may have been alive or not, but it was this topic's
            lost = read(self.journal, topic, -1).lost_before
            assert max(last_of(one) for one in gone if one.topic == topic and one.expires_at > self.now) <= lost
            assert lost in {last_of(one) for one in gone if one.topic == topic}
            self.lost[topic] = lost

    @precondition(lambda self: hasattr(self, "journal"))
    @invariant()
    def positions(self) -> None:
        positions = [last_of(record) for record in self.all_events()]
        assert self.journal.last_position == max(positions, default=-1)
        assert self.journal.size_bytes == sum(self.file_sizes("segment"))
        assert len(self.file_sizes("checkpoint")) <= 2

    def all_events(self) -> list[EventsStored]:
        return [record for record in self.stored if isinstance(record, EventsStored) and record.deliveries]

    def kept(self) -> list[EventsStored]:
        return [record for record in self.all_events() if record.position >= self.journal.first_position]


JournalAgainstList.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestJournalAgainstList = JournalAgainstList.TestCase


class JournalInMemoryAgainstList(JournalAgainstList):
    """The same on the simulator's disk."""

    def new_disk(self) -> SimulatedDisk:
        return SimulatedDisk()


TestJournalInMemoryAgainstList = JournalInMemoryAgainstList.TestCase
TestJournalInMemoryAgainstList.settings = settings(JournalAgainstList.TestCase.settings, max_examples=300)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal[Record]]:
    journal, _ = opened(tmp_path / "log", SMALL)
    with journal:
        yield journal


def test_every_kind_of_record_comes_back(tmp_path: Path) -> None:
    subscription = SubscriptionStored("s", TENANT, "news", "a < 1", Requested(keep_last=3), 7, "https://example.org")
    matched = EventsStored(
        1, TENANT, "news", 1.5, 2.5, [b'{"a":"\xc3\xa9"}'], "p", 4, subscriptions=[["s", "t"]], batch=9
    )
    filled(tmp_path, [[subscription, matched], [cursor(3)]])
    assert recovered(tmp_path) == [subscription, matched, cursor(3)]


class Letters:
    """Records of another kind of node: texts. A capital is an event, whose position is its place in the alphabet."""

    def encode(self, record: str) -> bytes:
        return record.encode()

    def decode(self, body: bytes | memoryview) -> str:
        return str(body, "ascii")

    def span(self, record: str) -> Span | None:
        return Span("capitals", ord(record), ord(record), FOREVER) if record.isupper() else None


def test_records_of_any_kind_can_be_stored(tmp_path: Path) -> None:
    with Journal(tmp_path, Letters()) as journal:
        assert list(journal.recover()) == []
        journal.append("aBcD", sync=True)
        assert journal.read("capitals", -1) == (["B", "D"], ord("D"), True, -1, -1)
        assert journal.read("capitals", ord("B")).records == ["D"]
        assert journal.read("others", -1).records == []
    with Journal(tmp_path, Letters()) as journal:
        assert list(journal.recover()) == list("aBcD")
        assert (journal.first_position, journal.last_position) == (ord("B"), ord("D"))


def test_streams_that_share_a_block_are_told_apart(tmp_path: Path) -> None:
    records: list[Record] = [events(number, topic=TOPICS[number % 2]) for number in range(6)]
    journal, _ = opened(tmp_path)
    with journal:
        journal.append(records, sync=False)
        assert read_all(journal, TOPICS[0]) == records[::2]
        assert read_all(journal, TOPICS[1]) == records[1::2]


def test_losses_of_events_that_were_published_here_are_noted_apart(tmp_path: Path) -> None:
    own, imported = events(0), msgspec.structs.replace(events(1), origin="another log", origin_positions=[7])
    journal, _ = opened(tmp_path, JournalOptions(segment_bytes=1, retention_bytes=1))
    stream, own_part = stream_of(TENANT, "news"), own_part_of(TENANT, "news")
    with journal:
        for record in (own, imported, events(2)):
            journal.append([record], sync=True)
        journal.checkpoint([])
        journal.checkpoint([])
        journal.trim(0.0)
        assert journal.read(stream, -1).lost_before == 1
        assert journal.read(stream, -1, losses_of=own_part).lost_before == 0
        assert journal.read(stream, 0, losses_of=own_part).lost_before == -1, "only what came from elsewhere is gone"
    journal, _ = opened(tmp_path)
    with journal:
        assert journal.read(stream, -1, losses_of=own_part).lost_before == 0


def test_a_piece_has_a_limit_of_records(tmp_path: Path) -> None:
    with Journal(tmp_path, Letters(), JournalOptions(piece_records_max=2)) as journal:
        list(journal.recover())
        journal.append("ABxCDE", sync=False)
        pieces = [journal.read("capitals", after)[:3] for after in (-1, ord("B"), ord("D"))]
        assert pieces == [(["A", "B"], ord("B"), False), (["C", "D"], ord("D"), False), (["E"], ord("E"), True)]


def test_a_batch_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    large: list[Record] = [events(number, payload=b"x" * 200) for number in range(1, 4)]
    filled(tmp_path, [[cursor(0)], large, [cursor(4)]], SMALL)
    assert [path.stat().st_size > 600 for path in sorted(tmp_path.glob("segment-*"))] == [False, True, False]
    assert recovered(tmp_path) == [cursor(0), *large, cursor(4)]


def test_a_checkpoint_is_due_once_a_new_segment_has_begun(journal: Journal[Record]) -> None:
    journal.append([events(0, payload=b"x" * 200)], sync=False)
    assert not journal.is_due_for_checkpoint
    journal.append([events(1, payload=b"x" * 200)], sync=False)
    assert journal.is_due_for_checkpoint
    journal.checkpoint([])
    assert not journal.is_due_for_checkpoint


def grow(journal: Journal[Record], count: int, topic: str, expires_at: float = FOREVER) -> None:
    """So many segments of one event."""
    for _ in range(count):
        journal.append(
            [events(journal.last_position + 1, topic=topic, expires_at=expires_at, payload=b"x" * 200)], sync=False
        )


def test_retention_by_size_says_what_is_lost_and_remembers_it(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path, SMALL)
    with journal:
        grow(journal, 1, "quiet", expires_at=1.0)
        grow(journal, 9, "news")
        journal.checkpoint([])
        journal.trim(now=2.0)
        assert journal.size_bytes <= SMALL.retention_bytes
        assert journal.first_position > 1
        lost = journal.first_position - 1
        assert read(journal, "quiet", -1) == ([], 9, True, -1, 0)
        assert read(journal, "news", lost - 1).lost_before == lost
        assert read(journal, "news", lost).lost_before == -1
        first = journal.first_position
    journal, _ = opened(tmp_path, SMALL)
    with journal:
        assert (journal.first_position, journal.last_position) == (first, 9)
        assert read(journal, "news", -1).lost_before == lost
        assert [record.position for record in read_all(journal, "news")] == list(range(first, 10))


def test_retention_by_lifespan(journal: Journal[Record]) -> None:
    grow(journal, 2, "news", expires_at=5.0)
    journal.checkpoint([])
    journal.trim(now=4.9)
    assert journal.first_position == 0
    journal.trim(now=5.0)
    assert journal.first_position == 1  # the last segment is written, and stays


def test_nothing_is_removed_that_the_checkpoint_before_the_last_needs(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path, SMALL)
    with journal:
        grow(journal, 6, "news", expires_at=1.0)
        journal.trim(now=2.0)
        assert journal.first_position == 0
        journal.checkpoint([Reached(5)])
        grow(journal, 6, "news", expires_at=1.0)
        journal.checkpoint([Reached(11)])
        journal.trim(now=2.0)
        assert journal.first_position == 5
    newest = max(tmp_path.glob("checkpoint-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    found = recovered(tmp_path)
    assert found[0] == Reached(5)
    assert [record.position for record in found[1:] if isinstance(record, EventsStored)] == list(range(6, 12))


def test_a_rare_topic_is_read_without_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, _ = opened(tmp_path, replace(SMALL, block_bytes=100))
    grow(journal, 50, "busy")
    grow(journal, 1, "rare")
    grow(journal, 50, "busy")
    sizes: list[int] = []
    blocks = Journal._read_block

    def counted(self: Journal[Record], start: int, end: int) -> Iterator[tuple[Record, int]]:
        sizes.append(end - start)
        return blocks(self, start, end)

    monkeypatch.setattr(Journal, "_read_block", counted)
    piece = read(journal, "rare", -1)
    assert [record.position for record in piece.records] == [50]
    assert piece[1:] == (100, True, -1, -1)
    assert sum(sizes) < 300


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(journal_format, "FORMAT", 2)
        filled(tmp_path, [[cursor(0)]])
    with pytest.raises(JournalError, match="has format 2, but this version of Fieldfare reads format 1"):
        recovered(tmp_path)


def test_a_record_that_is_unknown_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, [[]])
    path = tmp_path / "segment-000000000001.log"
    path.write_bytes(path.read_bytes() + journal_format.framed([b"\x91\xa1?"]))
    with pytest.raises(JournalError, match="is whole, but unknown to this version"):
        recovered(tmp_path)


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "segment-000000000001.log").write_bytes(b"something else altogether")
    with pytest.raises(JournalFailedError, match=r"segment-000000000001\.log: damaged at byte 0"):
        recovered(tmp_path)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.tmp", "segment-copy.log", "checkpoint-1.log"):
        (tmp_path / name).write_text("mine")
    filled(tmp_path, [[cursor(0)]])
    assert recovered(tmp_path) == [cursor(0)]
    assert {path.read_text() for path in tmp_path.iterdir() if path.name.count("0") < 3} == {"mine"}


@pytest.mark.parametrize("name", ["segment-000000000002.log", "segment-000000000001.log", "segment-000000000003.log"])
def test_a_missing_segment_is_loud(tmp_path: Path, name: str) -> None:
    journal, _ = opened(tmp_path, SMALL)
    with journal:
        grow(journal, 3, "news")
        if name.endswith("3.log"):
            journal.checkpoint([])
    (tmp_path / name).unlink()
    with pytest.raises(JournalFailedError, match="is missing"):
        recovered(tmp_path)


def test_it_is_recovered_before_it_is_used(tmp_path: Path) -> None:
    with Journal(tmp_path, EDGE_RECORDS) as journal, pytest.raises(JournalError, match="recover it first"):
        journal.append([cursor(0)], sync=True)
