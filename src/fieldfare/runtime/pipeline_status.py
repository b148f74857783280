"""How far a topic's pipeline is behind: the files that were handed over, and that no batch has matched yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class PipelineStatus(NamedTuple):
    """A pipeline as the service sees it. Batches are counted since the start."""

    topic: str
    is_running: bool
    waiting_events: int
    waiting_files: int
    oldest_seconds: float | None  # since the oldest of those files was written; None: there is none
    batches: int
    batch_seconds: float  # of all of them together: from when a batch's first file was written to its commit
    last_batch_seconds: float | None
    trouble: str | None  # why events are not matched now


class WaitingFile(NamedTuple):
    """A file that was handed over."""

    events: int
    written_at: float


@dataclass(slots=True)
class HandedFiles:
    """The files of one topic, by their marks, and the batches that had them."""

    waiting: dict[str, WaitingFile] = field(default_factory=dict)
    batches: int = 0
    batch_seconds: float = 0.0
    last_batch_seconds: float | None = None

    def written(self, mark: str, events: int, now: float) -> None:
        """A file is there. One without events only shows that the pipeline is at work."""
        if events:
            self.waiting[mark] = WaitingFile(events, now)

    def matched(self, marks: list[str], now: float) -> None:
        """A batch had these files to their ends."""
        had = [file for mark in marks if (file := self.waiting.pop(mark, None)) is not None]
        if had:
            self.last_batch_seconds = max(0.0, now - min(file.written_at for file in had))
            self.batches += 1
            self.batch_seconds += self.last_batch_seconds

    def status(self, topic: str, trouble: str | None, now: float) -> PipelineStatus:
        """How it is now."""
        files = self.waiting.values()
        oldest = min((file.written_at for file in files), default=None)
        return PipelineStatus(
            topic,
            trouble is None,
            sum(file.events for file in files),
            len(files),
            None if oldest is None else max(0.0, now - oldest),
            self.batches,
            self.batch_seconds,
            self.last_batch_seconds,
            trouble,
        )
