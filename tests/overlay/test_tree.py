"""Brokers in a tree: what travels where, and orders of events in which such overlays go wrong."""

from __future__ import annotations

import functools

import pytest
from tests.overlay.test_interleavings import overlay_of
from tests.overlay.trees import TOPIC, Trees, numbers

from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.overlay.covering import Covering
from fieldfare.routing.exporting import ExportOptions
from fieldfare.routing.tree.tree_options import TreeOptions
from fieldfare.simulation.network import LinkQuality

STAR = {"hub": [], "fast": ["hub"], "slow": ["hub"], "source": ["hub"]}


def test_events_reach_subscribers_over_several_hops() -> None:
    trees = Trees.row(3)
    reception = trees.subscribe("b2", "n >= 5")
    trees.publish("b0", range(10))
    trees.world.run_for(2.0)
    assert numbers(reception) == [5, 6, 7, 8, 9]
    trees.world.check()


# What travels where


def test_no_link_carries_an_event_that_nobody_beyond_it_wants() -> None:
    trees = Trees.row(4)
    trees.publish("b0", [5])  # so that it is known that events come from there
    near, far = trees.subscribe("b1", "n < 3"), trees.subscribe("b2", "n >= 8")
    trees.publish("b0", range(10))
    trees.world.run_for(2.0)
    assert numbers(near) == [0, 1, 2]
    assert numbers(far) == [8, 9]
    carried = {hop: passed for hop, passed in trees.tree.carried.items() if passed}
    assert carried == {("b0", "b1"): [0, 1, 2, 8, 9], ("b1", "b2"): [8, 9]}


def test_local_traffic_never_leaves_its_broker() -> None:
    trees = Trees.row(3)
    local, elsewhere = trees.subscribe("b0", "n >= 0"), trees.subscribe("b2", "n < 0")
    trees.publish("b0", range(20))
    trees.world.run_for(2.0)
    assert numbers(local) == list(range(20))
    assert numbers(elsewhere) == []
    assert not any(trees.tree.carried.values())


def test_an_inner_broker_stores_nothing_of_what_it_relays() -> None:
    trees = Trees.row(4)
    trees.subscribe("b3", "n >= 0")
    trees.publish("b0", range(20))
    trees.world.run_for(2.0)
    assert [trees.stored(name) > 0 for name in trees.hosts] == [True, False, False, True]


def test_the_first_event_of_a_broker_that_nobody_had_heard_of_is_delivered() -> None:
    trees = Trees.row(4)
    reception = trees.subscribe("b3", "n >= 0")
    trees.publish("b0", [1])
    trees.world.run_for(5.0)
    assert numbers(reception) == [1]
    trees.world.check()


# Subscriptions come and go


def want_at(trees: Trees, name: str, neighbour: str) -> Covering:
    """What a broker knows to be wanted beyond a neighbour."""
    broker = trees.tree.brokers[name]
    link = broker.neighbours.link_to(neighbour)
    assert link is not None
    return broker.topics[TOPIC].wants.wanted_by(link)


@pytest.mark.parametrize("count", [2, 4])
def test_what_is_wanted_shrinks_to_exactly_what_is_needed(count: int) -> None:
    trees = Trees.row(count, TreeOptions(shrink_seconds=1.0), return_seconds=2.0)
    last = f"b{count - 1}"
    trees.publish("b0", [-1])
    wide, narrow = trees.subscribe(last, "n >= 0"), trees.subscribe(last, "n >= 5 AND n < 8")
    assert want_at(trees, "b0", "b1") == Covering.of([compile("n >= 0")])  # it covers the other
    trees.clients[last].unsubscribe(wide)
    trees.publish("b0", range(100), 0.2)  # meanwhile it shrinks
    assert numbers(narrow) == [5, 6, 7]
    assert want_at(trees, "b0", "b1") == Covering.of([compile("n >= 5 AND n < 8")])
    trees.tree.carried.clear()
    trees.publish("b0", range(10))
    trees.world.run_for(2.0)
    assert numbers(narrow) == [5, 6, 7] * 2
    assert trees.tree.carried["b0", "b1"] == [5, 6, 7]
    trees.clients[last].unsubscribe(narrow)
    trees.world.run_for(20.0)
    assert want_at(trees, "b0", "b1") == Covering()
    trees.world.check()


def test_who_subscribes_while_an_inner_link_is_down_gets_what_is_published_meanwhile() -> None:
    trees = Trees.row(4)
    trees.publish("b0", [0])
    trees.world.partition({"b1"}, {"b2"})
    trees.world.run_for(10.0)  # both ends have given up
    reception = trees.subscribe("b3", "n >= 5", seconds=10.0)
    trees.publish("b0", range(10))
    trees.world.run_for(5.0)
    assert numbers(reception) == []
    trees.world.heal()
    trees.world.run_for(30.0)
    assert numbers(reception) == [5, 6, 7, 8, 9]
    trees.world.check()


