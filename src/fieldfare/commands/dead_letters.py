"""`fieldfare subscriptions dead-letters`: events of a running service's subscriptions that were refused too often."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldfare.commands import service_subscriptions
from fieldfare.commands.connecting import CaFile, TokenPath
from fieldfare.commands.worlds import Store, Url, only_service

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
Name = Annotated[str, typer.Argument(metavar="SUBSCRIPTION")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Which ones, as `list` shows them.")]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
_WHY_NOT = "what a pipeline cannot match lies beside its output, with the reason"


@app.command(name="list")
def list_all(
    subscription: Name,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines in place of a table.")] = False,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show the dead letters of a subscription, each with the last reason.

    Example: `fieldfare subscriptions dead-letters list jams --url http://127.0.0.1:7380`
    """
    service = only_service(store, url, token_file, ca_file, _WHY_NOT)
    service_subscriptions.show_dead_letters(service, subscription, as_json=as_json)


@app.command()
def redrive(
    subscription: Name,
    ids: Ids = None,
    *,
    every: All = False,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Send dead letters again.

    Example: `fieldfare subscriptions dead-letters redrive jams --all --url http://127.0.0.1:7380`
    """
    service = only_service(store, url, token_file, ca_file, _WHY_NOT)
    chosen = _chosen(ids, every=every)
    service_subscriptions.settle_dead_letters(service, subscription, chosen, "redrive", "sent again")


@app.command()
def drop(
    subscription: Name,
    ids: Ids = None,
    *,
    every: All = False,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Forget dead letters.

    Example: `fieldfare subscriptions dead-letters drop jams 1042 --url http://127.0.0.1:7380`
    """
    service = only_service(store, url, token_file, ca_file, _WHY_NOT)
    chosen = _chosen(ids, every=every)
    service_subscriptions.settle_dead_letters(service, subscription, chosen, "drop_dead_letters", "dropped")


def _chosen(ids: list[str] | None, *, every: bool) -> list[str]:
    if bool(ids) == every:
        raise typer.BadParameter("name the dead letters by their ids, or say --all")
    return ids or []
