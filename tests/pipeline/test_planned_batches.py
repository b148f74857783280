"""Batches that the pipeline plans itself: a crash in any phase, held against a source that goes on growing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fieldfare.errors import PipelineError
from fieldfare.pipeline.backlog import last_committed
from fieldfare.pipeline.batch_log import BatchLog, PlannedBatch
from fieldfare.pipeline.planned_batches import Pace, run_batches
from fieldfare.pipeline.sources import Position


class Growing:
    """A source of numbers, at most 10 in a batch, that has 7 more whenever it is asked."""

    def __init__(self) -> None:
        self.there = 0
        self.is_complete = False
        self.shown: list[Position] = []

    def beginning(self) -> Position:
        return {"n": 0}

    def stop_at_latest(self) -> None:
        self.is_complete = True

    def end_after(self, start: Position) -> Position:
        self.there += 0 if self.is_complete else 7
        return {"n": min(start["n"] + 10, self.there)}

    def batch(self, *_: Any) -> Any:
        raise NotImplementedError

    def show(self, end: Position) -> None:
        self.shown.append(end)


class CrashError(Exception):
    pass


def nothing(_: PlannedBatch) -> None:
    pass


@dataclass
class Work:
    """Notes what is done, and does what it is told to in each phase."""

    on_match: Callable[[PlannedBatch], None] = nothing
    on_commit: Callable[[PlannedBatch], None] = nothing
    on_process: Callable[[PlannedBatch], None] = nothing
    matched: list[PlannedBatch] = field(default_factory=list)
    committed: list[PlannedBatch] = field(default_factory=list)

    def process(self, batch: PlannedBatch) -> None:
        self.on_process(batch)
        self.matched.append(batch)
        self.committed.append(batch)

    def match(self, batch: PlannedBatch) -> PlannedBatch:
        self.on_match(batch)
        self.matched.append(batch)
        return batch

    def commit(self, matched: PlannedBatch) -> None:
        self.on_commit(matched)
        self.committed.append(matched)


def run(folder: Path, source: Growing, work: Work, stopping: threading.Event | None = None) -> None:
    pace = Pace(0.0, until_idle=stopping is None, stopping=stopping or threading.Event())
    run_batches(source, BatchLog(folder), work, pace)


def ranges(batches: list[PlannedBatch]) -> list[tuple[int, int, int]]:
    return [(batch.batch_id, batch.start["n"], batch.end["n"]) for batch in batches]


def in_batch(batch_id: int, then: Callable[[], Any]) -> Callable[[PlannedBatch], None]:
    return lambda batch: then() if batch.batch_id == batch_id else None


def crash() -> None:
    raise CrashError


def test_a_batch_whose_commit_was_cut_short_comes_again_as_it_was_planned(tmp_path: Path) -> None:
    source, stopping = Growing(), threading.Event()
    with pytest.raises(CrashError):
        run(tmp_path, source, Work(on_commit=in_batch(2, crash)), stopping)
    source.there += 1_000
    again = Work(on_match=in_batch(3, stopping.set))
    run(tmp_path, source, again, stopping)
    assert ranges(again.committed) == [
        (2, 14, 21),  # though more is there by now
        (3, 21, 31),
    ]
    assert source.shown == [{"n": 7}, {"n": 14}, {"n": 31}]
    assert BatchLog(tmp_path).last_done() == again.committed[-1]


def test_a_batch_whose_commit_did_not_begin_is_planned_anew(tmp_path: Path) -> None:
    source, stopping = Growing(), threading.Event()
    first = Work(on_match=in_batch(2, crash))
    with pytest.raises(CrashError):
        run(tmp_path, source, first, stopping)
    assert ranges(first.committed) == [(0, 0, 7), (1, 7, 14)]  # what was being committed was finished
    source.there += 1_000
    again = Work(on_match=in_batch(2, stopping.set))
    run(tmp_path, source, again, stopping)
    assert ranges(again.committed) == [(2, 14, 24)]


def test_a_batch_is_matched_while_the_one_before_is_committed(tmp_path: Path) -> None:
    """And no further: its own commit waits until that one is done."""
    source = Growing()
    source.there = 40
    begun, may_end = threading.Event(), threading.Event()

    def hold(batch: PlannedBatch) -> None:
        if batch.batch_id == 0:
            begun.set()
            assert may_end.wait(30)

    work = Work(on_commit=hold)
    runner = threading.Thread(target=run, args=(tmp_path, source, work))
    runner.start()
    assert begun.wait(30)
    while len(work.matched) < 2:
        assert runner.is_alive()
    assert (ranges(work.matched), work.committed) == ([(0, 0, 10), (1, 10, 20)], [])
    last = BatchLog(tmp_path).last()
    assert last is not None
    assert last.batch_id == 0
    may_end.set()
    runner.join()
    assert ranges(work.committed) == [(0, 0, 10), (1, 10, 20), (2, 20, 30), (3, 30, 40)]
    assert work.committed == work.matched


def test_a_commit_that_fails_is_noticed_though_nothing_new_comes(tmp_path: Path) -> None:
    source = Growing()
    source.there, source.is_complete = 5, True
    with pytest.raises(CrashError):
        run(tmp_path, source, Work(on_commit=in_batch(0, crash)), threading.Event())


def test_what_is_done_is_not_run_again_and_idleness_ends_it(tmp_path: Path) -> None:
    source = Growing()
    source.there = 25
    work = Work()
    for _ in range(2):
        run(tmp_path, source, work)
    assert [batch.batch_id for batch in work.committed] == [0, 1, 2]
    (tmp_path / "batch_done.json").unlink()  # the machine forgot it: the output will know
    seen: list[PlannedBatch] = []
    run(tmp_path, source, Work(on_process=seen.append))
    assert seen == [work.committed[-1]]


def test_others_see_what_is_committed(tmp_path: Path) -> None:
    (tmp_path / "fieldfare").mkdir()
    source = Growing()
    source.there = 12
    assert last_committed(tmp_path) is None
    run(tmp_path / "fieldfare", source, Work())
    assert last_committed(tmp_path) == (1, {"n": 12})


def test_a_damaged_log_is_loud(tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_text('{"batch_id": 1')
    with pytest.raises(PipelineError, match="damaged"):
        run(tmp_path, Growing(), Work())
