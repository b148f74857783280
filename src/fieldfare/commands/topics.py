"""`fieldfare topics`: what there is to subscribe to, and what it promises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
import typer.core

from fieldfare.commands.connecting import DEFAULT_URL, CaFile, Service, TokenPath, Url, converted
from fieldfare.commands.service_subscriptions import moment, span
from fieldfare.commands.tables import print_table
from fieldfare.commands.worlds import Store, only_service
from fieldfare.errors import FieldfareError
from fieldfare.qos import LIFESPAN_SECONDS

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(rich_markup_mode="markdown")
_WHY_NOT = "a store knows topics only by their names in subscriptions, as `subscriptions list --topic` shows them"


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
    store: Store = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show the topics that this token may use. So does `fieldfare topics` alone.

    Example: `fieldfare topics list --json`
    """
    topics = _service(store, url, token_file, ca_file).run(lambda client: client.topics())
    if as_json:
        for topic in topics:
            typer.echo(json.dumps(topic))
    else:
        print_table(_table(topics))


@app.command()
def show(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line.")] = False,
    url: Url = DEFAULT_URL,
    store: Store = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show one topic: what it promises, how much comes, and what it keeps.

    Example: `fieldfare topics show traffic`
    """
    service = _service(store, url, token_file, ca_file)
    found = service.run(lambda client: client.topic(topic))
    kafka = _kafka_links(service, topic)
    if as_json:
        typer.echo(json.dumps({**found, **({"kafka": kafka} if kafka else {})}))
        return
    offered = found["offered"]
    lines = {
        "topic": found["topic"],
        "promises": ", ".join((offered["reliability"], offered["durability"], f"order {offered['order']}")),
        "lifespan": span(offered["lifespan_seconds"]),
        "matching": found["matching"],
        "subscriptions": f"{found['subscriptions']:,}",
        "rate": f"{found['events_per_second']:,.1f} events/s in the last minute",
        "kept": f"{found['kept_events']:,} events, {size(found['kept_bytes'])}",
        "oldest": "none" if found["oldest_seconds"] is None else f"{span(found['oldest_seconds'])} old",
        "events": f"{found['events']:,} since the service started, {moment(found['counted_since'])}",
    }
    for label, value in lines.items():
        typer.echo(f"{label}: {value}")
    for link in kafka:
        typer.echo(f"kafka: {_in_words(link)}")


def _kafka_links(service: Service, topic: str) -> list[dict[str, Any]]:
    """What feeds a topic from Kafka, and what it feeds; nothing for who may not see it."""
    from fieldfare.commands.asking import ask

    try:
        found: dict[str, Any] = ask(service, "/v1/kafka", dict[str, Any], "service")
    except FieldfareError:
        return []
    return [link for link in found.get("links", ()) if link["topic"] == topic]


def _in_words(link: dict[str, Any]) -> str:
    words = [f"{'from' if link['direction'] == 'in' else 'to'} {link['kafka']}", link["state"]]
    words.append(f"{link['events']:,} events since the service started")
    if link["behind"] is not None:
        words.append(f"{link['behind']:,} messages behind")
    words += [f"{link[name]:,} {name}" for name in ("quarantined", "lost") if link[name]]
    return ", ".join(words) + (f": {link['reason']}" if link["reason"] else "")


@app.command()
def delete(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Its subscriptions end with it.")] = False,
    url: Url = DEFAULT_URL,
    store: Store = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Delete a topic with its events. One that has subscriptions is deleted by force only.

    Example: `fieldfare topics delete trafic`
    """
    service = _service(store, url, token_file, ca_file)
    service.run(lambda client: client.delete_topic(topic, force=force))
    typer.echo(f"{topic}: deleted")


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
    store: Store = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Make a topic, or change what it promises to those who subscribe from now on.

    Example: `fieldfare topics create traffic --reliability best_effort --durability volatile`
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
    service = _service(store, url, token_file, ca_file)
    service.run(lambda client: client.declare_topic(topic, offered, where))
    typer.echo(f"{topic}: declared")


app.command(name="create")(declare)
app.command(name="declare", hidden=True)(declare)  # the same: what is there is changed


def _service(store: str | None, url: str, token_file: TokenPath, ca_file: CaFile) -> Service:
    return only_service(store, url, token_file, ca_file, _WHY_NOT)


def size(size_bytes: int) -> str:
    """A number of bytes, as people read it."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} bytes"


def _table(topics: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("topic", "reliability", "durability", "lifespan", "matching")
    for name in ("subscriptions", "events/s", "kept", "oldest", "events since start"):
        table.add_column(name, justify="right")
    for topic in topics:
        offered = topic["offered"]
        promises = offered["reliability"], offered["durability"], span(offered["lifespan_seconds"])
        numbers = f"{topic['subscriptions']:,}", f"{topic['events_per_second']:,.1f}", size(topic["kept_bytes"])
        counts = span(topic["oldest_seconds"]), f"{topic['events']:,}"
        table.add_row(topic["topic"], *promises, topic["matching"], *numbers, *counts)
    return table
