from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.simulation.clock import START, Clock
from fieldfare.simulation.machine_clock import MachineClock

rates = st.floats(0.5, 2.0)


@given(st.floats(-1e6, 1e6), st.lists(st.tuples(st.floats(0.0, 100.0), rates), max_size=20))
def test_a_clock_never_jumps_whatever_its_rate(ahead: float, steps: list[tuple[float, float]]) -> None:
    world = Clock()
    clock = MachineClock(world)
    clock.ahead_seconds = ahead
    for seconds, rate in steps:
        shown = clock.now
        clock.rate = rate
        assert clock.now == pytest.approx(shown, abs=1e-5)
        world.run_for(seconds)
        assert clock.now - shown == pytest.approx(seconds * rate, abs=1e-5)


@given(st.floats(-100, 100), rates, st.floats(0.0, 100.0), rates, st.floats(0.0, 50.0))
def test_an_alarm_rings_once_and_never_early(
    ahead: float, rate: float, after: float, other_rate: float, changes_after: float
) -> None:
    world = Clock()
    clock = MachineClock(world)
    clock.ahead_seconds, clock.rate = ahead, rate
    rang: list[float] = []
    at = clock.now + after
    clock.wake_by(at, lambda: rang.append(clock.now))
    world.run_for(changes_after)
    if not rang:
        clock.rate = other_rate
    world.run_for(1000.0)
    assert len(rang) == 1
    assert at <= rang[0] <= at + 1e-5


def test_the_earliest_of_two_alarms_counts() -> None:
    world = Clock()
    clock = MachineClock(world)
    rang: list[float] = []
    for seconds in (5.0, 2.0, 9.0):
        clock.wake_by(clock.now + seconds, lambda: rang.append(world.now))
    world.run_for(20.0)
    assert rang == [START + 2.0]


def test_jumps_and_drift_make_durations_wrong_but_not_being_ahead_all_along() -> None:
    world = Clock()
    clock = MachineClock(world)
    clock.ahead_seconds = 7200.0
    clock.trust()
    world.run_for(10.0)
    assert clock.error_seconds == 0.0
    clock.rate = 0.9
    world.run_for(10.0)
    assert clock.error_seconds == pytest.approx(1.0)
    clock.rate = 1.0
    clock.ahead_seconds -= 5.0
    clock.ahead_seconds += 2.0
    world.run_for(10.0)
    assert clock.error_seconds == pytest.approx(8.0)


def test_a_clock_does_not_go_backwards() -> None:
    with pytest.raises(ValueError, match="forward"):
        MachineClock(Clock()).rate = 0.0
