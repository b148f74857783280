from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fieldfare import Index
from fieldfare.errors import OutputError, PipelineError
from fieldfare.forwarding import Policy
from fieldfare.pipeline.backlog import Backlog, folder_backlog
from fieldfare.pipeline.metrics import MetricsServer, PipelineMetrics
from fieldfare.pipeline.output import CommittedBatch, OutputFolder, WriteOptions
from fieldfare.pipeline.run import Pipeline, PipelineOptions
from fieldfare.pipeline.source import FolderSource
from fieldfare.pipeline.summary import BatchSummary, Summary
from fieldfare.pipeline.watching import Watcher
from fieldfare.store.base import Scope
from fieldfare.store.subscription_store import open_store

CONDITIONS: dict[int, str] = {
    1: "x < 10",
    2: "x >= 5 AND x < 20 AND kind = 'a'",
    3: "kind IN ('b', 'c')",
    4: "kind IS NULL",
    5: "x > 90 OR kind = 'd'",
    6: "y BETWEEN 0.25 AND 0.5 AND x BETWEEN 30 AND 60",
    7: "x > 200 * y",
    8: "kind LIKE '%a%'",
}


@dataclass(frozen=True)
class Place:
    """The folders of a test's pipeline, and how to run it."""

    spark: SparkSession
    folder: Path

    @property
    def options(self) -> PipelineOptions:
        return PipelineOptions(
            store=str(self.folder / "s.db"),
            output=self.folder / "out",
            checkpoint=self.folder / "state",
            layout="replicated",
            interval_seconds=0.05,
            until_idle=True,
        )

    @property
    def source(self) -> FolderSource:
        return FolderSource(self.folder / "in", self.folder / "state" / "ledger", events_per_batch_max=1000)

    def subscribe(self, conditions: dict[int, str] | dict[str, str], **terms: Any) -> None:
        with open_store(self.options.store) as store:
            store.add(conditions, now_seconds=time.time(), **terms)

    def unsubscribe(self, *ids: int) -> None:
        with open_store(self.options.store) as store:
            store.remove(ids)

    def append(self, name: str, events: pa.Table) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        pq.write_table(events, self.folder / "in" / f".{name}")
        (self.folder / "in" / f".{name}").rename(self.folder / "in" / name)

    def run(self, options: PipelineOptions | None = None, **arguments: Any) -> Summary:
        return Pipeline(self.spark, options or self.options, **arguments).run(self.source)

    def found(self) -> dict[int, list[Any]]:
        """The ids of each event in the output; an event that stands twice is an error."""
        table = ds.dataset(self.folder / "out", partitioning="hive").to_table()
        pairs = list(zip(table["event_id"].to_pylist(), table["subscription_ids"].to_pylist(), strict=True))
        assert len(dict(pairs)) == len(pairs)
        return {event: sorted(ids) for event, ids in pairs}


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def events(first: int, count: int) -> pa.Table:
    rng = np.random.default_rng(first)
    kinds = ["a", "b", "c", "d", None, "xay"]
    return pa.table(
        {
            "event_id": np.arange(first, first + count),
            "x": rng.uniform(0, 100, count),
            "y": pa.array(rng.uniform(0, 1, count), mask=rng.uniform(0, 1, count) < 0.1),
            "kind": pa.array([kinds[code] for code in rng.integers(0, len(kinds), count)], pa.string()),
        }
    )


def expected(conditions: dict[int, str] | dict[str, str], *tables: pa.Table) -> dict[int, list[Any]]:
    index = Index(conditions)
    return {
        event: sorted(ids)
        for table in tables
        for event, ids in zip(table["event_id"].to_pylist(), index.match_table(table).to_pylist(), strict=True)
    }


@pytest.mark.parametrize(
    "options",
    [
        {"layout": "replicated"},
        {"layout": "multi", "matchers": 3},
        {"layout": "multi", "matchers": 2, "policy": Policy.RANDOM},
        {"layout": "multi", "matchers": 2, "policy": Policy.SUBSCRIPTIONS, "dimensions": ("kind", "x")},
        {"layout": "single", "matchers": 3, "policy": Policy.RESPONSE_TIME},
        {"layout": "clusters", "matchers": 4, "replicas": 2},
        {"layout": "clusters", "matchers": 4, "hops": 3},
        {"layout": "auto"},
    ],
    ids=str,
)
def test_every_event_gets_what_it_satisfies_once(place: Place, options: dict[str, Any]) -> None:
    place.subscribe(CONDITIONS)
    tables = [events(0, 700), events(700, 900)]
    for number, table in enumerate(tables):
        place.append(f"{number}.parquet", table)
    summary = place.run(replace(place.options, **options))
    assert place.found() == expected(CONDITIONS, *tables)
    assert (summary.events, summary.batches, summary.quarantined) == (1600, 2, 0)
    assert summary.matches == sum(map(len, place.found().values()))
    assert summary.hops_max <= options.get("hops", 1)
    assert summary.events <= summary.visits <= summary.events * options.get("hops", 1)


