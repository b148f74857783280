"""Histories in which events are missing: their subscribers were told of it, or not, or were told without reason."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import Raw

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Delivery, Subscribe
from fieldfare.qos import Offered, Requested
from fieldfare.simulation import World
from fieldfare.simulation.checkers import check_liveness, check_safety
from fieldfare.simulation.gap_checker import check_gaps
from fieldfare.simulation.history import TENANT, History, LostDisk, Publication, Reception, Removal
from fieldfare.simulation.tiny import tiny_journal_options

TOPIC = "traffic"
NOW = 100.0
FORGETFUL = Removal("a", TENANT, TOPIC, 3.0)


def content(number: int) -> bytes:
    return b'{"number":%d}' % number


def accepted(at: float, number: int, edge: str = "a") -> Publication:
    return Publication("bob", TOPIC, (content(number),), at, "accepted", at + 0.1, client="bob", edge=edge)


def reception(confirmed_at: float, *numbers: int, **request: object) -> Reception:
    asked = Subscribe(0, TOPIC, "number < 100", **request)  # type: ignore[arg-type]
    events = [Delivery(number, str(number), 0.0, Raw(content(number)), "bob") for number in numbers]
    return Reception("alice", asked, "id", confirmed_at, events=events, edge="b")


def broken(history: History, clock_error_seconds: float = 0.0) -> str | None:
    """What all checkers find together."""
    try:
        check_safety(history)
        check_liveness(history, NOW, clock_error_seconds=clock_error_seconds)
        check_gaps(history, NOW, clock_error_seconds=clock_error_seconds)
    except BrokenPromiseError as error:
        return error.kind
    return None


def test_a_loss_is_told_after_it_could_happen() -> None:
    received = reception(0.0, 2)
    history = History([accepted(1.0, 1), accepted(5.0, 2)], [received], removals=[FORGETFUL])
    assert broken(history) == "untold"
    received.gaps_told_at.append(0.5)  # of something else
    assert broken(history) == "untold"
    received.gaps_told_at.append(6.0)
    assert broken(history) == "untrue"
    received.gaps_told_at[:] = [6.0]
    assert broken(history) is None


def test_without_a_loss_no_gap_is_told() -> None:
    received = reception(0.0, 1, 2)
    history = History([accepted(1.0, 1), accepted(5.0, 2)], [received])
    assert broken(history) is None
    received.gaps_told_at.append(6.0)
    assert broken(history) == "untrue"
    history.removals.append(replace(FORGETFUL, topic="another"))
    history.removals.append(replace(FORGETFUL, at=7.0))
    assert broken(history) == "untrue"


def test_a_gap_may_be_told_for_events_that_would_not_have_been_wanted() -> None:
    received = reception(0.0, 1)
    received.gaps_told_at.append(6.0)
    history = History([accepted(1.0, 1), accepted(2.0, 500)], [received], removals=[FORGETFUL])
    assert broken(history) is None


def test_what_expired_is_told_too() -> None:
    received = reception(0.0, 2)
    history = History([accepted(1.0, 1), accepted(99.5, 2)], [received])
    history.offered[TENANT, TOPIC] = Offered(lifespan_seconds=10.0)
    assert broken(history) == "untold"
    received.gaps_told_at.append(9.0)  # nothing can have expired by then
    assert broken(history) == "untrue"
    assert broken(history, clock_error_seconds=5.0) is None
    received.gaps_told_at[:] = [11.5]
    assert broken(history) is None


def test_who_begins_with_what_is_alive_has_not_missed_what_left_before() -> None:
    transient = Requested(durability="transient")
    received = reception(4.0, 2, qos=transient)
    history = History([accepted(1.0, 1), accepted(5.0, 2)], [received], removals=[FORGETFUL])
    assert broken(history) is None
    received.confirmed_at = 0.5
    assert broken(history) == "untold"


def test_events_that_went_with_a_disk_cannot_be_told() -> None:
    received = reception(0.0, 2)
    history = History([accepted(1.0, 1), accepted(5.0, 2)], [received], lost_disks=[LostDisk("a", -math.inf, 3.0)])
    assert broken(history) is None
    received.gaps_told_at.append(4.0)  # but may be
    assert broken(history) is None


def test_whose_log_is_another_one_may_be_told_so() -> None:
    received = reception(0.0, 1, 2)
    received.restart(at=5.5)
    received.gaps_told_at.append(6.0)
    assert broken(History([accepted(1.0, 1), accepted(5.0, 2)], [received])) is None


@pytest.mark.parametrize(
    "request_options",
    [{"qos": Requested(reliability="best_effort")}, {"qos": Requested(keep_last=3)}, {"name": "w", "webhook": "url"}],
)
def test_some_are_told_of_no_gaps(request_options: dict[str, object]) -> None:
    received = reception(0.0, 2, **request_options)
    called = {"url": received.events} if "webhook" in request_options else {}
    history = History([accepted(1.0, 1), accepted(5.0, 2)], [received], removals=[FORGETFUL], called=called)
    assert broken(history) is None


def test_only_those_are_judged_who_suffer_from_no_lasting_fault() -> None:
    history = History([accepted(1.0, 1)], [reception(0.0)], removals=[FORGETFUL])
    with pytest.raises(BrokenPromiseError):
        check_gaps(history, NOW)
    check_gaps(history, NOW, among={"alice", "b"})
    check_gaps(history, NOW, among={"alice", "bob", "a"})


def test_an_edge_whose_log_is_tiny_tells_who_was_away_what_it_lost() -> None:
    world = World(seed=5)
    edge = world.edge()
    edge.log.options = tiny_journal_options(world.rng("log"))
    edge.checkpoint_records = 1
    alice, bob = world.client("alice", edge), world.client("bob", edge)
    durable = alice.subscribe("traffic", "TRUE", name="all")
    world.run_for(1.0)
    bob.publish("traffic", {"number": -1})
    world.run_for(1.0)
    world.crash(alice)
    for number in range(200):
        bob.publish("traffic", {"number": number})
        world.run_for(0.05)
    assert {removal.topic for removal in world.history.removals} == {"traffic"}
    world.restart(alice)
    world.run_for(30.0)
    _, again = world.history.receptions
    assert len(durable.events) == 1
    assert 0 < len(again.events) < 200
    assert len(again.gaps_told_at) >= 1
    world.check()
    again.gaps_told_at.clear()
    with pytest.raises(BrokenPromiseError, match="untold"):
        world.check()
