"""`fieldfare pipeline`: run the streaming pipeline, and show how it goes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer
from rich.console import Console

from fieldfare.errors import ConfigError, FieldfareError, InputError

if TYPE_CHECKING:
    from types import FrameType

    from fieldfare.pipeline.backlog import Backlog
    from fieldfare.pipeline.run import PipelineOptions
    from fieldfare.pipeline.settings import PipelineSettings
    from fieldfare.pipeline.several import Outcome
    from fieldfare.pipeline.sources import EventSource

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

_Config = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with a section [pipelines.NAME] for each of several pipelines, whose keys are these options.",
        show_default="none",
    ),
]


@app.command()
def run(
    context: typer.Context,
    *,
    events: Annotated[
        str | None,
        typer.Option(
            help="Folder of Parquet, JSON lines or CSV files, which may grow; or s3://bucket/path (gs, abfss), "
            "kafka://host:9092/topic.",
            show_default="none: needed",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="Folder of the matches, a Parquet table that grows; or s3://bucket/path (gs, abfss), "
            "kafka://host:9092/topic, delta:FOLDER, "
            "iceberg:FOLDER/namespace.table, postgresql://user@host/database?table=NAME.",
            show_default="none: needed",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder where the pipeline remembers what it has done.", show_default="none: needed"),
    ] = None,
    config: _Config = None,
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
            help="What the files are: json, csv or parquet; messages: json, avro or protobuf.",
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
        typer.Option(
            help="Settings for the events, name = value lines: Kafka's (TLS, SASL, a registry), or a bucket's."
        ),
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
    metrics_address: Annotated[
        str, typer.Option(help="Where the metrics are served: 0.0.0.0 for other machines to read them, too.")
    ] = "127.0.0.1",
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", show_default="this machine, or as spark-submit says")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON at the end.")] = False,
) -> None:
    """Match a stream of events against the subscriptions of a store, exactly once, until stopped.

    Subscriptions may change at any time: what was acknowledged before an event was appended sees that event.
    Stop with Ctrl-C: the batch under way is finished. Started again with the same checkpoint, it goes on where it was.

    With --config several pipelines share one Spark session, each with its own part of the cores. One that fails is
    tried again while others work; the exit code is 1 if one does not work at the end.

    Example: `fieldfare pipeline run --events in --store fieldfare.db --output out --checkpoint state`
    """
    pipelines = _pipelines(
        context,
        config,
        store,
        {
            "events": events,
            "output": output,
            "checkpoint": checkpoint,
            "tenant": tenant,
            "topic": topic,
            "layout": layout,
            "policy": policy,
            "matchers": "auto" if matchers == "auto" else _count(matchers),
            "dimensions": tuple(dimension or ()),
            "replicas": replicas,
            "hops": hops,
            "format": file_format,
            "schema": schema,
            "starting": starting,
            "events_config": events_config,
            "output_config": output_config,
            "commit_seconds": commit_seconds,
            "output_key": output_key,
            "events_per_batch": events_per_batch,
            "interval": interval,
            "explode": explode,
            "only_matched": only_matched,
        },
    )
    process = _Process(master, metrics_port, metrics_address, until_idle)
    outcomes = _run(pipelines, process, Console(stderr=True))
    if as_json:
        told = {name: outcome.as_dict() for name, outcome in outcomes.items()}
        typer.echo(json.dumps({"pipelines": told} if config else told[""]))
    else:
        for name, outcome in outcomes.items():
            text = f"{name}: {outcome.sentence()}" if name else outcome.sentence()
            Console(stderr=True).print(text, highlight=False, soft_wrap=True, markup=False)
    if any(outcome.failure for outcome in outcomes.values()):
        raise typer.Exit(1)


@app.command()
def status(
    *,
    events: Annotated[
        str | None,
        typer.Option(help="Where the pipeline's events come from: a folder, or a Kafka topic.", show_default="none"),
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="The pipeline's checkpoint.", show_default="none")] = None,
    events_config: Annotated[Path | None, typer.Option(help="Settings, as for `run`.")] = None,
    config: _Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show what waits for a pipeline: events and files that no committed batch had, and how old the oldest is.

    It only reads, so the pipeline may run meanwhile, or not. With --metrics-port, a running one tells the same. With
    --config, all pipelines of a file are shown.

    Example: `fieldfare pipeline status --events in --checkpoint state`
    """
    given = {"events": events, "checkpoint": checkpoint, "events_config": events_config}
    if config is None:
        if events is None or checkpoint is None:
            raise InputError("--events and --checkpoint are needed; or --config FILE, for all pipelines of a file")
        from fieldfare.pipeline.settings import PipelineSettings

        config_of_events = None if events_config is None else str(events_config)
        alone = PipelineSettings(events=events, checkpoint=str(checkpoint), events_config=config_of_events)
        pipelines: Mapping[str, PipelineSettings] = {"": alone}
    else:
        _refuse_beside_config([name for name, value in given.items() if value is not None])
        pipelines = _read(config)
    backlogs = {name: found.backlog() for name, found in pipelines.items()}
    if as_json:
        told = {name: found._asdict() for name, found in backlogs.items()}
        typer.echo(json.dumps({"pipelines": told} if config else told[""]))
        return
    for name, found in backlogs.items():
        if name:
            typer.echo(f"pipeline: {name}")
        _show(found)


