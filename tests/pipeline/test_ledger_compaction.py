"""The ledger's compaction: it forgets no file that could be read twice, and no event that is still to be read."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.store.crashing_disk import CrashingDisk

from fieldfare.errors import InputError
from fieldfare.pipeline import folder_data_source
from fieldfare.pipeline.folder_data_source import FolderDataSource
from fieldfare.pipeline.ledger import EventFile, FileList, Ledger, Slice

HOUR = 3600


def files(count: int, first: int = 0) -> list[EventFile]:
    return [EventFile(f"{number:03}.jsonl", 100, 2, 7) for number in range(first, first + count)]


def names(count: int, first: int = 0) -> set[str]:
    return {file.name for file in files(count, first)}


def slices_of(every: list[EventFile], start: int) -> list[Slice]:
    """The slow oracle: the places of all events from `start` on, in a ledger that forgets nothing."""
    found, first = [], 0
    for file in every:
        passed = max(0, start - first)
        if passed < file.rows:
            found.append(Slice(file.name, file.bytes, file.appended_at, file.fault, passed, file.rows - passed))
        first += file.rows
    return found


def test_consumed_files_that_are_gone_for_an_hour_are_forgotten(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.append(files(100))
    long = ledger.path.stat().st_size
    assert ledger.compact(190, names(5), 1_000)
    assert ledger.path.stat().st_size < long
    assert names(100) <= ledger_names(ledger)  # they may come back
    assert not ledger.compact(190, names(5), 1_000 + HOUR - 1)
    assert ledger.compact(190, names(5), 1_000 + HOUR)
    assert ledger_names(ledger) == names(5) | names(5, 95)
    assert ledger.path.stat().st_size < long / 5
    assert ledger.events == 200
    assert list(ledger.slices(191, 200)) == slices_of(files(100), 191)
    ledger.close()
    assert list(FileList.read(ledger.path).slices(190, 200)) == slices_of(files(100), 190)


def test_files_that_come_back_within_the_hour_are_not_read_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.append(files(10))
    ledger.compact(20, set(), 1_000)  # the folder's storage is away
    ledger.compact(20, names(10), 2_000)  # and comes back
    ledger.compact(20, set(), 1_000 + 2 * HOUR)  # it is away for the second time
    ledger.compact(20, set(), 1_000 + 3 * HOUR - 1)
    assert ledger_names(ledger) == names(10)
    ledger.compact(20, set(), 1_000 + 3 * HOUR)
    assert ledger_names(ledger) == set()
    assert ledger.events == 20
    ledger.close()


def test_a_checkpoint_from_before_the_compaction_is_an_error(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.append(files(3))
    ledger.compact(5, names(3), 1_000)
    assert list(ledger.slices(4, 6)) == slices_of(files(3), 4)
    assert list(ledger.slices(3, 3)) == []
    with pytest.raises(InputError, match="goes on behind event 3, but this ledger keeps places only from 4 on"):
        list(ledger.slices(3, 6))
    ledger.close()


def test_a_ledger_that_few_lines_can_be_saved_of_is_left_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.append(files(10))
    assert not ledger.compact(8, set(), 1_000)
    assert not ledger.compact(0, set(), 1_000)
    assert ledger.compact(10, set(), 1_000)
    ledger.close()


class Compactions(RuleBasedStateMachine):
    """Files come, are read and go, in any order; the oracle is a list of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.ledger = Ledger(self.folder / "files.jsonl")
        self.every: list[EventFile] = []
        self.present: set[str] = set()
        self.consumed = 0
        self.now = 1

    def teardown(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.folder)

    @rule(rows=st.lists(st.integers(0, 3), min_size=1, max_size=4))
    def find(self, rows: list[int]) -> None:
        found = [EventFile(f"{len(self.every) + place}", 9, count, 7) for place, count in enumerate(rows)]
        self.ledger.append(found)
        self.every += found
        self.present |= {file.name for file in found}

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.consumed = data.draw(st.integers(self.consumed, self.ledger.events))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.present:
            self.present -= set(data.draw(st.lists(st.sampled_from(sorted(self.present)), min_size=1)))

    @rule(seconds=st.sampled_from([1, HOUR - 1, HOUR]))
    def compact(self, seconds: int) -> None:
        self.now += seconds
        self.ledger.compact(self.consumed, self.present, self.now)

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger(self.ledger.path)

    @invariant()
    def what_is_to_be_read_is_where_it_was(self) -> None:
        for known in (self.ledger, FileList.read(self.ledger.path)):
            assert known.events == sum(file.rows for file in self.every)
            assert list(known.slices(self.consumed, known.events)) == slices_of(self.every, self.consumed)

    @invariant()
    def no_file_of_the_folder_is_taken_for_a_new_one(self) -> None:
        assert self.present <= ledger_names(self.ledger)


