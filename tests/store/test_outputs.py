"""What readers find in the pipeline's output is what the pipeline committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipeline.output_runs import FILES, ROWS, run_batch

from fieldfare.errors import OutputError
from fieldfare.pipeline.output import OutputFolder
from fieldfare.store.outputs import batch_folder, committed_batches, read_commit


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    folder = OutputFolder(tmp_path / "out", "owner")
    folder.prepare()
    return folder


def test_batches_are_listed_in_order_and_from_any_on(output: OutputFolder) -> None:
    assert committed_batches(output.folder) == []
    for batch_id in range(12):
        run_batch(output, batch_id)
    output.stage(12)
    assert committed_batches(output.folder) == list(range(12))
    assert committed_batches(output.folder, after=9) == [10, 11]


def test_a_commit_is_read_as_it_was_written(output: OutputFolder) -> None:
    committed = run_batch(output, 3)
    found = read_commit(output.folder, 3)
    assert found == committed
    assert found.rows == FILES * ROWS
    assert found.table().column_names == ["number", "subscription_ids"]
    assert found.table(["number"]).column_names == ["number"]


def test_a_batch_without_rows_has_an_empty_table(output: OutputFolder) -> None:
    output.commit(0, [])
    assert read_commit(output.folder, 0).table(["number"]).num_rows == 0


def test_what_is_missing_or_damaged_is_an_error_that_names_it(output: OutputFolder, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="batch_id=5"):
        read_commit(output.folder, 5)
    with pytest.raises(OutputError, match="nowhere"):
        committed_batches(tmp_path / "nowhere")
    run_batch(output, 0)
    (batch_folder(output.folder, 0) / "_commit.json").write_text("{")
    with pytest.raises(OutputError, match=r"_commit\.json"):
        read_commit(output.folder, 0)
