"""Tests of places -> boxes on the axes of longitude and latitude, and an exact test of what lies in them.

`ST_Covers(polygon, ST_Point(x, y))` is true only in the polygon's box, or in several boxes where the polygon is long
and thin; `ST_DistanceSphere(ST_Point(x, y), ST_Point(13.4, 52.5)) < 5000` only in the boxes of a circle.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from fieldfare.geometry.covers import Slabs, slabs_of
from fieldfare.geometry.rows import AT_MOST, CONTAINS, COVERS, NEARER, Floats
from fieldfare.language.intervals import Intervals
from fieldfare.model import (
    Call,
    Expression,
    Interval,
    Literal,
    Section,
    cut_above,
    cut_below,
)

POLYGON_TESTS = {"st_covers": COVERS, "st_contains": CONTAINS}
CIRCLE_TESTS = {"<": NEARER, "<=": AT_MOST}
Extent = tuple[Intervals, Intervals]  # the intervals of x and those of y: a box for each pair


def covers(text: str, x: float, y: float) -> bool:
    """Whether a point lies in a polygon or on its boundary."""
    from fieldfare.geometry.regions import region_holds  # kernels are loaded when a place is asked for

    return region_holds(polygon_of(text, COVERS), float(x), float(y))


def contains(text: str, x: float, y: float) -> bool:
    """Whether a point lies inside a polygon."""
    from fieldfare.geometry.regions import region_holds

    return region_holds(polygon_of(text, CONTAINS), float(x), float(y))


def distance_sphere(x: float, y: float, other_x: float, other_y: float) -> float:
    """The metres between two places on the sphere; NaN where one is none."""
    from fieldfare.geometry.sphere import distance

    return distance(float(x), float(y), float(other_x), float(other_y))


@functools.lru_cache(maxsize=1_024)
def polygon_of(text: str, kind: float) -> Floats:
    """The region that a polygon's text is, in a test of this kind."""
    from fieldfare.geometry.wkt import read_polygons

    return np.concatenate([[kind], read_polygons(text).data])


def region_of(expression: Expression) -> tuple[Expression, Expression, bytes, list[Extent]] | None:
    """The point that a boolean expression tests, the region it must lie in, and boxes; None where it is no such test.

    Points without a place of their own (both sides of a distance are attributes) are no such test.
    """
    match expression:
        case Call(("st_covers" | "st_contains") as name, (Literal(_, str(text)), x, y)):
            region = polygon_of(text, POLYGON_TESTS[name])
            return x, y, region.tobytes(), polygon_extents(slabs_of(region[1:]))
        case Call(("<" | "<=") as relation, (Call("st_distancesphere", sides), Literal(Section.NUMBER, metres))):
            for (x, y), centre in ((sides[:2], sides[2:]), (sides[2:], sides[:2])):
                match centre:
                    case Literal(Section.NUMBER, longitude), Literal(Section.NUMBER, latitude):
                        circle = float(longitude) + 0.0, float(latitude) + 0.0, float(metres) + 0.0
                        return x, y, *_circle(CIRCLE_TESTS[relation], *circle)
    return None


def _circle(kind: float, longitude: float, latitude: float, metres: float) -> tuple[bytes, list[Extent]]:
    from fieldfare.geometry.sphere import longitude_spans, measure_circles

    bounds, quick = np.empty((1, 4)), np.empty((1, 2))
    measure_circles(np.array([longitude]), np.array([latitude]), np.array([metres]), bounds, quick)
    region = np.array([kind, longitude, latitude, metres, *quick[0]])
    west, south, east, north = bounds[0].tolist()
    if metres < 0.0 or (metres == 0.0 and kind == NEARER):
        return region.tobytes(), []
    xs = tuple(_closed(*span) for span in longitude_spans(west, east))
    return region.tobytes(), [(xs, (_closed(south, north),))]


def polygon_extents(slabs: Slabs) -> list[Extent]:
    """The boxes of slabs, which have no point in common."""
    extents: list[Extent] = []
    last = len(slabs.extents) - 1
    for number, (low, high) in enumerate(slabs.extents):
        if low > high:
            continue
        start, end = slabs.cuts[number], slabs.cuts[number + 1]
        stop = cut_above(Section.NUMBER, end) if number == last else cut_below(Section.NUMBER, end)
        along, across = Interval(cut_below(Section.NUMBER, start), stop), _closed(low, high)
        extents.append(((along,), (across,)) if slabs.along == 0 else ((across,), (along,)))
    return extents


def _closed(low: float, high: float) -> Interval:
    return Interval(cut_below(Section.NUMBER, low), cut_above(Section.NUMBER, high))


def region_text(x: str, y: str, region: bytes) -> str:
    """A test of a region, in SQL."""
    values = np.frombuffer(region, np.float64).tolist()
    kind, point = values[0], f"ST_Point({x}, {y})"
    if kind in CIRCLE_TESTS.values():
        relation = next(relation for relation, test in CIRCLE_TESTS.items() if test == kind)
        return f"ST_DistanceSphere({point}, ST_Point({values[1]:g}, {values[2]:g})) {relation} {values[3]:g}"
    name = "ST_Covers" if kind == COVERS else "ST_Contains"
    corners = sum(not math.isnan(value) for value in values[1:]) // 2 - sum(map(math.isnan, values)) // 2 - 1
    return f"{name}(a polygon of {corners} corners, {point})"
