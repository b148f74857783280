from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline import output_runs
from tests.pipeline.output_runs import FILES, expected_numbers, found_numbers, run_batch, run_from, write_file

from fieldfare.errors import OutputError
from fieldfare.pipeline.output import EventWriter, OutputFolder, WriteOptions, WrittenFile

STEPS = ("mkdir", "open", "fsync", "rename", "rmdir", "unlink")  # of os: all that changes a folder, or makes it durable


class _PowerCutError(BaseException):
    """Not an Exception: nothing may handle it, as nothing can after a real one."""


class _Steps:
    """Counts the steps of a program; from step `last` on, every one fails, as in a process that is no more."""

    def __init__(self, patch: pytest.MonkeyPatch, last: int | None = None) -> None:
        self.taken = 0
        self._last = last
        for name in STEPS:
            patch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **keywords: Any) -> Any:
            self.taken += 1
            if self._last is not None and self.taken >= self._last:
                raise _PowerCutError
            return step(*arguments, **keywords)

        return counted


def one_run(folder: Path) -> None:
    output = OutputFolder(folder, "owner")
    output.prepare()
    run_batch(output, 0)
    run_batch(output, 1)


def steps_of_a_run(folder: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        steps = _Steps(patch)
        one_run(folder)
    return steps.taken


def test_a_run_that_ends_at_any_step_is_completed_by_the_next(tmp_path: Path) -> None:
    steps = steps_of_a_run(tmp_path / "whole")
    assert steps > 20
    for last in range(1, steps + 1):
        folder = tmp_path / str(last)
        with pytest.MonkeyPatch.context() as patch:
            _Steps(patch, last)
            with pytest.raises(_PowerCutError):
                one_run(folder)
        if folder.exists():
            found = found_numbers(folder)
            assert found == {batch_id: expected_numbers(2)[batch_id] for batch_id in found}
        one_run(folder)
        assert found_numbers(folder) == expected_numbers(2)
        assert not list(folder.rglob("*.staged"))


def test_runs_that_are_killed_commit_every_batch_once(tmp_path: Path) -> None:
    folder, acknowledged = tmp_path / "output", tmp_path / "acknowledged"
    acknowledged.touch()
    command = [sys.executable, output_runs.__file__, str(folder), str(acknowledged), "20"]
    subprocess.run(command, check=True, timeout=120)
    committed = OutputFolder(folder, "owner").batches()
    assert len(acknowledged.read_bytes()) <= len(committed)
    batches = len(committed) + 2
    run_from(folder, acknowledged, batches)
    assert found_numbers(folder) == expected_numbers(batches)
    assert not list(folder.rglob("*.staged"))


def failing(step: Callable[..., Any], number: int) -> Callable[..., Any]:
    """A step of the system that fails at its call `number`, and then works again."""
    calls = 0

    def fail(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return step(*arguments)

    return fail


@pytest.mark.parametrize("number", range(1, FILES + 1 + 4 + 1))  # files, a lingering one; quarantine, record, folders
def test_an_fsync_that_fails_commits_nothing_and_the_batch_can_be_written_again(tmp_path: Path, number: int) -> None:
    output = OutputFolder(tmp_path, "owner")
    output.prepare()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync, number))
        with pytest.raises(OutputError, match="Input/output error"):
            run_batch(output, 0)
    assert output.batches() == []
    assert not list(tmp_path.rglob("*.parquet"))
    run_batch(output, 0)
    assert found_numbers(tmp_path) == expected_numbers(1)


def test_a_batch_found_committed_is_made_durable_first(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path, "owner")
    output.prepare()
    run_batch(output, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync, 1))
        with pytest.raises(OutputError):
            output.is_committed(0)
    assert output.is_committed(0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", "size=1m", "fieldfare-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield folder
    subprocess.run([shutil.which("umount") or "umount", str(folder)], check=True)


def fill(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def test_a_full_disk_stops_a_task_which_leaves_no_file(small_disk: Path) -> None:
    output = OutputFolder(small_disk / "output", "owner")
    output.prepare()
    stage = output.stage(0)
    events = pa.record_batch({"number": range(10_000)})
    ids = pa.array([list(range(100))] * 10_000, pa.list_(pa.int64()))
    with EventWriter(stage, WriteOptions(compression="none", row_group_bytes=100_000)) as writer:
        with pytest.raises(OutputError, match="free some space") as caught:
            writer.write(events, ids)
        assert isinstance(caught.value.__cause__, OSError)
        assert not list(Path(stage).iterdir())
    run_batch(output, 0)
    assert found_numbers(output.folder) == expected_numbers(1)


def test_a_full_disk_stops_the_end_of_a_file_which_is_removed(small_disk: Path) -> None:
    output = OutputFolder(small_disk / "output", "owner")
    output.prepare()
    stage = output.stage(0)
    fill(small_disk / "filling")
    with pytest.raises(OutputError, match="free some space"):
        write_file(stage, 0, 0)
    assert not list(Path(stage).iterdir())


def test_a_full_disk_stops_a_commit_and_the_batch_is_written_again(small_disk: Path) -> None:
    output = OutputFolder(small_disk / "output", "owner")
    output.prepare()
    stage = output.stage(0)
    files: list[WrittenFile] = [write_file(stage, 0, file) for file in range(FILES)]
    fill(small_disk / "filling")
    with pytest.raises(OutputError, match="free some space"):
        output.commit(0, files)
    assert not list(output.folder.rglob("*.parquet"))
    assert not Path(stage).exists()
    (small_disk / "filling").unlink()
    run_batch(output, 0)
    assert found_numbers(output.folder) == expected_numbers(1)
