from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.dataset
import pytest
from tests.pipeline.output_runs import (
    FAULT,
    FILES,
    ROWS,
    events_of,
    expected_numbers,
    found_numbers,
    run_batch,
    write_file,
)

from fieldfare.errors import OutputError
from fieldfare.pipeline.output import OutputFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    prepared = OutputFolder(tmp_path / "deep" / "output", "owner")
    prepared.prepare()
    return prepared


def visible(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("_"))


def test_a_commit_says_what_was_committed(output: OutputFolder) -> None:
    before = datetime.now(UTC)
    committed = run_batch(output, 7)
    assert committed is not None
    assert (committed.batch_id, committed.rows, committed.quarantined) == (7, FILES * ROWS, 1)
    assert committed.matches == sum(len(events_of(7, file)[1].values) for file in range(FILES))
    assert committed.bytes == sum(path.stat().st_size for path in committed.folder.glob("*.parquet"))
    assert before <= committed.committed_at <= datetime.now(UTC)
    assert committed.note == {"layout": "replicated"}
    assert committed == output.read_commit(7)
    assert json.loads((committed.folder / "_quarantine.jsonl").read_text()) == {
        "place": FAULT.place,
        "reason": FAULT.reason,
        "raw": FAULT.raw,
    }


def test_the_table_of_a_batch_has_its_events_in_the_order_of_its_files(output: OutputFolder) -> None:
    committed = run_batch(output, 0)
    assert committed is not None
    table = committed.table()
    assert table.column_names == ["number", "subscription_ids"]
    assert table["number"].to_pylist() == expected_numbers(1)[0]
    assert table["subscription_ids"].to_pylist() == [
        ids for file in range(FILES) for ids in events_of(0, file)[1].to_pylist()
    ]


def test_a_batch_is_committed_once_and_stays_as_it_was(output: OutputFolder) -> None:
    first = run_batch(output, 0)
    stage = output.stage(0)
    second = output.commit(0, [write_file(stage, 0, 0)])
    assert second == first
    assert not Path(stage).exists()
    assert run_batch(output, 0) is None
    assert output.batches() == [0]
    assert found_numbers(output.folder) == expected_numbers(1)


def test_batches_are_listed_by_number(output: OutputFolder) -> None:
    for batch_id in (10, 9, 2):
        run_batch(output, batch_id)
    (output.folder / "batch_id=x").mkdir()
    assert output.batches() == [2, 9, 10]


def test_an_empty_batch_counts_and_has_no_rows(output: OutputFolder) -> None:
    run_batch(output, 0)
    committed = output.commit(1, [])
    assert output.is_committed(1)
    assert (committed.rows, committed.bytes, committed.table().num_rows) == (0, 0, 0)
    assert found_numbers(output.folder) == expected_numbers(1)


def test_every_reader_finds_a_table_with_the_batch_as_a_column(output: OutputFolder, spark: SparkSession) -> None:
    run_batch(output, 0)
    run_batch(output, 1)
    output.commit(2, [])
    stage = output.stage(3)
    write_file(stage, 3, 0)
    columns = ["batch_id", "number", "subscription_ids"]
    rows: list[tuple[int, int, list[int]]] = []
    for batch_id in (0, 1):
        for events, ids in (events_of(batch_id, file) for file in range(FILES)):
            rows += zip([batch_id] * ROWS, events["number"].to_pylist(), ids.to_pylist(), strict=True)
    by_spark = spark.read.parquet(str(output.folder)).select(*columns).orderBy("number").collect()
    assert [tuple(row) for row in by_spark] == rows
    dataset = pyarrow.dataset.dataset(output.folder, partitioning="hive")
    by_arrow = dataset.to_table(columns).sort_by("number").to_pylist()
    assert [tuple(row.values()) for row in by_arrow] == rows
    for pattern in ("*/*.parquet", "batch_id=*/*.parquet", "**/*.parquet"):
        with duckdb.connect() as connection:
            relation = connection.read_parquet(str(output.folder / pattern), hive_partitioning=True)
            assert relation.order("number").project(", ".join(columns)).fetchall() == rows


def test_readers_at_the_same_time_see_whole_batches_only(output: OutputFolder) -> None:
    run_batch(output, 0)
    batches = 30
    seen: list[int] = []
    wrong: list[int] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            found = found_numbers(output.folder)
            seen.append(len(found))
            wrong.extend(batch_id for batch_id, numbers in found.items() if numbers != expected[batch_id])

    expected = expected_numbers(batches)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for batch_id in range(1, batches):
            run_batch(output, batch_id)
    finally:
        ended.set()
        reader.join()
    assert not wrong
    assert len(set(seen)) > 1
    assert seen == sorted(seen)
    assert found_numbers(output.folder) == expected


