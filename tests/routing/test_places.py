"""An edge's interest: conditions about places and patterns, young, in segments and merged."""

from __future__ import annotations

import random
from typing import Any

from tests.geometry.polygons import text_of, with_hole

from fieldfare.language import compile  # noqa: A004
from fieldfare.matching import oracle
from fieldfare.routing.interest import Interest, compile_conditions, is_quick


def conditions_of(rng: random.Random, count: int) -> dict[int, str]:
    """Sound conditions by handle."""
    point = "ST_Point(place.longitude, place.latitude)"
    found: dict[int, str] = {}
    for handle in range(count):
        polygon = f"ST_GeomFromText('{text_of(with_hole(rng, rng.randint(5, 9)))}')"
        circle = f"ST_Point({rng.uniform(-180, 180)}, {rng.uniform(-90, 90)})"
        found[handle] = rng.choice(
            [
                f"ST_Covers({polygon}, {point})",
                f"NOT ST_Covers({polygon}, {point})",
                f"ST_DistanceSphere({point}, {circle}) < {rng.uniform(1e5, 5e6)}",
                f"name RLIKE '^{rng.choice('abc')}.*{rng.choice('abc')}'",
            ]
        )
    return found


def test_young_merged_and_many_conditions_find_the_same() -> None:
    rng = random.Random(3)
    conditions = conditions_of(rng, 60)
    rows: list[dict[str, Any]] = [
        {
            "place.longitude": rng.uniform(-180, 180),
            "place.latitude": rng.uniform(-90, 90),
            "name": "".join(rng.choices("abc", k=3)),
        }
        for _ in range(40)
    ]
    expected = {
        handle: [n for n, row in enumerate(rows) if oracle.holds(text, row)] for handle, text in conditions.items()
    }
    one_by_one, together = Interest(), Interest()
    for handle, text in conditions.items():
        one_by_one.add(compile_conditions([handle], [text]))
    together.add(compile_conditions(list(conditions), list(conditions.values())))
    for interest in (one_by_one, together):
        found: dict[int, list[int]] = {handle: [] for handle in conditions}
        for handle, numbers in interest.match(rows):
            found[handle] += numbers
        assert {handle: sorted(numbers) for handle, numbers in found.items()} == expected
        single = {handle for handle, _ in interest.match(rows[:1])}
        assert single == {handle for handle, numbers in expected.items() if 0 in numbers}


def test_a_large_polygon_is_not_quick() -> None:
    rng = random.Random(4)
    texts = [
        f"ST_Covers(ST_GeomFromText('{text_of([with_hole(rng, corners)[0]])}'), ST_Point(x, y))" for corners in (4, 300)
    ]
    for text in texts:
        compile(text)
    assert [is_quick([text]) for text in texts] == [True, False]
