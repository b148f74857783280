"""Places in conditions: every way to ask an index gives what the oracle, in fractions, says."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.geometry.polygons import text_of, thin, with_hole
from tests.language.test_bulk import assert_bulk_is_single

from fieldfare import Index, Range
from fieldfare.errors import ConditionError
from fieldfare.language import compile, explain  # noqa: A004
from fieldfare.matching import oracle
from fieldfare.model import InRegion

POINT = "ST_Point(longitude, latitude)"


def fence(rng: random.Random, *, is_plain: bool = False) -> str:
    """A random condition about a place; if it is plain, one without expressions as axes."""
    kind = rng.randrange(8)
    if kind < 3:
        polygon = thin(rng) if rng.random() < 0.3 else with_hole(rng, rng.randint(3, 12), lattice=rng.random() < 0.5)
        text = f"ST_GeomFromText('{text_of(polygon)}')"
        calls = [f"ST_Covers({text}, {POINT})", f"ST_Contains({text}, {POINT})", f"ST_Within({POINT}, {text})"]
        calls += [
            f"ST_CoveredBy({POINT}, {text})",
            f"ST_Intersects({text}, {POINT})",
            f"NOT ST_Covers({text}, {POINT})",
        ]
        calls += [f"ST_Intersects({POINT}, {text})", f"(ST_Covers({text}, {POINT})) IS NOT TRUE"]
        return rng.choice([call for call in calls if not is_plain or "NOT " not in call])
    if kind < 6:
        centre = f"ST_Point({rng.choice([-180, 180, 179.5, 0, rng.uniform(-180, 180)])}, {rng.uniform(-90, 90)})"
        sides = [POINT, centre]
        rng.shuffle(sides)
        relation = rng.choice(["<", "<="] if is_plain else ["<", "<=", ">", ">=", "="])
        return f"ST_DistanceSphere({sides[0]}, {sides[1]}) {relation} {rng.choice([0, 5e5, 3e6, 1.2e7, 2.1e7])}"
    west, south = rng.randint(-180, 170), rng.randint(-90, 80)
    box = f"ST_PolygonFromEnvelope({west}, {south}, {west + 9}, {south + 7})"
    return f"{rng.choice(['ST_Covers', 'ST_Contains'])}({box}, {POINT})"


def combined(rng: random.Random, *, is_plain: bool = False) -> str:
    """One such condition, or some with other things."""
    one, two = fence(rng, is_plain=is_plain), fence(rng, is_plain=is_plain)
    return rng.choice(
        [one, one, f"{one} AND kind = 'a'", f"{one} OR {two}", f"{one} AND {two}", f"kind = 'b' OR {one}"]
    )


def is_sound(condition: str) -> bool:
    try:
        compile(condition)
    except ConditionError:
        return False
    return True


def event(rng: random.Random) -> dict[str, Any]:
    """A place; or something that is none."""
    odd = [None, "13.4", True, math.nan, math.inf, 2**60, 181.0, -90.5]
    longitude, latitude = rng.uniform(-180, 180), rng.uniform(-90, 90)
    if rng.random() < 0.4:
        longitude, latitude = rng.randint(-180, 180), rng.randint(-90, 90)
    row: dict[str, Any] = {"longitude": longitude, "latitude": latitude, "kind": rng.choice(["a", "b", None])}
    if rng.random() < 0.2:
        row[rng.choice(["longitude", "latitude"])] = rng.choice(odd)
    return row


@given(st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_every_way_to_ask_gives_what_the_oracle_says(rng: random.Random) -> None:
    texts = [text for _ in range(rng.randint(1, 30)) if is_sound(text := combined(rng))]
    conditions: dict[Any, str] = dict(enumerate(texts))
    rows = [event(rng) for _ in range(40)]
    expected = [sorted(oracle.match(conditions, row)) for row in rows]
    index = Index(conditions)
    assert [sorted(ids) for ids in index.match_rows(rows).to_pylist()] == expected
    assert [sorted(index.match(row)) for row in rows] == expected
    later = Index({}).updated({number: text for number, text in conditions.items() if number % 2})
    later = later.updated({number: text for number, text in conditions.items() if not number % 2})
    assert [sorted(ids) for ids in later.match_rows(rows).to_pylist()] == expected


@given(st.randoms(use_true_random=False))
@settings(max_examples=12, deadline=None)
def test_plain_columns_are_answered_as_rows_are(rng: random.Random) -> None:
    conditions: dict[Any, str] = {number: text for number in range(40) if is_sound(text := combined(rng))}
    rows: list[dict[str, Any]] = [
        {"longitude": rng.uniform(-180, 180), "latitude": rng.uniform(-90, 90), "kind": "a"} for _ in range(100)
    ]
    found = Index(conditions).match_table(pa.Table.from_pylist(rows))
    assert [sorted(ids) for ids in found.to_pylist()] == [sorted(oracle.match(conditions, row)) for row in rows]


@given(st.randoms(use_true_random=False))
@settings(max_examples=12, deadline=None)
def test_in_bulk_as_one_by_one(rng: random.Random) -> None:
    conditions = [combined(rng, is_plain=True) for _ in range(60)]
    conditions += [
        f"ST_Covers(ST_GeomFromText('{text_of(with_hole(rng, rng.randint(3, 9), lattice=number < 9))}'), {POINT})"
        for number in range(20)
    ]
    conditions += [f"ST_Covers(ST_GeomFromText('{text_of(thin(rng))}'), {POINT})" for _ in range(9)]
    conditions += [
        f"ST_DistanceSphere({POINT}, ST_Point({rng.uniform(-180, 200)}, -{rng.uniform(0, 92)})) < {number % 3}e5"
        for number in range(20)
    ]
    conditions += [f"ST_Covers(ST_GeomFromText('POLYGON((0 0, {number} 9))'), {POINT})" for number in range(9)]
    assert_bulk_is_single(conditions)


def test_circles_across_the_antimeridian_in_bulk() -> None:
    conditions = [
        f"ST_DistanceSphere({POINT}, ST_Point({longitude}.{number}, 5)) < 90000"
        for number in range(10)
        for longitude in (-179, 179, 100)
    ]
    assert_bulk_is_single(conditions)


def test_a_snapshot_keeps_regions(tmp_path: Path) -> None:
    rng = random.Random(5)
    conditions: dict[Any, str] = {number: text for number in range(60) if is_sound(text := combined(rng))}
    rows = [event(rng) for _ in range(60)]
    index = Index(conditions)
    index.save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")
    assert loaded.match_rows(rows).to_pylist() == index.match_rows(rows).to_pylist()
    assert any(index.match_rows(rows).to_pylist())


def test_boundaries_the_antimeridian_and_poles() -> None:
    square = "ST_GeomFromText('POLYGON((0 0, 10 0, 10 10, 0 10, 0 0), (4 4, 6 4, 6 6, 4 6, 4 4))')"
    index = Index(
        {
            "covers": f"ST_Covers({square}, {POINT})",
            "contains": f"ST_Contains({square}, {POINT})",
            "date line": f"ST_DistanceSphere({POINT}, ST_Point(180, 0)) < 200000",
            "north pole": f"ST_DistanceSphere({POINT}, ST_Point(0, 90)) <= 200000",
        }
    )
    places = {
        (0, 5): ["covers"],
        (10, 10): ["covers"],
        (4, 5): ["covers"],
        (5, 5): [],
        (1, 1): ["covers", "contains"],
        (-179.9, 0.5): ["date line"],
        (180, 0): ["date line"],
        (-180, 0): ["date line"],
        (178, 0): [],
        (-77, 89.5): ["north pole"],
        (180, 90): ["north pole"],
        (-77, 88): [],
        (180.5, 0): [],
        (0, 91): [],
    }
    for (longitude, latitude), expected in places.items():
        assert index.match({"longitude": longitude, "latitude": latitude}) == expected
    rows = [{"longitude": longitude, "latitude": latitude} for longitude, latitude in places]
    assert index.match_rows(rows).to_pylist() == list(places.values())


def test_a_struct_a_cast_and_a_point_of_one_attribute() -> None:
    polygon = "ST_GeomFromText('POLYGON((0 0, 10 0, 10 10, 0 0))')"
    index = Index(
        {
            "struct": f"ST_Covers({polygon}, ST_Point(place.x, place.y))",
            "cast": f"ST_Covers({polygon}, ST_Point(cast(x AS double), cast(y AS double)))",
            "same": f"ST_Covers({polygon}, ST_Point(z, z))",
            "constant": f"ST_Covers({polygon}, ST_Point(5, z))",
            "two": "ST_DistanceSphere(ST_Point(x1, y1), ST_Point(x2, y2)) < 1000",
        }
    )
    assert index.match({"place": {"x": 5, "y": 1}}) == ["struct"]
    assert index.match({"x": "5", "y": "1.5"}) == ["cast"]
    assert index.match({"z": 4}) == ["same", "constant"]
    assert index.match({"x1": 5, "y1": 5, "x2": 5.001, "y2": 5}) == ["two"]
    assert index.match_rows([{"x": "5", "y": "1.5"}, {"z": 4}]).to_pylist() == [["cast"], ["same", "constant"]]


def test_a_range_may_lie_in_a_region() -> None:
    index = Index({1: f"ST_Covers(ST_GeomFromText('POLYGON((0 0, 10 0, 10 10, 0 0))'), {POINT})"})
    assert index.match({"longitude": Range(5, 30), "latitude": 1}) == [1]
    assert index.match({"longitude": Range(11, 30), "latitude": 1}) == []
    two_boxes = Index({1: f"ST_DistanceSphere({POINT}, ST_Point(180, 0)) < 5000", 2: "latitude = 5"})
    rows = [{"longitude": Range(-180, 180), "latitude": 0}] * 2
    assert two_boxes.match_rows(rows).to_pylist() == [[1], [1]]


def test_a_thin_polygon_is_several_boxes_and_a_circle_at_the_date_line_two() -> None:
    strip = "ST_GeomFromText('POLYGON((0 0, 10 10, 10 10.1, 0 0.1, 0 0))')"
    condition = compile(f"ST_Covers({strip}, {POINT})")
    assert len(condition.boxes) > 4
    assert condition.disjoint
    assert all(isinstance(test, InRegion) for box in condition.boxes for test in box.tests)
    assert len(compile(f"ST_DistanceSphere({POINT}, ST_Point(180, 0)) < 5000").boxes) == 2


def test_explain_shows_the_box_and_the_test() -> None:
    text = explain(compile(f"ST_DistanceSphere({POINT}, ST_Point(13.4, 52.5)) < 5000"))
    assert "longitude: 13.32" in text
    assert "test: ST_DistanceSphere(ST_Point(longitude, latitude), ST_Point(13.4, 52.5)) < 5000" in text
    text = explain(
        compile(f"ST_Covers(ST_GeomFromText('POLYGON((0 0, 9 0, 9 9, 0 0), (5 2, 6 2, 6 3, 5 2))'), {POINT})")
    )
    assert "latitude: 0 <= latitude <= 9" in text
    assert "test: ST_Covers(a polygon of 6 corners, ST_Point(longitude, latitude))" in text


@pytest.mark.parametrize(
    ("condition", "reason", "place"),
    [
        (f"ST_Covers(ST_GeomFromText('POLYGON((0 0, 9 9, 9 0, 0 9, 0 0))'), {POINT})", "two sides", "(0 0, 9 9"),
        (f"ST_Covers(ST_GeomFromText('POLYGON((0 0, 9 9, 9 0))'), {POINT})", "a ring must end where it began", "(0 0,"),
        (f"ST_Covers(ST_GeomFromText('CIRCLE(0 0)'), {POINT})", "a polygon is written POLYGON", "CIRCLE"),
        (f"ST_Covers(area, {POINT})", "st_covers needs a polygon", "area"),
        (f"ST_Covers(ST_GeomFromText(area), {POINT})", "st_covers needs a polygon", "ST_Geom"),
        ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 9 0, 9 9, 0 0))'), x)", "a point is written ST_Point", "x)"),
        (f"ST_DistanceSphere({POINT}, ST_Point(13.4, 95)) < 5", "a latitude lies between -90 and 90", "95"),
        (f"ST_DistanceSphere({POINT}, ST_Point(-181, 5)) < 5", "a longitude lies between -180 and 180", "181"),
        (f"{POINT} = 5", "st_point stands only inside", "longitude"),
        ("ST_Buffer(x, 5) = 5", "the function ST_Buffer is not supported", "ST_Buffer"),
        (f"ST_DistanceSphere({POINT}) < 5", "st_distancesphere cannot be called with 1 argument", "ST_Dist"),
        (f"ST_DistanceSphere({POINT}, ST_Point(1)) < 5", "st_point takes 2 arguments", "ST_Point(1)"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(condition: str, reason: str, place: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile(condition)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position is not None
    assert condition[caught.value.position :].startswith(place)
