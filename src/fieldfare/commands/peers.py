"""`fieldfare peer`, a peer that needs no server, and `fieldfare peers`, which shows some. Imports stand inside."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fieldfare.errors import InputError, NotConnectedError

if TYPE_CHECKING:
    from rich.table import Table

    from fieldfare.runtime.peers.status import PeerStatus

SECRET_VARIABLE = "FIELDFARE_PEERS_SECRET"  # noqa: S105 - its name
_DEFAULT_LISTEN = "127.0.0.1:7400"
_STATUS_SECONDS = 5.0


def peer(
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where other peers reach this one, by UDP.")
    ] = _DEFAULT_LISTEN,
    join: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="A peer that is there; may be repeated. None: this one is the first."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Which no other peer has.", show_default="the machine's, and random")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where others reach it, if that is not where it listens.")
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(help="What all peers share.", show_default=f"the variable {SECRET_VARIABLE}"),
    ] = None,
    publish: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Publish the JSON lines of standard input.")
    ] = None,
    subscribe: Annotated[
        tuple[str, str] | None, typer.Option(metavar="TOPIC CONDITION", help="Print the events that satisfy this.")
    ] = None,
    best_effort: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Send its events once, unconfirmed; the same at all peers; repeatable."),
    ] = None,
    lifespan: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds that published events live.")] = 60.0,
    join_seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="How long to wait to be let in.")] = 20.0,
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
    has_output = subscribe is not None
    reports = Reports(is_json=as_json, say=_say_aside if has_output else typer.echo)

    async def run() -> bool:
        made = peer_of(
            join,
            listen=listen,
            secret=_secret(secret_file),
            name=name,
            options=options,
        )
        return await run_peer(made, PeerWork(publish, subscribe, status_port), reports)

    if not asyncio.run(run()):
        raise typer.Exit(1)


def _secret(file: Path | None) -> bytes | None:
    if file is None:
        return os.environ.get(SECRET_VARIABLE, "").encode() or None
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise InputError(f"--secret-file: {file} cannot be read: {error.strerror}") from error


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

    found = [_status(each) for each in url or [f"http://{_DEFAULT_LISTEN}"]]
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    from fieldfare.commands.tables import print_table

    for table in (_ring_table(found), _region_table(found), _load_table(found)):
        print_table(table)


def _status(url: str) -> PeerStatus:
    from urllib.error import URLError
    from urllib.request import ProxyHandler, build_opener

    import msgspec

    from fieldfare.runtime.peers.status import PeerStatus

    if not url.startswith("http://"):
        raise typer.BadParameter(f"{url!r} is no URL such as http://{_DEFAULT_LISTEN}", param_hint="--url")
    try:
        with build_opener(ProxyHandler({})).open(f"{url.rstrip('/')}/status", timeout=_STATUS_SECONDS) as answer:
            return msgspec.json.decode(answer.read(), type=PeerStatus)
    except (URLError, OSError, ValueError) as error:
        raise NotConnectedError(
            f"no peer shows its status at {url} ({getattr(error, 'reason', error)}).\n"
            "`fieldfare peer` prints where it does, for this machine only."
        ) from error


def _ring_table(found: list[PeerStatus]) -> Table:
    from rich.table import Table

    table = Table("id", "name", "address", "seen by", title="Ring")
    seen: dict[str, tuple[str, str, list[str]]] = {}
    for status in found:
        seen.setdefault(status.id, (status.name, status.address, []))[2].append("itself")
        for each in status.neighbours:
            seen.setdefault(each.id, (each.name, each.address, []))[2].append(status.name)
    for node_id, (name, address, by) in sorted(seen.items()):
        table.add_row(f"{node_id[:12]}…", name, address, ", ".join(by))
    return table


def _region_table(found: list[PeerStatus]) -> Table:
    from rich.table import Table

    table = Table("peer", "topic", "attributes", "part", "state", "entries", title="Regions")
    for status in found:
        for region in status.regions:
            table.add_row(
                status.name,
                region.topic,
                ", ".join(region.attributes) or "none",
                region.code or "all",
                region.state,
                f"{region.entries:,}",
            )
    return table


def _load_table(found: list[PeerStatus]) -> Table:
    from rich.table import Table

    columns = ("regions", "copies", "entries", "subscriptions", "unsettled", "undelivered", "published", "delivered")
    table = Table("peer", *columns, "repeated packets", title="Load")
    for status in found:
        numbers = (
            status.regions_count,
            status.copies_count,
            status.entries,
            status.subscriptions,
            status.load["unsettled_publications"],
            status.load["undelivered_events"],
            status.counts["published"],
            status.counts["delivered"],
            status.counts.get("retransmissions", 0),
        )
        table.add_row(status.name, *(f"{number:,}" for number in numbers))
    return table
