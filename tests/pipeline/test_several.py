"""Several pipelines in one process: each with its own topic, layout and output, and each failing by itself."""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.errors import (
    ConfigError,
    KafkaTopicError,
    KafkaUnavailableError,
    OutputError,
    PipelineError,
    TableError,
    TableUnavailableError,
)
from fieldfare.pipeline import Pipelines
from fieldfare.pipeline.metrics import MetricsServer, PipelineMetrics
from fieldfare.pipeline.output import CommittedBatch
from fieldfare.pipeline.settings import PipelineSettings, read_pipelines
from fieldfare.pipeline.several import _needs_a_person
from fieldfare.pipeline.watching import Watcher, Watchers
from fieldfare.store.subscription_store import open_store

CONFIG = """
[defaults]
store = "subscriptions.db"
interval = 0.05

[pipelines.traffic]
events = "traffic"
output = "out/traffic"
checkpoint = "state/traffic"
topic = "traffic"
schema = "number BIGINT"

[pipelines.quotes]
events = "quotes"
output = "out/quotes"
checkpoint = "state/quotes"
topic = "quotes"
schema = "number BIGINT"
layout = "multi"
matchers = 2
explode = true
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two pipelines on one store, and three events for each."""
    with open_store(str(tmp_path / "subscriptions.db")) as store:
        store.add({1: "number < 2", 2: "number >= 1"}, now_seconds=time.time(), topic="traffic")
        store.add({3: "number >= 1"}, now_seconds=time.time(), topic="quotes")
    for name in ("traffic", "quotes"):
        (tmp_path / name).mkdir()
        append(tmp_path / name, 0)
    file = tmp_path / "pipelines.toml"
    file.write_text(CONFIG)
    return file


def append(folder: Path, first: int) -> None:
    pq.write_table(pa.table({"number": [first, first + 1, first + 2]}), folder / f".{first}.parquet")
    (folder / f".{first}.parquet").rename(folder / f"{first}.parquet")


def found(output: Path) -> list[tuple[int, Any]]:
    table = ds.dataset(output, partitioning="hive").to_table()
    ids = "subscription_ids" if "subscription_ids" in table.column_names else "subscription_id"
    return sorted(zip(table["number"].to_pylist(), table[ids].to_pylist(), strict=True))


def check_outputs(folder: Path) -> None:
    assert found(folder / "out/traffic") == [(0, [1]), (1, [1, 2]), (2, [2])]
    assert found(folder / "out/quotes") == [(1, 3), (2, 3)]


class _Seen(Watcher):
    """What a pipeline tells."""

    def __init__(self) -> None:
        self.events = 0
        self.said: list[str] = []
        self.changed = threading.Condition()

    def batch(self, summary: Any) -> None:
        with self.changed:
            self.events += summary.events
            self.changed.notify_all()

    def notice(self, text: str) -> None:
        with self.changed:
            self.said.append(text)
            self.changed.notify_all()

    def wait_for(self, events: int = 0, said: str = "") -> None:
        def is_there() -> bool:
            return self.events >= events and any(said in text for text in ["", *self.said])

        with self.changed:
            assert self.changed.wait_for(is_there, timeout=120), (self.events, self.said)


@contextmanager
def running(pipelines: Pipelines) -> Iterator[list[Any]]:
    """Run pipelines in the background; afterwards they have ended, and their outcomes are in the list."""
    outcomes: list[Any] = []
    runner = threading.Thread(target=lambda: outcomes.append(pipelines.run()))
    runner.start()
    try:
        yield outcomes
    finally:
        pipelines.stop()
        runner.join(timeout=120)
        assert not runner.is_alive()


def added(pipelines: Pipelines, name: str, settings: PipelineSettings, watcher: Watcher | None = None) -> None:
    pipelines.add(name, settings.source(), settings.options(), watcher=watcher)


