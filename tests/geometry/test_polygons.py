"""Polygons against Shapely, and the side of a line against fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.geometry.polygons import text_of, thin, with_hole

from fieldfare.geometry.covers import slabs_of
from fieldfare.geometry.orientation import orientation
from fieldfare.geometry.regions import located
from fieldfare.geometry.rows import COVERS
from fieldfare.geometry.wkt import CORNERS_MAX, WktError, read_polygons
from fieldfare.geometry.wkt_columns import read_many

LARGE = 10.0**30
coordinates = st.one_of(
    st.integers(-4, 4).map(float),
    st.floats(-LARGE, LARGE).filter(lambda value: value == 0 or abs(value) > 1e-30),
    st.integers(1, 9).map(lambda number: number / 10),
)
small_corners = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda pair: (float(pair[0]), float(pair[1])))


@given(st.tuples(*[coordinates] * 6))
@example((0.1, 0.1, 0.3, 0.3, 0.2, 0.2))
@example((0.0, 0.0, 3.0, 0.3, 1.0, 0.1))
@example((12.0, 12.0, 24.0, 24.0, 0.5, 0.50000000000000011))
@settings(max_examples=300)
def test_the_side_of_a_line_is_exact(values: tuple[float, ...]) -> None:
    ax, ay, bx, by, px, py = map(Fraction, values)
    turn = (ax - px) * (by - py) - (ay - py) * (bx - px)
    assert orientation(*values) == (turn > 0) - (turn < 0)


@given(st.lists(small_corners, min_size=3, max_size=9))
@settings(max_examples=250)
def test_a_polygon_is_sound_where_shapely_says_so(corners: list[tuple[float, float]]) -> None:
    text = text_of([corners])
    expected = shapely.from_wkt(text)
    try:
        rings = read_polygons(text)
    except WktError:
        assert not expected.is_valid
        assert not read_many([text], COVERS).taken[0]
        return
    assert expected.is_valid
    points = [(x / 2, y / 2) for x in range(-1, 12) for y in range(-1, 12)]
    for x, y in points:
        where = located(rings.data, 0, len(rings.data), x, y)
        assert (where >= 0, where > 0) == (expected.covers(shapely.Point(x, y)), expected.contains(shapely.Point(x, y)))


@given(st.randoms(use_true_random=False), st.integers(5, 50), st.booleans())
@settings(max_examples=60, deadline=None)
def test_points_lie_in_polygons_with_holes_as_shapely_says(rng: random.Random, corners: int, lattice: bool) -> None:
    text = text_of(with_hole(rng, corners, lattice=lattice))
    expected = shapely.from_wkt(text)
    if not expected.is_valid:
        with pytest.raises(WktError):
            read_polygons(text)
        return
    data = read_polygons(text).data
    west, south, east, north = expected.bounds
    points = [(rng.uniform(west, east), rng.uniform(south, north)) for _ in range(40)]
    points += [(float(round(x)), float(round(y))) for x, y in points]
    points += [(float(x), float(y)) for x, y in shapely.get_coordinates(expected)]
    for x, y in points:
        where = located(data, 0, len(data), x, y)
        assert (where >= 0, where > 0) == (expected.covers(shapely.Point(x, y)), expected.contains(shapely.Point(x, y)))


@given(st.lists(st.randoms(use_true_random=False), min_size=1, max_size=3), st.booleans())
@settings(max_examples=80, deadline=None)
def test_several_polygons_are_sound_where_shapely_says_so(rngs: list[random.Random], lattice: bool) -> None:
    polygons = [with_hole(rng, rng.randint(3, 8), lattice=lattice) for rng in rngs]
    text = text_of(*polygons)
    expected = shapely.from_wkt(text)
    try:
        read_polygons(text)
    except WktError:
        assert not expected.is_valid
    else:
        assert expected.is_valid


def test_an_island_may_lie_in_a_lake() -> None:
    shell, lake = [(0.0, 0.0), (9.0, 0.0), (9.0, 9.0), (0.0, 9.0)], [(2.0, 2.0), (7.0, 2.0), (7.0, 7.0), (2.0, 7.0)]
    island = [(4.0, 4.0), (5.0, 4.0), (5.0, 5.0), (4.0, 5.0)]
    data = read_polygons(text_of([shell, lake], [island])).data
    assert [located(data, 0, len(data), x, x) for x in (1.0, 2.0, 3.0, 4.0, 4.5, 8.0, 10.0)] == [1, 0, -1, 0, 1, 1, -1]


@given(st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_boxes_of_a_thin_polygon_hold_it_and_much_less_than_one_box(rng: random.Random) -> None:
    text = text_of(thin(rng))
    expected = shapely.from_wkt(text)
    data = read_polygons(text).data
    slabs = slabs_of(data)
    boxes = []
    for (low, high), start, end in zip(slabs.extents, slabs.cuts[:-1], slabs.cuts[1:], strict=True):
        boxes.append((start, low, end, high) if slabs.along == 0 else (low, start, high, end))
    held = shapely.union_all([shapely.box(*box) for box in boxes])
    assert expected.difference(held).area <= 1e-9 * expected.area
    assert held.area < shapely.box(*expected.bounds).area or len(boxes) == 1
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        point = expected.exterior.interpolate(share, normalized=True)
        assert any(w <= point.x <= e and s <= point.y <= n for w, s, e, n in boxes) or not expected.covers(point)


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("POINT(1 2)", "a polygon is written POLYGON((…))", 0),
        ("POLYGON EMPTY", "an empty polygon covers nothing", 8),
        ("POLYGON((0 0, 9 0, 9 9, 0 0)", "')' is missing before the end", 28),
        ("POLYGON((0 0, 9 0, 9 9, 0 0)) x", "nothing may follow the polygon", 30),
        ("POLYGON((0 0, 9 0, 9 9))", "a ring must end where it began", 8),
        ("POLYGON((0 0, 9 0, 0 0))", "a ring needs three corners", 8),
        ("POLYGON((0 0, 9 9, 9 0, 0 9, 0 0))", "two sides of the polygon cross", 8),
        ("POLYGON((0 0, 9 0, 9 9, 0 0), (20 20, 21 20, 21 21, 20 20))", "a hole must lie inside", 30),
        ("POLYGON((0 0 1, 9 0 1))", "')' is missing before '1'", 13),
        ("POLYGON((0 0, 9, 9 9, 0 0))", "a corner is two numbers", 15),
        ("POLYGON((0 0, 9 nan, 9 9, 0 0))", "a corner is two numbers", 16),
        ("POLYGON((0 0, 9 1e999, 9 9, 0 0))", "1e999 is too large", 16),
        ("POLYGON((0 0; 9 0))", "not understood: ';'", 12),
        ("SRID=4326;POLYGON((0 0, 9 0, 9 9, 0 0))", "a polygon is written", 0),
        ("", "a polygon is written", 0),
        ("MULTIPOLYGON((0 0, 9 0, 9 9, 0 0))", "'(' is missing before '0'", 14),
        ("MULTIPOLYGON(((0 0, 9 0, 9 9, 0 0)), ((5 2, 6 2, 6 3, 5 2)))", "a ring lies inside another", 38),
    ],
)
def test_what_is_no_sound_polygon_is_refused_with_its_place(text: str, reason: str, position: int) -> None:
    with pytest.raises(WktError) as caught:
        read_polygons(text)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position == position
    assert not read_many([text], COVERS).taken[0]


def test_corners_are_limited() -> None:
    ring = [(math.cos(turn), math.sin(turn)) for turn in np.linspace(0, math.tau, CORNERS_MAX + 2).tolist()[:-1]]
    with pytest.raises(WktError, match="at most 2,000 corners"):
        read_polygons(text_of([ring]))
    assert not read_many([text_of([ring])], COVERS).taken[0]
    assert read_polygons(text_of([ring[:-2]])).data.size == 2 * CORNERS_MAX


@given(st.randoms(use_true_random=False), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_many_texts_are_read_as_one_by_one(rng: random.Random, count: int) -> None:
    texts = [text_of(with_hole(rng, rng.randint(3, 20), lattice=rng.random() < 0.3)) for _ in range(count)]
    texts += [
        "polygon ( ( 0 0 ,\t9 +0,9.0 9e0,.0 9. ,0 0, 0 0 ) )\n",
        "POLYGON((0 0))",
        "",
        "POLYGON((-0 0, 1 0, 1 1, 0 0))",
    ]
    found = read_many(texts, COVERS)
    for text, region, bounds, taken in zip(texts, found.regions, found.bounds, found.taken, strict=True):
        if taken:
            data = read_polygons(text).data
            assert region == np.concatenate([[COVERS], data]).tobytes()
            assert bounds.tolist() == [*np.nanmin(data.reshape(-1, 2), 0), *np.nanmax(data.reshape(-1, 2), 0)]
            assert len(slabs_of(data).extents) == 1
    assert found.taken[[count, count + 1, count + 2, count + 3]].tolist() == [True, False, False, True]
