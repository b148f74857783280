"""Without damping publishers go to and fro between brokers; with it they do not. Sessions are the paper's in length."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest

from fieldfare.placement.grape import Grape
from fieldfare.placement.options import PAPERS_POP, UNDAMPED, DampingOptions, GrapeOptions
from fieldfare.placement.placement_frames import BrokerDelays
from fieldfare.placement.pop import Pop
from fieldfare.simulation.placement_tree import Machine, PlacementPorts, PlacementTree, TreeShape

DAMPED = DampingOptions()


def alike(algorithm: str, damping: DampingOptions) -> PlacementTree:
    """An hour of a publisher between two brokers that want as much, each event at one of them by chance."""
    rng = random.Random(11)

    def machine(broker: str) -> Machine:
        if algorithm == "pop":
            return Pop(broker, msgspec.structs.replace(PAPERS_POP, traces_min=50), rng)
        return Grape(broker, GrapeOptions(session_publications=50, calm_factor_max=1), BrokerDelays)

    tree = PlacementTree(TreeShape([("a", "b")]), {"p": "a"}, PlacementPorts(machine), damping)
    for second in range(3600):
        tree.publish("p", {rng.choice("ab"): 1}, float(second))
    return tree


@pytest.mark.parametrize("algorithm", ["pop", "grape"])
def test_two_brokers_that_are_alike_do_not_exchange_a_publisher(algorithm: str) -> None:
    undamped, damped = alike(algorithm, UNDAMPED), alike(algorithm, DAMPED)
    assert undamped.counts.decisions >= 20
    assert undamped.counts.returns(600.0) >= 10
    assert damped.counts.returns(600.0) == 0
    assert 0 < len(damped.counts.relocated) <= 1 + 3600 / 600


def herd(damping: DampingOptions) -> tuple[PlacementTree, list[int]]:
    """Twenty publishers at one of two brokers that are alike. A broker is the slower, the more of them it serves.

    Only every tenth event is wanted, at both brokers, so a broker's work comes from the publishers that it has.
    Returns how many are at the first broker after each minute.
    """
    publishers = {f"p{number}": "a" for number in range(20)}
    served = Counter(publishers.values())

    def delays(broker: str) -> BrokerDelays:
        return BrokerDelays(input_seconds=0.01 / (1.0 - 0.045 * served[broker]))

    def machine(broker: str) -> Grape:
        options = GrapeOptions(session_publications=50, calm_factor_max=1, priority="delay")
        return Grape(broker, options, lambda: delays(broker))

    tree = PlacementTree(TreeShape([("a", "b")]), publishers, PlacementPorts(machine), damping)
    served_at_a = []
    for second in range(3600):
        for publisher in publishers:
            tree.publish(publisher, {"a": 1, "b": 1} if second % 10 == 0 else {}, float(second))
        if second % 60 == 59:  # delays are averages over a minute
            served.clear()
            served.update(tree.places.values())
            served_at_a.append(served["a"])
    return tree, served_at_a


def test_publishers_do_not_all_go_to_one_broker_at_once() -> None:
    undamped, damped = herd(UNDAMPED), herd(DAMPED)
    assert {0, 20} <= set(undamped[1])  # all of them, to and fro
    assert undamped[0].counts.returns(600.0) > 100
    assert damped[0].counts.returns(600.0) == 0
    assert all(abs(count - 10) <= 3 for count in damped[1][-30:])  # half of them have gone
    assert damped[1][-1] == damped[1][-20]  # and there they stay
