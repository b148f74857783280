"""`fieldfare topics`: what there is to subscribe to, and what it promises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
import typer.core

from fieldfare.commands.connecting import DEFAULT_URL, CaFile, Service, TokenPath, Url, converted
from fieldfare.commands.tables import print_table
from fieldfare.qos import LIFESPAN_SECONDS

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def _topics(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        group = cast("typer.core.TyperGroup", context.command)
        with group.commands["list"].make_context("list", [], parent=context) as inner:
            inner.command.invoke(inner)


@app.command(name="list")
def list_all(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines in place of a table.")] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show the topics that this token may use. So does `fieldfare topics` alone.

    Example: `fieldfare topics list --json`
    """
    topics = Service(url, token_file, ca_file).run(lambda client: client.topics())
    if as_json:
        for topic in topics:
            typer.echo(json.dumps(topic))
    else:
        print_table(_table(topics))


@app.command()
def declare(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    *,
    reliability: Annotated[str, typer.Option(help="reliable, or best_effort.")] = "reliable",
    durability: Annotated[
        str, typer.Option(help="transient: kept for those who come later; or volatile.")
    ] = "transient",
    lifespan: Annotated[float, typer.Option(help="Seconds that an event is alive.")] = LIFESPAN_SECONDS,
    deadline: Annotated[
        float | None, typer.Option(help="There is an event at least every so many seconds.", show_default="no promise")
    ] = None,
    order: Annotated[str, typer.Option(help="publisher: each one's events stay in order; or none.")] = "publisher",
    matching: Annotated[str, typer.Option(help="edge: at once; or spark, for very many subscriptions.")] = "edge",
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Make a topic, or change what it promises to those who subscribe from now on.

    Example: `fieldfare topics declare traffic --reliability best_effort --durability volatile`
    """
    from fieldfare.qos import Matching, Offered

    offered = converted(
        {
            "reliability": reliability,
            "durability": durability,
            "lifespan_seconds": lifespan,
            "deadline_seconds": deadline,
            "order": order,
        },
        Offered,
    )
    if matching not in get_args(Matching):
        raise typer.BadParameter(f"--matching is edge or spark, not {matching!r}")
    where = cast("Matching", matching)
    Service(url, token_file, ca_file).run(lambda client: client.declare_topic(topic, offered, where))
    typer.echo(f"{topic}: declared")


def _table(topics: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("topic", "reliability", "durability", "lifespan", "order", "matching", "subscriptions", "events")
    for topic in topics:
        offered = topic["offered"]
        promises = (
            offered["reliability"],
            offered["durability"],
            f"{offered['lifespan_seconds']:g} s",
            offered["order"],
        )
        table.add_row(
            topic["topic"], *promises, topic["matching"], f"{topic['subscriptions']:,}", f"{topic['events']:,}"
        )
    return table