def _show(found: Backlog) -> None:
    typer.echo(f"committed: {'nothing yet' if found.batch_id is None else f'up to batch {found.batch_id}'}")
    about = "about " if found.is_estimate else ""
    files = "" if found.files is None else f" in {found.files:,} files"
    typer.echo(f"waiting: {about}{found.events:,} events{files}")
    if found.oldest_seconds is not None:
        typer.echo(f"oldest: written {found.oldest_seconds:,.0f} s ago")


class _Process(NamedTuple):
    """What concerns the process, and no single pipeline."""

    master: str | None
    metrics_port: int | None
    metrics_address: str
    until_idle: bool


def _run(pipelines: Mapping[str, PipelineSettings], process: _Process, console: Console) -> Mapping[str, Outcome]:
    """Run the pipelines until they are stopped. One without a name is alone: its failure is raised."""
    from fieldfare.pipeline.metrics import MetricsServer, PipelineMetrics
    from fieldfare.pipeline.progress import Progress
    from fieldfare.pipeline.run import Pipeline
    from fieldfare.pipeline.several import Outcome, Pipelines
    from fieldfare.pipeline.spark_session import spark_session
    from fieldfare.pipeline.watching import Watchers

    # Whatever is wrong with the settings is said before Spark starts.
    parts = {name: _built(name, settings, until_idle=process.until_idle) for name, settings in pipelines.items()}
    log = next(iter(pipelines.values())).state / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    metrics = {name: PipelineMetrics(settings.backlog) for name, settings in pipelines.items()}
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console))
        if process.metrics_port is not None:
            server = stack.enter_context(MetricsServer(process.metrics_port, metrics, process.metrics_address))
            progress.notice(f"Metrics: {server.address}")
        spark = stack.enter_context(spark_session("fieldfare-pipeline", log, process.master))
        watchers = {name: Watchers([progress.line(name), metrics[name]]) for name in pipelines}
        if "" in parts:
            source, options = parts[""]
            pipeline = Pipeline(spark, options, watcher=watchers[""])
            _stop_on_signals(pipeline.stop)
            return {"": Outcome(pipeline.run(source))}
        together = Pipelines(spark)
        for name, (source, options) in parts.items():
            together.add(name, source, options, watcher=watchers[name])
        _stop_on_signals(together.stop)
        return together.run()


def _built(name: str, settings: PipelineSettings, *, until_idle: bool) -> tuple[EventSource, PipelineOptions]:
    try:
        return settings.source(), settings.options(until_idle=until_idle)
    except FieldfareError as error:
        if not name:
            raise
        raise ConfigError(f"pipelines.{name}: {error}") from error


def _pipelines(
    context: typer.Context, config: Path | None, store: str, options: Mapping[str, Any]
) -> Mapping[str, PipelineSettings]:
    """The pipelines of a file; or the one that the options describe, which has no name."""
    if config is not None:
        words = {"dimension": "dimensions", "file_format": "format"}
        sources = {name: context.get_parameter_source(name) for name in context.params}
        said = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
        _refuse_beside_config([name for name in said if words.get(name, name) in options])
        return _read(config, store)
    from fieldfare.pipeline.settings import PipelineSettings

    if missing := [f"--{name}" for name in ("events", "output", "checkpoint") if options[name] is None]:
        raise InputError(f"{', '.join(missing)}: needed, unless --config FILE names a file of pipelines")
    texts = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    return {"": msgspec.convert({"store": store, **texts}, PipelineSettings)}


def _read(config: Path, store: str | None = None) -> Mapping[str, PipelineSettings]:
    from fieldfare.pipeline.settings import read_pipelines

    return read_pipelines(config, store)


def _refuse_beside_config(said: Sequence[str]) -> None:
    if said:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        raise InputError(f"{names}: with --config each pipeline's section says it, or [defaults] for all of them")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"--matchers is a number from 1, or auto; not {text!r}")
    return int(text)


def _stop_on_signals(stop: Callable[[], None]) -> None:
    def handle(_signal: int, _frame: FrameType | None) -> None:
        stop()

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
