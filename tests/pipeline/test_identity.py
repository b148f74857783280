"""The id of a checkpoint: an output that has seen it once is lost to the pipeline if a power failure can take it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fieldfare.pipeline.output import OutputFolder
from fieldfare.pipeline.run import Pipeline, PipelineOptions
from fieldfare.store.subscription_store import open_store


class Stopped(Exception):  # noqa: N818
    """Ends a run where its output is about to learn the identity."""


class FlushedFiles:
    """Which files and folders were flushed, by their inodes, which a rename does not change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._inodes: set[int] = set()
        fsync = os.fsync

        def flushed(descriptor: int) -> None:
            self._inodes.add(os.fstat(descriptor).st_ino)
            fsync(descriptor)

        monkeypatch.setattr("os.fsync", flushed)

    def __contains__(self, path: Path) -> bool:
        return path.stat().st_ino in self._inodes

    def clear(self) -> None:
        self._inodes.clear()


def test_the_identity_is_durable_before_the_output_learns_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path / "s.db").close()
    options = PipelineOptions(str(tmp_path / "s.db"), tmp_path / "out", tmp_path / "a" / "state")
    state = options.checkpoint / "fieldfare"
    flushed = FlushedFiles(monkeypatch)
    seen = []
    monkeypatch.setattr("fieldfare.pipeline.run.check_worker_python", lambda _: None)  # there is no Spark here

    def prepare(output: OutputFolder) -> None:
        seen.append((output._owner.owner, [path in flushed for path in expected]))
        raise Stopped

    monkeypatch.setattr(OutputFolder, "prepare", prepare)
    expected = [state / "identity", state, options.checkpoint, tmp_path / "a", tmp_path]
    for _ in range(2):
        with pytest.raises(Stopped):
            Pipeline(SparkSession.__new__(SparkSession), options).run(None)  # type: ignore[arg-type]
        flushed.clear()
        expected = [state]  # the run before may have been killed between the rename and the flush of the folder
    identity = (state / "identity").read_text()
    assert seen == [(identity, [True] * 5), (identity, [True])]
