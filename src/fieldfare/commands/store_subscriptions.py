"""Subscriptions in the store of a pipeline: what the commands do there, and how it is shown.

Imports of substance stand inside the functions, as in cli.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from fieldfare.commands.bad_rows import exit_if_any
from fieldfare.commands.tables import print_table

if TYPE_CHECKING:
    from rich.table import Table

    from fieldfare.store import StoredSubscription
    from fieldfare.store.incoming import Terms


def add(store: str, subscription_id: str, condition: str, terms: Terms, *, replace: bool) -> None:
    """Subscribe."""
    from fieldfare.store import open_store

    with open_store(store) as log:
        version = log.add(
            {log.id_of(subscription_id): condition},
            tenant=terms.tenant,
            topic=terms.topic,
            lifetime_seconds=terms.lifetime_seconds,
            replace=replace,
            now_seconds=time.time(),
        )
    typer.echo(f"{subscription_id} is subscribed from version {version} on")


def import_file(store: str, file: Path, terms: Terms, *, replace: bool, quarantine: Path | None) -> None:
    """Subscribe all that a file holds."""
    from rich.progress import Progress

    from fieldfare.files.importing import ImportOptions, import_subscriptions
    from fieldfare.store import open_store

    console = Console(stderr=True)
    options = ImportOptions(file, terms, replace, quarantine)
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


def remove(store: str, subscription_ids: Sequence[str]) -> None:
    """Unsubscribe all of the ids, or none."""
    from fieldfare.store import open_store

    with open_store(store, create=False) as log:
        version = log.remove(log.id_of(text) for text in subscription_ids)
    typer.echo(f"{', '.join(subscription_ids)}: unsubscribed from version {version} on")


def list_some(store: str, tenant: str | None, topic: str | None, limit: int, after: str, *, as_json: bool) -> None:
    """Show the active subscriptions, the oldest first."""
    from fieldfare.store import open_store

    if after and not after.isdecimal():
        raise typer.BadParameter(f"in a store --after is the number of a subscription, not {after!r}")
    with open_store(store, create=False) as log:
        log.expire(time.time())
        found = log.page(tenant=tenant, topic=topic, limit=limit + 1, after=int(after or 0))
    shown = found[:limit]
    if as_json:
        for subscription in shown:
            typer.echo(json.dumps(_fields(subscription)))
    else:
        print_table(_table(shown))
    if len(found) > limit:
        Console(stderr=True).print(f"There are more: --after {shown[-1].number}", style="yellow", highlight=False)


def show(store: str, subscription_id: str, *, as_json: bool) -> None:
    """Show one subscription and what its condition means."""
    import fieldfare
    from fieldfare.store import open_store

    with open_store(store, create=False) as log:
        log.expire(time.time())
        found = log.get(log.id_of(subscription_id))
    if as_json:
        typer.echo(json.dumps(_fields(found)))
        return
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