def test_a_task_that_lingers_reaches_no_committed_batch(output: OutputFolder) -> None:
    stage = output.stage(0)
    files = [write_file(stage, 0, file) for file in range(FILES)]
    lingering = Path(stage) / "lingering.staged"
    with lingering.open("wb") as file:
        committed = output.commit(0, files)
        before = sorted(committed.folder.iterdir())
        file.write(b"late")
    with pytest.raises(OutputError, match="No such file"):
        write_file(stage, 0, 0)
    assert sorted(committed.folder.iterdir()) == before
    assert found_numbers(output.folder) == expected_numbers(1)


def test_a_run_that_was_replaced_can_commit_nothing(output: OutputFolder) -> None:
    stage = output.stage(0)
    files = [write_file(stage, 0, file) for file in range(FILES)]
    successor = OutputFolder(output.folder, "owner")
    successor.prepare()
    with pytest.raises(OutputError, match="not committed"):
        output.commit(0, files)
    with pytest.raises(OutputError):
        output.stage(1)
    assert not visible(output.folder)
    run_batch(successor, 0)
    assert found_numbers(output.folder) == expected_numbers(1)


def test_of_two_commits_of_a_batch_the_second_finds_the_first(
    output: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [output.stage(0), output.stage(0)]
    mine, others = ([write_file(stage, 0, file) for file in range(FILES)] for stage in stages)
    rival = OutputFolder(output.folder, "owner")
    monkeypatch.setattr(rival, "_staging", output._staging)  # both believe that they are the one run
    assemble = output._assembled

    def slower(*arguments: object) -> Path:
        assembled = assemble(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
        rival.commit(0, others, note={"first": True})
        monkeypatch.undo()
        return assembled

    monkeypatch.setattr(output, "_assembled", slower)
    assert output.commit(0, mine).note == {"first": True}
    assert found_numbers(output.folder) == expected_numbers(1)


def test_a_file_that_changed_after_its_task_is_not_committed(output: OutputFolder) -> None:
    stage = output.stage(0)
    files = [write_file(stage, 0, file) for file in range(FILES)]
    with Path(files[1].path).open("r+b") as file:
        file.truncate(10)
    with pytest.raises(OutputError, match="write it again"):
        output.commit(0, files)
    assert not visible(output.folder)
    run_batch(output, 0)
    assert found_numbers(output.folder) == expected_numbers(1)


def test_prepare_removes_what_earlier_runs_left(output: OutputFolder) -> None:
    write_file(output.stage(0), 0, 0)
    run_batch(output, 1)
    successor = OutputFolder(output.folder, "owner")
    successor.prepare()
    left = [path for path in output.folder.rglob("*") if path.suffix == ".staged"]
    assert not left
    assert successor.batches() == [1]


def test_another_checkpoint_is_refused(output: OutputFolder) -> None:
    run_batch(output, 0)
    stage = output.stage(1)
    with pytest.raises(OutputError, match="use its checkpoint, or another output folder"):
        OutputFolder(output.folder, "stranger").prepare()
    output.commit(1, [write_file(stage, 1, file) for file in range(FILES)])
    assert found_numbers(output.folder) == expected_numbers(2)


def test_rows_of_another_kind_are_refused(output: OutputFolder) -> None:
    with pytest.raises(OutputError, match="one row per event"):
        OutputFolder(output.folder, "owner", explode=True).prepare()


def test_a_lost_owner_is_an_error_where_there_are_batches(output: OutputFolder) -> None:
    run_batch(output, 0)
    (output.folder / "_fieldfare.json").unlink()
    with pytest.raises(OutputError, match="restore that file"):
        OutputFolder(output.folder, "owner").prepare()


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "damaged"), ('{"format": 2, "owner": "owner", "explode": false}', "format 2")],
)
def test_an_owner_that_cannot_be_read_is_an_error(output: OutputFolder, content: str, message: str) -> None:
    (output.folder / "_fieldfare.json").write_text(content)
    with pytest.raises(OutputError, match=message):
        OutputFolder(output.folder, "owner").prepare()


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_bytes(b"")
    with pytest.raises(OutputError, match="empty folder"):
        OutputFolder(tmp_path, "owner").prepare()


def test_a_place_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError):
        OutputFolder(tmp_path / "file", "owner").prepare()


@pytest.mark.parametrize("content", [None, "{", '{"batch_id": 0}'])
def test_a_batch_without_its_record_is_an_error(output: OutputFolder, content: str | None) -> None:
    committed = run_batch(output, 0)
    assert committed is not None
    (committed.folder / "_commit.json").unlink()
    if content is not None:
        (committed.folder / "_commit.json").write_text(content)
    with pytest.raises(OutputError, match="not a record of a commit"):
        output.read_commit(0)
