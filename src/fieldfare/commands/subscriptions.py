"""The `fieldfare subscriptions` commands: parse arguments, call one function of the store, show what it returns.

Imports of substance stand inside the commands, as in cli.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fieldfare.commands.bad_rows import exit_if_any
from fieldfare.commands.tables import print_table

if TYPE_CHECKING:
    from rich.table import Table

    from fieldfare.store import StoredSubscription

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

Store = Annotated[
    str,
    typer.Option(
        envvar="FIELDFARE_STORE", help="A file, or postgresql://user@host/database.", show_default="fieldfare.db"
    ),
]
Lifetime = Annotated[
    float | None, typer.Option("--lifetime", help="Seconds until it ends by itself.", show_default="forever")
]
_DEFAULT_STORE = "fieldfare.db"


@app.command()
def add(
    subscription_id: Annotated[str, typer.Argument(metavar="ID")],
    condition: Annotated[str, typer.Argument(help="A SQL condition over attributes.")],
    *,
    store: Store = _DEFAULT_STORE,
    tenant: Annotated[str, typer.Option(help="Whose it is.")] = "default",
    topic: Annotated[str, typer.Option(help="Which events it is about.")] = "default",
    lifetime_seconds: Lifetime = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the one with this id, if there is one.")] = False,
) -> None:
    """Subscribe. When the command ends, the subscription is durable.

    Example: `fieldfare subscriptions add cheap "symbol = 'YHOO' AND price < 10" --lifetime 3600`
    """
    from fieldfare.store import open_store

    with open_store(store) as log:
        version = log.add(
            {log.id_of(subscription_id): condition},
            tenant=tenant,
            topic=topic,
            lifetime_seconds=lifetime_seconds,
            replace=replace,
            now_seconds=time.time(),
        )
    typer.echo(f"{subscription_id} is subscribed from version {version} on")


@app.command(name="import")
def import_file(
    file: Annotated[Path, typer.Argument(help="Columns subscription_id (or id) and condition.")],
    *,
    store: Store = _DEFAULT_STORE,
    tenant: Annotated[str, typer.Option(help="Whose they are, where the file does not say.")] = "default",
    topic: Annotated[str, typer.Option(help="Which events they are about, where the file does not say.")] = "default",
    lifetime_seconds: Lifetime = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace what is there; else it is passed over.")] = False,
    quarantine: Annotated[
        Path | None, typer.Option(help="Where bad rows go.", show_default="FILE.quarantine.jsonl")
    ] = None,
) -> None:
    """Subscribe all that a file holds: CSV, JSON lines or Parquet, or a folder of Parquet files.

    Columns tenant, topic and lifetime_seconds win over the options. Rows that cannot be added go to a quarantine file
    with the reason; the rest is added, and the exit code is 1. An import that was cut off is finished by starting it
    again.

    Example: `fieldfare subscriptions import alerts.parquet --topic quotes`
    """
    from rich.progress import Progress

    from fieldfare.files.importing import ImportOptions, import_subscriptions
    from fieldfare.store import open_store
    from fieldfare.store.incoming import Terms

    console = Console(stderr=True)
    options = ImportOptions(file, Terms(tenant, topic, lifetime_seconds), replace, quarantine)
    with (
        open_store(store) as log,
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        bar = progress.add_task("Importing", total=None)
        summary = import_subscriptions(
            log, options, time.time(), lambda done, total: progress.update(bar, completed=done, total=total)
        )
    rate = summary.added / summary.seconds if summary.seconds else 0.0
    console.print(
        f"{summary.added:,} subscriptions added, of which {summary.replaced:,} replaced others; "
        f"{summary.passed_over:,} were there already; {summary.seconds:.2f} s, {rate:,.0f} subscriptions/s",
        highlight=False,
        soft_wrap=True,
    )
    exit_if_any(summary.quarantined, options.quarantine_path)


@app.command()
def remove(
    subscription_ids: Annotated[list[str], typer.Argument(metavar="ID...")], *, store: Store = _DEFAULT_STORE
) -> None:
    """Unsubscribe: all of the ids, or, where one of them is not there, none.

    Example: `fieldfare subscriptions remove cheap dear`
    """
    from fieldfare.store import open_store

    with open_store(store, create=False) as log:
        version = log.remove(log.id_of(text) for text in subscription_ids)
    typer.echo(f"{', '.join(subscription_ids)}: unsubscribed from version {version} on")


@app.command(name="list")
def list_some(
    *,
    store: Store = _DEFAULT_STORE,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only about this topic.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    after: Annotated[int, typer.Option(min=0, help="Go on behind this number.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines in place of a table.")] = False,
) -> None:
    """Show the active subscriptions, the oldest first.

    Example: `fieldfare subscriptions list --topic quotes --limit 20`
    """
    from fieldfare.store import open_store

    with open_store(store, create=False) as log:
        log.expire(time.time())
        found = log.page(tenant=tenant, topic=topic, limit=limit + 1, after=after)
    shown = found[:limit]
    if as_json:
        for subscription in shown:
            typer.echo(json.dumps(_fields(subscription)))
    else:
        print_table(_table(shown))
    if len(found) > limit:
        Console(stderr=True).print(f"There are more: --after {shown[-1].number}", style="yellow", highlight=False)


@app.command()
def show(subscription_id: Annotated[str, typer.Argument(metavar="ID")], *, store: Store = _DEFAULT_STORE) -> None:
    """Show one subscription and what its condition means.

    Example: `fieldfare subscriptions show cheap`
    """
    import fieldfare
    from fieldfare.store import open_store

    with open_store(store, create=False) as log:
        log.expire(time.time())
        found = log.get(log.id_of(subscription_id))
    for name, value in _fields(found).items():
        if name != "condition":
            typer.echo(f"{name}: {'never' if value is None else value}")
    typer.echo(fieldfare.explain(fieldfare.compile(found.condition)))


def _table(subscriptions: Iterable[StoredSubscription]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "condition", "tenant", "topic", "expires")
    for subscription in subscriptions:
        fields = _fields(subscription)
        names = ("subscription_id", "condition", "tenant", "topic", "expires_at")
        table.add_row(*(Text("" if fields[name] is None else str(fields[name])) for name in names))
    return table


def _fields(subscription: StoredSubscription) -> dict[str, Any]:
    return {
        "subscription_id": subscription.subscription_id,
        "condition": subscription.condition,
        "tenant": subscription.tenant,
        "topic": subscription.topic,
        "number": subscription.number,
        "created_at": _moment(subscription.created_at),
        "expires_at": subscription.expires_at and _moment(subscription.expires_at),
    }


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
