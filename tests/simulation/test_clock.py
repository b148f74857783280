from __future__ import annotations

import random
from functools import partial

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


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=300))
def test_cancelling_many_timers_changes_nothing_for_the_others(timers: list[tuple[int, bool]]) -> None:
    clock, happened = Clock(now=0.0), list[int]()
    made = [clock.after(delay, partial(happened.append, number)) for number, (delay, _) in enumerate(timers)]
    for timer, (_, is_cancelled) in zip(made, timers, strict=True):
        if is_cancelled:
            timer.cancel()
            timer.cancel()
    kept = [number for number, (_, is_cancelled) in enumerate(timers) if not is_cancelled]
    assert clock.is_idle == (not kept)
    clock.run_for(2.0)
    assert clock.is_idle == all(timers[number][0] <= 2 for number in kept)
    clock.run_for(3.0)
    assert happened == sorted(kept, key=lambda number: timers[number][0])
    assert clock.is_idle


def test_cancelled_timers_take_no_room_for_long() -> None:
    clock = Clock()
    clock.after(1e6, lambda: None)
    for _ in range(10_000):
        clock.after(1e6, lambda: None).cancel()
    assert len(clock._due) < 200
    assert not clock.is_idle


def test_the_order_stays_when_the_cancelled_timers_are_thrown_away() -> None:
    clock, happened, rng = Clock(), list[float](), random.Random(3)
    delays = [rng.random() for _ in range(400)]
    timers = [clock.after(delay, partial(happened.append, delay)) for delay in delays]
    for timer in timers[:300]:
        timer.cancel()
    clock.run_for(1.0)
    assert happened == sorted(delays[300:])


def test_a_call_has_arguments_and_its_place_among_the_timers() -> None:
    clock, happened = Clock(), list[str]()
    clock.after(1.0, lambda: happened.append("first"))
    clock.call_at(clock.now + 1.0, happened.append, "second")
    clock.after(1.0, lambda: happened.append("third"))
    clock.run_for(1.0)
    assert happened == ["first", "second", "third"]
