from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fieldfare.client.events import Event
from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Delivery
from fieldfare.simulation import World
from fieldfare.simulation.history import Reception


def speeds(reception: Reception) -> list[float]:
    return [msgspec.json.decode(delivery.event)["speed"] for delivery in reception.events]


def test_events_reach_those_whose_condition_holds() -> None:
    world = World(seed=7)
    edge = world.edge("edge")
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    got: list[Event[dict[str, Any]]] = []
    slow = alice.subscribe("traffic", "speed < 25", on_event=got.append)
    world.run_for(1.0)
    outcome = bob.publish("traffic", {"speed": 10}, {"speed": 50}, {"speed": 20})
    world.run_for(1.0)
    assert outcome.outcome == "accepted"
    assert speeds(slow) == [10, 20]
    assert [event.attributes["speed"] for event in got] == [10, 20]
    assert {event.topic for event in got} == {"traffic"}
    world.check()


def test_a_crash_of_the_edge_loses_nothing_that_was_accepted() -> None:
    world = World(seed=1)
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    all_of_it = alice.subscribe("traffic", "speed >= 0")
    world.run_for(1.0)
    for speed in range(100):
        bob.publish("traffic", {"speed": speed})
        world.run_for(0.01)
        if speed % 30 == 15:
            world.crash(edge)
            world.run_for(0.5)
            world.restart(edge)
    world.run_for(30.0)
    assert speeds(all_of_it) == list(range(100))
    world.check()


def test_a_partition_only_delays() -> None:
    world = World(seed=2)
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    durable = alice.subscribe("traffic", "speed >= 0", name="all")
    world.run_for(1.0)
    world.partition({"alice"}, {"edge"})
    for speed in range(5):
        bob.publish("traffic", {"speed": speed})
    world.run_for(20.0)
    assert speeds(durable) == []
    world.heal()
    world.run_for(20.0)
    assert speeds(durable) == list(range(5))
    world.check()


def test_a_client_that_crashed_goes_on_with_its_durable_subscription() -> None:
    world = World(seed=3)
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    alice.subscribe("traffic", "speed >= 0", name="all")
    world.run_for(1.0)
    world.crash(alice)
    bob.publish("traffic", {"speed": 1})
    world.run_for(1.0)
    world.restart(alice)
    world.run_for(5.0)
    first, second = world.history.receptions
    assert (speeds(first), speeds(second)) == ([], [1])
    world.check()


def test_what_an_edge_refuses_is_told() -> None:
    world = World()
    alice = world.client("alice", world.edge())
    wrong = alice.subscribe("traffic", "speed <")
    world.run_for(1.0)
    assert wrong.error is not None
    assert wrong.ended_at is not None


def test_the_same_seed_replays_the_same_run() -> None:
    def run(seed: int) -> list[Delivery]:
        world = World(seed)
        edge = world.edge()
        alice, bob = world.client("alice", edge), world.client("bob", edge)
        reception = alice.subscribe("traffic", "speed >= 0")
        world.run_for(1.0)
        for speed in range(20):
            bob.publish("traffic", {"speed": speed})
            world.run_for(0.01)
        world.run_for(5.0)
        return reception.events

    assert run(5) == run(5)
    assert run(5) != run(6)


@pytest.mark.parametrize(
    ("tamper", "kind"),
    [
        (lambda events: events.pop(1), "lost"),
        (lambda events: events.insert(3, events[1]), "duplicated"),
        (lambda events: events.reverse(), "reordered"),
        (
            lambda events: events.append(msgspec.structs.replace(events[0], event=msgspec.Raw(b'{"speed":9}'))),
            "unexpected",
        ),
        (
            lambda events: events.append(msgspec.structs.replace(events[0], event=msgspec.Raw(b'{"speed":-1}'))),
            "unexpected",
        ),
    ],
)
def test_a_history_that_breaks_a_promise_is_found_out(tamper, kind: str) -> None:  # type: ignore[no-untyped-def]
    world = World()
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    reception = alice.subscribe("traffic", "speed >= 0")
    world.run_for(1.0)
    bob.publish("traffic", *({"speed": speed} for speed in range(5)), {"speed": -1})
    world.run_for(1.0)
    world.check()
    tamper(reception.events)
    with pytest.raises(BrokenPromiseError) as caught:
        world.check()
    assert caught.value.kind == kind


def test_a_request_without_an_answer_is_found_out() -> None:
    world = World()
    edge = world.edge()
    alice = world.client("alice", edge)
    world.crash(edge)
    alice.publish("traffic", {"speed": 1})
    world.run_for(60.0)
    with pytest.raises(BrokenPromiseError) as caught:
        world.check()
    assert caught.value.kind == "unanswered"


