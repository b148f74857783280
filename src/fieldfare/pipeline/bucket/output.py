"""An output in an object store, where nothing can be renamed: a conditional put of one small object commits a batch.

    batch_id=7/part-*.parquet      rows, as tasks left them; only those that the commit names are part of the output
    _commits/0000000000000000007   the commit of batch 7: which objects it has. Who puts it first has committed
    _fieldfare.json                whose output this is: batch ids count within one checkpoint

Tasks put their objects under names that nobody else uses, and what an attempt left that was not counted is removed
once its batch is committed; until then it might still be somebody's. Before a batch begins, the checkpoint gives it a
plan: a random name that is durable. A commit carries it. So a driver that finds its batch committed knows whether it
was this batch of this checkpoint, which it adopts, or that of a copy whose batches are others, and then it ends.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from fieldfare.durable import NewFile, flush_folder, make_folder
from fieldfare.errors import BucketError, BucketUnavailableError, OutputError
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.bucket.objects import Objects
from fieldfare.pipeline.output_owner import OWNER, owner_of, require_owner
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.writer import EventWriter, WriteOptions, output_errors
from fieldfare.store.outputs import BATCH_ID, Commit, CommittedBatch, WrittenFile

_COMMITS = "_commits"
_PLANS_KEPT = 100  # Spark asks again for the last batch only


class BucketCommit(Commit, frozen=True):
    """The record of a commit. Keys count from the output's place."""

    plan: str
    quarantine: str | None = None  # the object with what could not be matched


@dataclass(frozen=True, slots=True)
class BucketTasks:
    """How tasks write: into objects below a place."""

    bucket: Bucket
    write: WriteOptions

    def writer(self, stage_folder: str | Path) -> BucketWriter:
        """A writer for one task."""
        return BucketWriter(Objects(self.bucket), str(stage_folder), self.write)


class BucketWriter(EventWriter):
    """An object, which is there when it is closed. Until then its bytes are in a file without a name."""

    def __init__(self, objects: Objects, stage: str, options: WriteOptions) -> None:
        super().__init__(stage, options)
        self._objects = objects
        self._key = f"{stage}/part-{uuid.uuid4().hex}.parquet"

    def _open(self) -> IO[bytes]:
        return tempfile.TemporaryFile()

    def _finish(self, file: IO[bytes]) -> tuple[str, int]:
        nbytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._objects.upload(self._key, file)
        file.close()
        return self._key, nbytes

    def _remove(self) -> None:
        """Nothing has a name before it is complete."""


