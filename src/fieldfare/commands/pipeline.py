"""`fieldfare pipeline`: run the streaming pipeline, and show how it goes."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from fieldfare.errors import InputError

if TYPE_CHECKING:
    from types import FrameType

    from fieldfare.pipeline.backlog import Backlog
    from fieldfare.pipeline.output_places import OutputPlace
    from fieldfare.pipeline.run import Pipeline
    from fieldfare.pipeline.sources import EventSource

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.command()
def run(
    *,
    events: Annotated[
        str,
        typer.Option(help="Folder of Parquet, JSON lines or CSV files, which may grow; or kafka://host:9092/topic."),
    ],
    output: Annotated[
        str,
        typer.Option(
            help="Folder of the matches, a Parquet table that grows; or kafka://host:9092/topic, delta:FOLDER, "
            "iceberg:FOLDER/namespace.table, postgresql://user@host/database?table=NAME."
        ),
    ],
    checkpoint: Annotated[Path, typer.Option(help="Folder where the pipeline remembers what it has done.")],
    store: Annotated[str, typer.Option(envvar="FIELDFARE_STORE", help="The subscriptions.")] = "fieldfare.db",
    layout: Annotated[str, typer.Option(help="auto, replicated, multi, single or clusters.")] = "auto",
    policy: Annotated[str, typer.Option(help="adaptive, response-time, subscriptions or random.")] = "adaptive",
    matchers: Annotated[str, typer.Option(help="How many, or auto: as many as the load needs.")] = "auto",
    dimension: Annotated[
        list[str] | None, typer.Option(help="An attribute to divide by; may be repeated.", show_default="from the data")
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, help="With clusters: matchers that hold the same.")] = 1,
    hops: Annotated[int, typer.Option(min=1, help="With clusters: clusters that an event visits.")] = 1,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's subscriptions.", show_default="all")] = None,
    topic: Annotated[str | None, typer.Option(help="Only subscriptions to this topic.", show_default="all")] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="What the files are: json, csv or parquet; messages: json, avro.",
            show_default="from files",
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(help="Columns of the events, as in SQL: 'a INT, b STRING'.", show_default="from files")
    ] = None,
    starting: Annotated[
        str, typer.Option(help="From Kafka: earliest, latest, a time, or offsets as 0:120,1:44; of a new checkpoint.")
    ] = "earliest",
    events_config: Annotated[
        Path | None,
        typer.Option(help="Kafka's settings for the events, name = value lines: TLS, SASL, a schema registry."),
    ] = None,
    output_config: Annotated[
        Path | None, typer.Option(help="The same for the output; of a lake table: its store's or catalog's settings.")
    ] = None,
    commit_seconds: Annotated[
        float, typer.Option(min=0.0, help="To a lake table: how long batches gather before they are committed to it.")
    ] = 30.0,
    output_key: Annotated[
        str | None, typer.Option(help="To Kafka: the column whose value keys an event's message.", show_default="none")
    ] = None,
    events_per_batch: Annotated[int, typer.Option(min=1, help="At most so many events in a batch.")] = 500_000,
    interval: Annotated[float, typer.Option(min=0.0, help="Seconds from one batch to the next.")] = 0.5,
    explode: Annotated[bool, typer.Option("--explode", help="Write a row for each pair, not for each event.")] = False,
    only_matched: Annotated[bool, typer.Option("--only-matched", help="Leave out events that nobody wants.")] = False,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop when all events there are matched.")] = False,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, help="Serve Prometheus metrics here; 0: any port.", show_default="none")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", show_default="this machine, or as spark-submit says")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON at the end.")] = False,
) -> None:
    """Match a stream of events against the subscriptions of a store, exactly once, until stopped.

    Subscriptions may change at any time: what was acknowledged before an event was appended sees that event.
    Stop with Ctrl-C: the batch under way is finished. Started again with the same checkpoint, it goes on where it was.

    Example: `fieldfare pipeline run --events in --store fieldfare.db --output out --checkpoint state`
    """
    from fieldfare.pipeline.metrics import PipelineMetrics
    from fieldfare.pipeline.output import WriteOptions
    from fieldfare.pipeline.progress import ProgressLine
    from fieldfare.pipeline.run import Pipeline, PipelineOptions
    from fieldfare.pipeline.spark_session import spark_session
    from fieldfare.pipeline.watching import Watcher, Watchers
    from fieldfare.store.base import Scope

    options = PipelineOptions(
        store=store,
        output=_output(output, _Writing(output_config, output_key, commit_seconds)),
        checkpoint=checkpoint,
        scope=Scope(tenant, topic),
        layout=layout,
        policy=policy,
        matchers=None if matchers == "auto" else _count(matchers),
        dimensions=tuple(dimension or ()),
        replicas=replicas,
        hops=hops,
        interval_seconds=interval,
        write=WriteOptions(explode=explode, only_matched=only_matched),
        until_idle=until_idle,
    )
    source = _source(events, checkpoint, schema, events_per_batch, _Reading(file_format, starting, events_config))
    console = Console(stderr=True)
    checkpoint.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressLine(console))
        watchers: list[Watcher] = [progress]
        if metrics_port is not None:
            backlog = partial(_backlog, events, checkpoint, events_config)
            metrics = stack.enter_context(PipelineMetrics(metrics_port, backlog=backlog))
            progress.notice(f"Metrics: {metrics.address}")
            watchers.append(metrics)
        spark = stack.enter_context(spark_session("fieldfare-pipeline", checkpoint / "spark.log", master))
        pipeline = Pipeline(spark, options, watcher=Watchers(watchers))
        _stop_on_signals(pipeline)
        summary = pipeline.run(source)
    if as_json:
        typer.echo(json.dumps(summary.as_dict()))
    else:
        console.print(summary.sentence(), highlight=False, soft_wrap=True)


@app.command()
def status(
    *,
    events: Annotated[str, typer.Option(help="Where the pipeline's events come from: a folder, or a Kafka topic.")],
    checkpoint: Annotated[Path, typer.Option(help="The pipeline's checkpoint.")],
    events_config: Annotated[Path | None, typer.Option(help="Kafka's settings, as for `run`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show what waits for a pipeline: events and files that no committed batch had, and how old the oldest is.

    It only reads, so the pipeline may run meanwhile, or not. With --metrics-port, a running one tells the same.

    Example: `fieldfare pipeline status --events in --checkpoint state`
    """
    found = _backlog(events, checkpoint, events_config)
    if as_json:
        typer.echo(json.dumps(found._asdict()))
        return
    typer.echo(f"committed: {'nothing yet' if found.batch_id is None else f'up to batch {found.batch_id}'}")
    about = "about " if found.is_estimate else ""
    files = "" if found.files is None else f" in {found.files:,} files"
    typer.echo(f"waiting: {about}{found.events:,} events{files}")
    if found.oldest_seconds is not None:
        typer.echo(f"oldest: written {found.oldest_seconds:,.0f} s ago")


