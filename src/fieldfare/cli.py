"""The `fieldfare` command: parse arguments, call one function, show what it returns.

Imports of substance stand inside the commands, so that help is quick and needs no optional package.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console

from fieldfare import __version__
from fieldfare.commands import experiments, pipeline, subscriptions
from fieldfare.errors import FieldfareError

_EXIT_BAD_INPUT = 2
_PIPE_COLUMNS = 160


class _Commands(typer.core.TyperGroup):
    """The commands; an error that Fieldfare raises on purpose becomes one message and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except FieldfareError as error:
            Console(stderr=True, soft_wrap=True).print(f"Error: {error}", style="red", markup=False, highlight=False)
            raise SystemExit(_EXIT_BAD_INPUT) from error


app = typer.Typer(
    cls=_Commands,
    help="Content-based publish/subscribe: find, for every event, every SQL condition it satisfies.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(bench_app, name="bench", help="Measure Fieldfare beside its peers.")
app.add_typer(pipeline.app, name="pipeline", help="Match a stream of events on Spark.")
app.add_typer(experiments.app, name="experiments", help="Run the papers' experiments again.")
app.add_typer(subscriptions.app, name="subscriptions", help="Keep subscriptions in a store.")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the command line's library calls it so
    if wanted:
        typer.echo(f"fieldfare {__version__}")
        raise typer.Exit


@app.callback()
def _fieldfare(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def match(
    subscriptions: Annotated[Path, typer.Argument(help="Columns subscription_id (or id) and condition.")],
    events: Annotated[Path, typer.Argument(help="Events; the key is event_id, or id, or the row number.")],
    *,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where results go; its suffix says the format.")
    ] = None,
    quarantine: Annotated[
        Path | None, typer.Option(help="Where bad rows go.", show_default="beside the output: OUT.quarantine.jsonl")
    ] = None,
    include_unmatched: Annotated[bool, typer.Option("--all", help="Also write events that match nothing.")] = False,
) -> None:
    """Find, for every event in a file, the subscriptions it satisfies.

    Files are CSV (.csv), JSON lines (.jsonl, .ndjson, .json) or Parquet (.parquet, .pq, or a folder of them).
    Results go to standard output as JSON lines, `{"event": key, "subscription_ids": [...]}`, or to OUT:
    JSON lines, Parquet, or CSV with one row per match. Rows that cannot be read, and conditions that cannot be
    compiled, go to a quarantine file with the reason; the rest goes on.

    Example: `fieldfare match alerts.csv quotes.parquet -o matches.jsonl`
    """
    from rich.progress import Progress

    from fieldfare.files.match import MatchOptions, match_files

    console = Console(stderr=True)
    options = MatchOptions(
        subscriptions, events, None if output == Path("-") else output, quarantine, include_unmatched
    )
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("Matching", total=None)
        summary = match_files(options, lambda done, total: progress.update(bar, completed=done, total=total))
    rate = summary.events / summary.seconds if summary.seconds else 0.0
    console.print(
        f"{summary.events:,} events, {summary.subscriptions:,} subscriptions, {summary.matches:,} matches "
        f"for {summary.matched_events:,} events; {summary.seconds:.2f} s, {rate:,.0f} events/s",
        highlight=False,
        soft_wrap=True,
    )
    if summary.quarantined:
        console.print(
            f"{summary.quarantined:,} bad rows are in {options.quarantine_path}", style="yellow", soft_wrap=True
        )


@app.command()
def explain(condition: Annotated[str, typer.Argument(help="A SQL condition over attributes.")]) -> None:
    """Show what a condition means: the boxes and tests it compiles to.

    Example: `fieldfare explain "symbol = 'YHOO' AND price < 10"`
    """
    import fieldfare

    typer.echo(fieldfare.explain(fieldfare.compile(condition)))


@app.command()
def demo(
    *,
    drivers: Annotated[int, typer.Option(min=1, help="How many subscriptions.")] = 40_000,
    events: Annotated[int, typer.Option(min=1, help="How many sensor events.")] = 300_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed tells the same story.")] = 7,
    folder: Annotated[Path, typer.Option(help="Where the story's files go.")] = Path("fieldfare-demo"),
) -> None:
    """Watch a traffic story run as a stream on local Spark (needs Java 17 and the extra `spark`).

    Example: `fieldfare demo --drivers 100000 --events 1000000`
    """
    from fieldfare.demo import DemoOptions, run

    run(DemoOptions(drivers, events, seed, folder), Console())


@bench_app.command()
def engine(
    *,
    workload: Annotated[
        list[str] | None, typer.Option(help="Which workload; may be repeated.", show_default="all")
    ] = None,
    peer: Annotated[list[str] | None, typer.Option(help="Which peer; may be repeated.", show_default="all")] = None,
    subscriptions: Annotated[int | None, typer.Option(help="How many.", show_default="the workload's")] = None,
    width: Annotated[float | None, typer.Option(help="Width of ranges of 1000.", show_default="the workload's")] = None,
    events: Annotated[int | None, typer.Option(help="How many.", show_default="the workload's")] = None,
    seconds: Annotated[float, typer.Option(help="How long to measure each engine on each workload.")] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")] = False,
) -> None:
    """Measure the matching engine and its peers on one core, every answer checked against brute force.

    Workloads: bluedove, large, sparse, quotes, feeds, geo, churn. Peers: numpy, duckdb, rtree.

    Example: `fieldfare bench engine --workload bluedove --subscriptions 400000`
    """
    from fieldfare.bench import engine as bench

    options = bench.EngineOptions(
        workloads=tuple(workload or bench.WORKLOADS),
        peers=tuple(peer or bench.PEERS),
        subscriptions=subscriptions,
        width=width,
        events=events,
        seconds=seconds,
    )
    with Console(stderr=True).status("Measuring") as status:
        results = bench.run(options, status.update)
    if as_json:
        typer.echo(bench.to_json(results))
    else:
        # A pipe has no width of its own; the table should not be cut for it.
        Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS).print(bench.render(results))


@bench_app.command(name="pipeline")
def bench_pipeline(
    *,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many.")] = 40_000,
    width: Annotated[float, typer.Option(help="Width of ranges of 1000.")] = 250.0,
    events: Annotated[int, typer.Option(min=1, help="How many.")] = 1_000_000,
    layout: Annotated[str, typer.Option(help="Compared with replicated: multi, single or clusters.")] = "multi",
    policy: Annotated[str, typer.Option(help="adaptive, response-time, subscriptions or random.")] = "adaptive",
    matchers: Annotated[int, typer.Option(min=1, help="How many.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="How often to measure; the median counts.")] = 3,
    stream_seconds: Annotated[float, typer.Option(min=0.0, help="How long to stream; 0: not at all.")] = 20.0,
    stream_rate: Annotated[int, typer.Option(min=1, help="Events per second of the stream.")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")] = False,
) -> None:
    """Measure the pipeline on local Spark beside its floor and Spark's own join, checked against brute force.

    Example: `fieldfare bench pipeline --subscriptions 1000000 --width 50`
    """
    from fieldfare.bench import pipeline as bench

    options = bench.PipelineBenchOptions(
        subscriptions=subscriptions,
        width=width,
        events=events,
        layout=layout,
        policy=policy,
        matchers=matchers,
        repeats=repeats,
        stream_seconds=stream_seconds,
        stream_rate=stream_rate,
    )
    with Console(stderr=True).status("Measuring") as status:
        result = bench.run(options, status.update)
    if as_json:
        typer.echo(bench.to_json(result))
    else:
        Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS).print(bench.render(result))
