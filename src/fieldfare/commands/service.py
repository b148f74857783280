"""`fieldfare serve`, and its clients `publish` and `subscribe`. Imports of substance stand inside the commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from rich.console import Console

from fieldfare.commands.bad_rows import exit_if_any
from fieldfare.commands.connecting import DEFAULT_URL, CaFile, Service, TokenPath, Url, converted
from fieldfare.commands.extras import needs_service
from fieldfare.commands.tokens import Config, Data
from fieldfare.errors import InputError

if TYPE_CHECKING:
    from fieldfare.client.aio import Client
    from fieldfare.client.events import Event
    from fieldfare.client.subscription import SubscriptionOptions
    from fieldfare.messages import Notice

DdsDomain = Annotated[
    int | None,
    typer.Option(min=0, max=230, help="Bridge this DDS domain (needs the extra `dds`).", show_default="none"),
]


def serve(
    *,
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 takes a free one.", show_default="7380")] = None,
    data: Data = None,
    spark: Annotated[bool, typer.Option("--spark", help="Run the Spark pipeline for topics that it matches.")] = False,
    dds_domain: DdsDomain = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="No TLS here: only a proxy that has it can reach this port.")
    ] = False,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Write logs as JSON lines.")] = False,
) -> None:
    """Run the service: clients connect to it, publish to it and subscribe to it.

    Prints its address when it is ready. Stop it with Ctrl-C or SIGTERM: nothing that was accepted is lost. On this
    machine alone it needs no tokens; beyond it needs tokens and TLS, and says so.

    Example: `fieldfare serve --data /var/lib/fieldfare`
    """
    from fieldfare.runtime import logs
    from fieldfare.runtime.config import load

    settings = load(
        config,
        os.environ,
        {
            "server": {
                "host": host,
                "port": port,
                "data": data,
                "behind_proxy": insecure or None,
                "log_format": "json" if json_logs else None,
            },
            "spark": {"enabled": spark or None},
            "dds": {"domain": dds_domain},
        },
    )
    logs.set_up(settings.server.log_format)
    with needs_service():
        from fieldfare.runtime import service  # after the logs are set up: it brings libraries that look at them
    service.serve(settings, lambda address: typer.echo(f"Fieldfare is ready at {address}"))


def publish(
    topic: Annotated[str, typer.Argument(help="Where to.")],
    source: Annotated[str, typer.Argument(metavar="JSON|-|FILE", help="An event, JSON lines, or a file of events.")],
    *,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Events of a file that travel together.")] = 1000,
    quarantine: Annotated[
        Path | None, typer.Option(help="Where bad rows go.", show_default="FILE.quarantine.jsonl")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Publish events: one as JSON, JSON lines from standard input (`-`), or a CSV, JSON lines or Parquet file.

    When it ends, all events are accepted, but for bad rows: they are in the quarantine file, each with the reason, and
    the exit code is 1.

    Example: `fieldfare publish traffic '{"road": "A10", "speed": 12}'`
    """
    from fieldfare.files.documents import events_of_text

    service = Service(url, token_file, ca_file)
    if source.lstrip().startswith(("{", "[")):
        events = events_of_text(source)
        service.run(lambda client: client.publish(topic, events))
        _say(f"{len(events):,} accepted")
        return
    path = None if source == "-" else Path(source)
    left_out = quarantine or Path(f"{path or 'fieldfare'}.quarantine.jsonl")
    accepted, bad = _publish_rows(service, topic, path, left_out, batch)
    _say(f"{accepted:,} accepted")
    exit_if_any(bad, left_out)