class BucketOutput:
    """The driver's side of an output. `owner` is an id that lives as long as the checkpoint, which `state` is in."""

    def __init__(self, bucket: Bucket, owner: str, state: Path, *, explode: bool = False) -> None:
        self._bucket, self._objects = bucket, Objects(bucket)
        self._owner = owner_of(owner, explode=explode)
        self._plans = state / "plans"

    def prepare(self) -> None:
        """Take the output over from earlier runs; an error if it is not this checkpoint's."""
        with output_errors(self._plans):
            make_folder(self._plans)
        found = self._objects.read(OWNER)
        if found is None:
            self._require_empty()
            content = msgspec.json.encode(self._owner)
            self._objects.create(OWNER, content)
            if self._objects.create(OWNER, content):
                raise BucketError(
                    f"{self._bucket}: it puts a second object in the place of the first although it was told not to "
                    "(If-None-Match), so two commits of a batch could not be told apart: use another object store"
                )
            found = self._objects.read(OWNER) or b""
        require_owner(self._bucket, found, self._owner)

    def task_options(self, write: WriteOptions) -> BucketTasks:
        """How tasks write."""
        return BucketTasks(self._bucket, write)

    def is_committed(self, batch_id: int) -> bool:
        """Whether a batch is there. An error if it is a batch of a copy of this checkpoint."""
        commit = self._commit(batch_id)
        if commit is None:
            return False
        self._require_planned(commit)
        return True

    def stage(self, batch_id: int) -> str:
        """Where the tasks of a batch write."""
        self._plan(batch_id, make=True)
        return f"{BATCH_ID}={batch_id}"

    def commit(
        self,
        batch_id: int,
        files: Sequence[WrittenFile],
        quarantine: Sequence[BadEvent] = (),
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a batch visible, all at once; one that was committed before stays as it is."""
        commit = BucketCommit(
            batch_id=batch_id,
            committed_at=datetime.now(UTC),
            rows=sum(file.rows for file in files),
            matches=sum(file.matches for file in files),
            quarantined=len(quarantine),
            bytes=sum(file.nbytes for file in files),
            files=tuple(files),
            note=dict(note or {}),
            plan=self._plan(batch_id, make=True),
            quarantine=self._buried(batch_id, quarantine),
        )
        if not self._objects.create(_commit_key(batch_id), msgspec.json.encode(commit)):
            found = self._commit(batch_id)
            if found is None:
                raise BucketUnavailableError(f"{self._bucket}: batch {batch_id} is and is not there: it is tried again")
            self._require_planned(found)
            commit = found
        with suppress(BucketError):  # the batch is there; what else is there is not seen by readers
            self._remove_uncounted(commit)
        for plan in self._plans.glob("[0-9]*"):
            if int(plan.name.partition(".")[0]) < batch_id - _PLANS_KEPT:
                plan.unlink(missing_ok=True)

    def read_commit(self, batch_id: int) -> CommittedBatch | None:  # noqa: ARG002 - read_output does that
        """A batch cannot be read back as a folder."""
        return None

    def close(self) -> None:
        """There is nothing to let go of."""

    def _require_empty(self) -> None:
        """Raise an error if others have put something here."""
        other = next((found.key for found in self._objects.below() if not found.key.startswith("_")), None)
        if other is not None:
            raise OutputError(
                f"{self._bucket} has {other!r}, but no {OWNER} that says whose output it is: "
                "use a place where nothing is, or restore that object"
            )

    # Plans and commits

    def _plan(self, batch_id: int, *, make: bool) -> str:
        """What this checkpoint calls a batch; empty if it has not been begun."""
        path = self._plans / str(batch_id)
        with output_errors(self._plans):
            if make and not path.exists():
                plan = uuid.uuid4().hex
                draft = path.with_name(f"{batch_id}.{plan}")
                with NewFile(draft) as file:
                    file.write(plan.encode())
                with suppress(FileExistsError):  # another driver on this checkpoint was faster: its plan is ours
                    path.hardlink_to(draft)
                draft.unlink()
            flush_folder(self._plans)
            return path.read_text(encoding="ascii") if path.exists() else ""

    def _commit(self, batch_id: int) -> BucketCommit | None:
        content = self._objects.read(_commit_key(batch_id))
        return None if content is None else _decoded(f"{self._bucket}/{_commit_key(batch_id)}", content)

    def _require_planned(self, commit: BucketCommit) -> None:
        if commit.plan != self._plan(commit.batch_id, make=False):
            raise BucketError(
                f"{self._bucket}: batch {commit.batch_id} is there, and is not the one that this checkpoint has begun: "
                "the checkpoint is an old copy, or a driver on another copy writes here; use the checkpoint that "
                "belongs to the output, or a new checkpoint and a new place"
            )

    def _buried(self, batch_id: int, quarantine: Sequence[BadEvent]) -> str | None:
        if not quarantine:
            return None
        key = f"{BATCH_ID}={batch_id}/_quarantine-{uuid.uuid4().hex}.jsonl"
        self._objects.upload(key, b"".join(msgspec.json.encode(fault) + b"\n" for fault in quarantine))
        return key

    def _remove_uncounted(self, commit: BucketCommit) -> None:
        counted = {file.path for file in commit.files} | {commit.quarantine}
        there = self._objects.below(f"{BATCH_ID}={commit.batch_id}/")
        self._objects.delete(found.key for found in there if found.key not in counted)


def commits(bucket: Bucket, after: int = -1) -> Iterator[BucketCommit]:
    """The commits of an output after a batch, in order."""
    objects = Objects(bucket)
    for found in objects.below(_COMMITS, _commit_key(after) if after >= 0 else None):
        content = objects.read(found.key)
        if content is not None:
            yield _decoded(f"{bucket}/{found.key}", content)


def _commit_key(batch_id: int) -> str:
    """The name of a commit; names sort as batches do."""
    return f"{_COMMITS}/{batch_id:019d}"


def _decoded(place: str, content: bytes) -> BucketCommit:
    try:
        return msgspec.json.decode(content, type=BucketCommit)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OutputError(f"{place}: not a record of a commit: {error}") from error
