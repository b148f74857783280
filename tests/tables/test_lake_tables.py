from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType
from tests.pipeline.output_runs import FAULT, expected_numbers, run_batch, run_on, write_file

from fieldfare.errors import InputError, TableChangedError, TableError, TableUnavailableError
from fieldfare.pipeline.output_places import _lake_table
from fieldfare.pipeline.tables import gathering, iceberg
from fieldfare.pipeline.tables.address import LakeTableSink, parse_table
from fieldfare.pipeline.tables.gathering import GatheredOutput, LakeTable
from fieldfare.pipeline.tables.reached import NONE_YET

LONG = 3600.0  # batches gather until the output is closed
Found = dict[int, list[int]]


@pytest.fixture(params=["delta", "iceberg"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTableSink:
    places = {"delta": f"delta:{tmp_path}/table", "iceberg": f"iceberg:{tmp_path}/lake/alerts.matches"}
    found = parse_table(places[request.param])
    assert isinstance(found, LakeTableSink)
    return found


def read(sink: LakeTableSink) -> pa.Table:
    """The table as other tools read it."""
    if sink.format == "delta":
        return DeltaTable(sink.place).to_pyarrow_table()
    return _catalog(sink).load_table(sink.name).scan().to_arrow()


def _catalog(sink: LakeTableSink) -> Catalog:
    uri, warehouse = f"sqlite:///{sink.place}/catalog.db", f"file://{sink.place}"
    return load_catalog("fieldfare", type="sql", uri=uri, warehouse=warehouse)


def _commits(sink: LakeTableSink) -> int:
    if sink.format == "delta":
        return DeltaTable(sink.place).version()
    return len(_catalog(sink).load_table(sink.name).snapshots())


def found_numbers(sink: LakeTableSink) -> Found:
    table = read(sink)
    found: Found = {}
    for batch_id, number in zip(table["batch_id"].to_pylist(), table["number"].to_pylist(), strict=True):
        found.setdefault(batch_id, []).append(number)
    return {batch_id: sorted(numbers) for batch_id, numbers in sorted(found.items())}


def append_as_others_do(sink: LakeTableSink) -> None:
    """A commit of somebody else's, who optimises the table, say: no rows."""
    nothing = read(sink).slice(0, 0)
    if sink.format == "delta":
        write_deltalake(sink.place, nothing, mode="append")
    else:
        _catalog(sink).load_table(sink.name).append(nothing)


@contextmanager
def opened(
    sink: LakeTableSink, state: Path, seconds: float = LONG, table: LakeTable | None = None
) -> Iterator[GatheredOutput]:
    output = GatheredOutput(table or _lake_table(sink, "owner"), state, "owner", seconds)
    with closing(output):
        output.prepare()
        yield output


def test_batches_gather_and_appear_together_once(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state") as output:
        for batch_id in range(3):
            run_batch(output, batch_id)
        assert _lake_table(sink, "owner").marker() == NONE_YET
    assert found_numbers(sink) == expected_numbers(3)
    assert _lake_table(sink, "owner").marker() == 2
    assert not list((tmp_path / "state/gathered").glob("batch_id=*"))
    assert _commits(sink) == 1
    with opened(sink, tmp_path / "state") as output:
        assert output.is_committed(2)
        run_batch(output, 3)
    assert found_numbers(sink) == expected_numbers(4)


def test_lists_of_ids_and_quarantine_are_kept(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
    rows = read(sink).to_pylist()
    assert all(row["subscription_ids"] == list(range(row["number"] % 4)) for row in rows)
    kept = (tmp_path / "state/quarantine/0.jsonl").read_bytes()
    assert msgspec.json.decode(kept, type=type(FAULT)) == FAULT


def test_what_has_gathered_appears_also_when_no_batch_comes_any_more(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state", seconds=0.05) as output:
        run_batch(output, 0)
        wait_until(lambda: _lake_table(sink, "owner").marker() == 0)
        assert output.is_committed(0)


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


class _Meddler:
    """A table that somebody else does something to, at a step of ours."""

    def __init__(self, table: LakeTable, before_append: Callable[[], None]) -> None:
        self._table, self._before_append = table, before_append

    def marker(self) -> int:
        return self._table.marker()

    def append(self, rows: pa.RecordBatchReader, marker: int) -> None:
        meddle, self._before_append = self._before_append, lambda: None
        meddle()
        self._table.append(rows, marker)

    def tidy(self) -> None:
        self._table.tidy()


def test_others_may_commit_in_between(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
    table = _Meddler(_lake_table(sink, "owner"), lambda: append_as_others_do(sink))
    with opened(sink, tmp_path / "state", table=table) as output:
        run_batch(output, 1)
    assert found_numbers(sink) == expected_numbers(2)


def test_an_append_is_not_repeated_by_the_library(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
    stale = _lake_table(sink, "owner")
    assert stale.marker() == 0
    append_as_others_do(sink)
    with pytest.raises(TableChangedError):
        stale.append(read(sink).to_reader(), 1)
    assert found_numbers(sink) == expected_numbers(1)


def test_a_driver_that_was_thought_dead_adds_nothing(sink: LakeTableSink, tmp_path: Path) -> None:
    """Two drivers on copies of one checkpoint: each batch is in the table once, whoever was faster."""
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
        shutil.copytree(tmp_path / "state", tmp_path / "other")
        run_batch(output, 1)

        def other_driver() -> None:
            with opened(sink, tmp_path / "other") as other:
                run_batch(other, 1)
                run_batch(other, 2)

        output._table = _Meddler(output._table, other_driver)
    assert found_numbers(sink) == expected_numbers(3)
    with opened(sink, tmp_path / "state") as output, pytest.raises(TableError, match="older copy"):
        output.is_committed(1)


class _Refusing:
    """A table that cannot be reached, in appending."""

    def marker(self) -> int:
        return NONE_YET

    def append(self, rows: pa.RecordBatchReader, marker: int) -> None:  # noqa: ARG002 - it takes nothing
        raise TableUnavailableError("away")

    def tidy(self) -> None:
        pass


def test_a_table_that_is_away_gets_its_rows_later(sink: LakeTableSink, tmp_path: Path) -> None:
    told: list[str] = []
    output = GatheredOutput(_Refusing(), tmp_path / "state", "owner", 0.05, tell=told.append)
    output.prepare()
    run_batch(output, 0)
    wait_until(lambda: bool(told))
    with pytest.raises(TableUnavailableError, match=r"1 batch is safe in .* at the next start"):
        output.close()
    assert [sentence.partition(" is safe in ")[0] for sentence in told] == ["away; 1 batch"]
    with opened(sink, tmp_path / "state") as output:
        assert output.is_committed(0)
    assert found_numbers(sink) == expected_numbers(1)


def test_batches_without_rows_are_remembered(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state") as output:
        output.commit(0, [])
        assert output.is_committed(0)
    with opened(sink, tmp_path / "state") as output:
        assert output.is_committed(0)
        run_batch(output, 1)
    assert _lake_table(sink, "owner").marker() == 1


def test_another_table_with_other_columns_is_refused(sink: LakeTableSink, tmp_path: Path) -> None:
    table = _lake_table(sink, "another")
    table.marker()
    table.append(pa.table({"something": ["else"]}).to_reader(), 0)
    output = GatheredOutput(_lake_table(sink, "owner"), tmp_path / "state", "owner", LONG)
    output.prepare()
    run_batch(output, 0)
    with pytest.raises(TableError, match="use another table"):
        output.close()


def test_two_checkpoints_may_share_a_table(sink: LakeTableSink, tmp_path: Path) -> None:
    for owner in ("one", "two"):
        output = GatheredOutput(_lake_table(sink, owner), tmp_path / owner, owner, LONG)
        with closing(output):
            output.prepare()
            run_batch(output, 0)
    assert found_numbers(sink) == {0: sorted(expected_numbers(1)[0] * 2)}


def test_whatever_is_killed_each_batch_is_there_once(sink: LakeTableSink, tmp_path: Path) -> None:
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    rng = random.Random(3)
    for _ in range(10):
        command = [
            sys.executable,
            "-m",
            "tests.tables.endless_run",
            str(sink),
            str(tmp_path / "state"),
            str(acknowledged),
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.4))
            process.kill()
    batches = len(acknowledged.read_bytes()) + 2
    assert batches > 10
    with opened(sink, tmp_path / "state") as output:
        run_on(output, acknowledged, batches)
    assert found_numbers(sink) == expected_numbers(batches)


def test_many_batches_without_rows_do_not_pile_up(sink: LakeTableSink, tmp_path: Path) -> None:
    """As where nobody wants what comes, with `only_matched`."""
    with opened(sink, tmp_path / "state") as output:
        for batch_id in range(20):
            output.commit(batch_id, [], [FAULT])
        output._append_gathered()
        assert output.is_committed(19)
        assert [folder.name for folder in (tmp_path / "state/gathered").glob("batch_id=*")] == ["batch_id=19"]
        assert len(list((tmp_path / "state/quarantine").iterdir())) == 19
        run_batch(output, 20)
    assert found_numbers(sink) == {20: expected_numbers(21)[20]}


def remove(sink: LakeTableSink) -> None:
    if sink.format == "delta":
        shutil.rmtree(sink.place)
    else:
        _catalog(sink).drop_table(sink.name)


def test_a_table_that_was_deleted_is_not_made_anew(sink: LakeTableSink, tmp_path: Path) -> None:
    """What it had would be missing in the new one."""
    output = GatheredOutput(_lake_table(sink, "owner"), tmp_path / "state", "owner", 0.05)
    output.prepare()
    run_batch(output, 0)
    wait_until(lambda: _lake_table(sink, "owner").marker() == 0)
    remove(sink)
    run_batch(output, 1)
    wait_until(lambda: output._failure is not None)
    for use in (lambda: output.is_committed(2), output.close):
        with pytest.raises(TableError, match="had the batches up to 0, and does not have them now"):
            use()
    again = GatheredOutput(_lake_table(sink, "owner"), tmp_path / "state", "owner", LONG)
    with pytest.raises(TableError, match="new checkpoint and a new table"):
        again.prepare()
    assert _lake_table(sink, "owner").marker() == NONE_YET


class _Broken(_Refusing):
    """A table whose library raises what nobody expects of it."""

    def append(self, rows: pa.RecordBatchReader, marker: int) -> None:  # noqa: ARG002 - it takes nothing
        raise KeyError("inside")


def test_an_error_that_nobody_expects_ends_the_pipeline(tmp_path: Path) -> None:
    output = GatheredOutput(_Broken(), tmp_path / "state", "owner", 0.05)
    output.prepare()
    run_batch(output, 0)
    wait_until(lambda: output._failure is not None)
    with pytest.raises(TableError, match="inside"):
        output.is_committed(1)
    with pytest.raises(TableError, match="inside"):
        output.close()


def test_batches_are_committed_while_an_append_takes_its_time(sink: LakeTableSink, tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert may_end.wait(60)

    output = GatheredOutput(_Meddler(_lake_table(sink, "owner"), slow), tmp_path / "state", "owner", 0.05)
    with closing(output):
        output.prepare()
        run_batch(output, 0)
        assert begun.wait(60)
        run_batch(output, 1)
        assert output.is_committed(0)
        assert output.is_committed(1)
        may_end.set()
    assert found_numbers(sink) == expected_numbers(2)


def test_what_has_gathered_for_long_goes_into_several_commits(
    sink: LakeTableSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_APPEND_BYTES", 1)
    with opened(sink, tmp_path / "state") as output:
        for batch_id in range(3):
            run_batch(output, batch_id)
    assert found_numbers(sink) == expected_numbers(3)
    assert _commits(sink) == 3


def test_columns_that_others_add_are_null_in_our_rows(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
        output._append_gathered()
        if sink.format == "delta":
            DeltaTable(sink.place).alter.add_columns(Schema.from_arrow(pa.schema([("note", pa.string())])).fields)
        else:
            with _catalog(sink).load_table(sink.name).update_schema() as change:
                change.add_column("note", StringType())
        run_batch(output, 1)
    assert found_numbers(sink) == expected_numbers(2)
    assert read(sink)["note"].null_count == 2 * len(expected_numbers(1)[0])


def test_a_partitioned_table_of_somebody_else(sink: LakeTableSink, tmp_path: Path) -> None:
    element = pa.field("element", pa.int64(), nullable=False)
    ids = pa.field("subscription_ids", pa.list_(element), nullable=False)
    schema = pa.schema([pa.field("number", pa.int64()), ids, pa.field("batch_id", pa.int64())])
    if sink.format == "delta":
        DeltaTable.create(sink.place, Schema.from_arrow(schema), partition_by=["batch_id"])
    else:
        Path(sink.place).mkdir()
        catalog = _catalog(sink)
        catalog.create_namespace("alerts")
        with catalog.create_table(sink.name, schema).update_spec() as change:
            change.add_field("batch_id", IdentityTransform())
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
        run_batch(output, 1)
    assert found_numbers(sink) == expected_numbers(2)


def test_a_snapshot_that_has_a_name_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg, "SNAPSHOTS_MAX", 4)
    sink = parse_table(f"iceberg:{tmp_path}/lake/alerts.matches")
    assert isinstance(sink, LakeTableSink)
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
    table = _catalog(sink).load_table(sink.name)
    named = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(named, "end-of-year").commit()
    for batch_id in range(1, 12):
        with opened(sink, tmp_path / "state") as output:
            run_batch(output, batch_id)
    snapshots = [snapshot.snapshot_id for snapshot in _catalog(sink).load_table(sink.name).snapshots()]
    assert named in snapshots
    assert len(snapshots) <= 6


def test_a_folder_with_a_space_has_all_of_an_iceberg_table(tmp_path: Path) -> None:
    sink = parse_table(f"iceberg:{tmp_path}/the lake/alerts.matches")
    assert isinstance(sink, LakeTableSink)
    with opened(sink, tmp_path / "state") as output:
        run_batch(output, 0)
    assert found_numbers(sink) == expected_numbers(1)
    assert {folder.name for folder in tmp_path.iterdir()} == {"the lake", "state"}


@pytest.mark.parametrize("place", ["delta:{}/a%20b", "iceberg:{}/a%20b/n.t", "iceberg:{}/a#b/n.t"])
def test_folders_that_libraries_would_take_for_others_are_refused(place: str, tmp_path: Path) -> None:
    sink = parse_table(place.format(tmp_path))
    assert isinstance(sink, LakeTableSink)
    with pytest.raises(InputError, match="use a folder without"):
        _lake_table(sink, "owner").marker()
    assert not list(tmp_path.iterdir())


def test_few_snapshots_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg, "SNAPSHOTS_MAX", 4)
    sink = parse_table(f"iceberg:{tmp_path}/lake/alerts.matches")
    assert isinstance(sink, LakeTableSink)
    for batch_id in range(12):
        with opened(sink, tmp_path / "state") as output:
            run_batch(output, batch_id)
    assert len(_catalog(sink).load_table(sink.name).snapshots()) <= 5
    assert found_numbers(sink) == expected_numbers(12)


def test_a_file_that_is_not_as_its_task_left_it_is_not_committed(sink: LakeTableSink, tmp_path: Path) -> None:
    with opened(sink, tmp_path / "state") as output:
        written = write_file(output.stage(0), 0, 0)
        with Path(written.path).open("ab") as file:
            file.write(b"x")
        with pytest.raises(Exception, match="not as its task left it"):
            output.commit(0, [written])
