"""A crash at every byte leaves a beginning of the log with all that was promised; damage is never passed over."""

from __future__ import annotations

import logging
import random
import shutil
from pathlib import Path

import pytest
from tests.store.crashing_disk import Contents, CrashingDisk, without_flushes
from tests.store.journal_records import FOREVER, cursor, events, filled, opened, read, read_all, recovered

from fieldfare.errors import JournalError, JournalFailedError
from fieldfare.messages import EDGE_RECORDS, Position, Reached, Record
from fieldfare.store import journal_format
from fieldfare.store.journal import JournalOptions

OPTIONS = JournalOptions(segment_bytes=300, retention_bytes=600)


def records(first: int, count: int) -> list[Record]:
    """Each tells its place in the log."""
    return [events(number, payload=b'{"n":%d}' % number) for number in range(first, first + count)]


def check(folder: Path, promised: int) -> int:
    """How much of the log is there: a beginning of it, with all that was promised; and it can be written again."""
    journal, found = opened(folder, OPTIONS)
    with journal:
        before = 0
        if found and isinstance(found[0], Reached):
            before = found.pop(0).position  # type: ignore[union-attr]
        count = before + len(found)
        assert count >= promised
        assert found == records(before, len(found))
        assert read_all(journal, "news") == records(journal.first_position, count - journal.first_position)
        journal.append([cursor(count)], sync=True)
    assert recovered(folder)[-1] == cursor(count)
    return count


def restore(folder: Path, state: Contents) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in state:
        (folder / name).write_bytes(data)