def test_one_that_fails_does_not_stop_the_others_and_is_tried_again(config: Path, spark: SparkSession) -> None:
    settings = read_pipelines(config)
    (config.parent / "quotes").rename(config.parent / "away")
    pipelines = Pipelines(spark)
    seen = {name: _Seen() for name in settings}
    metrics = {name: PipelineMetrics() for name in settings}
    for name, found_settings in settings.items():
        added(pipelines, name, found_settings, Watchers([seen[name], metrics[name]]))
    with MetricsServer(0, metrics) as server, running(pipelines) as outcomes:

        def told() -> str:
            return str(urllib.request.urlopen(server.address).read().decode())  # noqa: S310 - our own loopback address

        seen["quotes"].wait_for(said="trying again in 1 s")
        seen["traffic"].wait_for(events=3)
        assert 'fieldfare_pipeline_running{pipeline="quotes"} 0.0' in told()
        assert 'fieldfare_events_total{pipeline="traffic"} 3.0' in told()
        (config.parent / "away").rename(config.parent / "quotes")
        seen["quotes"].wait_for(events=3)
        assert 'fieldfare_pipeline_running{pipeline="quotes"} 1.0' in told()
        append(config.parent / "traffic", 3)
        seen["traffic"].wait_for(events=6)
    (outcome,) = outcomes
    assert outcome["traffic"].failures == 0
    assert outcome["traffic"].failure is None
    assert outcome["quotes"].failures >= 1
    assert outcome["quotes"].failure is None
    assert found(config.parent / "out/quotes") == [(1, 3), (2, 3)]
    assert [number for number, _ in found(config.parent / "out/traffic")] == [0, 1, 2, 3, 4, 5]


def test_one_whose_output_is_anothers_is_not_tried_again(config: Path, spark: SparkSession) -> None:
    settings = read_pipelines(config)
    (config.parent / "out/quotes").mkdir(parents=True)
    (config.parent / "out/quotes/_fieldfare.json").write_text('{"owner": "another"}')
    pipelines = Pipelines(spark)
    seen = {name: _Seen() for name in settings}
    for name, found_settings in settings.items():
        added(pipelines, name, found_settings, seen[name])
    with running(pipelines) as outcomes:
        seen["quotes"].wait_for(said="is not tried again")
        seen["traffic"].wait_for(events=3)
    assert outcomes[0]["quotes"].failures == 1
    assert outcomes[0]["traffic"].failure is None


def test_they_end_when_none_of_them_works(config: Path, spark: SparkSession) -> None:
    for name in ("traffic", "quotes"):
        (config.parent / name).rename(config.parent / f"no-{name}")
    pipelines = Pipelines(spark)
    for name, settings in read_pipelines(config).items():
        added(pipelines, name, settings)
    outcomes = pipelines.run()
    assert all("there is no such folder" in str(outcome.failure) for outcome in outcomes.values())


def test_each_has_a_pool_of_the_scheduler(config: Path, spark: SparkSession) -> None:
    pools = {}
    pipelines = Pipelines(spark)
    for name, settings in read_pipelines(config).items():

        def remember(_batch: CommittedBatch, name: str = name) -> None:
            pools[name] = spark.sparkContext.getLocalProperty("spark.scheduler.pool")

        pipelines.add(name, settings.source(), settings.options(until_idle=True), on_batch=remember)
    pipelines.run()
    assert pools == {"traffic": "traffic", "quotes": "quotes"}
    check_outputs(config.parent)


def test_names_checkpoints_and_outputs_are_not_shared(config: Path, spark: SparkSession) -> None:
    settings = read_pipelines(config)["traffic"]
    pipelines = Pipelines(spark)
    added(pipelines, "traffic", settings)
    with pytest.raises(PipelineError, match="two pipelines have the name"):
        added(pipelines, "traffic", settings)
    with pytest.raises(PipelineError, match="have the same checkpoint"):
        added(pipelines, "other", settings)


