"""A broker of a tree before it starts: its place in a topology file, its neighbours, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fieldfare.errors import ConfigError
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.topology_file import PlacedBroker, Topology, read_topology
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.runtime.broker_config import BrokerSettings
from fieldfare.runtime.socket_addresses import SocketAddress


def settings_in_topology(broker: BrokerSettings) -> dict[str, dict[str, object]]:
    """What the topology file says of this broker, as settings by section; nothing if there is no such file."""
    if broker.topology is None:
        return {}
    file = Path(broker.topology)
    place = _place(broker, read_topology(file))
    host, port = (None, None) if place.http is None else SocketAddress.parse(place.http)
    return {
        "server": {
            "host": host,
            "port": port,
            "url": place.url,
            "data": None if place.data is None else str(file.parent / place.data),
        },
        "broker": {
            "listen": place.listen or place.address,
            "advertise": None if place.listen is None else place.address,
        },
    }


def _place(broker: BrokerSettings, topology: Topology) -> PlacedBroker:
    if broker.name is None:
        raise ConfigError("broker.name: the topology has several brokers: say which one this is, as with --name")
    return topology.place_of(broker.name, Path(broker.topology or ""))


def tree_options(broker: BrokerSettings) -> TreeOptions:
    """The neighbours of a broker, from its settings or its topology file."""
    if broker.topology is None:
        return TreeOptions(tuple(Neighbour("", address) for address in broker.neighbours))
    topology = read_topology(Path(broker.topology))
    _place(broker, topology)
    return TreeOptions(topology.neighbours_of(broker.name or ""), bridge_seconds=topology.bridge_after_seconds)


def dialled_addresses(broker: BrokerSettings) -> list[str]:
    """The brokers that this one dials, if it belongs to a tree. A ConfigError if its topology file is wrong."""
    if broker.role != "tree":
        return []
    neighbours = tree_options(broker).neighbours
    bridges = [address for neighbour in neighbours for address in neighbour.bridges.values()]
    return [*(neighbour.address for neighbour in neighbours if neighbour.address), *bridges]


def tree_problems(broker: BrokerSettings) -> Iterator[str]:
    """What does not fit together in the settings of a broker of a tree."""
    for place in ("zookeeper", "gossip_listen", "gossip_seeds"):
        if getattr(broker, place):
            yield (
                f"broker.{place}: brokers of a tree know each other by their links: leave it out and set "
                "broker.neighbours, or choose another role"
            )
    if broker.topology is not None:
        if broker.neighbours:
            yield "broker.neighbours: the topology file says who the neighbours are: set one of them, and not both"
        return
    if not broker.neighbours and broker.listen is None:
        yield "broker.neighbours: this broker dials nobody, and nobody can dial it: set neighbours, listen, or both"
    for address in dict.fromkeys(broker.neighbours):
        place = f"broker.neighbours: {address}"
        if SocketAddress.parse(address).port == 0:
            yield f"{place} has no port"
        if address in (broker.listen, broker.advertise):
            yield f"{place} is this broker itself: name the others"
        if broker.neighbours.count(address) > 1:
            yield f"{place} is named twice"