def crash_everywhere(disk: CrashingDisk, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Recover from each crash; how much there was, in all of them."""
    monkeypatch.undo()
    without_flushes(monkeypatch)  # nobody will cut the power now
    found = set()
    for promised, state in disk.states:
        restore(folder, state)
        found.add(check(folder, promised))
    return found


def test_crash_at_every_byte_of_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    filled(log, [records(0, 1)], OPTIONS)
    journal, _ = opened(log, OPTIONS)
    with journal:
        disk = CrashingDisk(log, monkeypatch)
        disk.promised = 1
        journal.append(records(1, 1), sync=False)
        journal.append(records(2, 2), sync=False)
        journal.append(records(4, 1), sync=True)
        disk.promised = 5
        disk.crash()
    assert crash_everywhere(disk, tmp_path / "crashed", monkeypatch) == {1, 2, 3, 4, 5}


def test_crash_at_every_byte_of_a_segment_roll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    journal, _ = opened(log, OPTIONS)
    with journal:
        journal.append(records(0, 3), sync=True)
        disk = CrashingDisk(log, monkeypatch)
        disk.promised = 3
        journal.append(records(3, 1), sync=False)
        journal.append(records(4, 3), sync=True)
        disk.promised = 7
        disk.crash()
        assert journal.is_due_for_checkpoint
    assert crash_everywhere(disk, tmp_path / "crashed", monkeypatch) == {3, 4, 5, 6, 7}


def test_crash_at_every_byte_of_the_first_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.mkdir()
    disk = CrashingDisk(log, monkeypatch)
    journal, _ = opened(log, OPTIONS)
    with journal:
        journal.append(records(0, 2), sync=True)
        disk.promised = 2
        disk.crash()
    assert crash_everywhere(disk, tmp_path / "crashed", monkeypatch) == {0, 1, 2}


def test_crash_at_every_byte_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    journal, _ = opened(log, OPTIONS)
    with journal:
        for number in range(0, 6, 2):
            journal.append(records(number, 2), sync=True)
            journal.checkpoint([Reached(number + 2)])
        disk = CrashingDisk(log, monkeypatch)
        disk.promised = 6
        journal.append(records(6, 1), sync=False)
        journal.checkpoint([Reached(7)])
        disk.promised = 7
        journal.append(records(7, 1), sync=True)
        disk.promised = 8
        disk.crash()
    assert crash_everywhere(disk, tmp_path / "crashed", monkeypatch) == {6, 7, 8}


@pytest.mark.parametrize("is_expired", [False, True])
def test_crash_at_every_byte_of_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_expired: bool) -> None:
    log = tmp_path / "log"
    journal, _ = opened(log, OPTIONS)
    with journal:
        for number in range(0, 20, 2):
            journal.append(records(number, 2), sync=True)
        journal.checkpoint([Reached(20)])
        disk = CrashingDisk(log, monkeypatch)
        disk.promised = 20
        journal.trim(2 * FOREVER if is_expired else 0.0)
        assert min(log.glob("segment-*")).name > "segment-000000000002"  # two are gone, or more
    assert crash_everywhere(disk, tmp_path / "crashed", monkeypatch) == {20}
    for _, state in disk.states:
        first, lost = loss(tmp_path / "crashed", state)
        assert lost == -1 if is_expired else lost >= first - 1


def loss(folder: Path, state: Contents) -> tuple[Position, Position]:
    """The first event that is there, and the last that a reader is told to be lost."""
    restore(folder, state)
    journal, _ = opened(folder)
    with journal:
        return journal.first_position, read(journal, "news", -1).lost_before


def test_what_was_recovered_once_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed leaves what it wrote, but nobody has flushed it."""
    log = tmp_path / "log"
    filled(log, [records(0, 1)], OPTIONS)
    disk = CrashingDisk(log, monkeypatch)
    with (log / "segment-000000000001.log").open("ab") as file:
        file.write(journal_format.framed([EDGE_RECORDS.encode(record) for record in records(1, 2)]) + b"torn")
    journal, _ = opened(log, OPTIONS)
    with journal:
        disk.promised = 3
        disk.crash()
    assert crash_everywhere(disk, tmp_path / "crashed", monkeypatch) == {1, 3}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three segments, the last with two batches of two records, and two checkpoints before it."""
    without_flushes(monkeypatch)
    folder = tmp_path / "log"
    journal, _ = opened(folder, JournalOptions(segment_bytes=440))
    with journal:
        for number in range(0, 16, 2):
            journal.append(records(number, 2), sync=True)
            if number in (2, 8):
                journal.checkpoint([Reached(number + 2)])
    last = max(folder.glob("segment-*"))
    assert last.name == "segment-000000000003.log"
    assert b'{"n":11}' not in last.read_bytes()
    return folder


def start_of(data: bytes, number: int) -> int:
    """The byte where the frame of a record begins."""
    return data.index(journal_format.framed([EDGE_RECORDS.encode(records(number, 1)[0])])[8:]) - 8


def test_the_last_segment_cut_off_at_every_byte(log: Path, tmp_path: Path) -> None:
    last = max(log.glob("segment-*"))
    data = last.read_bytes()
    counts = []
    for size in range(start_of(data, 12), len(data)):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(log, copy)
        (copy / last.name).write_bytes(data[:size])
        counts.append(check(copy, 12))
    assert counts == sorted(counts)
    assert set(counts) == {12, 13, 14, 15}


@pytest.mark.parametrize("which", [0, 1])
def test_a_checkpoint_cut_off_at_every_byte_is_replaced_by_the_other(log: Path, tmp_path: Path, which: int) -> None:
    path = sorted(log.glob("checkpoint-*"))[which]
    data = path.read_bytes()
    for size in range(len(data)):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(log, copy)
        (copy / path.name).write_bytes(data[:size])
        assert check(copy, 16) == 16


def test_a_flipped_bit_is_loud_unless_it_may_be_of_a_torn_write(log: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    last = max(log.glob("segment-*"))
    for path in sorted(log.glob("segment-*")):
        data = path.read_bytes()
        doubtful = start_of(data, 14) if path == last else len(data)
        for byte in range(len(data)):
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(log, copy)
            flipped = data[byte] ^ 1 << rng.randrange(8)
            (copy / path.name).write_bytes(data[:byte] + bytes([flipped]) + data[byte + 1 :])
            if byte >= doubtful:
                assert check(copy, 14) in (14, 15)
            else:
                with pytest.raises(JournalError, match=path.name):
                    recovered(copy)


def test_a_torn_tail_is_noted_and_damage_names_its_byte(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = max(log.glob("segment-*"))
    data = last.read_bytes()
    last.write_bytes(data[:-1])
    with caplog.at_level(logging.WARNING):
        recovered(log)
    assert f"{last}: " in caplog.text
    assert "bytes of an unfinished write are cut off" in caplog.text
    first = min(log.glob("segment-*"))
    data = first.read_bytes()
    place = data.index(b'{"n":2}')
    first.write_bytes(data[:place] + b"!" + data[place + 1 :])
    with pytest.raises(JournalFailedError, match=rf"{first}: damaged at byte \d+: restore the log's folder"):
        recovered(log)


def test_a_segment_before_the_last_cut_off_at_any_byte_is_loud(log: Path) -> None:
    for path in sorted(log.glob("segment-*"))[:-1]:
        data = path.read_bytes()
        for size in range(len(data)):
            path.write_bytes(data[:size])
            with pytest.raises(JournalFailedError, match=path.name):
                recovered(log)
        path.write_bytes(data)


def test_a_log_shorter_than_its_checkpoint_is_loud(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path)
    with journal:
        journal.append(records(0, 2), sync=True)
        journal.checkpoint([Reached(2)])
    path = tmp_path / "segment-000000000001.log"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JournalFailedError, match=path.name):
        recovered(tmp_path)


def test_damage_is_found_when_it_is_read(log: Path) -> None:
    journal, _ = opened(log, OPTIONS)
    with journal:
        first = min(log.glob("segment-*"))
        data = first.read_bytes()
        first.write_bytes(data.replace(b'{"n":2}', b'{"n":3}'))
        with pytest.raises(JournalFailedError, match="damaged at byte"):
            read_all(journal, "news")
        first.write_bytes(data)
        assert read_all(journal, "news") == records(0, 16)
