"""The Spark job of a batch: planned once for one version of the subscriptions, and each batch gets what is its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fieldfare.forwarding import Policy
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan
from fieldfare.pipeline import batch_jobs
from fieldfare.pipeline.assigned import Assigned, TaskNumbers
from fieldfare.pipeline.batch_jobs import BatchJobs
from fieldfare.pipeline.control import Control, Elasticity
from fieldfare.pipeline.output import WriteOptions
from fieldfare.pipeline.stages import INTEGER_IDS, BatchInput, BatchPlan
from fieldfare.store.base import ALL, Order
from fieldfare.store.catalog import Catalog
from fieldfare.store.subscription_store import SubscriptionStore, open_store

SCHEMA = "x BIGINT"


class Numbers:
    """Makes events of the numbers in an assignment."""

    def read_assigned(self, assignment: str) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": pa.array(json.loads(assignment), pa.int64())})


@dataclass
class Stage:
    """A store, and the jobs of batches that are matched against it."""

    spark: SparkSession
    folder: Path
    store: SubscriptionStore
    catalog: Catalog
    jobs: BatchJobs = field(default_factory=lambda: BatchJobs(WriteOptions()))
    reader: Numbers = field(default_factory=Numbers)
    numbers: TaskNumbers = field(default_factory=TaskNumbers)
    batches: int = 0

    def run(self, *groups: list[int]) -> dict[int, list[int]]:
        """Match a batch whose tasks read these numbers; return what its own stage has."""
        self.batches += 1
        stage = self.folder / f"stage-{self.batches}"
        stage.mkdir()
        reader = Assigned(self.reader, tuple(json.dumps(group) for group in groups))
        rows = self.numbers(self.spark, len(groups))
        events = BatchInput(rows, self.spark.createDataFrame([], SCHEMA).schema, reader)
        control = Control(self.catalog, Policy.ADAPTIVE, Elasticity(1, 1, 1.0), auto=False)
        plan = BatchPlan(self.catalog.version(0.0), control.forwarding(self.batches), INTEGER_IDS)
        report = self.jobs.run(events, plan, str(stage))
        assert {Path(file.path).parent for file in report.files} <= {stage}
        found = [row for file in report.files for row in pq.read_table(file.path).to_pylist()]
        assert report.events == len(found)
        return {row["x"]: row["subscription_ids"] for row in found}


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Iterator[Stage]:
    with open_store(str(tmp_path / "s.db")) as store:
        store.add({1: "x < 10"}, now_seconds=0.0)
        catalog = Catalog(store, tmp_path / "snapshots", Order(ALL, LayoutPlan(LayoutKind.REPLICATED, 1)))
        catalog.open()
        yield Stage(spark, tmp_path, store, catalog)
        catalog.close()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> list[DataFrame]:
    """The jobs that are planned from now on."""
    kind = type(spark.range(1))
    plan, made = kind.mapInArrow, list[DataFrame]()

    def note(self: DataFrame, *arguments: object, **more: object) -> DataFrame:
        made.append(plan(self, *arguments, **more))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(kind, "mapInArrow", note)
    return made


def test_batches_of_one_version_share_a_job_and_each_reads_its_own(stage: Stage, planned: list[DataFrame]) -> None:
    assert stage.run([1, 11]) == {1: [1], 11: []}
    assert stage.run([2]) == {2: [1]}
    assert len(planned) == 1
    assert stage.run([3], [4, 14]) == {3: [1], 4: [1], 14: []}
    assert stage.run([15], [5]) == {15: [], 5: [1]}
    assert len(planned) == 2  # two tasks are another job
    stage.store.add({2: "x >= 10"}, now_seconds=0.0)
    assert stage.run([1, 11]) == {1: [1], 11: [2]}
    assert len(planned) == 3


def test_another_reader_is_another_job(stage: Stage) -> None:
    class Negated(Numbers):
        def read_assigned(self, assignment: str) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"x": pa.array([-number for number in json.loads(assignment)], pa.int64())})

    assert stage.run([20]) == {20: []}
    stage.reader = Negated()
    assert stage.run([20]) == {-20: [1]}


def test_a_job_that_failed_is_planned_anew(stage: Stage, planned: list[DataFrame]) -> None:
    assert stage.run([1]) == {1: [1]}
    with pytest.raises(PySparkException):
        stage.run(["no number"])  # type: ignore[list-item]
    assert stage.run([2]) == {2: [1]}
    assert len(planned) == 2


def test_what_is_too_long_to_be_told_travels_in_the_job(
    stage: Stage, planned: list[DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_jobs, "_TOLD_CHARACTERS_MAX", 10)
    assert stage.run([1]) == {1: [1]}
    assert stage.run([11, 12, 13, 14]) == {number: [] for number in range(11, 15)}
    assert stage.run([2]) == {2: [1]}
    assert len(planned) == 2


def test_where_a_property_may_get_lost_every_job_is_planned(
    stage: Stage, planned: list[DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    assert [stage.run([number]) for number in (1, 2)] == [{1: [1]}, {2: [1]}]
    assert len(planned) == 2
