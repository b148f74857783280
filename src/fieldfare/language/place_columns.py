"""Tests of places in columns: the boxes and the residual tests of many conditions of one shape.

A row whose region would give more than one box (a thin polygon, a circle across the antimeridian), or none, is set
aside, as is what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldfare.geometry.rows import Floats
from fieldfare.language import tree
from fieldfare.language.places import CIRCLE_TESTS, POLYGON_TESTS
from fieldfare.model import InRegion

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RegionRows:
    """One region in each row, with its box; the rows that are `aside` have none."""

    x: str
    y: str
    regions: list[bytes]
    bounds: Floats  # west, south, east, north
    aside: Mask

    def tests(self) -> list[InRegion]:
        """The residual test of each row."""
        x, y = self.x, self.y
        return [InRegion(x, y, region) for region in self.regions]


def polygon_rows(function: str, texts: Sequence[str], x: str, y: str) -> RegionRows:
    """`ST_Covers(ST_GeomFromText(text), ST_Point(x, y))` for many texts."""
    from fieldfare.geometry.wkt_columns import read_many  # kernels are loaded when a place is asked for

    polygons = read_many(texts, POLYGON_TESTS[function])
    return RegionRows(x, y, polygons.regions, polygons.bounds, ~polygons.taken)


def circle_rows(relation: str, centre: tuple[Floats, Floats], metres: Floats, point: tuple[str, str]) -> RegionRows:
    """`ST_DistanceSphere(ST_Point(x, y), ST_Point(longitude, latitude)) < metres` for many circles."""
    from fieldfare.geometry.sphere import measure_circles

    longitudes, latitudes = centre
    count = len(metres)
    bounds, quick = np.zeros((count, 4)), np.zeros((count, 2))
    aside: Mask = ~((np.abs(longitudes) <= 180) & (np.abs(latitudes) <= 90) & (metres > 0))
    measure_circles(longitudes, latitudes, metres, bounds, quick)
    aside |= (bounds[:, 0] < -180.0) | (bounds[:, 2] > 180.0)
    kinds = np.full(count, CIRCLE_TESTS[relation])
    whole = np.column_stack([kinds, longitudes, latitudes, metres, quick]).tobytes()
    return RegionRows(*point, [whole[at : at + 48] for at in range(0, len(whole), 48)], bounds, aside)


def circle_operands(call: tree.Call) -> tuple[tuple[str, str], tuple[tree.Operand, tree.Operand]] | None:
    """The attributes and the literal centre of a distance; None where it is between other things."""
    first, second, third, fourth = call.arguments
    for (x, y), centre in (((first, second), (third, fourth)), ((third, fourth), (first, second))):
        if isinstance(x, tree.Name) and isinstance(y, tree.Name) and x.name != y.name and all(map(_is_literal, centre)):
            return (x.name, y.name), centre
    return None


def _is_literal(operand: tree.Operand) -> bool:
    return isinstance(operand.operand if isinstance(operand, tree.Minus) else operand, tree.Slot)