def test_a_command_runs_those_of_a_file_and_says_who_failed(
    config: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def shared_session(*_arguments: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("fieldfare.pipeline.spark_session.spark_session", shared_session)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    command = ["pipeline", "run", "--config", str(config), "--until-idle", "--json"]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.stdout)["pipelines"]
    assert {name: summary["events"] for name, summary in told.items()} == {"traffic": 3, "quotes": 3}
    assert {name: summary["layout"] for name, summary in told.items()} == {"traffic": "replicated", "quotes": "multi"}
    check_outputs(config.parent)
    status = CliRunner().invoke(app, ["pipeline", "status", "--config", str(config)])
    assert "pipeline: quotes\ncommitted: up to batch 0\nwaiting: 0 events in 0 files" in status.stdout
    (config.parent / "quotes").rename(config.parent / "away")
    append(config.parent / "traffic", 3)
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 1
    told = json.loads(ended.stdout)["pipelines"]
    assert told["traffic"]["events"] == 3
    assert "there is no such folder" in told["quotes"]["failure"]


def test_every_problem_of_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.toml"
    file.write_text(
        'colour = 1\n[defaults]\nstor = "x"\n[pipelines."bad name"]\nevents = ""\n[pipelines.a]\nevents = "in"\n'
        'output = "out"\ncheckpoint = "state"\nmatchers = "many"\ninterval = -1\n'
        '[pipelines.b]\nevents = "in"\noutput = "out"\ncheckpoint = "state"\n'
    )
    with pytest.raises(ConfigError) as caught:
        read_pipelines(file)
    places = [problem.removeprefix(f"{file}: ") for problem in caught.value.problems]
    for expected in (
        "there is no section [colour]; allowed: defaults, pipelines.NAME",
        "defaults.stor: there is no such setting; allowed: events,",
        "pipelines.bad name: a pipeline's name has letters",
        "pipelines.bad name: output is missing",
        "pipelines.bad name.events: Expected `str` of length >= 1",
        "pipelines.a.matchers:",
        "pipelines.a.interval: Expected `float` >= 0",
        "pipelines.b.checkpoint: pipelines.a has it too; each needs its own",
        "pipelines.b.output: pipelines.a has it too; each needs its own",
    ):
        assert any(place.startswith(expected) for place in places), (expected, places)


def test_paths_of_a_file_are_relative_to_it(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.toml"
    file.write_text(
        '[defaults]\nstore = "postgresql://me@host/db"\n'
        '[pipelines.a]\nevents = "kafka://host:9092/a"\noutput = "delta:tables/a"\ncheckpoint = "/abs/a"\n'
        '[pipelines.b]\nevents = "in"\noutput = "iceberg:space.b"\ncheckpoint = "b"\nstore = "own.db"\n'
        '[pipelines.c]\nevents = "in"\noutput = "iceberg:tables/space.c"\ncheckpoint = "c"\n'
    )
    found_settings = read_pipelines(file, store="of-the-environment.db")
    a, b, c = (found_settings[name] for name in "abc")
    assert (a.events, a.output) == ("kafka://host:9092/a", f"delta:{tmp_path}/tables/a")
    assert (a.checkpoint, a.store) == ("/abs/a", "postgresql://me@host/db")
    assert (b.events, b.output) == (f"{tmp_path}/in", "iceberg:space.b")
    assert (b.checkpoint, b.store) == (f"{tmp_path}/b", f"{tmp_path}/own.db")
    assert c.output == f"iceberg:{tmp_path}/tables/space.c"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["run", "--events", "in"], "--output, --checkpoint: needed, unless --config"),
        (["run", "--config", "x.toml", "--layout", "multi", "--format", "json"], "--layout, --file-format: with"),
        (["run", "--config", "x.toml"], "x.toml: cannot be read"),
        (["status"], "--events and --checkpoint are needed"),
        (["status", "--config", "x.toml", "--events", "in"], "--events: with --config"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str], reason: str) -> None:
    ended = CliRunner().invoke(app, ["pipeline", *arguments])
    assert ended.exit_code != 0
    assert reason in f"{ended.output}{ended.exception}"


def test_what_may_pass_needs_no_person() -> None:
    passing = [TableUnavailableError("away"), KafkaUnavailableError("away"), PipelineError("Spark")]
    lasting = [TableError("gone"), KafkaTopicError("gone"), OutputError("another's")]
    assert [_needs_a_person(error) for error in (*passing, *lasting)] == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    ("place", "same"),
    [
        ("out", "{}/out"),
        ("out", "other/../out/"),
        ("delta:out", "delta:{}/./out"),
        ("iceberg:lake/n.t", "iceberg:./lake/n.t"),
        ("s3://b/out", "s3://b/out/"),
    ],
)
def test_an_output_is_the_same_however_it_is_written(place: str, same: str, tmp_path: Path) -> None:
    sections = (
        f'[pipelines.p{number}]\nevents = "in"\ncheckpoint = "state{number}"\noutput = "{output.format(tmp_path)}"\n'
        for number, output in enumerate((place, same))
    )
    (tmp_path / "pipelines.toml").write_text("".join(sections))
    with pytest.raises(ConfigError, match=r"pipelines\.p1\.output: pipelines\.p0 has it too"):
        read_pipelines(tmp_path / "pipelines.toml")
