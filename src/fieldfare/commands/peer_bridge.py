"""`fieldfare peer-bridge`: a peer that is a client of a service, too. Imports of substance stand inside."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldfare.commands.connecting import DEFAULT_URL, CaFile, Service, TokenPath, Url
from fieldfare.commands.peers import (
    DEFAULT_LISTEN,
    Advertise,
    Ca,
    Certificate,
    Join,
    JoinSeconds,
    Key,
    Lifespan,
    Listen,
    PeerName,
    SecretFile,
    proof,
)
from fieldfare.errors import ServiceError

if TYPE_CHECKING:
    from fieldfare.runtime.peers.bridge import PeerBridge


def peer_bridge(
    *,
    topic: Annotated[list[str], typer.Option(help="A topic that is carried; may be repeated.")],
    folder: Annotated[Path, typer.Option(help="What the bridge has taken, and not brought to all yet, is here.")],
    listen: Listen = DEFAULT_LISTEN,
    join: Join = None,
    name: PeerName = None,
    advertise: Advertise = None,
    secret_file: SecretFile = None,
    certificate: Certificate = None,
    key: Key = None,
    ca: Ca = None,
    lifespan: Lifespan = 60.0,
    join_seconds: JoinSeconds = 20.0,
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Carry topics between peers and a service, both ways, until stopped. See docs/peers.md.

    One bridge joins a ring of peers and the edges of one deployment. An edge can be one by itself: see `[peers]`.

    Example: `fieldfare peer-bridge --topic traffic --folder bridge --join 192.0.2.7:7400 --listen 192.0.2.8:7400`
    """
    from fieldfare.runtime import logs
    from fieldfare.runtime.peers.bridge import BridgedTopics, PeerBridge
    from fieldfare.runtime.peers.options import PeerOptions
    from fieldfare.runtime.peers.peer import peer

    logs.set_up("text")
    options = PeerOptions(advertise=advertise, join_seconds=join_seconds, lifespan_seconds=lifespan)
    service = Service(url, token_file, ca_file)

    async def run() -> None:
        known_by = proof(secret_file, ca, certificate, key)
        made = peer(join, listen=listen, name=name, folder=folder, options=options, **known_by)
        await _bridge(PeerBridge(service.transport(), made, BridgedTopics(tuple(topic))), service.url)

    asyncio.run(run())


async def _bridge(bridge: PeerBridge, url: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with bridge:
        typer.echo(f"Carrying {', '.join(bridge.topics.names)} between {url} and the peers, as {bridge.peer.address}")
        stopped, failed = asyncio.create_task(stop.wait()), asyncio.create_task(bridge.until_failed())
        await asyncio.wait([stopped, failed], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if failed.done():
            raise ServiceError(failed.result())
        failed.cancel()