def test_an_event_skips_clusters_that_hold_nothing_for_it(place: Place) -> None:
    """Also one that was added since the base was made is found, at whichever cluster."""
    options = replace(place.options, layout="clusters", matchers=4, hops=4)
    place.subscribe({number: f"x = {number} AND y = {number}" for number in range(40)})
    table = pa.table({"event_id": range(40), "x": range(40), "y": [float(y) for y in range(40)]})
    place.append("0.parquet", table)
    first = place.run(options)
    assert first.hops_max < 4
    assert first.visits < 2 * first.events
    place.subscribe({50: "x = 3"})
    place.append("1.parquet", pa.table({"event_id": [100], "x": [3], "y": [3.0]}))
    place.run(options)
    assert place.found() == {number: [number] for number in range(40)} | {100: [3, 50]}


def test_changes_of_subscriptions_take_effect_at_the_next_batch(place: Place) -> None:
    place.subscribe(CONDITIONS)
    table = events(0, 300)
    place.append("0.parquet", table)
    place.run()
    wanted = expected(CONDITIONS, table)
    place.unsubscribe(1, 3)
    place.subscribe({9: "y < 0.9"})
    later = events(1000, 300)
    place.append("1.parquet", later)
    place.run()
    changed = {**{number: text for number, text in CONDITIONS.items() if number not in {1, 3}}, 9: "y < 0.9"}
    assert place.found() == wanted | expected(changed, later)


def test_subscriptions_change_while_it_runs(place: Place) -> None:
    """What is acknowledged before an event is appended sees it; what ended before does not."""
    place.subscribe({0: "x < -1"})
    place.append("first.parquet", events(0, 1))
    seen = _Batches()
    pipeline = Pipeline(place.spark, replace(place.options, until_idle=False), watcher=seen)
    runner = threading.Thread(target=pipeline.run, args=(place.source,))
    runner.start()
    try:
        seen.wait_for(1)
        wanted: dict[int, list[int]] = {0: []}
        for step in range(1, 6):
            place.subscribe({step: "x >= 0"})
            if step > 1:
                place.unsubscribe(step - 1)
            table = events(10 * step, 5)
            place.append(f"{step}.parquet", table)
            seen.wait_for(1 + 5 * step)
            wanted |= {event: [step] for event in table["event_id"].to_pylist()}
    finally:
        pipeline.stop()
        runner.join(timeout=60)
    assert not runner.is_alive()
    assert place.found() == wanted


class _Batches(Watcher):
    def __init__(self) -> None:
        self.batches: list[BatchSummary] = []
        self.notices: list[str] = []

    def batch(self, summary: BatchSummary) -> None:
        self.batches.append(summary)

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def wait_for(self, total: int) -> None:
        deadline = time.monotonic() + 60
        while sum(batch.events for batch in self.batches) < total:
            assert time.monotonic() < deadline, self.notices
            time.sleep(0.02)


@pytest.mark.parametrize("layout", ["replicated", "multi", "clusters"])
def test_string_ids(place: Place, layout: str) -> None:
    named = {f"name-{number}": text for number, text in CONDITIONS.items()}
    place.subscribe(named)
    table = events(0, 300)
    place.append("0.parquet", table)
    place.run(replace(place.options, layout=layout, matchers=2, hops=2 if layout == "clusters" else 1))
    assert place.found() == expected(named, table)


@pytest.mark.parametrize("attribute", ["x", "place.x"])
def test_ranges_visit_every_part_they_meet(place: Place, attribute: str) -> None:
    conditions = {number: f"{attribute} >= {10 * number} AND {attribute} < {10 * number + 15}" for number in range(10)}
    place.subscribe(conditions)
    rng = np.random.default_rng(3)
    low = rng.uniform(0, 100, 200)
    ends = [pa.array(low), pa.array(low + rng.uniform(0, 60, 200))]
    column, *fields = attribute.split(".")
    values = pa.StructArray.from_arrays(ends, ["low", "high"])
    for field in fields:
        values = pa.StructArray.from_arrays([values], [field])
    table = pa.table({"event_id": np.arange(200), column: values})
    place.append("0.parquet", table)
    place.run(replace(place.options, layout="multi", matchers=4))
    assert place.found() == expected(conditions, table)


