"""What the commands of clients share: where the service is, and who asks.

A token comes from the environment or from a file, never from an argument, which every user of the machine could read.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from fieldfare.errors import InputError, NotConnectedError

if TYPE_CHECKING:
    from fieldfare.client.aio import Client
    from fieldfare.client.transport import Transport

DEFAULT_URL = "http://127.0.0.1:7380"
Url = Annotated[str, typer.Option(envvar="FIELDFARE_URL", help="Where the service is.")]
TokenPath = Annotated[
    Path | None,
    typer.Option("--token-file", help="A file with the token.", show_default="the variable FIELDFARE_TOKEN"),
]
CaFile = Annotated[
    Path | None,
    typer.Option(envvar="FIELDFARE_CA_FILE", help="Who vouches for the service.", show_default="the system's"),
]
_CONNECT_SECONDS = 3.0  # somebody waits at a terminal

T = TypeVar("T")
_option = re.compile(r"\$\.(\w+?)(?:_seconds)?\b")  # how msgspec names a field


class Service(NamedTuple):
    """A service as the options describe it."""

    url: str
    token_file: Path | None
    ca_file: Path | None

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something as a client."""
        return asyncio.run(self._run(work))

    def transport(self) -> Transport:
        """How to reach it, for who is more than a client."""
        import ssl

        from fieldfare.client.websocket import WebSocketTransport

        tls = None if self.ca_file is None else ssl.create_default_context(cafile=self.ca_file)
        return WebSocketTransport(self.url, self.token(), tls)

    async def _run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        from fieldfare.client.aio import connect
        from fieldfare.client.options import ClientOptions

        options = ClientOptions(connect_timeout_seconds=_CONNECT_SECONDS)
        async with AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(
                    connect(self.url, token=self.token(), ca_file=self.ca_file, options=options)
                )
            except NotConnectedError as error:
                raise NotConnectedError(f"{error}\nIs it running? `fieldfare serve` starts it.") from error
            return await work(client)

    def token(self) -> str | None:
        """Who asks, if that is said."""
        if self.token_file is None:
            return os.environ.get("FIELDFARE_TOKEN") or None
        try:
            return self.token_file.read_text(encoding="ascii").strip()
        except OSError as error:
            raise InputError(f"{self.token_file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{self.token_file}: this is not a token") from error


def converted(options: dict[str, Any], kind: type[T]) -> T:
    """A struct of options; those that were not given are left to its defaults."""
    import msgspec

    try:
        return msgspec.convert({name: value for name, value in options.items() if value is not None}, kind)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(_option.sub(lambda name: f"--{name[1].replace('_', '-')}", str(error))) from error
