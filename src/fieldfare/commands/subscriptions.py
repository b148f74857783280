"""`fieldfare subscriptions`: in the store of a pipeline, or at a running service, as `--store` and `--url` say.

A command parses its arguments and calls one function of `store_subscriptions` or `service_subscriptions`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fieldfare.commands import dead_letters, service_subscriptions, store_subscriptions
from fieldfare.commands.connecting import CaFile, TokenPath
from fieldfare.commands.moments import Ago, Moment, seconds_of
from fieldfare.commands.worlds import Store, Url, only_service, only_store, store_or_service
from fieldfare.errors import InputError

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(dead_letters.app, name="dead-letters", help="Events that were refused too often.")

Lifetime = Annotated[
    float | None, typer.Option("--lifetime", help="Seconds until it ends by itself.", show_default="forever")
]
Tenant = Annotated[str | None, typer.Option(help="Whose it is.", show_default="default; at a service, the token's")]
SubscriptionId = Annotated[str, typer.Argument(metavar="ID")]
_OF_TOKEN = "a token says whose it is, at a service"  # noqa: S105 - not one
_NO_DELIVERY = "a pipeline delivers to its output, and has nobody to wait for"


@app.command()
def add(
    subscription_id: SubscriptionId,
    condition: Annotated[str, typer.Argument(help="A SQL condition over attributes.")],
    *,
    topic: Annotated[str, typer.Option(help="Which events it is about.")] = "default",
    tenant: Tenant = None,
    lifetime_seconds: Lifetime = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the one with this id, if there is one.")] = False,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Subscribe. When the command ends, the subscription is durable.

    Example: `fieldfare subscriptions add cheap "symbol = 'YHOO' AND price < 10" --lifetime 3600`
    """
    from fieldfare.store.incoming import Terms

    place = store_or_service(store, url, token_file, ca_file)
    if isinstance(place, str):
        terms = Terms(tenant or "default", topic, lifetime_seconds)
        store_subscriptions.add(place, subscription_id, condition, terms, replace=replace)
        return
    if tenant is not None or lifetime_seconds is not None or replace:
        raise InputError(
            f"--tenant, --lifetime and --replace are for a store: {_OF_TOKEN}, where a subscription lives until it is "
            "deleted, and `change` changes it"
        )
    service_subscriptions.add(place, subscription_id, condition, topic)


@app.command(name="import")
def import_file(
    file: Annotated[Path, typer.Argument(help="Columns subscription_id (or id) and condition.")],
    *,
    store: Store = None,
    tenant: Annotated[str, typer.Option(help="Whose they are, where the file does not say.")] = "default",
    topic: Annotated[str, typer.Option(help="Which events they are about, where the file does not say.")] = "default",
    lifetime_seconds: Lifetime = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace what is there; else it is passed over.")] = False,
    quarantine: Annotated[
        Path | None, typer.Option(help="Where bad rows go.", show_default="FILE.quarantine.jsonl")
    ] = None,
    url: Url = None,
) -> None:
    """Subscribe all that a file holds: CSV, JSON lines or Parquet, or a folder of Parquet files.

    Columns tenant, topic and lifetime_seconds win over the options. Rows that cannot be added go to a quarantine file
    with the reason; the rest is added, and the exit code is 1. An import that was cut off is finished by starting it
    again.

    Example: `fieldfare subscriptions import alerts.parquet --topic quotes`
    """
    from fieldfare.store.incoming import Terms

    place = only_store(store, url, "at a service, clients subscribe")
    terms = Terms(tenant, topic, lifetime_seconds)
    store_subscriptions.import_file(place, file, terms, replace=replace, quarantine=quarantine)