@pytest.mark.parametrize("layout", ["replicated", "multi"])
def test_a_range_that_is_empty_is_quarantined_and_the_rest_goes_on(place: Place, layout: str) -> None:
    place.subscribe({1: "x >= 0", 2: "x >= 9 AND x < 10"})
    ends = [pa.array([1.0, 9.0, 3.0]), pa.array([2.0, 4.0, 5.0])]
    table = pa.table({"event_id": [1, 2, 3], "x": pa.StructArray.from_arrays(ends, ["low", "high"])})
    place.append("0.parquet", table)
    summary = place.run(replace(place.options, layout=layout, matchers=2))
    assert place.found() == {1: [1], 3: [1]}
    assert summary.quarantined == 1
    (line,) = (place.folder / "out" / "batch_id=0" / "_quarantine.jsonl").read_text().splitlines()
    fault = json.loads(line)
    assert "exceeds" in fault["reason"]
    assert "'event_id': 2" in fault["raw"]


def test_a_condition_on_a_column_that_cannot_be_matched_stops_nobody(place: Place) -> None:
    place.subscribe({1: "tags = 'new'", 2: "x > 1", 3: "place.city = 'Oslo'", 4: "place = 3"})
    table = pa.table({"event_id": [7, 8], "x": [0.5, 2.0], "tags": [["new"], []], "place": [{"city": "Oslo"}, None]})
    place.append("0.parquet", table.drop_columns(["place"]))
    summary = place.run(replace(place.options, layout="multi", matchers=2, dimensions=("x", "tags")))
    assert place.found() == {7: [], 8: [2]}
    assert summary.quarantined == 0


def test_names_that_the_events_do_not_have_are_told_once(place: Place) -> None:
    place.subscribe({1: "X > 1 AND y < 2", 2: "x > 1", 3: "knd = 'a' OR altitude < 1"})
    place.append("0.parquet", events(0, 1500))  # two batches
    watcher = _Batches()
    place.run(watcher=watcher)
    assert [text for text in watcher.notices if "in vain" in text] == [
        "subscriptions ask in vain: the events have no attribute 'X', but 'x': names are matched as they are written",
        "subscriptions ask in vain: the events have no attribute 'altitude'",
        "subscriptions ask in vain: the events have no attribute 'knd'; did you mean 'kind'?",
    ]


def test_poison_is_quarantined_in_every_layout(place: Place) -> None:
    place.subscribe(CONDITIONS)
    folder = place.folder / "in"
    folder.mkdir()
    rows = ['{"event_id": 1, "x": 3.0, "kind": "a"}', "{not json", '{"event_id": 2, "x": "many"}', '{"event_id": 3}']
    (folder / "0.jsonl").write_text("\n".join(rows) + "\n")
    source = replace(place.source, schema="event_id BIGINT, x DOUBLE, y DOUBLE, kind STRING")
    options = replace(place.options, layout="multi", matchers=2)
    summary = Pipeline(place.spark, options).run(source)
    assert place.found() == {1: [1, 8], 3: [4]}
    assert summary.quarantined == 2
    faults = [json.loads(line) for line in (place.folder / "out/batch_id=0/_quarantine.jsonl").read_text().splitlines()]
    assert sorted(fault["place"] for fault in faults) == ["0.jsonl:2", "0.jsonl:3"]


def test_exploded_output_has_a_row_for_each_pair(place: Place) -> None:
    place.subscribe(CONDITIONS)
    table = events(0, 300)
    place.append("0.parquet", table)
    place.run(replace(place.options, write=WriteOptions(explode=True)))
    rows = duckdb.read_parquet(f"{place.folder}/out/**/*.parquet").project("event_id, subscription_id").fetchall()
    wanted = expected(CONDITIONS, table)
    assert sorted(rows) == sorted((event, number) for event, ids in wanted.items() for number in ids)


def test_a_dataframe_can_be_the_source(place: Place, spark: SparkSession) -> None:
    place.subscribe({1: "value % 2 = 1", 2: "value >= 10"})
    batches: list[CommittedBatch] = []
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 25).load()
    seen = _Batches()
    options = replace(place.options, until_idle=False, event_time="timestamp", layout="multi", matchers=2)
    pipeline = Pipeline(spark, options, watcher=seen, on_batch=batches.append)
    runner = threading.Thread(target=pipeline.run, args=(rate,))
    runner.start()
    try:
        seen.wait_for(75)
    finally:
        pipeline.stop()
        runner.join(timeout=60)
    rows = [row for batch in batches for row in batch.table().to_pylist()]
    assert len(rows) >= 75
    for row in rows:
        wanted = [1] * (row["value"] % 2) + [2] * (row["value"] >= 10)
        assert sorted(row["subscription_ids"]) == wanted
    assert all(batch.latency_seconds(0.5) is not None for batch in seen.batches)


