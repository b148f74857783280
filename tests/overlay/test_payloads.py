"""What events carry beside their attributes, from edge to edge, over a tree, and by a pipeline at another edge."""

from __future__ import annotations

import pytest
from tests.overlay.directory import Directory
from tests.overlay.test_spark_topics import Networks
from tests.overlay.trees import Trees

from fieldfare.messages import Delivery
from fieldfare.qos import Requested
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.world import World

PAYLOAD = bytes(range(256))
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
ENVELOPE = {"specversion": "1.0", "id": "1", "source": "/here", "type": "org.example.count"}


def carried(events: list[Delivery]) -> list[tuple[bytes, object, object, object]]:
    return [(bytes(event.event), event.payload, event.envelope, event.trace) for event in events]


EXPECTED = [
    (b'{"n":1}', PAYLOAD, None, None),
    (b'{"n":2}', None, ENVELOPE, TRACE),
    (b'{"n":3}', None, None, None),
]


def publish(client: object, topic: str) -> None:
    client.publish(topic, {"n": 1}, payload=PAYLOAD)  # type: ignore[attr-defined]
    client.publish(topic, {"n": 2}, envelope=ENVELOPE, trace=TRACE)  # type: ignore[attr-defined]
    client.publish(topic, {"n": 3})  # type: ignore[attr-defined]


@pytest.mark.parametrize("condition", ["n >= 0", "n IN (1, 3) OR ce.type = 'org.example.count'"])
def test_over_a_routing_broker_and_after_a_crash(condition: str) -> None:
    world = World(1)
    deployment = Deployment(world, Directory())
    deployment.routing("routing-1")
    here, there = deployment.edge("here"), deployment.edge("there")
    publisher, subscriber = world.client("publisher", here), world.client("subscriber", there)
    world.run_for(1.0)
    reception = subscriber.subscribe("news", condition)
    world.run_for(2.0)
    publish(publisher, "news")
    world.run_for(2.0)
    assert carried(reception.events) == EXPECTED
    world.crash(there)
    world.restart(there)
    world.run_for(5.0)
    late = world.client("late", there).subscribe("news", condition, qos=Requested(durability="transient"))
    world.run_for(5.0)
    assert carried(late.events) == EXPECTED


def test_over_a_tree() -> None:
    trees = Trees.row(3)
    reception = trees.subscribe("b2", "n IN (1, 3) OR ce.type = 'org.example.count'")
    publish(trees.clients["b0"], "news")
    trees.world.run_for(2.0)
    assert carried(reception.events) == EXPECTED


@pytest.mark.parametrize("publisher", [0, 1])
def test_through_the_pipeline_of_another_edge(publisher: int) -> None:
    networks = Networks()
    receptions = [networks.subscribe(number, "n IN (1, 3) OR ce.type = 'org.example.count'") for number in (0, 2)]
    networks.world.run_for(2.0)
    publish(networks.clients[publisher], "big")
    networks.world.run_for(10.0)
    for reception in receptions:
        assert carried(reception.events) == EXPECTED