def _backlog(place: str, checkpoint: Path, config: Path | None) -> Backlog:
    from fieldfare.pipeline.backlog import folder_backlog, topic_backlog
    from fieldfare.pipeline.kafka.address import KafkaTopic, is_kafka, read_settings
    from fieldfare.pipeline.kafka.schema_registry import SchemaRegistry

    if is_kafka(place):
        _, settings = SchemaRegistry.taken_from(read_settings(config) if config else {})
        return topic_backlog(KafkaTopic.parse(place, settings), checkpoint)
    if not Path(place).is_dir():
        raise InputError(f"{place}: there is no such folder of events")
    return folder_backlog(Path(place), checkpoint, _ledger(checkpoint), time.time())


def _ledger(checkpoint: Path) -> Path:
    return checkpoint / "fieldfare" / "ledger"


class _Reading(NamedTuple):
    """How events are read."""

    format: str | None
    starting: str
    config: Path | None


def _source(place: str, checkpoint: Path, schema: str | None, events_max: int, reading: _Reading) -> EventSource:
    """Where events come from: a folder, or a Kafka topic."""
    from fieldfare.pipeline.kafka.address import KafkaTopic, is_kafka, read_settings
    from fieldfare.pipeline.source import FolderSource

    state = _ledger(checkpoint)
    if not is_kafka(place):
        return FolderSource(Path(place), state, reading.format, schema, events_per_batch_max=events_max)
    from fieldfare.pipeline.kafka.schema_registry import SchemaRegistry
    from fieldfare.pipeline.kafka.source import KafkaSource

    registry, settings = SchemaRegistry.taken_from(read_settings(reading.config) if reading.config else {})
    file_format = reading.format or ("json" if registry is None else "avro")
    return KafkaSource(
        KafkaTopic.parse(place, settings),
        state,
        schema,
        reading.starting,
        file_format,
        registry,
        events_per_batch_max=events_max,
    )


class _Writing(NamedTuple):
    """How the output is written."""

    config: Path | None
    key: str | None
    commit_seconds: float


def _output(place: str, writing: _Writing) -> OutputPlace:
    from fieldfare.pipeline.kafka.address import KafkaSink, KafkaTopic, is_kafka, read_settings
    from fieldfare.pipeline.tables.address import is_table, parse_table

    settings = read_settings(writing.config) if writing.config else {}
    if is_kafka(place):
        return KafkaSink(KafkaTopic.parse(place, settings), writing.key)
    if is_table(place):
        return parse_table(place, settings, writing.commit_seconds)
    return Path(place)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"--matchers is a number from 1, or auto; not {text!r}")
    return int(text)


def _stop_on_signals(pipeline: Pipeline) -> None:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        pipeline.stop()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
