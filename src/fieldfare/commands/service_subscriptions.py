"""Subscriptions of a running service: what the commands do there, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from fieldfare.commands.connecting import Service
from fieldfare.commands.tables import print_table
from fieldfare.errors import InputError
from fieldfare.qos import Consuming

if TYPE_CHECKING:
    from rich.table import Table

    from fieldfare.client.aio import Client

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def add(service: Service, name: str, condition: str, topic: str) -> None:
    """Make a durable subscription, whose events wait until somebody takes them."""

    async def make(client: Client) -> None:
        subscription = await client.subscribe(topic, condition, name=name, window=1)
        await subscription.aclose()

    service.run(make)
    typer.echo(f"{name} is subscribed; its events wait until somebody takes them")


def remove(service: Service, names: Sequence[str]) -> None:
    """End subscriptions, one after the other."""

    async def end(client: Client) -> None:
        for name in names:
            await client.unsubscribe(name)
            typer.echo(f"{name}: deleted")

    service.run(end)


def list_some(service: Service, topic: str | None, limit: int, after: str, *, only_behind: bool, as_json: bool) -> None:
    """Show subscriptions, and how far they are behind."""
    found = service.run(lambda client: client.subscriptions())
    chosen = [item for item in found if topic in (None, item["topic"]) and item["subscription"] > after]
    if only_behind:
        chosen = sorted((item for item in chosen if item["behind_events"]), key=lambda item: -item["behind_events"])
    if as_json:
        for item in chosen[:limit]:
            typer.echo(json.dumps(item))
    else:
        print_table(_table(chosen[:limit]))
        _say_since(chosen)
    if len(chosen) > limit:
        last = "" if only_behind else f", with --after {chosen[limit - 1]['subscription']}"
        typer.secho(f"There are {len(chosen) - limit:,} more: --limit {len(chosen)}{last}", err=True, fg="yellow")


def show(service: Service, name: str, *, as_json: bool) -> None:
    """Show one subscription."""
    found = service.run(lambda client: client.subscription(name))
    if as_json:
        typer.echo(json.dumps(found))
        return
    behind = _behind(found)
    if found["behind_events"]:
        behind += f" events; the oldest is {span(found['behind_seconds'])} old"
    lines = {
        "subscription": found["subscription"],
        "topic": found["topic"],
        "condition": found["condition"],
        "taken by": _taker(found),
        "behind": behind
        if not found["behind_events"]
        else f"{behind} events; the oldest is {span(found['behind_seconds'])} old",
        "in flight": f"{found['in_flight']:,}",
        "position": f"{found['position']:,}",
        "dead letters": f"{found['dead_letters']:,}",
        "webhook": found["webhook"],
        "last error": _error(found),
        "matched": f"{found['accepted']:,}",
        "expired": f"{found['expired']:,}",
        "dropped": f"{found['dropped']:,}",
    }
    for label, value in lines.items():
        if value is not None:
            typer.echo(f"{label}: {value}")
    _say_since([found])


def run(service: Service, name: str, verb: str, done: str, **options: Any) -> None:
    """Ask for something, and say that it is done."""
    service.run(lambda client: getattr(client, verb)(name, **options))
    typer.echo(f"{name}: {done}")


def change(service: Service, name: str, condition: str | None, webhook: str | None, attempts: int | None) -> None:
    """Change what a subscription asks for."""

    async def ask(client: Client) -> None:
        consuming = None
        if attempts is not None:
            known = msgspec.convert((await client.subscription(name))["consuming"], Consuming)
            consuming = msgspec.structs.replace(known, attempts_max=attempts)
        await client.change(name, condition=condition, webhook=webhook, consuming=consuming)

    service.run(ask)
    typer.echo(f"{name}: changed")


# Dead letters


def show_dead_letters(service: Service, name: str, *, as_json: bool) -> None:
    """Show the dead letters of a subscription."""
    from rich.table import Table
    from rich.text import Text

    found = service.run(lambda client: client.dead_letters(name))
    if as_json:
        for letter in found:
            typer.echo(json.dumps(letter))
        return
    table = Table("id", "since", "attempts", "reason", "event")
    for letter in found:
        event = json.dumps(letter["event"]["event"])
        cells = (letter["id"], moment(letter["at"]), str(letter["attempts"]), letter["reason"], event)
        table.add_row(*map(Text, cells))
    print_table(table)


def settle_dead_letters(service: Service, name: str, ids: Sequence[str], verb: str, done: str) -> None:
    """Send dead letters again, or forget them."""
    count = service.run(lambda client: getattr(client, verb)(name, list(ids) or None))
    if not count and ids:
        raise InputError(f"{name}: it has no such dead letters; `fieldfare subscriptions dead-letters list` shows them")
    typer.echo(f"{name}: {count:,} dead letter{'' if count == 1 else 's'} {done}")


# In words


def span(seconds: float | None) -> str:
    """How long something takes, in its two largest units."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    left = int(seconds)
    largest = next(number for number, (_, size) in enumerate(_UNITS) if left >= size)
    counts = [(left // _UNITS[largest][1], _UNITS[largest][0])]
    if largest + 1 < len(_UNITS):
        unit, size = _UNITS[largest + 1]
        counts.append((left % _UNITS[largest][1] // size, unit))
    return " ".join(f"{count} {unit}" for count, unit in counts if count)


def moment(seconds: float) -> str:
    """A moment, as people read it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _behind(item: dict[str, Any]) -> str:
    return f"{'' if item['is_behind_exact'] else 'at most '}{item['behind_events']:,}"


def _taker(item: dict[str, Any]) -> str:
    if item["is_paused"]:
        return "nobody: it is paused"
    if item["webhook"] is not None:
        return "its webhook"
    if not item["is_attached"]:
        return "nobody"
    return f"{item['consumers']:,} client{'' if item['consumers'] == 1 else 's'}"


def _error(item: dict[str, Any]) -> str | None:
    error = item["last_error"]
    return None if error is None else f"{error['reason']} ({moment(error['at'])})"


def _table(items: Sequence[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("subscription", "topic", "behind", "oldest", "taken by", "dead letters", "expired", "dropped")
    for name in ("behind", "oldest", "dead letters", "expired", "dropped"):
        next(column for column in table.columns if column.header == name).justify = "right"
    has_errors = any(item["last_error"] for item in items)
    if has_errors:
        table.add_column("last error")
    for item in items:
        cells = [item["subscription"], item["topic"], _behind(item), span(item["behind_seconds"]), _taker(item)]
        cells += [f"{item[name]:,}" for name in ("dead_letters", "expired", "dropped")]
        table.add_row(*map(Text, [*cells, _error(item) or ""] if has_errors else cells))
    return table


def _say_since(items: Sequence[dict[str, Any]]) -> None:
    if items:
        since = moment(items[0]["counted_since"])
        typer.secho(f"Matched, expired and dropped count since the service started, {since}.", err=True, dim=True)
