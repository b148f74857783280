"""What can be known to be wrong before a broker joins others, and the secrets that its settings name by files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fieldfare.errors import ConfigError, LinkSecurityError
from fieldfare.runtime.broker_config import BrokerSettings
from fieldfare.runtime.link_security import LinkSecurity, TlsContexts, TlsFiles, read_secret
from fieldfare.runtime.socket_addresses import SocketAddress
from fieldfare.runtime.tree_startup import dialled_addresses, tree_problems


def link_security(broker: BrokerSettings) -> LinkSecurity:
    """What this broker proves itself with. A LinkSecurityError if that is nothing, or cannot be read."""
    files = (broker.tls_ca, broker.tls_certificate, broker.tls_key)
    paths = [Path(file) for file in files if file is not None]
    if len(paths) not in (0, len(files)):
        raise LinkSecurityError("broker: tls_ca, tls_certificate and tls_key go together: set all three, or none")
    return LinkSecurity(
        None if broker.secret_file is None else read_secret(Path(broker.secret_file)),
        TlsFiles(*paths) if paths else None,
    )


def zookeeper_credentials(broker: BrokerSettings) -> str | None:
    """USER:PASSWORD for ZooKeeper, from its file; None if there is none. A ConfigError if it cannot be read."""
    if broker.zookeeper_acl_file is None:
        return None
    place = f"broker.zookeeper_acl_file: {broker.zookeeper_acl_file}"
    try:
        text = Path(broker.zookeeper_acl_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{place} cannot be read: {getattr(error, 'strerror', 'it is not text')}") from error
    user, _, password = text.partition(":")
    if not user or not password or "\n" in text:
        raise ConfigError(f"{place} must hold a user of ZooKeeper and its password, as in USER:PASSWORD")
    return text


def check_broker(broker: BrokerSettings) -> None:
    """Raise a ConfigError with everything that keeps this broker from joining others."""
    problems = [*_address_problems(broker), *_security_problems(broker)]
    problems += tree_problems(broker) if broker.role == "tree" else _coordination_problems(broker)
    if problems:
        raise ConfigError(*problems)


def _address_problems(broker: BrokerSettings) -> Iterator[str]:
    if broker.name is None:
        yield "broker.name: every broker needs a name that no other has"
    if broker.listen is None:
        if broker.role == "routing":
            yield "broker.listen: a routing broker needs an address where edges can dial it, such as 10.0.0.7:7381"
        if broker.advertise is not None:
            yield "broker.advertise: nobody can dial this broker while it does not listen: set broker.listen too"
        return
    if broker.advertise is None and SocketAddress.parse(broker.listen).is_wildcard:
        yield f"broker.listen: nobody can dial {broker.listen}: set broker.advertise to the address that others use"
    if broker.advertise is not None:
        told = SocketAddress.parse(broker.advertise)
        if told.is_wildcard or told.port == 0:
            yield f"broker.advertise: nobody can dial {broker.advertise}: name one address, and its port"


def _security_problems(broker: BrokerSettings) -> Iterator[str]:
    try:
        security = link_security(broker)
        if security.tls is not None and broker.name is not None:
            TlsContexts(security.tls).check(broker.name)
    except LinkSecurityError as error:
        yield str(error)
        return
    try:
        dialled = [("neighbours", address) for address in dialled_addresses(broker)]
    except ConfigError as error:
        yield from error.problems
        return
    for place, address in (("listen", broker.listen), ("advertise", broker.advertise), *dialled):
        if address is not None and (unsafe := security.why_not(SocketAddress.parse(address).host)) is not None:
            yield f"broker.{place}: {unsafe}"


def _coordination_problems(broker: BrokerSettings) -> Iterator[str]:
    has_gossip = bool(broker.gossip_seeds) or broker.gossip_listen is not None
    for place in ("neighbours", "topology", "placement"):
        if getattr(broker, place):
            yield f"broker.{place}: this is for brokers of a tree: set broker.role to tree, not {broker.role}"
    if broker.zookeeper and has_gossip:
        yield "broker: brokers find each other by ZooKeeper or by gossip: set zookeeper or gossip_listen, and not both"
    if broker.gossip_seeds and broker.gossip_listen is None:
        yield "broker.gossip_seeds: gossip comes back to an address: set broker.gossip_listen too"
    for place in ("zookeeper", "gossip_seeds"):
        for address in getattr(broker, place):
            if SocketAddress.parse(address).port == 0:
                yield f"broker.{place}: {address} has no port"
    try:
        zookeeper_credentials(broker)
    except ConfigError as error:
        yield from error.problems
