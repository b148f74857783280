"""A tree of brokers in a simulated world: what stands in a deployment where a coordination would."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from fieldfare.messages import Node, Warn
from fieldfare.routing.edge import Edge
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.tree_broker import TreeBroker
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.simulation.host import SimulatedHost


class SimulatedTree:
    """Links the edges of a deployment. `neighbours` names, for each broker, those that it dials."""

    def __init__(
        self,
        rng: Callable[[str], random.Random],
        neighbours: Mapping[str, tuple[Neighbour, ...]],
        options: TreeOptions | None = None,
        busy_share: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._busy_share = busy_share
        self._rng, self._neighbours, self._options = rng, neighbours, options or TreeOptions()
        self.brokers: dict[str, TreeBroker] = {}  # in their present lives
        self.warnings: dict[str, list[str]] = {}  # of each broker

    def serve(self, host: SimulatedHost) -> None:
        """A broker deals with everything itself; what it warns of is kept."""
        warnings = self.warnings.setdefault(host.name, [])
        host.perform_with(Warn, lambda effect: warnings.append(effect.text))

    def wrapped(self, name: str, node: Node) -> Node:
        """An edge as a broker of the tree."""
        if not isinstance(node, Edge):
            raise TypeError("a tree is made of edges: it has no routing brokers")
        options = replace(self._options, neighbours=self._neighbours.get(name, ()))
        self.brokers[name] = TreeBroker(name, node, options, self._rng(f"{name} in the tree"), self._busy_share)
        return self.brokers[name]