def test_only_subscriptions_in_scope_are_matched(place: Place) -> None:
    place.subscribe({1: "x >= 0"}, topic="traffic")
    place.subscribe({2: "x >= 0"}, topic="weather")
    place.append("0.parquet", events(0, 3))
    place.run(replace(place.options, scope=Scope(topic="weather")))
    assert place.found() == {0: [2], 1: [2], 2: [2]}


def test_a_run_goes_on_where_the_last_one_ended(place: Place) -> None:
    place.subscribe(CONDITIONS)
    tables = [events(1000 * number, 200) for number in range(3)]
    for number, table in enumerate(tables):
        place.append(f"{number}.parquet", table)
        assert place.run().events == 200
    assert place.found() == expected(CONDITIONS, *tables)


def test_a_batch_that_comes_again_has_the_same_time_of_now(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The commit fails at first, so that the first batch is matched twice, the second time later."""
    path = tmp_path / "state" / "fieldfare" / "instant"
    place.subscribe({1: "x > -1 AND now() > '2026-01-01'"})
    place.append("0.parquet", events(0, 10))
    instants: list[bytes] = []
    commit = OutputFolder.commit

    def failing(self: OutputFolder, *arguments: Any) -> CommittedBatch:
        instants.append(path.read_bytes())
        if len(instants) == 1:
            raise OutputError("the disk is full")
        return commit(self, *arguments)

    monkeypatch.setattr(OutputFolder, "commit", failing)
    place.run()
    assert place.found() == {number: [1] for number in range(10)}
    place.append("1.parquet", events(10, 5))
    place.run()
    assert instants[0] == instants[1] != instants[2]


def test_another_checkpoint_does_not_write_into_the_same_output(place: Place) -> None:
    place.subscribe(CONDITIONS)
    place.append("0.parquet", events(0, 10))
    place.run()
    with pytest.raises(OutputError, match="another output folder"):
        place.run(replace(place.options, checkpoint=place.folder / "other"))


def test_two_pipelines_do_not_share_a_checkpoint(place: Place) -> None:
    place.subscribe(CONDITIONS)
    place.append("0.parquet", events(0, 10))

    def second(_batch: CommittedBatch) -> None:
        with pytest.raises(PipelineError, match="another pipeline"):
            place.run()

    place.run(on_batch=second)


@pytest.mark.parametrize("wrong", [{"layout": "round"}, {"policy": "best"}])
def test_unknown_names_are_refused_with_the_known_ones(place: Place, wrong: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match="one of"):
        replace(place.options, **wrong)


def test_what_waits_is_seen_from_outside(place: Place) -> None:
    def backlog() -> Backlog:
        return folder_backlog(place.folder / "in", place.options.checkpoint, place.source.ledger, time.time())

    place.subscribe(CONDITIONS)
    (place.folder / "in").mkdir()
    assert backlog() == Backlog(None, 0, is_estimate=False, files=0, oldest_seconds=None)
    place.append("0.parquet", events(0, 300))
    assert backlog()[:4] == (None, 0, True, 1)  # how many events a file has is known when it is opened
    place.run(replace(place.options, until_idle=True))
    assert backlog() == Backlog(0, 0, is_estimate=False, files=0, oldest_seconds=None)
    for number in (1, 2):
        place.append(f"{number}.parquet", events(300 * number, 300))
    os.utime(place.folder / "in" / "1.parquet", (0, time.time() - 60))
    found = backlog()
    assert found.files == 2
    assert found.oldest_seconds == pytest.approx(60, abs=50)
    place.run()
    assert backlog()[:4] == (1, 0, False, 0)


def test_metrics_are_served_while_it_runs(place: Place) -> None:
    place.subscribe(CONDITIONS)
    table = events(0, 300)
    place.append("0.parquet", table)
    arguments = place.folder / "in", place.options.checkpoint, place.source.ledger
    metrics = PipelineMetrics(lambda: folder_backlog(*arguments, time.time()))
    with MetricsServer(0, {"": metrics}) as server:
        before = urllib.request.urlopen(server.address).read().decode()  # noqa: S310 - our own loopback address
        place.run(watcher=metrics)
        text = urllib.request.urlopen(server.address).read().decode()  # noqa: S310 - our own loopback address
    assert "fieldfare_waiting_files 1.0" in before
    assert "fieldfare_waiting_files 0.0" in text
    assert "fieldfare_events_total 300.0" in text
    assert f"fieldfare_subscriptions {float(len(CONDITIONS))}" in text
    assert 'fieldfare_latency_seconds_bucket{le="+Inf"} 300.0' in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(server.address)  # noqa: S310
