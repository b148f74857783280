"""Batches that the pipeline plans itself: a crash in any phase, held against a source that goes on growing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fieldfare.errors import PipelineError
from fieldfare.pipeline.backlog import last_committed
from fieldfare.pipeline.batch_log import BatchLog, Pace, PlannedBatch, run_batches
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


def run(
    folder: Path, source: Growing, process: Callable[[PlannedBatch], None], stopping: threading.Event | None = None
) -> None:
    pace = Pace(0.0, until_idle=stopping is None, stopping=stopping or threading.Event())
    run_batches(source, BatchLog(folder), process, pace)


def test_a_batch_that_was_under_way_is_run_again_as_it_was_planned(tmp_path: Path) -> None:
    source = Growing()
    seen: list[PlannedBatch] = []
    stopping = threading.Event()

    def crash_in_the_third(batch: PlannedBatch) -> None:
        seen.append(batch)
        if batch.batch_id == 2:
            raise CrashError

    with pytest.raises(CrashError):
        run(tmp_path, source, crash_in_the_third, stopping)

    def stop_after_it(batch: PlannedBatch) -> None:
        seen.append(batch)
        if batch.batch_id == 3:
            stopping.set()

    source.there += 1_000
    run(tmp_path, source, stop_after_it, stopping)
    assert [(batch.batch_id, batch.start["n"], batch.end["n"]) for batch in seen] == [
        (0, 0, 7),
        (1, 7, 14),
        (2, 14, 21),
        (2, 14, 21),  # though more is there by now
        (3, 21, 31),
    ]
    assert source.shown == [{"n": 7}, {"n": 14}, {"n": 31}]
    assert BatchLog(tmp_path).last_done() == seen[-1]


def test_what_is_done_is_not_run_again_and_idleness_ends_it(tmp_path: Path) -> None:
    source = Growing()
    source.there = 25
    seen: list[int] = []
    for _ in range(2):
        run(tmp_path, source, lambda batch: seen.append(batch.batch_id))
    assert seen == [0, 1, 2]
    (tmp_path / "batch_done.json").unlink()  # the machine forgot it: the output will know
    run(tmp_path, source, lambda batch: seen.append(batch.batch_id))
    assert seen == [0, 1, 2, 2]


def test_others_see_what_is_committed(tmp_path: Path) -> None:
    (tmp_path / "fieldfare").mkdir()
    source = Growing()
    source.there = 12
    assert last_committed(tmp_path) is None
    run(tmp_path / "fieldfare", source, lambda _: None)
    assert last_committed(tmp_path) == (1, {"n": 12})


def test_a_damaged_log_is_loud(tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_text('{"batch_id": 1')
    with pytest.raises(PipelineError, match="damaged"):
        run(tmp_path, Growing(), lambda _: None)
