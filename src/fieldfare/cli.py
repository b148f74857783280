"""The `fieldfare` command: parse arguments, call one function, show what it returns.

Imports of substance stand inside the commands, so that help is quick and needs no optional package.
"""

from __future__ import annotations

import gc
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console

from fieldfare import __version__
from fieldfare.commands import (
    bench,
    brokers,
    config,
    dds,
    demo,
    experiments,
    peer_bridge,
    peers,
    pipeline,
    placement,
    plan,
    run,
    service,
    subscriptions,
    tokens,
    topics,
)
from fieldfare.commands.bad_rows import exit_if_any
from fieldfare.errors import FieldfareError

_EXIT_BAD_INPUT = 2

gc.set_threshold(20_000)  # what a command imports stays: to look at it again and again would be a sixth of its start


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
app.add_typer(bench.app, name="bench", help="Measure Fieldfare beside its peers.")
app.add_typer(pipeline.app, name="pipeline", help="Match a stream of events on Spark.")
app.add_typer(experiments.app, name="experiments", help="Run the papers' experiments again.")
app.add_typer(
    subscriptions.app,
    name="subscriptions",
    help="Subscriptions of a store or a service: who is behind.",
)
app.add_typer(topics.app, name="topics", help="Topics of a service: make, show and delete them.")
app.add_typer(tokens.app, name="tokens", help="Let clients of a service in.")
app.add_typer(config.app, name="config", help="Check the settings of a service.")
app.add_typer(brokers.app, name="brokers")
app.add_typer(demo.app, name="demo")
for command in (service.serve, brokers.broker, service.publish, service.subscribe, service.unsubscribe):
    app.command()(command)
app.command()(run.run)
app.command()(placement.placement)
app.command()(plan.plan)
app.command()(peers.peer)
app.command()(peers.peers)
app.command()(peers.admit)
app.command("peer-bridge")(peer_bridge.peer_bridge)
app.command("dds-bridge")(dds.dds_bridge)


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
    now: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"],
            help="What current_timestamp() means, in UTC unless it says otherwise.",
            show_default="when the run begins",
        ),
    ] = None,
) -> None:
    """Find, for every event in a file, the subscriptions it satisfies.

    Files are CSV (.csv), JSON lines (.jsonl, .ndjson, .json) or Parquet (.parquet, .pq, or a folder of them).
    Results go to standard output as JSON lines, `{"event": key, "subscription_ids": [...]}`, or to OUT:
    JSON lines, Parquet, or CSV with one row per match. Rows that cannot be read, and conditions that cannot be
    compiled, go to a quarantine file with the reason; the rest goes on, and the exit code is 1.

    Example: `fieldfare match alerts.csv quotes.parquet -o matches.jsonl`
    """
    from rich.progress import Progress

    from fieldfare.files.match import MatchOptions, match_files

    console = Console(stderr=True)
    options = MatchOptions(
        subscriptions, events, None if output == Path("-") else output, quarantine, include_unmatched, now
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
    for hint in summary.hints:
        console.print(f"Hint: {hint}", style="yellow", highlight=False, soft_wrap=True, markup=False)
    exit_if_any(summary.quarantined, options.quarantine_path)


@app.command()
def explain(condition: Annotated[str, typer.Argument(help="A SQL condition over attributes.")]) -> None:
    """Show what a condition means: the boxes and tests it compiles to.

    Example: `fieldfare explain "symbol = 'YHOO' AND price < 10"`
    """
    import fieldfare

    typer.echo(fieldfare.explain(fieldfare.compile(condition)))
