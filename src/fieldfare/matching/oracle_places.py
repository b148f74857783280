"""What calls about places mean, for the oracle: in fractions, which do not round, and Python's own sines."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

EARTH_RADIUS_METRES = 6_371_008.0

Corner = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Point:
    """A point of two numbers."""

    x: float
    y: float


@dataclass(frozen=True)
class Polygons:
    """Rings of corners; what a ray crosses an odd number of times is inside."""

    rings: tuple[tuple[Corner, ...], ...]


def called(name: str, arguments: list[Any]) -> Any:
    """The value of a call, whose arguments are not NULL."""
    match name, arguments:
        case (("st_point" | "st_makepoint"), _):
            is_sound = all(isinstance(number, int | float) and not isinstance(number, bool) for number in arguments)
            return Point(*arguments) if is_sound else None
        case (("st_geomfromtext" | "st_geomfromwkt"), [text]):
            return Polygons(tuple(_ring(ring) for ring in re.findall(r"\(([^()]+)\)", text)))
        case (("st_polygonfromenvelope" | "st_makeenvelope"), [west, south, east, north]):
            text = f"{west} {south}, {east} {south}, {east} {north}, {west} {north}, {west} {south}"
            return Polygons((_ring(text),))
        case "st_distancesphere", [Point(), Point()]:
            return _distance(*arguments)
    polygons = next((side for side in arguments if isinstance(side, Polygons)), None)
    point = next((side for side in arguments if isinstance(side, Point)), None)
    if polygons is None or point is None:
        return None
    is_inside, is_on_boundary = _located(polygons, point)
    return is_inside or (is_on_boundary and name in {"st_covers", "st_coveredby", "st_intersects"})


def _ring(text: str) -> tuple[Corner, ...]:
    pairs = [corner.split() for corner in text.split(",")]
    return tuple((Fraction(float(x)), Fraction(float(y))) for x, y in pairs)


def _located(polygons: Polygons, point: Point) -> tuple[bool, bool]:
    if math.isinf(point.x) or math.isinf(point.y):
        return False, False
    x, y = Fraction(float(point.x)), Fraction(float(point.y))
    crossings = 0
    for ring in polygons.rings:
        for (x1, y1), (x2, y2) in itertools.pairwise(ring):
            turn = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
            if turn == 0 and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2):
                return False, True
            if (y1 <= y) != (y2 <= y):
                crossings += x1 + (y - y1) / (y2 - y1) * (x2 - x1) > x
    return crossings % 2 == 1, False


def _distance(one: Point, other: Point) -> float | None:
    if any(abs(point.x) > 180 or abs(point.y) > 90 for point in (one, other)):
        return None
    across, along = math.radians(other.y - one.y), math.radians(other.x - one.x)
    cosines = math.cos(math.radians(one.y)) * math.cos(math.radians(other.y))
    square = min(1.0, math.sin(across / 2) ** 2 + cosines * math.sin(along / 2) ** 2)
    return EARTH_RADIUS_METRES * 2 * math.atan2(math.sqrt(square), math.sqrt(1 - square))
