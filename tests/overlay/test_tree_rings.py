"""Links of a tree that are too many or too few: two between the same brokers, rings, and brokers that stay away."""

from __future__ import annotations

import pytest
from tests.overlay.trees import Trees, numbers

from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.tree_options import TreeOptions


def test_of_two_links_between_the_same_brokers_one_stays() -> None:
    trees = Trees({"a": ["b"], "b": ["a", "c"], "c": []})
    reception = trees.subscribe("c", "n >= 0")
    trees.world.run_for(5.0)
    (stays,) = trees.tree.brokers["a"].neighbours
    for number in range(10):
        trees.publish("a", [number], 2.0)
        assert list(trees.tree.brokers["a"].neighbours) == [stays]
    assert numbers(reception) == list(range(10))
    trees.world.check()


@pytest.mark.parametrize("count", range(3, 7))
@pytest.mark.parametrize("slow", [None, 0, 1])
def test_of_a_ring_exactly_one_link_is_closed_and_traffic_is_right(count: int, slow: int | None) -> None:
    names = [f"b{number}" for number in range(count)]
    trees = Trees({name: [names[number - 1]] for number, name in enumerate(names)})
    if slow is not None:  # everything meets at another place
        pair = names[slow], names[slow - 1]
        quality = trees.world.network.link_quality(*pair)
        trees.world.network.set_link_quality(*pair, type(quality)(latency_seconds=0.3))
    receptions = {name: trees.clients[name].subscribe("news", "n >= 0") for name in names}
    trees.world.run_for(20.0)
    for name in names:
        trees.publish(name, [-1], 1.0)
    trees.world.run_for(5.0)
    opened, refused = count_opened(trees), trees.refused_count()
    wholes = 0
    for number in range(40):
        trees.publish(names[number % count], [number], 1.0)
        wholes += trees.is_tree()
    trees.world.run_for(20.0)
    for reception in receptions.values():
        assert sorted(numbers(reception)) == list(range(40))
    assert wholes >= 20  # a link too many is tried now and then, and closed
    assert count_opened(trees) - opened <= 20
    if slow is None:  # streams go on as if nothing were tried
        assert trees.refused_count() == refused
    trees.world.check()


def count_opened(trees: Trees) -> int:
    """How many links were dialled so far, by all."""
    return sum(broker.neighbours.dialled_count for broker in trees.tree.brokers.values())


# Bridges

BRIDGED = TreeOptions(bridge_seconds=2.0)
AROUND_X = {
    "x": [],
    "n1": [Neighbour("x", "x")],
    "n2": [Neighbour("x", "x", {"n1": "n1"})],
    "n3": [Neighbour("x", "x", {"n1": "n1", "n2": "n2"})],
}


def test_a_broker_that_stays_away_is_bridged_over_until_it_is_back() -> None:
    trees = Trees(AROUND_X, BRIDGED)
    receptions = {name: trees.subscribe(name, "n >= 0") for name in ("n1", "n2", "n3")}
    trees.publish("n3", range(5))
    trees.world.crash(trees.hosts["x"])
    trees.publish("n1", range(5, 10), 0.5)
    trees.world.run_for(10.0)
    assert trees.links() == {("n1", "n2"), ("n1", "n3")}
    trees.publish("n2", range(10, 15))
    trees.world.run_for(2.0)
    for reception in receptions.values():
        assert sorted(numbers(reception)) == list(range(15))
    trees.world.restart(trees.hosts["x"])
    trees.publish("n3", range(15, 115), 0.1)
    trees.world.run_for(10.0)
    assert trees.links() == {("n1", "x"), ("n2", "x"), ("n3", "x")}
    for reception in receptions.values():
        assert sorted(numbers(reception)) == list(range(115))
    trees.world.check()


def test_where_the_broker_that_a_bridge_leads_to_is_away_too_the_next_is_taken() -> None:
    trees = Trees(AROUND_X, BRIDGED)
    receptions = {name: trees.subscribe(name, "n >= 0") for name in ("n1", "n2", "n3")}
    trees.world.crash(trees.hosts["x"])
    trees.world.crash(trees.hosts["n1"])
    trees.world.run_for(10.0)
    assert trees.links() == {("n2", "n3")}
    trees.publish("n2", range(5))
    trees.world.run_for(2.0)
    assert numbers(receptions["n3"]) == list(range(5))
    trees.world.restart(trees.hosts["n1"])
    trees.world.run_for(15.0)
    assert trees.is_tree(3)
    trees.publish("n1", range(5, 10))
    trees.world.restart(trees.hosts["x"])
    trees.world.run_for(30.0)
    assert trees.links() == {("n1", "x"), ("n2", "x"), ("n3", "x")}
    for reception in receptions.values():
        assert sorted(numbers(reception)) == list(range(10))
    trees.world.check()


@pytest.mark.parametrize("seed", range(3))
def test_a_bridge_that_broke_is_not_dialled_again_when_the_broker_is_back(seed: int) -> None:
    trees = Trees(AROUND_X, BRIDGED, seed=seed)
    reception = trees.subscribe("n3", "n >= 0")
    trees.world.crash(trees.hosts["x"])
    trees.world.run_for(10.0)
    assert trees.tree.brokers["n3"].neighbours.is_bridging
    trees.world.restart(trees.hosts["x"])
    while trees.tree.brokers["n3"].neighbours.link_to("x") is None:
        for stream in trees.world.network.streams("n1", "n3"):
            stream.reset("the bridge breaks")
        trees.world.run_for(0.01)
    link = trees.tree.brokers["n3"].neighbours.link_to("x")
    trees.world.run_for(20.0)
    assert trees.tree.brokers["n3"].neighbours.link_to("x") == link
    assert trees.links() == {("n1", "x"), ("n2", "x"), ("n3", "x")}
    assert not any(broker.neighbours.is_bridging for broker in trees.tree.brokers.values())
    trees.publish("n1", range(5))
    trees.world.run_for(2.0)
    assert numbers(reception) == list(range(5))
    trees.world.check()
