"""The committed output of the pipeline, as readers see it: in its folder each batch appears once, whole, or not at all.

    batch_id=7/part-*.parquet      the rows: events, and the ids of the subscriptions they satisfy
    batch_id=7/_commit.json        what was committed

A batch becomes visible by one rename, so what is listed is complete. Only the pipeline writes: `pipeline.output`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.errors import OutputError

BATCH_ID = "batch_id"
SUBSCRIPTION_IDS = "subscription_ids"
COMMIT = "_commit.json"
_BATCH_NAME = re.compile(rf"{BATCH_ID}=(\d+)", re.ASCII)


class WrittenFile(msgspec.Struct, frozen=True):
    """A file of a batch."""

    path: str
    rows: int
    matches: int
    nbytes: int


class Commit(msgspec.Struct, frozen=True):
    """The record of a commit."""

    batch_id: int
    committed_at: datetime
    rows: int
    matches: int
    quarantined: int
    bytes: int
    files: tuple[WrittenFile, ...]
    note: dict[str, Any]


class CommittedBatch(Commit, frozen=True):
    """A batch that readers see. The paths of its files count from its folder."""

    folder: Path

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Its rows, or some columns of them; a batch that has no rows has no columns either."""
        if not self.files:
            return pa.table({})
        return pa.concat_tables(
            pq.read_table(self.folder / file.path, columns=columns, partitioning=None) for file in self.files
        )


def batch_folder(output: Path, batch_id: int) -> Path:
    """Where a batch is, or will be."""
    return output / f"{BATCH_ID}={batch_id}"


def committed_batches(output: Path, after: int = -1) -> list[int]:
    """The ids of the committed batches after one, ascending. They are committed in this order."""
    try:
        found = (_BATCH_NAME.fullmatch(entry.name) for entry in output.iterdir())
        return sorted(batch_id for name in found if name and (batch_id := int(name[1])) > after)
    except OSError as error:
        raise OutputError(f"{output}: its batches cannot be listed: {error.strerror or error}") from error


def read_commit(output: Path, batch_id: int) -> CommittedBatch:
    """What was committed as a batch."""
    folder = batch_folder(output, batch_id)
    try:
        commit = msgspec.json.decode((folder / COMMIT).read_bytes(), type=Commit)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OutputError(f"{folder / COMMIT}: not a record of a commit: {error}") from error
    return CommittedBatch(**msgspec.structs.asdict(commit), folder=folder)
