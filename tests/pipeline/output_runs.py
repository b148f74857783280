"""Batches whose rows are known from their number, a run that commits them, and a check of what readers find.

As a program it is such a run, killed again and again: see `killed_runs`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset

from fieldfare.pipeline.batch_output import BatchOutput, TaskOptions
from fieldfare.pipeline.output import CommittedBatch, OutputFolder, WriteOptions, WrittenFile
from fieldfare.pipeline.reports import BadEvent

FILES, ROWS = 2, 100
FAULT = BadEvent("events.jsonl:3", "not JSON", '{"price": ')


def events_of(batch_id: int, file: int) -> tuple[pa.RecordBatch, pa.ListArray]:
    numbers = [batch_id * 1_000_000 + file * 1_000 + row for row in range(ROWS)]
    ids = [list(range(number % 4)) for number in numbers]
    return pa.record_batch({"number": pa.array(numbers, pa.int64())}), pa.array(ids, pa.list_(pa.int64()))


def write_file(stage: str, batch_id: int, file: int, options: TaskOptions | None = None) -> WrittenFile:
    with (options or WriteOptions()).writer(stage) as writer:
        writer.write(*events_of(batch_id, file))
        written = writer.close()
    assert written is not None
    return written


def run_batch(output: BatchOutput, batch_id: int) -> CommittedBatch | None:
    """What the pipeline does with a micro-batch; None if it was done before. One task lingers, and is not counted."""
    if output.is_committed(batch_id):
        return None
    stage = output.stage(batch_id)
    options = output.task_options(WriteOptions())
    files = [write_file(stage, batch_id, file, options) for file in range(FILES)]
    write_file(stage, batch_id, 0, options)
    return output.commit(batch_id, files, [FAULT], {"layout": "replicated"})


def found_numbers(folder: Path) -> Mapping[int, list[int]]:
    """What a reader finds: for each batch the numbers of its events, ascending."""
    numbers: dict[int, list[int]] = {}
    table = pyarrow.dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    if table.num_rows:
        for batch_id, number in zip(table["batch_id"].to_pylist(), table["number"].to_pylist(), strict=True):
            numbers.setdefault(batch_id, []).append(number)
    return {batch_id: sorted(found) for batch_id, found in sorted(numbers.items())}


def expected_numbers(batches: int) -> Mapping[int, list[int]]:
    return {
        batch_id: [batch_id * 1_000_000 + file * 1_000 + row for file in range(FILES) for row in range(ROWS)]
        for batch_id in range(batches)
    }


def run_from(folder: Path, acknowledged: Path, batches: int) -> None:
    """A run that goes on where the last acknowledgement was, as Spark does; that may be behind the last commit."""
    output = OutputFolder(folder, "owner")
    output.prepare()
    run_on(output, acknowledged, batches)


def run_on(output: BatchOutput, acknowledged: Path, batches: int) -> None:
    """Commit the batches that are not acknowledged, and acknowledge each, as Spark does."""
    for batch_id in range(len(acknowledged.read_bytes()), batches):
        run_batch(output, batch_id)
        with acknowledged.open("ab") as file:
            file.write(b".")


def killed_runs(folder: Path, acknowledged: Path, kills: int) -> None:
    """Start runs and kill each after some random milliseconds, in the middle of whatever it does."""
    rng = random.Random(7)
    for _ in range(kills):
        process = os.fork()
        if not process:
            run_from(folder, acknowledged, 1_000_000)
        time.sleep(rng.uniform(0.005, 0.2))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


if __name__ == "__main__":
    killed_runs(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
