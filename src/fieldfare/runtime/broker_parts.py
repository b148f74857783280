"""What makes a process one broker among others: its links to them, and how it finds them."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from fieldfare.coordination.gossip import Gossip
from fieldfare.coordination.gossiping_node import with_gossip
from fieldfare.durable import flush_file, write_all
from fieldfare.errors import ConfigError
from fieldfare.messages import Member, Node
from fieldfare.messages.broker_codec import BROKER_FRAMES
from fieldfare.routing.edge import Edge
from fieldfare.routing.tree.publisher_placement import PlacementOptions
from fieldfare.routing.tree.tree_broker import TreeBroker
from fieldfare.runtime.broker_config import BrokerSettings
from fieldfare.runtime.broker_startup import check_broker, link_security, zookeeper_credentials
from fieldfare.runtime.busy_share import BusyShare
from fieldfare.runtime.child_server import free_ports
from fieldfare.runtime.config import Settings
from fieldfare.runtime.gossip import gossip_datagrams, resolve_seeds
from fieldfare.runtime.host import Capability
from fieldfare.runtime.socket_addresses import SocketAddress
from fieldfare.runtime.tcp_links import TcpLinks
from fieldfare.runtime.tree_startup import tree_options
from fieldfare.runtime.zookeeper import ZooKeeper, ZooKeeperOptions
from fieldfare.runtime.zookeeper_server import ServerOptions, ZooKeeperServer

_log = logging.getLogger(__name__)
_SECRET_FILE = Path("fieldfare-broker.secret")


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """How a broker is known to the others, what its host can do for it, and what coordination adds to its node."""

    member: Member
    capabilities: tuple[Capability, ...]
    wrap: Callable[[Node], Node]
    how_to_join: Callable[[], str]  # the option with which others find this broker, once its host has started


def completed(broker: BrokerSettings, data: Path) -> BrokerSettings:
    """The settings of a broker, with a name and a secret where none were given.

    Both are kept in the data folder, so that the broker is the same after a restart. The secret made here is good for
    brokers on this machine alone, which are started in the same folder, or given the file.
    """
    if broker.name is None:
        broker = msgspec.structs.replace(broker, name=_kept(data / "broker-name", lambda: _new_name(broker.role)))
    if not _has_proof(broker):
        _kept(_SECRET_FILE, lambda: secrets.token_urlsafe(32))
        broker = secret_made_here(broker)
    if broker.listen is None and broker.role in ("routing", "tree"):
        broker = msgspec.structs.replace(broker, listen="127.0.0.1:0")
    if broker.gossip_seeds and broker.gossip_listen is None:
        broker = msgspec.structs.replace(broker, gossip_listen="127.0.0.1:0")
    return broker


def secret_made_here(broker: BrokerSettings) -> BrokerSettings:
    """The settings with the secret that brokers have made in this folder, if there is one and no other was given."""
    if _has_proof(broker) or not _SECRET_FILE.exists():
        return broker
    return msgspec.structs.replace(broker, secret_file=str(_SECRET_FILE))


def _has_proof(broker: BrokerSettings) -> bool:
    return broker.secret_file is not None or broker.tls_ca is not None


def _kept(file: Path, make: Callable[[], str]) -> str:
    """What a file holds; if there is none, it is made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _make(file, make().encode())
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{file} cannot be made or read: {error.strerror}") from error


def _make(file: Path, content: bytes) -> None:
    """Make a file for this user alone. If another process makes it at the same time, the first one's holds."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_all(descriptor, content)
        flush_file(descriptor)
    finally:
        os.close(descriptor)
    with suppress(FileExistsError):
        file.hardlink_to(draft)
    draft.unlink()


def _new_name(role: str) -> str:
    return f"{role}-{secrets.token_hex(4)}"


def broker_parts(settings: Settings, stack: ExitStack) -> BrokerParts:
    """All of it. What is started here ends with the stack; the address is taken, so that it can be told."""
    broker, data = settings.broker, Path(settings.server.data)
    check_broker(broker)
    name = broker.name or ""
    listen_at = None if broker.listen is None else SocketAddress.parse(broker.listen)
    links = TcpLinks(BROKER_FRAMES, name, link_security(broker), listen_at)
    links.bind()
    member = Member(name, broker.role, broker.advertise or links.address, network=broker.network or "")
    if broker.role == "tree":
        return _in_tree(broker, settings.placement.options(broker.placement), member, links)
    if broker.gossip_listen is not None:
        return _by_gossip(broker, member, links)
    return _by_zookeeper(broker, member, links, ",".join(broker.zookeeper) or _embedded_zookeeper(data, stack))


def _by_zookeeper(broker: BrokerSettings, member: Member, links: TcpLinks, hosts: str) -> BrokerParts:
    user, _, password = (zookeeper_credentials(broker) or "").partition(":")
    options = ZooKeeperOptions(
        hosts + broker.zookeeper_chroot, user or None, password or None, broker.zookeeper_session_seconds
    )
    return BrokerParts(member, (links, ZooKeeper(options)), lambda node: node, lambda: f"--zookeeper {hosts}")


def _by_gossip(broker: BrokerSettings, member: Member, links: TcpLinks) -> BrokerParts:
    listen_at = SocketAddress.parse(broker.gossip_listen or "")
    datagrams = gossip_datagrams(listen_at, link_security(broker).secret)
    seeds = asyncio.run(resolve_seeds(broker.gossip_seeds))
    gossip = Gossip(member.name, random.SystemRandom(), seeds)
    return BrokerParts(
        member, (links, datagrams), lambda node: with_gossip(node, gossip), lambda: f"--gossip {datagrams.address}"
    )


def _in_tree(broker: BrokerSettings, placement: PlacementOptions, member: Member, links: TcpLinks) -> BrokerParts:
    options = replace(tree_options(broker), placement=placement)

    def wrap(node: Node) -> Node:
        if not isinstance(node, Edge):
            raise TypeError("a tree is made of edges: it has no routing brokers")
        return TreeBroker(member.name, node, options, random.SystemRandom(), BusyShare())

    return BrokerParts(member, (links,), wrap, lambda: f"--neighbours {member.address}")


def _embedded_zookeeper(data: Path, stack: ExitStack) -> str:
    """A ZooKeeper of this process's own, for a deployment on one machine. Its port stays the same over restarts."""
    port = int(_kept(data / "zookeeper-port", lambda: str(free_ports(1)[0])))
    server = stack.enter_context(ZooKeeperServer(data / "zookeeper", ServerOptions(port=port)))
    _log.info("ZooKeeper runs inside this broker, at %s", server.hosts)
    return server.hosts
