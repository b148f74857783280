"""Trees of brokers in a simulated world for tests, with a client at each, and what their links have carried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from tests.overlay.test_interleavings import overlay_of

from fieldfare.messages import Node, Stream, stream_of
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.routing.ports import START
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.tree_broker import TreeBroker
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.history import TENANT, Reception
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.tree import SimulatedTree
from fieldfare.simulation.world import World

TOPIC = (TENANT, "news")


class WatchedTree(SimulatedTree):
    """Counts what passes: by the names at both ends, the numbers of the events that were sent from one to the other."""

    carried: dict[tuple[str, str], list[int]]

    def wrapped(self, name: str, node: Node) -> Node:
        broker = super().wrapped(name, node)
        assert isinstance(broker, TreeBroker)
        send = broker.neighbours.send_stream

        def count(link: str, frame: Stream) -> bool:
            if is_sent := send(link, frame):
                numbers = [msgspec.json.decode(event.delivery)["event"]["n"] for event in frame.events]
                self.carried.setdefault((name, broker.neighbours.name_at(link)), []).extend(numbers)
            return is_sent

        broker.neighbours.send_stream = count  # type: ignore[method-assign]  # to look at it
        return broker


class Trees:
    """Brokers by name; `dials` says for each whom it dials. `overlay_options` are those of all edges."""

    def __init__(
        self,
        dials: Mapping[str, Iterable[str | Neighbour]],
        options: TreeOptions | None = None,
        *,
        seed: int = 1,
        **overlay_options: Any,
    ) -> None:
        self.world = World(seed)
        linked = {
            name: tuple(each if isinstance(each, Neighbour) else Neighbour(each, each) for each in others)
            for name, others in dials.items()
        }
        self.tree = WatchedTree(self.world.rng, linked, options)
        self.tree.carried = {}
        self.deployment = Deployment(self.world, self.tree)

        def change(overlay: OverlayOptions) -> OverlayOptions:
            return replace(overlay, **overlay_options)

        self.hosts: dict[str, SimulatedHost] = {name: self.deployment.edge(name, change=change) for name in dials}
        self.clients: dict[str, SimulatedClient] = {
            name: self.world.client(f"client-{name}", host) for name, host in self.hosts.items()
        }
        self.world.run_for(1.0)

    @staticmethod
    def row(count: int, options: TreeOptions | None = None, **overlay_options: Any) -> Trees:
        """Brokers b0, b1 … in a row, each dialling the one before it."""
        dials = {f"b{number}": [f"b{number - 1}"] if number else [] for number in range(count)}
        return Trees(dials, options, **overlay_options)

    def subscribe(self, name: str, condition: str, seconds: float = 3.0) -> Reception:
        """Subscribe at a broker, and wait until that is acknowledged."""
        reception = self.clients[name].subscribe("news", condition)
        self.world.run_for(seconds)
        assert reception.confirmed_at is not None
        return reception

    def publish(self, name: str, numbers: Iterable[int], pause_seconds: float = 0.02) -> None:
        for number in numbers:
            self.clients[name].publish("news", {"n": number})
            self.world.run_for(pause_seconds)

    def links(self) -> set[tuple[str, str]]:
        """The links that both ends know to be open, as their names in order."""
        seen = [
            (name, broker.neighbours.name_at(link))
            for name, broker in self.tree.brokers.items()
            if self.hosts[name].is_up
            for link in broker.neighbours
        ]
        assert len(seen) == len(set(seen)), "two links between the same brokers"
        return {hop for hop in seen if hop[0] < hop[1] and (hop[1], hop[0]) in seen}

    def is_tree(self, count: int | None = None) -> bool:
        """Whether the links make a tree of all brokers, or of so many."""
        links, count = self.links(), count or len(self.hosts)
        reached = {next(name for name, host in self.hosts.items() if host.is_up)}
        for _ in range(count):
            reached |= {name for hop in links if reached.intersection(hop) for name in hop}
        return len(links) == count - 1 and len(reached) == count

    def refused_count(self) -> int:
        """How many ranges could not be taken so far, by all edges: what they hold comes from an origin's log then."""
        return sum(overlay_of(self.deployment, host).imports.refused_count for host in self.hosts.values())

    def stored(self, name: str) -> int:
        """How many records of events the log of a broker has."""
        return len(self.hosts[name].log.fetch("test", stream_of(*TOPIC), START).records)


def numbers(reception: Reception) -> list[int]:
    """The numbers of the events that came."""
    return [msgspec.json.decode(delivery.event)["n"] for delivery in reception.events]
