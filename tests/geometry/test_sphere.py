"""Circles on the sphere against a plain haversine, at the antimeridian and the poles too."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fieldfare.geometry.regions import region_holds
from fieldfare.geometry.rows import AT_MOST, NEARER
from fieldfare.geometry.sphere import EARTH_RADIUS_METRES, distance, longitude_spans, measure_circles
from fieldfare.matching.oracle_places import Point, called

HALF_ROUND = math.pi * EARTH_RADIUS_METRES
longitudes = st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, 180.0, 0.0, 179.9999, -179.9999, 90.0]))
latitudes = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 90.0, 0.0, 89.9999, -89.9999]))
radii = st.one_of(st.floats(0, HALF_ROUND * 1.01), st.sampled_from([0.0, 1e-6, 1.0, 5000.0, 1e6, HALF_ROUND]))


def oracle_distance(longitude: float, latitude: float, other_longitude: float, other_latitude: float) -> float:
    metres: float = called("st_distancesphere", [Point(longitude, latitude), Point(other_longitude, other_latitude)])
    return metres


def circle(kind: float, longitude: float, latitude: float, metres: float) -> tuple[np.ndarray, list[float]]:
    bounds, quick = np.empty((1, 4)), np.empty((1, 2))
    measure_circles(np.array([longitude]), np.array([latitude]), np.array([metres]), bounds, quick)
    return np.array([kind, longitude, latitude, metres, *quick[0]]), bounds[0].tolist()


@given(longitudes, latitudes, longitudes, latitudes)
def test_distances_are_those_of_the_formula(a: float, b: float, c: float, d: float) -> None:
    assert math.isclose(distance(a, b, c, d), oracle_distance(a, b, c, d), rel_tol=1e-14, abs_tol=1e-9)


def test_distances_of_known_places() -> None:
    assert abs(distance(13.4050, 52.5200, 11.5820, 48.1351) - 504_416) < 100  # Berlin, Munich
    assert distance(180.0, 10.0, -180.0, 10.0) < 1e-6
    assert distance(17.0, 90.0, -100.0, 90.0) < 1e-6
    assert math.isclose(distance(0.0, 0.0, 180.0, 0.0), HALF_ROUND)
    assert math.isnan(distance(180.1, 0.0, 0.0, 0.0))
    assert math.isnan(distance(0.0, 0.0, 0.0, -90.1))


@given(longitudes, latitudes, radii, st.floats(0, 1.2), st.floats(0, 360))
@example(179.99, 0.0, 5000.0, 0.9, 90.0)
@example(0.0, 89.99, 5000.0, 0.9, 0.0)
@example(10.0, 45.0, math.pi / 4 * EARTH_RADIUS_METRES, 1.0, 0.0)  # touches the pole
@settings(max_examples=250)
def test_what_is_near_lies_in_the_circle_and_in_its_box(
    longitude: float, latitude: float, metres: float, share: float, bearing: float
) -> None:
    angle, turn = share * metres / EARTH_RADIUS_METRES, math.radians(bearing)
    here = math.radians(latitude)
    sine = math.sin(here) * math.cos(angle) + math.cos(here) * math.sin(angle) * math.cos(turn)
    there = math.asin(max(-1.0, min(1.0, sine)))
    step = math.atan2(
        math.sin(turn) * math.sin(angle) * math.cos(here), math.cos(angle) - math.sin(here) * math.sin(there)
    )
    x = (longitude + math.degrees(step) + 540) % 360 - 180
    y = math.degrees(there)
    for kind in (NEARER, AT_MOST):
        region, (west, south, east, north) = circle(kind, longitude, latitude, metres)
        found = distance(x, y, longitude, latitude)
        expected = found < metres or (kind == AT_MOST and found == metres)
        assert region_holds(region, x, y) is expected
        if expected:
            assert south <= y <= north
            assert any(low <= x <= high for low, high in longitude_spans(west, east))
    exact, _ = circle(AT_MOST, longitude, latitude, distance(x, y, longitude, latitude))
    assert region_holds(exact, x, y)
    exact[0] = NEARER
    assert not region_holds(exact, x, y)


def test_a_circle_across_the_antimeridian_has_two_spans_and_one_at_a_pole_all_longitudes() -> None:
    _, (west, _, east, _) = circle(NEARER, 179.9, 10.0, 50_000.0)
    (low, first_end), (second_start, high) = longitude_spans(west, east)
    assert (low, high) == (-180.0, 180.0)
    assert first_end < -179.5
    assert second_start > 179.4
    _, (west, _, east, _) = circle(NEARER, -179.9, 10.0, 50_000.0)
    (low, first_end), (second_start, high) = longitude_spans(west, east)
    assert (low, high) == (-180.0, 180.0)
    assert first_end > -179.5
    assert second_start > 179.5
    for latitude in (89.9, -89.9):
        _, (west, south, east, north) = circle(NEARER, 5.0, latitude, 50_000.0)
        assert longitude_spans(west, east) == ((-180.0, 180.0),)
        assert (south == -90.0) if latitude < 0 else (north == 90.0)
