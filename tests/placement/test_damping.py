from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.placement.arrivals import ArrivalGate
from fieldfare.placement.damping import Departure, DepartureLog, Refusal, Verdict, decide, move_cost, refuses
from fieldfare.placement.options import UNDAMPED, DampingOptions
from fieldfare.placement.passages import Relocation

GOOD = Relocation("p", "t", 2, "messages", 10.0, 5.0, deliveries=4.0, publications_per_second=1.0)


def changed(**fields: object) -> Relocation:
    return dataclasses.replace(GOOD, **fields)  # type: ignore[arg-type]


def test_a_good_relocation_is_done() -> None:
    assert decide([GOOD], (), DampingOptions(), lambda _: True) == Verdict(GOOD)
    assert decide([], (), DampingOptions(), lambda _: True) == Verdict(None)


@pytest.mark.parametrize(
    ("relocation", "refusal"),
    [
        (changed(cost_then=9.95), Refusal.TOO_LITTLE),
        (changed(cost_then=10.0), Refusal.TOO_LITTLE),
        (changed(saving_error=2.6), Refusal.TOO_UNSURE),  # it saves 5 of 10
        (changed(publications_per_second=0.001), Refusal.TOO_DEAR),  # 1.5 messages saved in 300 s, for 8
        (changed(target="left"), Refusal.LEFT_LATELY),
        (changed(target="full"), Refusal.TOO_MANY),
    ],
)
def test_what_speaks_against_a_relocation(relocation: Relocation, refusal: Refusal) -> None:
    departures = (Departure("left", 599.0), Departure("t", 600.0))
    verdict = decide([relocation], departures, DampingOptions(), lambda target: target != "full")
    assert verdict == Verdict(None, refusal)
    if relocation.cost_then < relocation.cost_now and refusal is not Refusal.TOO_MANY:
        assert decide([relocation], departures, UNDAMPED, lambda _: True) == Verdict(relocation)


def test_the_next_best_broker_is_taken_where_the_best_is_full() -> None:
    second = changed(target="second", cost_then=6.0)
    assert decide([GOOD, second], (), DampingOptions(), lambda target: target != "t") == Verdict(second)
    third = changed(target="third", cost_then=9.95)
    assert decide([GOOD, third], (), DampingOptions(), lambda target: target != "t") == Verdict(None, Refusal.TOO_MANY)


def test_a_gate_is_asked_only_where_nothing_else_speaks_against_it() -> None:
    asked: list[str] = []

    def admits(target: str) -> bool:
        asked.append(target)
        return True

    decide([changed(cost_then=9.95), GOOD], (), DampingOptions(), admits)
    assert asked == ["t"]


def test_a_delay_is_paid_with_the_waiting_of_what_is_published_meanwhile() -> None:
    options = DampingOptions(pause_seconds_per_hop=0.5)
    relocation = changed(measure="seconds", publications_per_second=10.0)
    assert move_cost(relocation, options) == 10.0 * 4.0 * 0.5  # 10 events wait for half a second on average, four times
    slow = changed(measure="seconds", cost_now=1e-3, cost_then=0.0)
    assert refuses(slow, (), DampingOptions(pause_seconds_per_hop=10.0)) is Refusal.TOO_DEAR


@given(st.lists(st.integers(0, 500).map(float), max_size=40), st.integers(1, 5))  # whole: differences are exact
def test_never_more_arrivals_within_the_time_than_a_gate_admits(moments: list[float], arrivals_max: int) -> None:
    options = DampingOptions(arrivals_max=arrivals_max, arrivals_seconds=60.0)
    gate = ArrivalGate(options)
    admitted = [moment for moment in sorted(moments) if gate.admits(moment)]
    for moment in admitted:
        assert sum(moment - 60.0 < other <= moment for other in admitted) <= arrivals_max
    refused = [moment for moment in moments if moment not in admitted]
    for moment in refused:
        assert sum(moment - 60.0 < other <= moment for other in admitted) == arrivals_max


def test_a_broker_that_is_nearly_saturated_takes_in_nobody() -> None:
    gate = ArrivalGate(DampingOptions(busy_share_max=0.9))
    assert gate.admits(0.0, 0.9)
    assert not gate.admits(0.0, 0.91)
    assert gate.admits(0.0)  # what was refused does not count as an arrival
    assert ArrivalGate(UNDAMPED).admits(0.0, 1.0)


def test_departures_travel_with_a_publisher_as_ages_and_are_forgotten() -> None:
    options = DampingOptions(return_seconds=100.0)
    log = DepartureLog(options)
    log.left("a", 1000.0)
    log.left("b", 1050.0)
    travelling = msgspec.msgpack.encode(log.departures(1060.0))
    received = msgspec.msgpack.decode(travelling, type=tuple[Departure, ...])
    elsewhere = DepartureLog(options, received, 5.0)  # another broker's clock
    assert elsewhere.departures(10.0) == (Departure("a", 65.0), Departure("b", 15.0))
    assert elsewhere.departures(46.0) == (Departure("b", 51.0),)
    assert elsewhere.departures(1e6) == ()
