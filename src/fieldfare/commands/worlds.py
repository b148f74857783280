"""Where a command about subscriptions or topics is carried out: in the store of a pipeline, or at a running service.

Both hold the same things, so both answer the same commands; `--store` and `--url` tell them apart. Where a command
makes sense in one of them only, it says so.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from fieldfare.commands.connecting import DEFAULT_URL, CaFile, Service, TokenPath
from fieldfare.errors import InputError

DEFAULT_STORE = "fieldfare.db"
Store = Annotated[
    str | None,
    typer.Option(
        help="The store of a pipeline: a file, or postgresql://user@host/database.",
        show_default="the variable FIELDFARE_STORE, else fieldfare.db",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        help="A running service, in place of a store, such as http://127.0.0.1:7380.",
        show_default="none: the store",
    ),
]


def store_or_service(store: str | None, url: str | None, token_file: TokenPath, ca_file: CaFile) -> str | Service:
    """A service if one is named, else the address of a store.

    FIELDFARE_URL does not count here: who has it set for the service would change the service where a store was meant.
    """
    if store is not None and url is not None:
        raise typer.BadParameter("give --store or --url: a store and a service are two places")
    if url is not None:
        return Service(url, token_file, ca_file)
    return store or os.environ.get("FIELDFARE_STORE") or DEFAULT_STORE


def only_service(store: str | None, url: str | None, token_file: TokenPath, ca_file: CaFile, why_not: str) -> Service:
    """The service; an InputError, which ends with `why_not`, if somebody names a store."""
    if store is not None:
        raise InputError(f"this is for a running service, named by --url: {why_not}")
    return Service(url or os.environ.get("FIELDFARE_URL") or DEFAULT_URL, token_file, ca_file)


def only_store(store: str | None, url: str | None, why_not: str) -> str:
    """The store; an InputError, which ends with `why_not`, if somebody names a service."""
    if url is not None:
        raise InputError(f"this is for the store of a pipeline, named by --store: {why_not}")
    return store or os.environ.get("FIELDFARE_STORE") or DEFAULT_STORE
