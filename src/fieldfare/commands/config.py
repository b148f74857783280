"""`fieldfare config`: look at the settings that a service would have."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from fieldfare.errors import ConfigError
    from fieldfare.runtime.config import Settings

_password = re.compile(r"://[^/@\s]*@")  # in the address of a database

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def _config() -> None:
    pass  # makes `check` a subcommand, even while it is the only one


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(help="The file.", show_default="fieldfare.toml, if there is one")
    ] = None,
) -> None:
    """Show the settings in force, of the file and of the environment; or what is wrong with them, and exit code 1.

    A variable FIELDFARE_SECTION_KEY wins over the file: FIELDFARE_SERVER_PORT=8080. With settings that pass,
    `fieldfare serve` starts, unless another program has its port or its data folder.

    Example: `fieldfare config check fieldfare.toml`
    """
    from fieldfare.errors import ConfigError
    from fieldfare.runtime.config import load
    from fieldfare.runtime.startup import check_startup

    try:
        settings = load(file, os.environ)
        check_startup(settings)
    except ConfigError as error:
        raise _shown(error) from None
    for line in _lines(settings):
        typer.echo(line)


@app.command()
def topology(file: Annotated[Path, typer.Argument(help="The file.")]) -> None:
    """Show the brokers of a tree and their neighbours; or what is wrong with the file, and exit code 1.

    Example: `fieldfare config topology tree.toml`
    """
    from fieldfare.errors import ConfigError
    from fieldfare.routing.tree.topology_file import read_topology

    try:
        found = read_topology(file)
    except ConfigError as error:
        raise _shown(error) from None
    for name, broker in sorted(found.brokers.items()):
        bridged = f", bridged over after {found.bridge_after_seconds:g} s" if broker.may_be_bridged else ""
        neighbours = ", ".join(found.linked_with(name)) or "nobody"
        typer.echo(f"{name} at {broker.address}: linked with {neighbours}{bridged}")


def _shown(error: ConfigError) -> typer.Exit:
    """Print everything that is wrong."""
    console = Console(stderr=True, soft_wrap=True)
    for problem in error.problems:
        console.print(f"Error: {problem}", style="red", markup=False, highlight=False)
    return typer.Exit(1)


def _lines(settings: Settings) -> Iterator[str]:
    """The settings as TOML, without secrets."""
    import msgspec

    tables = msgspec.to_builtins(settings)
    tables["webhooks.secrets"] = tables["webhooks"].pop("secrets")
    for kind in ("topics", "quotas"):
        tables |= {f'{kind}."{name}"': table for name, table in tables.pop(kind).items()}
    for section, table in tables.items():
        yield f"[{section}]"
        for key, value in table.items():
            if value is None:
                yield f"# {key} is not set"
            elif key == "secret" or section == "webhooks.secrets":
                yield f"# {key} is set, and not shown"
            else:
                yield f"{key} = {_password.sub('://***@', json.dumps(value, ensure_ascii=False))}"
