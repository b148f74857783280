"""Links between the brokers of a tree: dialled by both ends, in rings, and around a broker that stays away."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.tree_broker import TreeBroker
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.history import Reception
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.tree import SimulatedTree
from fieldfare.simulation.world import World


class Tree:
    """Brokers, each with those that it dials, and a client at each. They are started one after another."""

    def __init__(
        self,
        linked: Mapping[str, tuple[Neighbour, ...]],
        options: TreeOptions | None = None,
        pause_seconds: float = 0.5,
        seed: int = 1,
    ) -> None:
        self.world = World(seed)
        self.tree = SimulatedTree(self.world.rng, linked, options)
        self.deployment = Deployment(self.world, self.tree)
        self.hosts: dict[str, SimulatedHost] = {}
        self.clients: dict[str, SimulatedClient] = {}
        for name in linked:
            host = self.hosts[name] = self.deployment.edge(name)
            self.clients[name] = self.world.client(f"client-{name}", host)
            self.world.run_for(pause_seconds)
        self.published = 0

    def broker(self, name: str) -> TreeBroker:
        return self.tree.brokers[name]

    def links(self) -> list[tuple[str, str]]:
        """Those that are open at both ends, once each."""
        seen = [
            (name, self.broker(name).neighbours.name_at(link))
            for name, host in self.hosts.items()
            if host.is_up
            for link in self.broker(name).neighbours
        ]
        return sorted((one, other) for one, other in seen if one < other and (other, one) in seen)

    def warnings(self, name: str) -> list[str]:
        """Those of a broker, but for those of a topic that came into being by being used, as the one of these tests."""
        return [text for text in self.tree.warnings[name] if "was made because it is used" not in text]

    def known(self) -> set[frozenset[str]]:
        """What the brokers that live know of each other."""
        return {
            frozenset(each.member.name for each in self.broker(name).presence)
            for name, host in self.hosts.items()
            if host.is_up
        }

    def everybody_subscribes(self) -> list[Reception]:
        receptions = [client.subscribe("news", "n >= 0") for client in self.clients.values()]
        self.world.run_for(3.0)
        assert all(reception.confirmed_at is not None for reception in receptions)
        return receptions

    def publish(self, *names: str) -> None:
        for name in names:
            self.clients[name].publish("news", {"n": self.published})
            self.published += 1
            self.world.run_for(0.1)


def dials(*names: str) -> tuple[Neighbour, ...]:
    return tuple(Neighbour("", name) for name in names)


def numbers(reception: Reception) -> list[int]:
    return sorted(msgspec.json.decode(delivery.event)["n"] for delivery in reception.events)


def test_of_two_brokers_that_dial_each_other_one_link_stays() -> None:
    tree = Tree({"b1": dials("b2"), "b2": dials("b1", "b3"), "b3": dials("b2")})
    tree.world.run_for(5.0)
    before = {name: set(tree.broker(name).neighbours) for name in tree.hosts}
    receptions = tree.everybody_subscribes()
    tree.publish("b1", "b2", "b3")
    tree.world.run_for(20.0)
    assert tree.links() == [("b1", "b2"), ("b2", "b3")]
    assert {name: set(tree.broker(name).neighbours) for name in tree.hosts} == before  # nobody dials without need
    assert [numbers(reception) for reception in receptions] == [[0, 1, 2]] * 3
    assert not any(tree.warnings(name) for name in tree.hosts)
    for name in ("b1", "b2"):  # after a crash too, whichever end dials first
        tree.hosts[name].crash()
        tree.world.run_for(1.0)
        tree.hosts[name].start()
        tree.world.run_for(10.0)
        assert tree.links() == [("b1", "b2"), ("b2", "b3")]
    tree.world.check()


@pytest.mark.parametrize("seed", range(5))
def test_two_brokers_that_dial_each_other_at_once_keep_the_link_of_the_lesser(seed: int) -> None:
    tree = Tree({"b1": dials("b2"), "b2": dials("b1")}, pause_seconds=0.0, seed=seed)
    tree.world.run_for(1.0)
    (link,) = tree.broker("b1").neighbours
    assert link.startswith("tree:b2.1")  # the first that it dialled
    assert tree.links() == [("b1", "b2")]


@pytest.mark.parametrize(
    "linked",
    [
        {"b1": (), "b2": ("b1",), "b3": ("b1", "b2")},
        {"b1": (), "b2": ("b1",), "b3": ("b2",), "b4": ("b3", "b1")},
        {"b1": (), "b4": ("b1",), "b3": ("b4",), "b2": ("b3", "b1")},
        {"b1": ("b2",), "b2": ("b3",), "b3": ("b4",), "b4": ("b5",), "b5": ("b1",)},
    ],
    ids=["three", "four", "four, the last link between the least", "five, each dials the next"],
)
def test_a_ring_has_a_link_that_is_not_used(linked: Mapping[str, tuple[str, ...]]) -> None:
    tree = Tree({name: dials(*others) for name, others in linked.items()})
    tree.world.run_for(10.0)
    links = tree.links()
    assert len(links) == len(linked) - 1
    assert tree.known() == {frozenset(linked)}
    receptions = tree.everybody_subscribes()
    tree.publish(*linked)
    tree.world.run_for(20.0)
    assert tree.links() == links  # and it is not dialled again and again
    assert [numbers(reception) for reception in receptions] == [list(range(len(linked)))] * len(linked)
    wanted = {(min(name, other), max(name, other)) for name, others in linked.items() for other in others}
    (unused,) = wanted - set(links)
    for name, other in (unused, unused[::-1]):
        assert [text for text in tree.warnings(name) if f"link to {other} is closed: with it brokers" in text]
    texts = [text for name in tree.hosts for text in tree.warnings(name)]
    for text in texts:
        assert all(name in text for name in linked)  # it names the ring
    assert len(texts) <= 4  # more than two where several links were opened at once
    tree.world.check()


def test_the_link_that_a_ring_does_without_is_used_when_another_one_is_gone() -> None:
    tree = Tree({"b1": (), "b2": dials("b1"), "b3": dials("b2"), "b4": dials("b3", "b1")})
    tree.world.run_for(5.0)
    assert len(tree.links()) == 3
    receptions = tree.everybody_subscribes()
    tree.hosts["b2"].crash()
    tree.world.run_for(10.0)
    assert tree.links() == [("b1", "b4"), ("b3", "b4")]
    tree.publish("b1", "b3", "b4")
    tree.hosts["b2"].start()
    tree.world.run_for(20.0)
    assert len(tree.links()) == 3
    tree.publish("b2")
    tree.world.run_for(10.0)
    assert all(numbers(reception)[-4:] == [0, 1, 2, 3] for reception in receptions)
    tree.world.check()


def bridged_star() -> Tree:
    """x in the middle of three, which may be bridged over, and a broker behind one of them."""
    tree = {
        "b1": (Neighbour("x", "x"),),
        "b2": (Neighbour("x", "x", {"b1": "b1"}),),
        "b3": (Neighbour("x", "x", {"b1": "b1", "b2": "b2"}),),
        "b4": (Neighbour("b3", "b3"),),
        "x": (),
    }
    return Tree(tree, TreeOptions(bridge_seconds=2.0))


def test_a_broker_that_stays_away_is_bridged_over_until_it_is_back() -> None:
    tree = bridged_star()
    tree.world.run_for(5.0)
    whole = [("b1", "x"), ("b2", "x"), ("b3", "b4"), ("b3", "x")]
    assert tree.links() == whole
    receptions = tree.everybody_subscribes()
    tree.hosts["x"].crash()
    tree.publish("b1", "b4")
    tree.world.run_for(1.0)
    assert tree.links() == [("b3", "b4")]
    tree.world.run_for(10.0)
    assert tree.links() == [("b1", "b2"), ("b1", "b3"), ("b3", "b4")]
    assert tree.known() == {frozenset(("b1", "b2", "b3", "b4"))}
    tree.publish("b2", "b3")
    tree.world.run_for(2.0)
    assert [numbers(reception) for reception in receptions[:4]] == [[0, 1, 2, 3]] * 4
    tree.hosts["x"].start()
    tree.world.run_for(20.0)
    assert tree.links() == whole
    tree.publish("b1", "x")
    tree.world.run_for(5.0)
    assert [numbers(reception)[-6:] for reception in receptions] == [[0, 1, 2, 3, 4, 5]] * 5
    tree.world.check()


def test_a_bridge_goes_to_the_next_where_the_first_is_away_too() -> None:
    tree = bridged_star()
    tree.world.run_for(5.0)
    tree.hosts["x"].crash()
    tree.hosts["b1"].crash()
    tree.world.run_for(30.0)
    assert tree.links() == [("b2", "b3"), ("b3", "b4")]
    tree.hosts["b1"].start()
    tree.world.run_for(30.0)
    assert len(tree.links()) == 3
    assert tree.known() == {frozenset(("b1", "b2", "b3", "b4"))}


def test_whoever_runs_a_broker_hears_of_a_neighbour_that_is_not_there() -> None:
    tree = Tree({"b1": (), "b2": dials("b1", "nobody")})
    tree.world.run_for(30.0)
    (text,) = tree.tree.warnings["b2"]
    assert "cannot be reached" in text
    assert tree.links() == [("b1", "b2")]


def test_another_broker_than_the_topology_says_is_no_neighbour() -> None:
    tree = Tree({"b1": (), "b2": (Neighbour("b0", "b1"),)})
    tree.world.run_for(5.0)
    assert tree.links() == []