def _publish_rows(service: Service, topic: str, path: Path | None, left_out: Path, batch: int) -> tuple[int, int]:
    """Publish a file, or standard input; how many events were accepted, and how many are in quarantine."""
    from rich.progress import Progress

    from fieldfare.client.bulk import BulkPublisher
    from fieldfare.files.documents import documents, documents_of_stream
    from fieldfare.files.event_source import EventSource
    from fieldfare.files.quarantine import Quarantine

    if path is not None and left_out.resolve() == path.resolve():
        raise InputError(f"{left_out}: the quarantine would replace the input")
    console = Console(stderr=True)
    with (
        Quarantine(left_out) as quarantine,
        Progress(console=console, transient=True, disable=path is None or not console.is_terminal) as progress,
    ):
        bar = progress.add_task("Publishing", total=None if path is None else EventSource.open(path).length)

        async def work(client: Client) -> int:
            bulk = BulkPublisher(client, topic, quarantine, lambda last: progress.update(bar, completed=last.position))
            if path is not None:
                await bulk.publish_file(documents(path), batch)
            else:
                await bulk.publish_stream(documents_of_stream(_standard_input()))
            return bulk.accepted

        return service.run(work), quarantine.rows


def _standard_input() -> BinaryIO:
    """Never closed, not even by Python at its end as sys.stdin is: that would wait for a thread that still reads."""
    return open(0, "rb", closefd=False)


def subscribe(
    topic: Annotated[str, typer.Argument(help="Which events.")],
    condition: Annotated[str, typer.Argument(help="A SQL condition over their attributes.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until stopped.")] = False,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="With --follow or a name: begin with what is still alive.")
    ] = False,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.", show_default="no end")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Makes it durable: events wait, and it goes on where it was.", show_default="none"),
    ] = None,
    reliability: Annotated[str, typer.Option(help="reliable, or best_effort, which every topic offers.")] = "reliable",
    keep_last: Annotated[int | None, typer.Option(help="Of what waits, only the latest.", show_default="all")] = None,
    deadline: Annotated[
        float | None, typer.Option(help="Say so when nothing came for so many seconds.", show_default="never")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With position, id and time around each event.")] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Print the events that satisfy a condition, each as a line of JSON as soon as it comes.

    Without --follow it prints what is there, still alive or waiting for this name, and ends.

    Example: `fieldfare subscribe traffic "speed < 25" --follow`
    """
    from fieldfare.qos import Requested

    is_from_start = from_start or not (follow or name)
    qos = converted(
        {
            "reliability": reliability,
            "durability": "transient" if is_from_start else "volatile",
            "keep_last": keep_last,
            "deadline_seconds": deadline,
        },
        Requested,
    )

    async def work(client: Client) -> None:
        options: SubscriptionOptions = {"wants_mark": not follow}
        if name:
            options["name"] = name
        subscription = client.subscribe(topic, condition, qos=qos, on_notice=_notice, **options)
        await subscription
        _say(f"Subscribed to {topic}: {condition}")
        printed = 0
        while count is None or printed < count:
            try:
                event = await anext(subscription)
            except StopAsyncIteration:
                return
            typer.echo(_line(event, as_json=as_json))
            subscription.acknowledge(event)
            printed += 1

    try:
        Service(url, token_file, ca_file).run(work)
    except KeyboardInterrupt:
        raise typer.Exit from None  # this is how to follow ends


def unsubscribe(
    name: Annotated[str, typer.Argument(help="The name of a durable subscription.")],
    *,
    url: Url = DEFAULT_URL,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """End a durable subscription, and let go of what waits for it.

    Example: `fieldfare unsubscribe slow-roads`
    """
    Service(url, token_file, ca_file).run(lambda client: client.unsubscribe(name))
    _say(f"Ended: {name}")


def _line(event: Event[Any], *, as_json: bool) -> bytes:
    """An event on one line: between its tokens JSON may have line breaks, within them it has none."""
    import msgspec

    line = event.json.replace(b"\r", b" ").replace(b"\n", b" ")
    if not as_json:
        return line
    around = {"position": event.position, "id": event.id, "at": event.at, "publisher": event.publisher}
    return msgspec.json.encode({**around, "event": msgspec.Raw(line)})


def _notice(notice: Notice) -> None:
    _say(f"{notice.kind}: {notice.detail}", style="yellow")


def _say(text: str, style: str | None = None) -> None:
    Console(stderr=True, soft_wrap=True).print(text, style=style, markup=False, highlight=False)
