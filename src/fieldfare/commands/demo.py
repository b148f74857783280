"""`fieldfare demo`: stories to watch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fieldfare.commands.extras import needs_service

app = typer.Typer(no_args_is_help=False)


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    *,
    drivers: Annotated[int, typer.Option(min=1, help="How many subscriptions.")] = 40_000,
    events: Annotated[int, typer.Option(min=1, help="How many sensor events.")] = 300_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed tells the same story.")] = 7,
    folder: Annotated[Path, typer.Option(help="Where the story's files go.")] = Path("fieldfare-demo"),
) -> None:
    """Watch a traffic story run as a stream on local Spark (needs Java 17 and the extra `spark`).

    Example: `fieldfare demo --drivers 100000 --events 1000000`
    """
    if context.invoked_subcommand is None:
        from fieldfare.demo import DemoOptions, run

        run(DemoOptions(drivers, events, seed, folder), Console())


@app.command()
def networks(
    *,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long sensors publish, around the crash.")] = 8.0,
    rate: Annotated[int, typer.Option(min=1, help="Events per second in each network.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="The same seed tells the same story.")] = 7,
    folder: Annotated[Path, typer.Option(help="Where the story's files go.")] = Path("fieldfare-demo-networks"),
) -> None:
    """Watch two isolated networks meet through routing brokers, of which one is killed (needs Java 17).

    Example: `fieldfare demo networks --seconds 20`
    """
    with needs_service():
        from fieldfare.demo.networks import NetworksOptions, run
    run(NetworksOptions(seconds, rate, seed, folder), Console())


@app.command()
def placement(
    *,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long quotes are published after the move.")] = 5.0,
    rate: Annotated[int, typer.Option(min=1, help="Quotes per second.")] = 200,
    folder: Annotated[Path, typer.Option(help="Where the story's files go.")] = Path("fieldfare-demo-placement"),
) -> None:
    """Watch a publisher move to its subscribers, over a tree of five brokers, while it publishes.

    Example: `fieldfare demo placement --seconds 10`
    """
    with needs_service():
        from fieldfare.demo.moving_publisher import MovingOptions, run
    run(MovingOptions(seconds, rate, folder), Console())
