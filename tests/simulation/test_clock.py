from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.simulation.clock import Clock


@given(st.lists(st.integers(min_value=0, max_value=5), max_size=30))
def test_actions_happen_in_the_order_of_their_times_and_then_of_their_scheduling(delays: list[int]) -> None:
    clock = Clock(now=0.0)
    happened: list[tuple[float, int]] = []
    for number, delay in enumerate(delays):
        clock.after(delay, lambda number=number: happened.append((clock.now, number)))  # type: ignore[misc]
    clock.run_for(5.0)
    assert happened == sorted((delay, number) for number, delay in enumerate(delays))
    assert clock.now == 5.0


def test_what_lies_beyond_the_end_waits_for_the_next_run() -> None:
    clock, happened = Clock(), list[str]()
    clock.after(2.0, lambda: happened.append("late"))
    clock.after(1.0, lambda: clock.after(0.5, lambda: happened.append("scheduled on the way")))
    clock.run_for(1.75)
    assert happened == ["scheduled on the way"]
    clock.run_for(0.25)
    assert happened == ["scheduled on the way", "late"]


def test_a_time_that_has_passed_is_now() -> None:
    clock, times = Clock(now=10.0), list[float]()
    clock.at(3.0, lambda: times.append(clock.now))
    clock.run_for(0.0)
    assert times == [10.0]


def test_what_is_cancelled_does_not_happen() -> None:
    clock, happened = Clock(), list[int]()
    timers = [clock.after(1.0, lambda number=number: happened.append(number)) for number in range(3)]  # type: ignore[misc]
    timers[1].cancel()
    clock.run_for(1.0)
    timers[0].cancel()  # it has happened: nothing to cancel
    assert happened == [0, 2]