def test_numbers_of_publishers_to_a_spark_topic_survive_a_full_disk_and_a_crash() -> None:
    """The pipeline has the events, but the log could not take the publisher's number.

    The publisher sends them again, and is told that they are accepted, still without the number in the log. After a
    crash the edge asks the publisher to go on with a number that it has used, and takes the new events for the old.
    """
    world = World(seed=1)
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    bob.declare("traffic", matching="spark")
    world.run_for(1.0)
    alice.subscribe("traffic", "speed >= 0", name="all")
    world.run_for(1.0)
    bob.publish("traffic", {"speed": 1})
    world.run_for(1.0)
    edge.log.failure = "the disk is full"
    bob.publish("traffic", {"speed": 2})
    world.run_for(3.0)
    world.crash(edge)
    edge.log.failure = None
    world.restart(edge)
    bob.publish("traffic", {"speed": 3})
    world.run_for(30.0)
    world.check()


# Several edges, which no overlay connects here


def test_without_a_way_between_edges_what_is_accepted_elsewhere_is_missing() -> None:
    world = World(seed=1)
    here, there = world.edge("here"), world.edge("there")
    alice, bob = world.client("alice", here), world.client("bob", there)
    alice.subscribe("traffic", "TRUE")
    world.run_for(1.0)
    publication = bob.publish("traffic", {"speed": 1})
    world.run_for(1.0)
    assert (publication.client, publication.edge, publication.outcome) == ("bob", "there", "accepted")
    assert [reception.edge for reception in world.history.receptions] == ["here"]
    with pytest.raises(BrokenPromiseError, match="lost"):
        world.check()
    world.check(among={"alice", "here"})


def test_a_client_goes_to_another_edge() -> None:
    world = World(seed=1)
    here, there = world.edge("here"), world.edge("there")
    alice, bob = world.client("alice", here), world.client("bob", there)
    reception = alice.subscribe("traffic", "TRUE")
    world.run_for(1.0)
    alice.publish("traffic", {"speed": 1})
    world.run_for(1.0)
    alice.move_to("there")
    assert reception.edge == "there"
    assert [restart.events_before for restart in reception.restarts] == [1]
    world.run_for(5.0)
    assert {stream.there for stream in world.network.streams("alice")} == {"there"}
    assert reception.confirmed_again_at is not None
    publication = bob.publish("traffic", {"speed": 3})
    world.run_for(1.0)
    assert speeds(reception) == [1, 3]
    world.check(among={"alice", "bob", "there"})
    reception.events.pop()
    assert publication.edge == "there"
    with pytest.raises(BrokenPromiseError, match="lost"):
        world.check(among={"alice", "bob", "there"})


def test_which_edge_has_a_publication_is_not_known_when_its_client_left_without_an_answer() -> None:
    world = World(seed=1)
    here, _ = world.edge("here"), world.edge("there")
    alice = world.client("alice", here)
    world.run_for(1.0)
    publication = alice.publish("traffic", {"speed": 2})
    alice.move_to("there")
    assert publication.edge is None
    assert not publication.is_sent_once


def test_a_client_that_is_still_connecting_goes_to_the_other_edge_at_once() -> None:
    world = World(seed=1)
    here, _ = world.edge("here"), world.edge("there")
    alice = world.client("alice", here)
    alice.move_to("there")
    publication = alice.publish("traffic", {"speed": 1})
    world.run_for(5.0)
    assert (publication.outcome, publication.edge) == ("accepted", "there")
    assert world.network.streams("here") == []


def test_an_edge_comes_back_with_an_empty_disk() -> None:
    world = World(seed=1)
    edge = world.edge()
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    unnamed = alice.subscribe("traffic", "TRUE")
    world.run_for(1.0)
    bob.publish("traffic", {"speed": 1})
    world.run_for(1.0)
    world.crash(edge)
    bob.publish("traffic", {"speed": 2})
    world.wipe_disk(edge)
    world.restart(edge)
    world.run_for(10.0)
    bob.publish("traffic", {"speed": 3})
    world.run_for(10.0)
    assert speeds(unnamed)[0] == 1
    assert speeds(unnamed)[-1] == 3
    world.check()
    unnamed.events.pop()
    with pytest.raises(BrokenPromiseError, match="lost"):
        world.check()


def test_events_live_as_long_as_the_clocks_of_two_edges_say() -> None:
    world = World()
    for number, rate in enumerate((1.0, 1.1, 0.9, 1.05)):
        edge = world.edge(f"edge{number}")
        edge.machine_clock.rate = rate
    assert world.clock_error_seconds == 0.0
    world.run_for(100.0)
    assert world.clock_error_seconds == pytest.approx(20.0)


def test_an_answer_of_a_webhook_is_lost_on_its_way_back() -> None:
    world = World(seed=1)
    edge = world.edge()
    alice = world.client("alice", edge)
    called: list[int] = []
    world.webhook("https://hook.example", lambda events: called.append(len(events)))
    alice.subscribe("traffic", "TRUE", name="hook", webhook="https://hook.example")
    world.run_for(1.0)
    world.partition({"https://hook.example"}, {"edge"}, is_one_way=True)
    alice.publish("traffic", {"speed": 1})
    world.run_for(5.0)
    assert called == [1]
    world.run_for(10.0)
    assert called == [1, 1]
    world.heal()
    world.run_for(60.0)
    assert len(called) == 3
    world.check()
