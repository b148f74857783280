"""An output that others read as a lake table: batches gather in a folder, and go into the table in one commit, once.

    CHECKPOINT/fieldfare/gathered/batch_id=7/    committed as in an output folder, and not in the table yet
    CHECKPOINT/fieldfare/quarantine/7.jsonl      what could not be matched, once the batch is in the table

A commit of a lake table costs tens of milliseconds and a few files, so small batches gather first. They are safe
meanwhile: the folder has each of them once. The table says in the same commit, by a marker of this checkpoint, up to
which batch it has them. An append is made on exactly the version of the table whose marker was read, and never
repeated by the library: where somebody was faster, the marker is read again, and tells what is left to do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from fieldfare.durable import make_folder, rename
from fieldfare.errors import FieldfareError, OutputError, TableChangedError, TableError, TableUnavailableError
from fieldfare.pipeline.output import QUARANTINE, OutputFolder
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.tables.reached import NONE_YET, Reached
from fieldfare.pipeline.writer import WriteOptions, output_errors
from fieldfare.store.outputs import BATCH_ID, CommittedBatch, WrittenFile, batch_folder

_OVERTAKEN_MAX = 20  # appends in a row that somebody else's commit overtook
_APPEND_BYTES = 512 << 20  # of files; what has gathered beyond that goes into the next commit
_POLL_SECONDS = (0.05, 1.0)  # at least and at most, from one look at what has gathered to the next
_TOLD_SECONDS = 30.0  # from one sentence about a table that is away to the next


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
        self,
        table: LakeTable,
        state: Path,
        owner: str,
        commit_seconds: float,
        *,
        explode: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._table = table
        self._folder = OutputFolder(state / "gathered", owner, explode=explode)
        self._quarantine = state / "quarantine"
        self._reached = Reached(state, str(table), str(table))
        self._commit_seconds = commit_seconds
        self._tell = tell
        self._told_at = -_TOLD_SECONDS
        self._lock = threading.Lock()  # the folder and `_appended` go together
        self._appended = NONE_YET
        self._appended_at = 0.0
        self._failure: FieldfareError | None = None
        self._ending = threading.Event()
        self._appender: threading.Thread | None = None  # appends between `prepare` and `close`, alone

    def prepare(self) -> None:
        """Take the table over from earlier runs, and finish what they left."""
        self._folder.prepare()
        make_folder(self._quarantine)
        self._append_gathered()
        self._appender = threading.Thread(target=self._append_when_due, name="append-to-table", daemon=True)
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
        """Append what has gathered. An error if that cannot be done now; then it is done at the next start."""
        if self._appender is None:
            return  # it was not begun
        self._ending.set()
        self._appender.join()
        self._raise_failure()
        try:
            self._append_gathered()
        except (TableUnavailableError, OutputError) as error:
            if waiting := self._folder.batches():
                raise TableUnavailableError(f"{error}; {self._waiting(waiting)} at the next start") from error

    # From the folder into the table

    def _append_when_due(self) -> None:
        """Also when no batch comes any more, what has gathered must appear."""
        least, most = _POLL_SECONDS
        while not self._ending.wait(min(most, max(least, self._commit_seconds))):
            if time.monotonic() - self._appended_at < self._commit_seconds or not self._folder.batches():
                continue
            try:
                self._append_gathered()
            except (TableUnavailableError, OutputError) as error:
                self._appended_at = time.monotonic()  # it is tried again as if it were new
                self._tell_trouble(error)
            except FieldfareError as error:
                self._failure = error
                return
            except Exception as error:  # noqa: BLE001 - or nobody would hear that nothing is appended any more
                self._failure = TableError(f"{self._table} cannot be written: {error!r}")
                return

    def _tell_trouble(self, error: FieldfareError) -> None:
        if self._tell is not None and time.monotonic() - self._told_at >= _TOLD_SECONDS:
            self._told_at = time.monotonic()
            self._tell(f"{error}; {self._waiting(self._folder.batches())} then")

    def _waiting(self, batches: Sequence[int]) -> str:
        count = f"{len(batches):,} batches are" if len(batches) != 1 else "1 batch is"
        return f"{count} safe in {self._folder.folder}, to go into the table"

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _append_gathered(self) -> None:
        """Bring the table up to what has gathered, and remove that. Batches may be committed meanwhile."""
        with output_errors(self._folder.folder):
            overtaken = 0
            self._look()
            while files := self._next_files():
                marker = files[-1][0]
                try:
                    self._table.append(_rows_of(files), marker)
                    self._set_appended(marker)
                except TableChangedError as error:
                    overtaken += 1
                    if overtaken >= _OVERTAKEN_MAX:
                        raise TableUnavailableError(f"others change the table all the time: {error}") from error
                    self._look()
            self._remove_appended()
            with suppress(TableError):  # old versions cost time, and the next commit tries again
                self._table.tidy()
            self._appended_at = time.monotonic()

    def _look(self) -> None:
        marker = self._table.marker()
        self._reached.require(marker)
        self._set_appended(marker)

    def _set_appended(self, marker: int) -> None:
        with self._lock:
            self._appended = marker
        if marker != NONE_YET:
            self._reached.remember(marker)

    def _next_files(self) -> list[tuple[int, Path]]:
        """Files of batches that are not in the table, with their ids: of one commit, and with the same columns."""
        found: list[tuple[int, Path]] = []
        nbytes, schema = 0, None
        for batch_id in self._folder.batches():
            if batch_id <= self._appended:
                continue
            batch = self._folder.read_commit(batch_id)
            paths = [batch.folder / file.path for file in batch.files]
            schemas = [pq.read_schema(path) for path in paths]
            schema = schema or next(iter(schemas), None)
            nbytes += batch.bytes
            if found and (nbytes > _APPEND_BYTES or any(each != schema for each in schemas)):
                break
            found += [(batch_id, path) for path in paths]
        return found

    def _remove_appended(self) -> None:
        """Remove what is in the table, and batches without rows, of which the table knows nothing.

        Spark may ask for the last batch again, so that one stays.
        """
        gathered = self._folder.batches()
        doomed = [batch_id for batch_id in gathered if batch_id <= self._appended]
        doomed += [
            batch_id
            for batch_id in gathered[:-1]
            if batch_id > self._appended and not self._folder.read_commit(batch_id).files
        ]
        for batch_id in doomed:
            folder = batch_folder(self._folder.folder, batch_id)
            if (folder / QUARANTINE).exists():
                rename(folder / QUARANTINE, self._quarantine / f"{batch_id}.jsonl")
            self._folder.remove(batch_id)


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
