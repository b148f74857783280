"""The log of the batches that the pipeline plans itself, in its checkpoint.

A batch is written down before its commit begins, so if that was cut short, the same events are in the same batch again.
Whether it was committed, the output knows. Spark's own log of a streaming query does the same in two files a batch, for
which it starts ten programs (`chmod`, `readlink`), and needs a job to say which events a batch has; here it is two
flushes.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from fieldfare.durable import NewFile, flush_folder
from fieldfare.errors import PipelineError
from fieldfare.pipeline.sources import Position
from fieldfare.pipeline.writer import output_errors

_BEGUN, _DONE = "batch.json", "batch_done.json"


class PlannedBatch(msgspec.Struct, frozen=True):
    """A batch: the events from one position of the source to another."""

    batch_id: int
    start: Position
    end: Position


class BatchLog:
    """The last batch whose commit began, and whether it is done. `state` is a folder inside the checkpoint."""

    def __init__(self, state: Path) -> None:
        self._begun_path, self._done_path = state / _BEGUN, state / _DONE

    @property
    def exists(self) -> bool:
        """Whether the commit of a batch has begun."""
        return self._begun_path.exists()

    def last(self) -> PlannedBatch | None:
        """The last batch whose commit began."""
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


def _read(path: Path) -> PlannedBatch:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PlannedBatch)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: it is damaged ({error}): restore it, or start with a new checkpoint") from error
