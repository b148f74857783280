"""The formulas of bulk service, compared with a simulation of every single event."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.planning.stations import Station, latencies, mixed, round_events, total


def simulated(station: Station, rate: float) -> npt.NDArray[np.float64]:
    """Latencies of events that come one by one: a server takes all that wait, and works on them."""
    events = 120_000 * min(100, max(1, round(round_events(station, rate) / 8)))
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1 / rate, events))
    ends = np.empty(events)
    free, begun, first = 0.0, -math.inf, 0
    while first < events:
        start = max(free, begun + station.interval_seconds, arrivals[first] if not station.interval_seconds else 0.0)
        upto = int(np.searchsorted(arrivals, start, side="right"))
        upto = min(upto, first + int(min(station.events_max, events)))
        work = float(station.seconds(float(upto - first)))
        if upto > first or station.interval_seconds:
            earlier = rng.random(upto - first) * station.delivering_seconds(np.array(float(upto - first)))
            ends[first:upto] = start + work - earlier
            begun, free, first = start, start + work, upto
    return np.asarray((ends - arrivals)[events // 10 :])


def bulk(a: float, b: float, **others: float) -> Station:
    return Station(name="s", round_seconds=a, costs={"work": b}, **others)


@pytest.mark.parametrize(
    ("station", "rate"),
    [
        (bulk(0.001, 0.0001), 10.0),  # nearly always idle
        (bulk(0.001, 0.0001), 1_000.0),
        (bulk(0.001, 0.0001), 8_000.0),
        (bulk(0.001, 0.0001), 9_400.0),  # nearly saturated
        (bulk(0.0, 0.001), 700.0),  # no constant at all: rounds are busy periods' generations
        (bulk(0.3, 0.00001), 20_000.0),  # a micro-batch
        (bulk(0.1, 0.00001, interval_seconds=0.5), 5_000.0),  # that waits for its interval
        (bulk(0.1, 0.001, interval_seconds=0.5), 2.0),
        (bulk(0.0005, 0.00001, write_seconds=0.00002, writes_per_event=20, connections=50), 3_000.0),
        (bulk(0.0005, 0.00001, frame_seconds=0.000002, writes_per_event=20, subscriptions=1_000), 3_000.0),
    ],
)
def test_latency_is_what_a_simulation_of_each_event_finds(station: Station, rate: float) -> None:
    found = np.quantile(latencies(station, rate), (0.5, 0.9, 0.99))
    expected = np.quantile(simulated(station, rate), (0.5, 0.9, 0.99))
    assert found == pytest.approx(expected, rel=0.08)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-5, 0.1), st.floats(1e-6, 1e-3), st.floats(0.02, 0.95))
def test_mean_round_and_saturation(a: float, b: float, utilisation: float) -> None:
    station = bulk(a, b)
    rate = utilisation / b
    assert round_events(station, rate) == pytest.approx(rate * a / (1 - rate * b), rel=1e-3)
    assert np.isfinite(latencies(station, rate)).all()
    assert np.isinf(latencies(station, 1.001 / b)).all()
    assert (np.quantile(latencies(station, rate), (0.5, 0.99)) >= a + b).all()


def test_a_batch_that_is_bounded_carries_less() -> None:
    assert bulk(1.0, 0.001, events_max=1_000).throughput == pytest.approx(0.5 * bulk(1.0, 0.001).throughput)


def test_servers_that_share_events_carry_more() -> None:
    assert bulk(0.0, 0.001, share=0.25).throughput == pytest.approx(4 * bulk(0.0, 0.001).throughput)


def test_sums_and_mixtures() -> None:
    parts = [latencies(bulk(0.001, 0.0001), rate) for rate in (100.0, 5_000.0)]
    assert total(parts).mean() == pytest.approx(sum(part.mean() for part in parts))
    assert mixed([(0.3, parts[0]), (0.7, parts[1])]).mean() == pytest.approx(
        0.3 * parts[0].mean() + 0.7 * parts[1].mean(), rel=0.01
    )