TestCompactions = Compactions.TestCase
TestCompactions.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_crash_at_any_step_leaves_the_old_ledger_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ledger").mkdir()
    ledger = Ledger(tmp_path / "ledger" / "files.jsonl")
    ledger.append(files(4))
    ledger.compact(4, set(), 1_000)
    with monkeypatch.context() as patch:
        disk = CrashingDisk(ledger.path.parent, patch)
        assert ledger.compact(6, names(1, first=2), 1_000 + HOUR)
        disk.promised = 1  # compacted
        ledger.append(files(1, first=4))
        disk.promised = 2  # and added to
        disk.crash()
    ledger.close()
    assert len(disk.states) > 100
    every = files(5)
    sizes: set[tuple[int, int]] = set()
    for number, (promised, contents) in enumerate(disk.states):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in contents:
            (folder / name).write_bytes(content)
        after = Ledger(folder / "files.jsonl")
        assert after.events in {8, 10}
        assert list(after.slices(6, after.events)) == slices_of(every[: after.events // 2], 6)
        assert names(2, first=2) <= ledger_names(after)
        assert promised < 1 or ledger_names(after) <= names(3, first=2)
        assert promised < 2 or after.events == 10
        after.append(files(1, first=9))
        assert [path.name for path in folder.iterdir()] == ["files.jsonl"]
        sizes.add((promised, len(after)))
        after.close()
    assert {(0, 5), (0, 3)} <= sizes  # the old one, and the new one


@pytest.mark.parametrize("fault", ["write_all", "flush_file", "flush_folder"])
def test_a_compaction_that_fails_ends_the_use_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.append(files(4))
    with monkeypatch.context() as patch:
        patch.setattr(f"fieldfare.durable.{fault}", fail)
        with pytest.raises(OSError, match="No space left"):
            ledger.compact(4, set(), 1_000)
    with pytest.raises(OSError, match="Bad file descriptor"):
        ledger.append(files(1, first=4))  # if the power fails now, the old file may stand there again
    ledger.close()
    after = Ledger(tmp_path / "files.jsonl")
    assert list(after.slices(4, 8)) == slices_of(files(4), 4)
    assert ledger_names(after) == names(4)
    after.close()


def test_others_wait_for_a_ledger_that_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldfare.pipeline.ledger._LOCK_SECONDS_MAX", 0.2)
    path = tmp_path / "files.jsonl"
    ours = Ledger(path)
    ours.append(files(4))
    assert ours.compact(8, set(), 1_000)
    with pytest.raises(InputError, match="another run uses this checkpoint"):
        Ledger(path)
    ours.close()
    Ledger(path).close()


def test_the_source_compacts_when_spark_has_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000.0]
    monkeypatch.setattr(folder_data_source, "_COMPACTED_FILES_MIN", 4)
    monkeypatch.setattr("time.time", lambda: clock[0])
    folder, ledger = tmp_path / "events", tmp_path / "ledger" / "files.jsonl"
    folder.mkdir()
    options = {"folder": str(folder), "ledger": str(ledger.parent), "file_format": "JSON_LINES"}
    reader: Any = FolderDataSource(options | {"events_per_batch_max": "100"}).simpleStreamReader(None)  # type: ignore[arg-type]
    offset = reader.initialOffset()
    for number in range(20):
        (folder / f"{number}.jsonl").write_text('{"id": 1}\n')
        rows, end = reader.read(offset)
        assert [row[0] for row in rows] == [f"{number}.jsonl"]
        reader.commit(offset)
        offset = end
        (folder / f"{number}.jsonl").unlink()
        clock[0] += HOUR / 2
    assert len(FileList.read(ledger)) < 10
    ((name, *_, first_row, rows_read),) = reader.readBetweenOffsets({"events": 19}, {"events": 20})
    assert (name, first_row, rows_read) == ("19.jsonl", 0, 1)
    with pytest.raises(InputError, match="has read 21 events, but this ledger names only 20"):
        reader.read({"events": 21})


def ledger_names(ledger: FileList) -> set[str]:
    return set(ledger._names)
