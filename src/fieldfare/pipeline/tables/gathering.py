"""An output that others read as a lake table: batches gather in a folder, and go into the table in one commit, once.

    CHECKPOINT/fieldfare/gathered/batch_id=7/    committed as in an output folder, and not in the table yet
    CHECKPOINT/fieldfare/quarantine/7.jsonl      what could not be matched, once the batch is in the table

A commit of a lake table costs tens of milliseconds and a few files, so small batches gather first. They are safe
meanwhile: the folder has each of them once. The table says in the same commit, by a marker of this checkpoint, up to
which batch it has them. An append is made on exactly the version of the table whose marker was read, and never
repeated by the library: where somebody was faster, the marker is read again, and tells what is left to do.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.durable import make_folder, rename
from fieldfare.errors import OutputError, TableChangedError, TableError, TableUnavailableError
from fieldfare.pipeline.output import QUARANTINE, OutputFolder
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.writer import WriteOptions, output_errors
from fieldfare.store.outputs import BATCH_ID, CommittedBatch, WrittenFile, batch_folder

NONE_YET = -1  # where the id of the last batch is asked for
_OVERTAKEN_MAX = 20  # appends in a row that somebody else's commit overtook


class LakeTable(Protocol):
    """A table that others may write too."""

    def marker(self) -> int:
        """The last batch that is in the table's newest version; NONE_YET. An append builds on that version."""
        ...

    def append(self, rows: pa.RecordBatchReader, marker: int) -> None:
        """Add rows and move the marker, in one commit. TableChangedError: the table is not as it was, do it again."""
        ...

    def tidy(self) -> None:
        """Remove what was kept of old versions, if there are many."""
        ...


class GatheredOutput:
    """The driver's side of an output. `state` is the checkpoint's folder, `owner` an id that lives as long."""

    def __init__(
        self, table: LakeTable, state: Path, owner: str, commit_seconds: float, *, explode: bool = False
    ) -> None:
        self._table = table
        self._folder = OutputFolder(state / "gathered", owner, explode=explode)
        self._quarantine = state / "quarantine"
        self._commit_seconds = commit_seconds
        self._lock = threading.Lock()  # the folder and the table are used by one thread at a time
        self._appended = NONE_YET
        self._appended_at = 0.0
        self._failure: TableError | None = None
        self._ending = threading.Event()
        self._appender = threading.Thread(target=self._append_when_due, name="append-to-table", daemon=True)

    def prepare(self) -> None:
        """Take the table over from earlier runs, and finish what they left."""
        self._folder.prepare()
        make_folder(self._quarantine)
        self._append_gathered()
        self._appender.start()

    def task_options(self, write: WriteOptions) -> WriteOptions:
        """How tasks write: as for a folder."""
        return self._folder.task_options(write)

    def is_committed(self, batch_id: int) -> bool:
        """Whether a batch is in the table or gathered. An error if what is there cannot be of this checkpoint."""
        with self._lock:
            self._raise_failure()
            if self._appended > batch_id:
                raise TableError(
                    f"batch {self._appended} is in the table, but the checkpoint is at batch {batch_id}: it is an "
                    "older copy, or another driver writes here; use a new checkpoint and a new table"
                )
            return self._appended == batch_id or self._folder.is_committed(batch_id)

    def stage(self, batch_id: int) -> str:
        """A new folder for the tasks of a batch to write into."""
        return self._folder.stage(batch_id)

    def commit(
        self,
        batch_id: int,
        files: Sequence[WrittenFile],
        quarantine: Sequence[BadEvent] = (),
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep a batch; the table has it within `commit_seconds`."""
        with self._lock:
            self._folder.commit(batch_id, files, quarantine, note)

    def read_commit(self, batch_id: int) -> CommittedBatch | None:  # noqa: ARG002 - whoever reads it, reads the table
        """A batch cannot be read back by its id alone."""
        return None

    def close(self) -> None:
        """Append what has gathered. If the table is away, that is done at the next start."""
        if not self._appender.is_alive():
            return  # it was not begun, or has failed for good
        self._ending.set()
        self._appender.join()
        with suppress(TableUnavailableError, OutputError):
            self._append_gathered()

    # From the folder into the table

    def _append_when_due(self) -> None:
        """Also when no batch comes any more, what has gathered must appear."""
        while not self._ending.wait(min(1.0, self._commit_seconds)):
            if time.monotonic() - self._appended_at < self._commit_seconds:
                continue
            try:
                self._append_gathered()
            except (TableUnavailableError, OutputError):
                self._appended_at = time.monotonic()  # it is tried again as if it were new
            except TableError as error:
                self._failure = error
                return

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _append_gathered(self) -> None:
        """Bring the table up to what has gathered, and remove that."""
        with self._lock, output_errors(self._folder.folder):
            overtaken = 0
            self._appended = self._table.marker()
            while files := self._next_files():
                marker = files[-1][0]
                try:
                    self._table.append(_rows_of(files), marker)
                    self._appended = marker
                except TableChangedError as error:
                    overtaken += 1
                    if overtaken >= _OVERTAKEN_MAX:
                        raise TableUnavailableError(f"others change the table all the time: {error}") from error
                    self._appended = self._table.marker()
            self._remove(batch_id for batch_id in self._folder.batches() if batch_id <= self._appended)
            self._table.tidy()
            self._appended_at = time.monotonic()

    def _next_files(self) -> list[tuple[int, Path]]:
        """The files of the batches that are not in the table, with their ids, as far as they have the same columns."""
        found: list[tuple[int, Path]] = []
        schema: pa.Schema | None = None
        for batch_id in self._folder.batches():
            if batch_id <= self._appended:
                continue
            batch = self._folder.read_commit(batch_id)
            paths = [batch.folder / file.path for file in batch.files]
            schemas = [pq.read_schema(path) for path in paths]
            schema = schema or next(iter(schemas), None)
            if any(each != schema for each in schemas):
                break
            found += [(batch_id, path) for path in paths]
        return found

    def _remove(self, batch_ids: Iterable[int]) -> None:
        for batch_id in batch_ids:
            folder = batch_folder(self._folder.folder, batch_id)
            if (folder / QUARANTINE).exists():
                rename(folder / QUARANTINE, self._quarantine / f"{batch_id}.jsonl")
            shutil.rmtree(folder)


def _rows_of(files: Sequence[tuple[int, Path]]) -> pa.RecordBatchReader:
    """The rows of some files, a row group at a time, each with the id of its batch."""
    schema = _with_batch_id(pq.read_schema(files[0][1]))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch_id, path in files:
            for rows in pq.ParquetFile(path).iter_batches():
                ids = pa.repeat(pa.scalar(batch_id, pa.int64()), rows.num_rows)
                yield pa.RecordBatch.from_arrays([*rows.columns, ids], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _with_batch_id(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata().append(pa.field(BATCH_ID, pa.int64()))
