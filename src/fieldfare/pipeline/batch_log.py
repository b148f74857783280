"""Batches that the pipeline plans itself, one after the other, and the log of them in its checkpoint.

A batch is written down before it begins, so after a crash the same events are in the same batch. Whether it was
committed, the output knows. Spark's own log of a streaming query does the same in two files a batch, for which it
starts ten programs (`chmod`, `readlink`), and needs a job to say which events a batch has; here it is two flushes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fieldfare.durable import NewFile, flush_folder
from fieldfare.errors import PipelineError
from fieldfare.pipeline.sources import BatchPlanner, Position
from fieldfare.pipeline.writer import output_errors

_IDLE_SECONDS_MIN, _IDLE_SECONDS_MAX = 0.01, 0.1  # from one question whether there is something new to the next
_BEGUN, _DONE = "batch.json", "batch_done.json"


class PlannedBatch(msgspec.Struct, frozen=True):
    """A batch: the events from one position of the source to another."""

    batch_id: int
    start: Position
    end: Position


class BatchLog:
    """The last batch that began, and whether it is done. `state` is a folder inside the checkpoint."""

    def __init__(self, state: Path) -> None:
        self._begun_path, self._done_path = state / _BEGUN, state / _DONE

    @property
    def exists(self) -> bool:
        """Whether a batch has begun."""
        return self._begun_path.exists()

    def last(self) -> PlannedBatch | None:
        """The last batch that began."""
        if not self.exists:
            return None
        flush_folder(self._begun_path.parent)  # the run that wrote it may have been killed before it did this
        return _read(self._begun_path)

    def last_done(self) -> PlannedBatch | None:
        """The last batch of which it is known that it is committed."""
        return _read(self._done_path) if self._done_path.exists() else None

    def begin(self, batch: PlannedBatch) -> None:
        """Write down what a batch has; that is durable when this returns."""
        with output_errors(self._begun_path), NewFile(self._begun_path) as file:
            file.write(msgspec.json.encode(batch))

    def finish(self, batch: PlannedBatch) -> None:
        """Remember that a batch is committed. If the machine forgets it, the output still knows."""
        with output_errors(self._done_path):
            partial = self._done_path.with_suffix(".partial")
            partial.write_bytes(msgspec.json.encode(batch))
            partial.rename(self._done_path)


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


def run_batches(planner: BatchPlanner, log: BatchLog, process: Callable[[PlannedBatch], None], pace: Pace) -> None:
    """Plan and process batches until stopped, or idle. The one under way at a crash comes first, as it was planned."""
    if pace.until_idle:
        planner.stop_at_latest()
    batch = log.last()
    if batch is not None and batch != log.last_done():
        process(batch)
        log.finish(batch)
    batch_id, position = (0, planner.beginning()) if batch is None else (batch.batch_id + 1, batch.end)
    due = time.monotonic()
    while not pace.stopping.wait(max(0.0, due - time.monotonic())):
        due = time.monotonic() + pace.interval_seconds
        end = planner.end_after(position)
        if end == position:
            if pace.until_idle:
                return
            due = time.monotonic() + pace.idle_seconds
            continue
        batch = PlannedBatch(batch_id, position, end)
        log.begin(batch)
        process(batch)
        log.finish(batch)
        planner.show(end)
        batch_id, position = batch_id + 1, end


def _read(path: Path) -> PlannedBatch:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PlannedBatch)
    except msgspec.MsgspecError as error:
        raise PipelineError(f"{path}: it is damaged ({error}): restore it, or start with a new checkpoint") from error
