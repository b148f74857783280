"""Batches that the pipeline plans itself: one is planned and matched while the one before it is committed.

Commits follow each other: the next one begins when it is certain that the last one is there. So at most one batch can
be in doubt after a crash, the last in the log. What was matched meanwhile is thrown away then, and planned anew.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fieldfare.pipeline.batch_log import BatchLog, PlannedBatch
from fieldfare.pipeline.sources import BatchPlanner

_IDLE_SECONDS_MIN, _IDLE_SECONDS_MAX = 0.01, 0.1  # from one question whether there is something new to the next
Matched = TypeVar("Matched")


class BatchWork(Protocol[Matched]):
    """What is done with batches."""

    def process(self, batch: PlannedBatch, /) -> None:
        """Match and commit a batch that may be committed already."""
        ...

    def match(self, batch: PlannedBatch, /) -> Matched:
        """Match a batch and stage what it comes to."""
        ...

    def commit(self, matched: Matched, /) -> None:
        """Commit what was staged."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """When batches begin: a minimal time after the one before, and whether to end when there is nothing new."""

    interval_seconds: float
    until_idle: bool
    stopping: threading.Event

    @property
    def idle_seconds(self) -> float:
        """How long to wait where there is nothing new."""
        return min(max(self.interval_seconds / 5, _IDLE_SECONDS_MIN), _IDLE_SECONDS_MAX)


def run_batches(planner: BatchPlanner, log: BatchLog, work: BatchWork[Matched], pace: Pace) -> None:
    """Process batches until stopped, or idle. One that was being committed at a crash comes first, as it was planned.

    A commit that fails ends this: called again, it finds out how that commit ended.
    """
    if pace.until_idle:
        planner.stop_at_latest()
    batch = log.last()
    if batch is not None and batch != log.last_done():
        work.process(batch)
        log.finish(batch)

    def commit(batch: PlannedBatch, matched: Matched) -> None:
        log.begin(batch)
        work.commit(matched)
        log.finish(batch)
        planner.show(batch.end)

    batch_id, position = (0, planner.beginning()) if batch is None else (batch.batch_id + 1, batch.end)
    with ThreadPoolExecutor(1, "commit") as committer:  # leaving it waits for the commit under way
        before: Future[None] = committer.submit(lambda: None)
        due = time.monotonic()
        while not pace.stopping.wait(max(0.0, due - time.monotonic())):
            if before.done():
                before.result()  # raises what went wrong
            due = time.monotonic() + pace.interval_seconds
            end = planner.end_after(position)
            if end == position:
                if pace.until_idle:
                    break
                due = time.monotonic() + pace.idle_seconds
                continue
            batch = PlannedBatch(batch_id, position, end)
            matched = work.match(batch)
            before.result()
            before = committer.submit(commit, batch, matched)
            batch_id, position = batch_id + 1, end
        before.result()
