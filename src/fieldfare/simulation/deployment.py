"""Several edges and routing brokers in a simulated world, with a coordination between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fieldfare.coordination.leading import Leading
from fieldfare.messages import Member, Node
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.routing.tree.tree_options import tree_overlay
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.tree import SimulatedTree
from fieldfare.simulation.world import World

_EDGE_OPTIONS = EdgeOptions()


class Coordination(Protocol):
    """What connects the brokers of a deployment, such as a SimulatedZooKeeper."""

    def serve(self, host: SimulatedHost) -> None:
        """Perform what a broker asks of its coordination, from now on."""


class Deployment:
    """The brokers of a world. Their names are their addresses."""

    def __init__(self, world: World, coordination: Coordination) -> None:
        self.world, self.coordination = world, coordination
        self.brokers: dict[str, SimulatedHost] = {}
        self.nodes: dict[str, Node] = {}  # those of the brokers' present lives, without what coordination adds to them

    def edge(
        self,
        name: str,
        options: EdgeOptions = _EDGE_OPTIONS,
        change: Callable[[OverlayOptions], OverlayOptions] = lambda options: options,
        network: str = "",
    ) -> SimulatedHost:
        """An edge broker, which starts at once."""
        is_tree = isinstance(self.coordination, SimulatedTree)
        member = Member(name, "tree" if is_tree else "edge", name, url=name, network=network)
        overlay = change(tree_overlay(member) if is_tree else OverlayOptions(member))
        rng = self.world.rng(f"{name}'s node")
        return self._start(self.world.edge_of(name, lambda: self._wrapped(name, Edge(name, rng, options, overlay))))

    def routing(self, name: str) -> SimulatedHost:
        """A routing broker, which starts at once."""
        member = Member(name, "routing", name)
        make_node = lambda: self._wrapped(name, RoutingBroker(member, Leading(name)))  # noqa: E731
        return self._start(self.world.broker(name, make_node))

    def _start(self, host: SimulatedHost) -> SimulatedHost:
        self.brokers[host.name] = host
        self.coordination.serve(host)
        host.start()
        return host

    def _wrapped(self, name: str, node: Node) -> Node:
        """A broker's node with what coordination adds to it, if it adds something."""
        self.nodes[name] = node
        wrap = getattr(self.coordination, "wrapped", None)
        return node if wrap is None else wrap(name, node)
