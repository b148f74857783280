from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.errors import JournalFullError
from fieldfare.messages import EDGE_RECORDS, CursorsMoved, EventsStored, Fetched, Record, stream_of
from fieldfare.simulation.clock import Clock
from fieldfare.simulation.disk import OPTIONS, RECORDS_PER_FETCH, SimulatedDisk, SimulatedLog
from fieldfare.store.journal import Journal, JournalOptions

STREAM = stream_of("x", "t")


class Confirmed:
    """What a log said about the records it was given."""

    def __init__(self, log: SimulatedLog) -> None:
        self.stored: list[int] = []
        self.failed: list[tuple[int, str]] = []
        log.on_stored = self.stored.append
        log.on_failure = lambda number, reason: self.failed.append((number, reason))


def new_log(seed: int = 0, options: JournalOptions = OPTIONS) -> tuple[Clock, SimulatedLog, Confirmed]:
    clock = Clock()
    log = SimulatedLog(clock, random.Random(seed), options=options)
    return clock, log, Confirmed(log)


def events(position: int, topic: str = "t", count: int = 1) -> EventsStored:
    return EventsStored(position, "x", topic, at=0.0, expires_at=1.0, deliveries=[b"{}"] * count)


def test_what_waits_while_a_flush_is_under_way_shares_the_next_one() -> None:
    clock, log, confirmed = new_log()
    for number in range(10):
        log.append(number, events(number))
    assert confirmed.stored == []
    clock.run_for(1.0)
    assert confirmed.stored == [0, 9]
    assert log.read() == [events(number) for number in range(10)]


@given(st.integers(0, 10_000), st.lists(st.tuples(st.floats(0, 0.004), st.booleans()), max_size=20))
def test_a_crash_keeps_what_is_confirmed_and_of_the_rest_only_a_beginning(
    seed: int, appends: list[tuple[float, bool]]
) -> None:
    clock, log, confirmed = new_log(seed)
    durable = -1
    for number, (pause, is_durable) in enumerate(appends):
        log.append(number, events(number), is_durable=is_durable)
        clock.run_for(pause)
        stored = confirmed.stored[-1] if confirmed.stored else -1
        durable = max([durable, *(each for each in range(stored + 1) if appends[each][1])])
    log.crash()
    records = log.read()
    assert records == [events(number) for number in range(len(records))]
    assert len(records) > durable
    assert log.fetch("r", STREAM, -1).records == records[:RECORDS_PER_FETCH]
    clock.run_for(1.0)
    assert log.read() == records  # what was under way for the old life does nothing in the new one


def test_a_crash_may_lose_and_may_keep_what_was_under_way() -> None:
    kept = set()
    for seed in range(50):
        _, log, _ = new_log(seed)
        for number in range(3):
            log.append(number, events(number))
        log.crash()
        kept.add(len(log.read()))
    assert kept == {0, 1, 2, 3}


def test_a_full_disk_stores_nothing_and_says_so_until_there_is_room() -> None:
    clock, log, confirmed = new_log()
    log.failure = "no space left"
    log.append(0, events(0))
    log.append(1, events(1))
    clock.run_for(1.0)
    assert (confirmed.stored, confirmed.failed) == ([], [(1, "no space left")])
    log.failure = None
    log.append(2, events(2))
    clock.run_for(1.0)
    assert confirmed.stored == [2]
    assert log.read() == [events(2)]


def test_a_checkpoint_stands_for_all_before_it_but_the_events_stay_readable() -> None:
    clock, log, _ = new_log()
    log.append(0, events(0))
    log.append(1, CursorsMoved("x", {"s": 0}))
    clock.run_for(1.0)
    checkpoint: list[Record] = [CursorsMoved("x", {"s": 0, "u": 0})]
    log.checkpoint(checkpoint)
    log.append(2, events(1))
    clock.run_for(1.0)
    assert log.read() == [*checkpoint, events(1)]
    assert log.fetch("r", STREAM, -1).records == [events(0), events(1)]


@given(st.lists(st.tuples(st.sampled_from("tu"), st.integers(1, 3)), max_size=80), st.integers(-1, 30))
def test_fetching_piece_by_piece_gives_every_event_of_the_topic_after_the_position(
    batches: list[tuple[str, int]], after: int
) -> None:
    clock, log, _ = new_log()
    position = 0
    for number, (topic, count) in enumerate(batches):
        log.append(number, events(position, topic, count))
        position += count
    clock.run_for(1.0)
    got: list[Record] = []
    reached, is_end = after, False
    while not is_end:
        piece = log.fetch("r", STREAM, reached)
        got += piece.records
        is_end = piece.position >= position - 1
        assert is_end or piece.position > reached
        reached = piece.position
    expected = [record for record in log.read() if isinstance(record, EventsStored) and record.topic == "t"]
    assert got == [record for record in expected if record.position + len(record.deliveries) - 1 > after]
    assert reached == max(after, position - 1)


def test_what_retention_took_is_said_to_be_lost() -> None:
    clock, log, _ = new_log(options=JournalOptions(segment_bytes=1, retention_bytes=200))  # of two segments
    for number in range(6):
        log.append(number, events(number))
        clock.run_for(1.0)
    log.checkpoint([])
    log.trim(now=0.5)
    piece = log.fetch("r", STREAM, -1)
    assert (piece.records, piece.lost_before) == ([events(4), events(5)], 3)


