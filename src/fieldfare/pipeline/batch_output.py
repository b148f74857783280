"""What the pipeline needs of an output: tasks stage what belongs to a batch, and the driver commits it, once.

A folder of Parquet files is one (`output.py`), Kafka topics are another (`kafka/output.py`), and there
are tables (`tables/`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.writer import WriteOptions
from fieldfare.store.outputs import CommittedBatch, WrittenFile


class TaskWriter(Protocol):
    """Writes what one attempt of a task has, into a file of its own. Leaving it by an error removes the file."""

    faults: list[BadEvent]  # events that cannot be written

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, events: pa.RecordBatch, subscription_ids: pa.ListArray) -> None:
        """Add events, and for each the ids of the subscriptions it satisfies."""
        ...

    def close(self) -> WrittenFile | None:
        """Finish the file; None if there is nothing in it, and so there is no file."""
        ...


class TaskOptions(Protocol):
    """How tasks write; it travels to them."""

    def writer(self, stage_folder: str | Path) -> TaskWriter:
        """A writer for one task."""
        ...


class BatchOutput(Protocol):
    """The driver's side of an output."""

    def prepare(self) -> None:
        """Take the output over from earlier runs; an error if it is not this pipeline's."""
        ...

    def task_options(self, write: WriteOptions) -> TaskOptions:
        """How tasks write."""
        ...

    def is_committed(self, batch_id: int) -> bool:
        """Whether a batch is there, and durably so."""
        ...

    def stage(self, batch_id: int) -> str:
        """A new folder for the tasks of a batch to write into."""
        ...

    def commit(
        self,
        batch_id: int,
        files: Sequence[WrittenFile],
        quarantine: Sequence[BadEvent] = (),
        note: Mapping[str, Any] | None = None,
    ) -> CommittedBatch | None:
        """Make a batch visible, all at once. None where it cannot be read back."""
        ...

    def read_commit(self, batch_id: int) -> CommittedBatch | None:
        """What was committed as a batch. None where it cannot be read back."""
        ...

    def close(self) -> None:
        """Let go of what was opened."""
        ...
