from __future__ import annotations

import errno
import multiprocessing
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.errors import InputError
from fieldfare.pipeline import ledger as ledger_module
from fieldfare.pipeline.ledger import EventFile, FileList, Ledger, Slice, divided


def files(*rows: int) -> list[EventFile]:
    return [EventFile(f"file {number} é.parquet", 100, count, 7) for number, count in enumerate(rows)]


def places(ledger: Ledger, start: int, end: int) -> list[tuple[str, int]]:
    """Each event by its file and row."""
    slices = ledger.slices(start, end)
    return [(part.name, row) for part in slices for row in range(part.first_row, part.first_row + part.rows)]


@given(st.lists(st.integers(0, 5), max_size=12), st.data())
def test_numbers_name_each_row_of_each_file_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[int], data: st.DataObject
) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "files.jsonl")
    ledger.append(files(*rows))
    expected = [(file.name, row) for file in files(*rows) for row in range(file.rows)]
    assert ledger.events == len(expected)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(expected)))))
    edges = [0, *cuts, len(expected)]
    parts = [places(ledger, low, high) for low, high in pairwise(edges)]
    ledger.close()
    assert [place for part in parts for place in part] == expected
    assert [len(part) for part in parts] == [high - low for low, high in pairwise(edges)]


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint" / "files.jsonl"
    first = Ledger(path)
    first.append(files(3, 0, 2))
    first.append([EventFile("bad.parquet", 5, 1, 8, fault="no footer")])
    before = list(first.slices(1, 6))
    first.close()
    second = Ledger(path)
    assert list(second.slices(1, 6)) == before
    assert before[-1].fault == "no footer"
    assert "bad.parquet" in second
    assert "other.parquet" not in second
    second.close()


def test_a_last_line_torn_at_any_byte_is_dropped_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "files.jsonl"
    whole = Ledger(path)
    whole.append(files(2, 3, 4))
    whole.close()
    content = path.read_bytes()
    ends = list(accumulate(len(line) for line in content.splitlines(keepends=True)))
    for length in range(len(content)):
        path.write_bytes(content[:length])
        torn = Ledger(path)
        kept = sum(end <= length for end in ends)
        assert torn.events == sum((2, 3, 4)[:kept])
        torn.append(files(2, 3, 4)[kept:])
        torn.close()
        assert path.read_bytes() == content


def test_damage_before_the_last_line_is_loud(tmp_path: Path) -> None:
    path = tmp_path / "files.jsonl"
    path.write_bytes(b'{"name":"a","bytes":1,"rows":1,"appended_at":1}\n{"name":"b","by\n')
    with pytest.raises(InputError, match="line 2 is damaged"):
        Ledger(path)
    assert path.read_bytes().count(b"\n") == 2


def test_a_checkpoint_that_knows_more_than_the_ledger_is_an_error(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.append(files(3))
    with pytest.raises(InputError, match="has read 4 events, but this ledger names only 3"):
        list(ledger.slices(2, 4))
    ledger.close()


def test_files_count_only_when_they_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "files.jsonl"
    ledger = Ledger(path)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            ledger.append(files(3))
    assert ledger.events == 0
    ledger.close()
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            Ledger(path)  # what the last run wrote may not be durable either


def _open(path: Path) -> None:
    Ledger(path).append([EventFile("theirs", 1, 1, 1)])


def test_only_one_process_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "files.jsonl"
    ours = Ledger(path)
    monkeypatch.setattr(ledger_module, "_LOCK_SECONDS_MAX", 0.2)
    with pytest.raises(InputError, match="another run uses this checkpoint"):
        Ledger(path)
    monkeypatch.setattr(ledger_module, "_LOCK_SECONDS_MAX", 60)
    other = multiprocessing.get_context("spawn").Process(target=_open, args=(path,))
    other.start()
    ours.append(files(3))
    ours.close()
    other.join(60)
    assert other.exitcode == 0
    after = Ledger(path)
    assert after.events == 4
    after.close()


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 5))
def test_tasks_share_events_evenly_and_in_order(rows: list[int], tasks: int) -> None:
    slices = [Slice(str(number), 9, 7, None, 2, count) for number, count in enumerate(rows) if count]
    groups = divided(slices, tasks)
    events = [
        [(part.name, row) for part in group for row in range(part.first_row, part.first_row + part.rows)]
        for group in groups
    ]
    assert [event for group in events for event in group] == [
        (part.name, 2 + row) for part in slices for row in range(part.rows)
    ]
    assert len(groups) == tasks
    assert max(map(len, events)) - min(map(len, events)) <= 1


def test_others_read_what_is_complete(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.append(files(3, 4))
    with ledger.path.open("ab") as torn:
        torn.write(b'{"name": "half')
    read = FileList.read(ledger.path)
    assert read.events == 7
    assert list(read.slices(2, 5)) == list(ledger.slices(2, 5))
    ledger.close()
