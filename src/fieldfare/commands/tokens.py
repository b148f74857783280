"""`fieldfare tokens`: let clients in, each with the rights that it needs."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fieldfare.commands.moments import duration
from fieldfare.commands.tables import print_table

if TYPE_CHECKING:
    from fieldfare.messages import Right
    from fieldfare.runtime.config import Settings
    from fieldfare.runtime.tokens import Token, TokenFile

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

Config = Annotated[
    Path | None, typer.Option(envvar="FIELDFARE_CONFIG", help="The settings.", show_default="fieldfare.toml, if any")
]
Data = Annotated[str | None, typer.Option(help="The service's folder.", show_default="as the settings say")]
Topics = Annotated[list[str] | None, typer.Option(metavar="TOPIC", help="Such as quotes, eu.*, or *; may be repeated.")]


@app.command()
def create(
    *,
    tenant: Annotated[str, typer.Option(help="Whose it is; tenants never see each other.")] = "default",
    publish: Topics = None,
    subscribe: Topics = None,
    manage: Topics = None,
    create_topics: Annotated[
        list[str] | None,
        typer.Option("--create", metavar="TOPIC", help="Topics that come into being when they are used."),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(metavar="30d", help="A number and s, m, h or d.", show_default="never")
    ] = None,
    config: Config = None,
    data: Data = None,
) -> None:
    """Make a token and print it, this once: only its hash is kept. A running service knows it at once.

    Example: `fieldfare tokens create --tenant acme --publish quotes --subscribe "*" --expires-in 30d`
    """
    from fieldfare.messages.wording import NAME_RULE
    from fieldfare.runtime.config import is_name

    given: dict[Right, list[str] | None] = {"publish": publish, "subscribe": subscribe, "manage": manage}
    given["create"] = create_topics
    rights = {right: tuple(topics) for right, topics in given.items() if topics}
    if not rights:
        raise typer.BadParameter("give it a right: --publish, --subscribe or --manage, with a topic")
    for topic in (topic for topics in rights.values() for topic in topics):
        if topic != "*" and not is_name(topic.removesuffix("*")):
            raise typer.BadParameter(
                f"{topic!r} is not a topic: letters, digits and . _ -, and a * at the end for more"
            )
    if not is_name(tenant):
        raise typer.BadParameter(f"{tenant!r} cannot be a tenant: {NAME_RULE}")
    settings = _settings(config, data)
    token, secret = _file(settings).create(
        tenant, rights, time.time(), None if expires_in is None else duration(expires_in, "--expires-in")
    )
    _audit(settings, "created", token)
    typer.echo(secret)
    Console(stderr=True).print(
        f"Token {token.id} of tenant {tenant}, valid {_until(token.expires)}. It is not shown again: keep it, for "
        "example in FIELDFARE_TOKEN.",
        highlight=False,
        soft_wrap=True,
    )


@app.command(name="list")
def list_all(*, config: Config = None, data: Data = None) -> None:
    """Show the tokens there are, but not the tokens themselves.

    Example: `fieldfare tokens list`
    """
    from rich.table import Table

    now = time.time()
    table = Table("id", "tenant", "publish", "subscribe", "manage", "create", "created", "valid")
    for token in _file(_settings(config, data)).tokens():
        rights = (" ".join(token.rights.get(right, ())) for right in ("publish", "subscribe", "manage", "create"))
        valid = _until(token.expires) if token.is_valid(now) else "no more"
        table.add_row(token.id, token.tenant, *rights, _moment(token.created), valid)
    print_table(table)


@app.command()
def revoke(token_id: Annotated[str, typer.Argument(metavar="ID")], *, config: Config = None, data: Data = None) -> None:
    """Take a token back: no client can come in with it any more, and those that are in are parted from.

    Example: `fieldfare tokens revoke 5f2c01aa`
    """
    settings = _settings(config, data)
    token = _file(settings).revoke(token_id)
    _audit(settings, "deleted", token)
    typer.echo(f"Token {token.id} of tenant {token.tenant} is revoked")


def _settings(config: Path | None, data: str | None) -> Settings:
    from fieldfare.runtime.config import load

    return load(config, os.environ, {"server": {"data": data}})


def _file(settings: Settings) -> TokenFile:
    from fieldfare.runtime.tokens import TokenFile

    return TokenFile(Path(settings.server.data))


def _audit(settings: Settings, action: str, token: Token) -> None:
    """Note that a token was made or revoked. It was, whether that can be noted or not."""
    from fieldfare.runtime.audit import audit_log

    log = audit_log(settings)
    if log is None:
        return
    try:
        log.note_token(action, token.tenant, token.id, time.time())
    except OSError as error:
        Console(stderr=True).print(f"{log.path}: not written: {error.strerror}", style="yellow", highlight=False)


def _until(moment: float | None) -> str:
    return "for ever" if moment is None else f"until {_moment(moment)}"


def _moment(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
