"""The output of the pipeline: a folder of Parquet files in which each batch appears once, whole, or not at all.

    batch_id=7/part-*.parquet      what readers see: a table partitioned by batch_id
    batch_id=7/_commit.json        what was committed; with _quarantine.jsonl where events could not be matched
    _fieldfare.json                whose output this is: batch ids count within one checkpoint
    _staging-<run>/7-<attempt>/    where tasks write; every attempt of a task has a file of its own

Only files that successful tasks name are moved into a fresh folder, which becomes `batch_id=7` by one rename: no task
that lingers can reach it, and of two commits of a batch one finds that it came second. A run that starts renames the
staging folders of earlier runs before removing them, so that what is left of those can commit nothing any more.
"""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from fieldfare.durable import UnflushedError, flush_file, flush_folder, make_folder, rename
from fieldfare.errors import OutputError
from fieldfare.pipeline.output_owner import OWNER, owner_of, require_owner
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.writer import EventWriter, WriteOptions, output_errors
from fieldfare.store.outputs import (
    COMMIT,
    Commit,
    CommittedBatch,
    WrittenFile,
    batch_folder,
    committed_batches,
    read_commit,
)

__all__ = ["CommittedBatch", "EventWriter", "OutputFolder", "WriteOptions", "WrittenFile"]

QUARANTINE = "_quarantine.jsonl"
_STAGING = "_staging-"
_NO_DATA = ("_", ".", "lost+found")  # what may be in a folder that is empty for its users


class OutputFolder:
    """The driver's side of an output. `owner` is an id that lives as long as the checkpoint does."""

    def __init__(self, folder: Path, owner: str, *, explode: bool = False) -> None:
        self.folder = folder.absolute()  # tasks have working folders of their own
        self._owner = owner_of(owner, explode=explode)
        self._staging = self.folder / f"{_STAGING}{uuid.uuid4().hex}"

    def prepare(self) -> None:
        """Take the folder over from earlier runs; an error if it is not this pipeline's."""
        with output_errors(self.folder):
            make_folder(self.folder)
            is_new = not self._is_ours()
            for leftover in self.folder.glob(f"{_STAGING}*"):
                shutil.rmtree(leftover.rename(self.folder / f"{_STAGING}{uuid.uuid4().hex}"))
            self._staging.mkdir()
            if is_new:
                _write(self._staging / OWNER, _json(self._owner))
                rename(self._staging / OWNER, self.folder / OWNER)

    def task_options(self, write: WriteOptions) -> WriteOptions:
        """How tasks write: as they are told."""
        return write

    def is_committed(self, batch_id: int) -> bool:
        """Whether a batch is there, and durably so."""
        with output_errors(self.folder):
            is_there = batch_folder(self.folder, batch_id).exists()
            if is_there:
                flush_folder(self.folder)  # the run that committed it may have been killed before it did this
        return is_there

    def stage(self, batch_id: int) -> str:
        """A new folder for the tasks of a batch to write into."""
        stage = self._staging / f"{batch_id}-{uuid.uuid4().hex}"
        with output_errors(self.folder):
            stage.mkdir()
        return str(stage)

    def commit(
        self,
        batch_id: int,
        files: Sequence[WrittenFile],
        quarantine: Sequence[BadEvent] = (),
        note: Mapping[str, Any] | None = None,
    ) -> CommittedBatch:
        """Make a batch visible, all at once; one that was committed before stays as it is."""
        try:
            with output_errors(self.folder):
                self._publish(self._assembled(batch_id, files, quarantine, note or {}), batch_id)
        finally:
            for stage in self._staging.glob(f"{batch_id}-*"):
                shutil.rmtree(stage, ignore_errors=True)  # a task may linger; the next run removes what is left
        return self.read_commit(batch_id)

    def remove(self, batch_id: int) -> None:
        """Remove a committed batch, all at once."""
        doomed = self._staging / f"removed-{batch_id}-{uuid.uuid4().hex}"
        batch_folder(self.folder, batch_id).rename(doomed)
        shutil.rmtree(doomed)

    def close(self) -> None:
        """There is nothing to let go of."""

    def batches(self) -> list[int]:
        """The ids of the committed batches, ascending."""
        return committed_batches(self.folder)

    def read_commit(self, batch_id: int) -> CommittedBatch:
        """What was committed as a batch."""
        return read_commit(self.folder, batch_id)

    def _is_ours(self) -> bool:
        """Whether an earlier run of this pipeline wrote here; False if nobody did."""
        try:
            content = (self.folder / OWNER).read_bytes()
        except FileNotFoundError:
            others = [entry.name for entry in self.folder.iterdir() if not entry.name.startswith(_NO_DATA)]
            if not others:
                return False
            raise OutputError(
                f"{self.folder} has {others[0]!r}, but no {OWNER} that says whose output it is: "
                "use an empty folder, or restore that file"
            ) from None
        require_owner(self.folder, content, self._owner)
        return True

    def _assembled(
        self, batch_id: int, files: Sequence[WrittenFile], quarantine: Sequence[BadEvent], note: Mapping[str, Any]
    ) -> Path:
        """A new folder that has all that the batch is to have, durably."""
        folder = self._staging / f"{batch_id}-{uuid.uuid4().hex}"
        folder.mkdir()
        parts = []
        for number, file in enumerate(files):
            staged, part = Path(file.path), f"part-{number:05d}-{uuid.uuid4().hex}.parquet"
            if staged.stat().st_size != file.nbytes:
                raise OutputError(f"{staged} is not as its task left it: the batch is not committed; write it again")
            staged.rename(folder / part)
            parts.append(msgspec.structs.replace(file, path=part))
        if quarantine:
            _write(folder / QUARANTINE, b"".join(msgspec.json.encode(fault) + b"\n" for fault in quarantine))
        commit = Commit(
            batch_id=batch_id,
            committed_at=datetime.now(UTC),
            rows=sum(part.rows for part in parts),
            matches=sum(part.matches for part in parts),
            quarantined=len(quarantine),
            bytes=sum(part.nbytes for part in parts),
            files=tuple(parts),
            note=dict(note),
        )
        _write(folder / COMMIT, _json(commit))
        flush_folder(folder)
        return folder

    def _publish(self, assembled: Path, batch_id: int) -> None:
        target = batch_folder(self.folder, batch_id)
        try:
            rename(assembled, target)
        except UnflushedError:
            with suppress(OSError):
                target.rename(assembled)  # not known to be durable, so it must not be taken for committed
            raise
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            flush_folder(self.folder)  # another commit of this batch was faster


def _json(record: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record)) + b"\n"


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        flush_file(file)
