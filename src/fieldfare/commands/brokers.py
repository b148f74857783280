"""`fieldfare broker`, one broker among others, and `fieldfare brokers`, which shows them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Column, Table

from fieldfare.commands.connecting import CaFile, Service, TokenPath
from fieldfare.commands.extras import needs_service
from fieldfare.commands.service import DdsDomain
from fieldfare.commands.tokens import Config, Data

if TYPE_CHECKING:
    from fieldfare.coordination.registered import Registered
    from fieldfare.runtime.broker_config import BrokerSettings
    from fieldfare.runtime.config import Settings
    from fieldfare.runtime.gossip_registry import GossipRegistry
    from fieldfare.runtime.zookeeper_registry import ZooKeeperRegistry

app = typer.Typer(help="See the brokers of a deployment, and retire one whose disk is gone.", no_args_is_help=False)

ZooKeeperHosts = Annotated[
    str | None,
    typer.Option("--zookeeper", metavar="HOSTS", help="Servers of ZooKeeper, as HOST:PORT,HOST:PORT."),
]


GossipAddresses = Annotated[
    str | None,
    typer.Option("--gossip", metavar="HOST:PORT,…", help="Brokers that gossip, if there is no ZooKeeper."),
]
SecretFile = Annotated[str | None, typer.Option("--secret-file", help="The secret of the deployment.")]


def broker(
    *,
    role: Annotated[
        Literal["edge", "routing", "tree"],
        typer.Option(
            help="An edge serves clients of one network; a routing broker connects edges; "
            "a broker of a tree serves clients, and passes on between its neighbours."
        ),
    ],
    config: Config = None,
    name: Annotated[
        str | None, typer.Option(help="Which no other broker has.", show_default="kept with the data")
    ] = None,
    network: Annotated[str | None, typer.Option(help="Of an edge: the network that it serves.")] = None,
    host: Annotated[str | None, typer.Option(help="Where clients connect.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="The same; 0 takes a free one.", show_default="7380")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where other brokers dial this one.")] = None,
    advertise: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The same, as they know it.")] = None,
    data: Data = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Of an edge: run the Spark pipeline for topics whose home it is.")
    ] = False,
    zookeeper: ZooKeeperHosts = None,
    gossip: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Find the others by gossip through these, without ZooKeeper."),
    ] = None,
    gossip_listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where this one hears gossip; the first of a deployment needs it."),
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Of a tree: brokers that this one dials. No link may close a ring."),
    ] = None,
    placement: Annotated[
        Literal["pop", "grape"] | None,
        typer.Option(help="Of a tree: move publishers to where their subscribers are.", show_default="they stay"),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of a tree: all its brokers and links; this one is found there by its name."),
    ] = None,
    secret_file: SecretFile = None,
    dds_domain: DdsDomain = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="No TLS for clients: only a proxy that has it can reach this port.")
    ] = False,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Write logs as JSON lines.")] = False,
) -> None:
    """Run one broker of a deployment: edges find each other, and events go where they are wanted.

    Without --zookeeper or gossip a routing broker runs a ZooKeeper of its own. It prints how the others join. On one
    machine brokers that are started in the same folder share a secret, which is made there; across machines they need
    certificates (see docs/brokers.md). Brokers of a tree need no routing brokers, ZooKeeper or gossip: each is told its
    neighbours (see docs/tree.md).

    Example: `fieldfare broker --role routing`, then `fieldfare broker --role edge --zookeeper 127.0.0.1:PORT`
    """
    if role == "routing" and dds_domain is not None:
        raise typer.BadParameter("only an edge has a bridge to DDS", param_hint="--dds-domain")
    settings = _settings(
        config,
        {
            "server": {
                "host": host,
                "port": port,
                "data": data or ("fieldfare-routing" if role == "routing" else None),
                "behind_proxy": insecure or None,
                "log_format": "json" if json_logs else None,
            },
            "spark": {"enabled": spark or None},
            "broker": {
                "role": role,
                "name": name,
                "network": network,
                "listen": listen,
                "advertise": advertise,
                "zookeeper": zookeeper.split(",") if zookeeper else None,
                "gossip_seeds": gossip.split(",") if gossip else None,
                "gossip_listen": gossip_listen,
                "neighbours": neighbours.split(",") if neighbours else None,
                "placement": placement,
                "topology": topology,
                "secret_file": secret_file,
            },
            "dds": {"domain": dds_domain},
        },
    )
    if role == "routing":
        from fieldfare.runtime.routing_service import route

        route(settings, lambda parts: typer.echo(f"Fieldfare routes at {parts.member.address} {parts.how_to_join()}"))
    else:
        from fieldfare.runtime.service import serve

        serve(settings, lambda address: typer.echo(f"Fieldfare is ready at {address}"), is_one_of_many=True)


def _settings(config: Path | None, arguments: dict[str, dict[str, object]]) -> Settings:
    from msgspec.structs import replace

    from fieldfare.runtime import logs
    from fieldfare.runtime.config import load

    settings = load(config, os.environ, arguments)
    logs.set_up(settings.server.log_format)
    with needs_service():
        from fieldfare.runtime.broker_parts import completed
        from fieldfare.runtime.tree_startup import settings_in_topology
    if placed := settings_in_topology(settings.broker):
        settings = load(config, os.environ, _over(placed, arguments))
    return replace(settings, broker=completed(settings.broker, Path(settings.server.data)))


def _over(
    placed: dict[str, dict[str, object]], arguments: dict[str, dict[str, object]]
) -> dict[str, dict[str, object]]:
    """What a topology file says, where no argument says otherwise."""
    return {
        section: placed.get(section, {}) | {key: value for key, value in given.items() if value is not None}
        for section, given in arguments.items()
    }


def _registry(
    config: Path | None, zookeeper: str | None, gossip: str | None, secret_file: str | None
) -> ZooKeeperRegistry | GossipRegistry:
    from fieldfare.runtime.config import load

    if zookeeper and gossip:
        raise typer.BadParameter("a deployment has ZooKeeper or gossip, and not both", param_hint="--gossip")
    given: dict[str, dict[str, object]] = {
        "broker": {
            "zookeeper": zookeeper.split(",") if zookeeper else None,
            "gossip_seeds": gossip.split(",") if gossip else None,
            "secret_file": secret_file,
        }
    }
    settings = load(config, os.environ, given).broker
    has_gossip = bool(settings.gossip_seeds) or settings.gossip_listen is not None
    return _by_gossip(settings) if has_gossip and not zookeeper else _by_zookeeper(settings)


def _by_gossip(settings: BrokerSettings) -> GossipRegistry:
    from fieldfare.runtime.broker_parts import secret_made_here
    from fieldfare.runtime.broker_startup import link_security
    from fieldfare.runtime.gossip_registry import GossipRegistry

    seeds = settings.gossip_seeds or (settings.gossip_listen or "",)  # of the first broker: its own address
    return GossipRegistry(seeds, link_security(secret_made_here(settings)).secret)


def _by_zookeeper(settings: BrokerSettings) -> ZooKeeperRegistry:
    from fieldfare.runtime.broker_startup import zookeeper_credentials
    from fieldfare.runtime.zookeeper import ZooKeeperOptions
    from fieldfare.runtime.zookeeper_registry import ZooKeeperRegistry

    hosts = ",".join(settings.zookeeper or ("127.0.0.1:2181",)) + settings.zookeeper_chroot
    user, _, password = (zookeeper_credentials(settings) or "").partition(":")
    return ZooKeeperRegistry(ZooKeeperOptions(hosts, user or None, password or None))


@app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    *,
    config: Config = None,
    zookeeper: ZooKeeperHosts = None,
    gossip: GossipAddresses = None,
    secret_file: SecretFile = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="A broker of a tree: where its clients connect.")
    ] = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
) -> None:
    """Show who is there: roles, addresses, load, topics with their owners and epochs, and who is owed.

    By gossip any broker is asked. Its secret is that of the brokers: `--secret-file`, or what was made in this folder.
    Of a tree, one broker is asked over HTTP (`--url`), with a token that has the right to manage all topics.
    """
    if context.invoked_subcommand is not None:
        return
    if url is not None:
        from fieldfare.commands.tree import print_tree, read_tree

        print_tree(read_tree(Service(url, token_file, ca_file)))
    else:
        with _registry(config, zookeeper, gossip, secret_file) as registry:
            _print(registry.read())


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="An edge whose disk is gone for good.")],
    *,
    config: Config = None,
    zookeeper: ZooKeeperHosts = None,
    gossip: GossipAddresses = None,
    secret_file: SecretFile = None,
) -> None:
    """Retire an edge for good: nobody waits for it any more, and what it had not passed on is lost."""
    with _registry(config, zookeeper, gossip, secret_file) as registry:
        topics = registry.retire(name)
    typer.echo(f"{name} is retired: {len(topics)} topics no longer wait for it")


def _print(registered: Registered) -> None:
    from fieldfare.coordination.assignment import advise

    console = Console()
    places = [Column(name, overflow="fold") for name in ("address", "clients at")]  # cut off they would be of no use
    brokers = Table("broker", "role", *places, "network", "load", "topics", "behind", title="Brokers")
    for member in registered.members:
        load = f"{member.load:.0%}"
        brokers.add_row(
            member.name,
            member.role,
            member.address,
            member.url,
            member.network,
            load,
            str(member.topic_count),
            f"{member.behind:,}",
        )
    console.print(brokers)
    topics = Table("tenant", "topic", "owner", "epoch", "edges", "owed", title="Topics")
    for topic in registered.topics:
        topics.add_row(
            *topic.topic,
            topic.owner or "nobody yet",
            str(topic.epoch),
            ", ".join(sorted(topic.endpoints)),
            ", ".join(sorted(topic.owed)),
        )
    console.print(topics)
    if registered.missing:
        console.print(f"Away, and owed events: {', '.join(registered.missing)}")
    advice = advise(registered.members)
    console.print(f"Leader: {registered.leader or 'nobody'}. Routing brokers: {advice.verdict} ({advice.reason})")
