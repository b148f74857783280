"""`fieldfare dds-bridge`: a bridge between a DDS domain and a service elsewhere. Imports of substance stand inside."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfare.commands.connecting import DEFAULT_URL, CaFile, Service, TokenPath, Url
from fieldfare.errors import MissingDependencyError, ServiceError

if TYPE_CHECKING:
    from fieldfare.runtime.dds import DdsOptions


def dds_bridge(
    *,
    domain: Annotated[int, typer.Option(min=0, max=230, help="The DDS domain.")] = 0,
    topic: Annotated[
        list[str] | None, typer.Option(help="A DDS topic, or a pattern; may be repeated.", show_default="all")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of this bridge; no other may have it.", show_default="a random one")
    ] = None,
    deployment: Annotated[str, typer.Option(help="Bridges of one deployment stand by for each other.")] = "fieldfare",
    lease_seconds: Annotated[
        float, typer.Option(min=0.5, max=3600, help="After this time a bridge that was killed is replaced.")
    ] = 5.0,
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Bridge a DDS domain of this machine's network and a service, until stopped (needs the extra `dds`).

    Example: `fieldfare dds-bridge --domain 0 --url https://edge.example.org:7380`
    """
    from fieldfare.messages.wording import NAME_RULE
    from fieldfare.runtime import logs
    from fieldfare.runtime.config import is_name

    for given in (name, deployment):
        if given is not None and not is_name(given):
            raise typer.BadParameter(f"{given!r}: {NAME_RULE}")
    logs.set_up("text")
    try:
        from fieldfare.runtime.dds import DdsOptions, some_name
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cyclonedds":
            raise
        raise MissingDependencyError("the bridge needs Cyclone DDS: pip install 'fieldfare[dds]'") from error
    options = DdsOptions(
        domain,
        name or some_name(),
        deployment=deployment,
        topics=tuple(topic or ("*",)),
        lease_seconds=lease_seconds,
    )
    asyncio.run(_bridge(Service(url, token_file, ca_file), options))


async def _bridge(service: Service, options: DdsOptions) -> None:
    from fieldfare.runtime.dds import DdsBridge

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with DdsBridge(service.transport(), options) as bridge:
        typer.echo(f"Bridging DDS domain {options.domain} and {service.url}")
        stopped, failed = asyncio.create_task(stop.wait()), asyncio.create_task(bridge.until_failed())
        await asyncio.wait([stopped, failed], return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            raise ServiceError(failed.result())
        failed.cancel()