def delete(
    subscription_ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    *,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Unsubscribe. In a store all of the ids, or, where one of them is not there, none.

    Example: `fieldfare subscriptions delete cheap dear`
    """
    place = store_or_service(store, url, token_file, ca_file)
    if isinstance(place, str):
        store_subscriptions.remove(place, subscription_ids)
    else:
        service_subscriptions.remove(place, subscription_ids)


app.command()(delete)
app.command(name="remove", hidden=True)(delete)  # as it was called before


@app.command(name="list")
def list_some(
    *,
    topic: Annotated[str | None, typer.Option(help="Only about this topic.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only of this tenant; in a store.")] = None,
    only_behind: Annotated[
        bool, typer.Option("--behind", help="Only those that are behind, the furthest first; at a service.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    after: Annotated[str, typer.Option(help="Go on behind this one.", show_default="the beginning")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines in place of a table.")] = False,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show subscriptions; those of a service with how far they are behind, and who takes their events.

    Example: `fieldfare subscriptions list --url http://127.0.0.1:7380 --behind`
    """
    place = store_or_service(store, url, token_file, ca_file)
    if isinstance(place, str):
        if only_behind:
            raise InputError(f"--behind is for a running service, named by --url: {_NO_DELIVERY}")
        store_subscriptions.list_some(place, tenant, topic, limit, after, as_json=as_json)
        return
    if tenant is not None:
        raise InputError(f"--tenant is for a store: {_OF_TOKEN}")
    service_subscriptions.list_some(place, topic, limit, after, only_behind=only_behind, as_json=as_json)


@app.command()
def show(
    subscription_id: SubscriptionId,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line.")] = False,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show one subscription: in a store what its condition means, at a service how far it is behind.

    Example: `fieldfare subscriptions show cheap`
    """
    place = store_or_service(store, url, token_file, ca_file)
    if isinstance(place, str):
        store_subscriptions.show(place, subscription_id, as_json=as_json)
    else:
        service_subscriptions.show(place, subscription_id, as_json=as_json)


@app.command()
def pause(
    subscription_id: SubscriptionId,
    *,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Deliver no more of a subscription, to whomever; its events wait.

    Example: `fieldfare subscriptions pause jams --url http://127.0.0.1:7380`
    """
    service = only_service(store, url, token_file, ca_file, _NO_DELIVERY)
    service_subscriptions.run(service, subscription_id, "pause", "paused; its events wait")


@app.command()
def resume(
    subscription_id: SubscriptionId,
    *,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Go on delivering a subscription.

    Example: `fieldfare subscriptions resume jams --url http://127.0.0.1:7380`
    """
    service = only_service(store, url, token_file, ca_file, _NO_DELIVERY)
    service_subscriptions.run(service, subscription_id, "resume", "resumed")


@app.command()
def seek(
    subscription_id: SubscriptionId,
    *,
    moment: Moment = None,
    ago: Ago = None,
    position: Annotated[int | None, typer.Option(min=-1, help="Go on after this position.")] = None,
    beginning: Annotated[bool, typer.Option("--beginning", help="Go on with the oldest event that is kept.")] = False,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Have a subscription go on from another place: what is on its way is forgotten, and what lies after it comes.

    Example: `fieldfare subscriptions seek jams --ago 2h --url http://127.0.0.1:7380`
    """
    service = only_service(store, url, token_file, ca_file, "a pipeline goes on where its checkpoint says")
    at = seconds_of(moment, ago, time.time())
    if (at is not None) + (position is not None) + beginning != 1:
        raise typer.BadParameter("say where: one of --time, --ago, --position and --beginning")
    service_subscriptions.run(
        service, subscription_id, "seek", "goes on from there", time=at, position=position, beginning=beginning
    )


@app.command()
def change(
    subscription_id: SubscriptionId,
    *,
    condition: Annotated[str | None, typer.Option(help="What it wants from now on.")] = None,
    webhook: Annotated[str | None, typer.Option(help="Where its events go from now on.")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, max=1000, help="After so many it is a dead letter.")] = None,
    store: Store = None,
    url: Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Change what a subscription asks for; it keeps its place.

    Example: `fieldfare subscriptions change jams --condition "speed < 20" --url http://127.0.0.1:7380`
    """
    service = only_service(store, url, token_file, ca_file, "in a store, `add --replace` puts another in its place")
    if condition is None and webhook is None and attempts is None:
        raise typer.BadParameter("say what is to change: --condition, --webhook or --attempts")
    service_subscriptions.change(service, subscription_id, condition, webhook, attempts)
