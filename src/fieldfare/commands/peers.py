"""`fieldfare peer` runs a peer, `peers` shows some, `admit` makes their certificates. Imports stand inside."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fieldfare.errors import NotConnectedError

if TYPE_CHECKING:
    from fieldfare.runtime.peers.status import PeerStatus

SECRET_VARIABLE = "FIELDFARE_PEERS_SECRET"  # noqa: S105 - its name
DEFAULT_LISTEN = "127.0.0.1:7400"
_STATUS_SECONDS = 5.0


Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where other peers reach this one, by UDP.")]
Join = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST:PORT", help="A peer that is there; may be repeated. None: this one is the first."),
]
PeerName = Annotated[
    str | None, typer.Option(help="A name that no other peer has.", show_default="the machine's, and random")
]
Advertise = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Where others reach it, if that is not where it listens.")
]
SecretFile = Annotated[
    Path | None, typer.Option(help="A file with what all peers share.", show_default=f"the variable {SECRET_VARIABLE}")
]
Certificate = Annotated[Path | None, typer.Option(help="This peer's own, in place of a secret.")]
Key = Annotated[Path | None, typer.Option(help="The key of the certificate.")]
Ca = Annotated[Path | None, typer.Option(help="The certificate of the authority that admits peers.")]
Lifespan = Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds that published events live.")]
JoinSeconds = Annotated[float, typer.Option(min=0.1, max=3600, help="How long to wait to be let in.")]


def peer(
    *,
    listen: Listen = DEFAULT_LISTEN,
    join: Join = None,
    name: PeerName = None,
    advertise: Advertise = None,
    secret_file: SecretFile = None,
    certificate: Certificate = None,
    key: Key = None,
    ca: Ca = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Keep what is published and wanted here, across restarts.", show_default="in memory"),
    ] = None,
    publish: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Publish the JSON lines of standard input.")
    ] = None,
    subscribe: Annotated[
        tuple[str, str] | None, typer.Option(metavar="TOPIC CONDITION", help="Print the events that satisfy this.")
    ] = None,
    durable: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The subscription's name: with --folder, its events wait for a restart."),
    ] = None,
    best_effort: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Send its events once, unconfirmed; the same at all peers; repeatable."),
    ] = None,
    lifespan: Lifespan = 60.0,
    join_seconds: JoinSeconds = 20.0,
    status_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="TCP, on this machine only; 0: any.", show_default="that of --listen"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that happens as JSON lines.")] = False,
) -> None:
    """Run a peer: peers find, all together and without a server, who wants an event. See docs/peers.md.

    Prints where it is when it is on the ring. With --publish and without --subscribe it leaves when its input has
    ended; else with Ctrl-C or SIGTERM.

    Example: `fieldfare peer --listen 192.0.2.8:7400 --join 192.0.2.7:7400 --subscribe traffic "speed < 25"`
    """
    from fieldfare.runtime import logs
    from fieldfare.runtime.peers.options import PeerOptions
    from fieldfare.runtime.peers.peer import peer as peer_of
    from fieldfare.runtime.peers.process import PeerWork, Reports, run_peer

    logs.set_up("text")
    options = PeerOptions(
        advertise=advertise,
        best_effort=tuple(best_effort or ()),
        join_seconds=join_seconds,
        lifespan_seconds=lifespan,
    )
    if durable is not None and (subscribe is None or folder is None):
        raise typer.BadParameter("a durable subscription needs --subscribe and --folder", param_hint="--durable")
    has_output = subscribe is not None
    reports = Reports(is_json=as_json, say=_say_aside if has_output else typer.echo)

    async def run() -> bool:
        made = peer_of(
            join,
            listen=listen,
            name=name,
            folder=folder,
            options=options,
            **proof(secret_file, ca, certificate, key),
        )
        return await run_peer(made, PeerWork(publish, subscribe, durable, status_port), reports)

    if not asyncio.run(run()):
        raise typer.Exit(1)


def _secret(file: Path | None) -> bytes | None:
    if file is None:
        return os.environ.get(SECRET_VARIABLE, "").encode() or None
    from fieldfare.runtime.link_security import read_secret

    return read_secret(file, "--secret-file")


def proof(secret_file: Path | None, ca: Path | None, certificate: Path | None, key: Path | None) -> dict[str, Any]:
    """By what a peer is known, as `fieldfare.peer` takes it."""
    if ca is None and certificate is None and key is None:
        return {"secret": _secret(secret_file)}
    if ca is None or certificate is None or key is None:
        raise typer.BadParameter("--ca, --certificate and --key go together: give all three, or none")
    if secret_file is not None:
        raise typer.BadParameter("peers know each other by a secret or by certificates", param_hint="--secret-file")
    from fieldfare.pastry.certificates import PeerFiles

    return {"certificate": PeerFiles(ca, certificate, key)}


def admit(
    name: Annotated[str, typer.Argument(help="Letters, digits, - and _; a random part is added to it.")],
    *,
    authority: Annotated[Path, typer.Option(help="The authority's folder; it is made if it is not there.")],
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificate is valid.")] = 365,
    renew: Annotated[bool, typer.Option("--renew", help="NAME is the whole name of a peer that keeps it.")] = False,
) -> None:
    """Make a certificate for a peer, with which it proves who it is. See docs/peers.md.

    A peer's place on the ring follows from its name, so the random part keeps anybody from choosing a place. Whoever
    has the authority's folder can admit peers: keep it apart. A peer gets its own three files.

    Example: `fieldfare admit berlin --authority authority`
    """
    import time

    from fieldfare.pastry.certificates import PeerAuthority

    issuing, now = PeerAuthority(authority), time.time()
    if not issuing.certificate_file.exists():
        issuing.create(now)
    files = issuing.issue(name, now, days, is_renewal=renew)
    typer.echo(f"--ca {files.authority} --certificate {files.certificate} --key {files.key}")


def _say_aside(text: str) -> None:
    """Standard output has the events."""
    Console(stderr=True, soft_wrap=True).print(text, markup=False, highlight=False)


def peers(
    *,
    url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Where a peer of this machine shows its status; may be repeated.",
            show_default="http://127.0.0.1:7400",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
) -> None:
    """Show peers of this machine: their ring and neighbours, the regions that they keep, and their load.

    Example: `fieldfare peers --url http://127.0.0.1:7400`
    """
    import msgspec

    found = [_status(each) for each in url or [f"http://{DEFAULT_LISTEN}"]]
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    from fieldfare.commands.peer_tables import region_table, ring_table, state_table, work_table
    from fieldfare.commands.tables import print_table

    for table in (ring_table(found), region_table(found), state_table(found), work_table(found)):
        print_table(table)


def _status(url: str) -> PeerStatus:
    from urllib.error import URLError
    from urllib.request import ProxyHandler, build_opener

    import msgspec

    from fieldfare.runtime.peers.status import PeerStatus

    if not url.startswith("http://"):
        raise typer.BadParameter(f"{url!r} is no URL such as http://{DEFAULT_LISTEN}", param_hint="--url")
    try:
        with build_opener(ProxyHandler({})).open(f"{url.rstrip('/')}/status", timeout=_STATUS_SECONDS) as answer:
            return msgspec.json.decode(answer.read(), type=PeerStatus)
    except (URLError, OSError, ValueError) as error:
        raise NotConnectedError(
            f"no peer shows its status at {url} ({getattr(error, 'reason', error)}).\n"
            "`fieldfare peer` prints where it does, for this machine only."
        ) from error