def test_retention_takes_what_has_expired_and_nothing_is_lost_by_it() -> None:
    clock, log, _ = new_log(options=JournalOptions(segment_bytes=1))
    for number in range(3):
        log.append(number, events(number))
        clock.run_for(1.0)
    log.checkpoint([])
    log.trim(now=1.0)
    piece = log.fetch("r", STREAM, -1)
    assert (piece.records, piece.lost_before) == ([events(2)], -1)  # the last segment stays


def test_a_log_that_nobody_uses_costs_little_and_says_that_it_is_empty() -> None:
    clock, rng = Clock(), random.Random(0)
    tracemalloc.start()
    logs = [SimulatedLog(clock, rng) for _ in range(1000)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(logs) < 500
    log = logs[0]
    log.crash()
    log.trim(now=0.0)
    assert log.read() == []
    assert log.fetch("r", STREAM, 7) == Fetched("r", [], 7)


def test_nothing_is_stored_after_a_failed_flush_until_the_node_starts_again() -> None:
    clock, log, confirmed = new_log()
    log.append(0, events(0))
    clock.run_for(1.0)
    log.flush_failure = "the disk is broken"
    log.append(1, events(1))
    clock.run_for(1.0)
    log.flush_failure = None
    log.append(2, events(2), is_durable=False)
    clock.run_for(1.0)
    assert (confirmed.stored, confirmed.failed) == ([0], [(1, "the disk is broken"), (2, "the disk is broken")])
    log.crash()
    assert log.read() in ([events(0)], [events(0), events(1)])
    log.append(3, events(3))
    clock.run_for(1.0)
    assert confirmed.stored == [0, 3]


def test_a_checkpoint_that_a_full_disk_refuses_changes_nothing() -> None:
    clock, log, _ = new_log()
    log.append(0, events(0))
    clock.run_for(1.0)
    log.failure = "no space left"
    log.checkpoint([CursorsMoved("x", {})])
    log.failure = None
    assert (log.read(), log.appended_since_checkpoint) == ([events(0)], 1)


def test_a_crash_may_end_inside_a_record() -> None:
    kept = set()
    for seed in range(200):
        disk = SimulatedDisk()
        file = disk.create("segment", 1, b"head")
        file.append(b"flushed")
        file.flush()
        file.append(b"written")
        disk.crash(random.Random(seed))
        kept.add(bytes(disk.read("segment", 1)))
    assert kept == {b"headflushed" + b"written"[:size] for size in range(8)}


def test_a_full_disk_takes_a_part_of_a_write_which_the_journal_removes() -> None:
    disk = SimulatedDisk()
    journal = Journal(disk, EDGE_RECORDS)
    assert list(journal.recover()) == []
    journal.append([events(0)], sync=False)
    disk.failure = "no space left"
    with pytest.raises(JournalFullError, match="no space left"):
        journal.append([events(1), events(2)], sync=True)
    assert len(disk.read("segment", 1)) == journal.size_bytes
    disk.failure = None
    journal.append([events(3)], sync=True)
    disk.crash(random.Random(0))
    assert list(Journal(disk, EDGE_RECORDS).recover()) == [events(0), events(3)]


# Disks that are not as they were


def test_a_snapshot_holds_what_was_durable_and_can_be_restored_again_and_again() -> None:
    clock, log, _ = new_log()
    log.append(0, events(0))
    clock.run_for(1.0)
    log.append(1, events(1), is_durable=False)
    clock.run_for(1.0)
    snapshot = log.snapshot()
    log.append(2, events(2))
    clock.run_for(1.0)
    for number in (3, 4):
        log.crash()
        log.restore(snapshot)
        assert log.read() == [events(0)]
        assert log.fetch("r", STREAM, -1).records == [events(0)]
        log.append(number, events(number))
        clock.run_for(1.0)
        assert log.read() == [events(0), events(number)]
    assert snapshot.taken_at == clock.now - 3.0


def test_a_wiped_disk_is_empty_and_as_full_or_broken_as_before() -> None:
    clock, log, confirmed = new_log()
    log.append(0, events(0))
    clock.run_for(1.0)
    log.failure = "no space left"
    log.crash()
    log.wipe()
    assert log.read() == []
    assert log.fetch("r", STREAM, -1) == Fetched("r", [], -1)
    log.append(1, events(1))
    clock.run_for(1.0)
    assert confirmed.failed == [(1, "no space left")]


def test_it_is_told_which_streams_lost_living_events() -> None:
    clock, log, _ = new_log(options=JournalOptions(segment_bytes=1, retention_bytes=300))
    removed: list[str] = []
    log.on_removed = removed.append
    for number in range(9):
        log.append(number, events(number, "tuv"[number % 3]))
        clock.run_for(1.0)
    log.checkpoint([])
    log.trim(now=0.5)
    assert sorted(removed) == [stream_of("x", topic) for topic in "tuv"]
    log.trim(now=0.5)
    assert len(removed) == 3
    log.append(9, events(9))
    clock.run_for(1.0)
    log.checkpoint([])
    log.trim(now=99.0)  # by now all have expired
    assert len(removed) == 3