@pytest.mark.parametrize("milliseconds", range(0, 200, 10))
def test_who_is_acknowledged_while_a_link_comes_back_misses_nothing(milliseconds: int) -> None:
    trees = Trees.row(4)
    trees.publish("b0", range(3))
    inner = trees.hosts["b2"]
    trees.world.crash(inner)
    trees.world.run_for(1.0)
    trees.world.restart(inner)
    trees.world.run_for(milliseconds / 1000)
    reception = trees.clients["b3"].subscribe("news", "n >= 100")
    number = 100
    for _ in range(200):
        if reception.confirmed_at is not None:  # at once, and while much is under way
            trees.publish("b0", [number], 0.0)
            number += 1
        trees.world.run_for(0.02)
    trees.world.run_for(10.0)
    assert reception.confirmed_at is not None
    assert numbers(reception) == list(range(100, number))
    trees.world.check()


def test_ranges_that_were_passed_over_are_not_read_again_when_more_is_wanted() -> None:
    trees = Trees.row(4)
    first = trees.subscribe("b3", "n = 0")
    trees.publish("b0", range(3))
    trees.world.run_for(3.0)
    before = trees.refused_count()
    for number in range(10):  # what was passed over with the former version is told before the new one is met
        trees.clients["b3"].subscribe("news", f"n = {100 + number}")
        trees.publish("b0", [number] * 5, 0.01)
    trees.world.run_for(10.0)
    assert numbers(first) == [0] * 6
    assert trees.refused_count() == before


# Brokers come and go


def test_an_inner_broker_crashes_and_comes_back_in_the_middle_of_traffic() -> None:
    trees = Trees.row(5)
    near, far = trees.subscribe("b1", "n % 2 = 0"), trees.subscribe("b4", "n >= 0")
    back = trees.subscribe("b0", "n >= 1000")
    trees.world.clock.after(1.0, functools.partial(trees.world.crash, trees.hosts["b2"]))
    trees.world.clock.after(2.5, functools.partial(trees.world.restart, trees.hosts["b2"]))
    for number in range(200):
        trees.publish("b0", [number], 0.01)
        trees.publish("b4", [1000 + number], 0.01)
    trees.world.run_for(10.0)
    assert sorted(numbers(near)) == [*range(0, 200, 2), *range(1000, 1200, 2)]
    assert [number for number in numbers(far) if number < 1000] == list(range(200))
    assert numbers(back) == list(range(1000, 1200))
    assert trees.stored("b2") == 0
    trees.world.check()


def test_an_advertisement_ends_with_its_broker_and_comes_back_with_it() -> None:
    trees = Trees.row(4)
    reception = trees.subscribe("b3", "n >= 0")
    trees.publish("b0", [1])
    trees.world.run_for(1.0)
    log = trees.tree.brokers["b0"].log_id
    far = trees.tree.brokers["b3"]
    assert log in far.advertisements.of_topic(TOPIC)
    trees.world.crash(trees.hosts["b0"])
    trees.world.run_for(2.0)
    assert log not in far.advertisements.of_topic(TOPIC)
    assert far.presence.link_to(log) is None
    trees.world.restart(trees.hosts["b0"])
    trees.world.run_for(10.0)
    assert log in far.advertisements.of_topic(TOPIC)
    trees.publish("b0", [2])
    trees.world.run_for(2.0)
    assert numbers(reception) == [1, 2]
    trees.world.check()


# Windows


def test_a_neighbour_whose_window_is_full_gets_the_rest_later_and_the_others_do_not_wait() -> None:
    trees = Trees(STAR, TreeOptions(window_bytes=1000))
    fast, slow = trees.subscribe("fast", "n >= 0"), trees.subscribe("slow", "n >= 0")
    trees.publish("source", [-1])  # so that it is known that events come from there
    trees.world.run_for(1.0)
    trees.world.pause(trees.hosts["slow"])
    trees.publish("source", range(100))
    trees.world.run_for(0.5)
    assert numbers(fast) == list(range(100))
    assert len(trees.tree.carried["hub", "slow"]) < 20
    trees.world.resume(trees.hosts["slow"])
    trees.world.run_for(20.0)
    assert numbers(slow) == list(range(100))
    trees.world.check()


def test_a_slow_neighbour_beside_a_fast_one() -> None:
    trees = Trees(STAR, TreeOptions(window_bytes=2000))
    fast, slow = trees.subscribe("fast", "n >= 0"), trees.subscribe("slow", "n >= 0")
    trees.world.network.set_link_quality("hub", "slow", LinkQuality(latency_seconds=1.0))
    trees.publish("source", range(100))
    trees.world.run_for(0.5)  # the client's window grows; a message to the slow one takes longer
    assert numbers(fast) == list(range(100))
    assert len(numbers(slow)) < 100
    trees.world.run_for(60.0)
    assert numbers(slow) == list(range(100))
    trees.world.check()


def test_reading_the_log_for_a_broker_ends_when_that_has_caught_up() -> None:
    exports = ExportOptions(window_bytes=1, piece_events_max=1)
    trees = Trees.row(3, TreeOptions(window_bytes=200), exports=exports)
    reception = trees.subscribe("b2", "n >= 0")
    trees.publish("b0", range(100), 0.1)
    trees.world.run_for(20.0)
    assert numbers(reception) == list(range(100))
    takers = overlay_of(trees.deployment, trees.hosts["b0"]).exports.get(TOPIC)
    assert takers is not None
    assert not [receiver for receiver in takers.takers if "#" in receiver]
