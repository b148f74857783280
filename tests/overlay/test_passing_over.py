"""Edges tell each other of what they need not know, but not more often than they send what is wanted."""

from __future__ import annotations

from tests.overlay.directory import Directory

from fieldfare.messages import Node
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.qos import Requested
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.world import World

EDGES, EVENTS = 8, 100


class NotingDirectory(Directory):
    """Remembers the nodes of a deployment."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, Node] = {}

    def wrapped(self, name: str, node: Node) -> Node:
        self.nodes[name] = node
        return node


def test_edges_that_import_the_same_events_do_not_tell_each_other_of_each() -> None:
    world = World(3)
    directory = NotingDirectory()
    deployment = Deployment(world, directory)
    deployment.routing("routing")
    clients = [world.client(f"client{number}", deployment.edge(f"edge{number}")) for number in range(EDGES)]
    receptions = [client.subscribe("news", "n >= 0") for client in clients[1:]]
    world.run_for(3.0)
    routing = directory.nodes["routing"]
    assert isinstance(routing, RoutingBroker)
    before = routing.counts.frames
    for number in range(EVENTS):
        clients[0].publish("news", {"n": number})
        world.run_for(0.05)
    world.run_for(0.5)
    assert all(len(reception.events) == EVENTS for reception in receptions)
    # To each of the others an event, and from it the word that it was taken; and few frames beside.
    assert routing.counts.frames - before < 2.5 * EVENTS * len(receptions)
    late = clients[1].subscribe("news", "n >= 0", qos=Requested(durability="transient"))
    world.run_for(1.5)
    assert len(late.events) == EVENTS, "who begins with what is alive does not wait until edges tell each other"
    world.check()
