"""Regions as rows of floats, and whether points lie in them: the test that comes after the index.

A region is one row of float64: its kind, then for a polygon the corners of its rings (closed; NaN NaN stands between
two rings), for a circle its centre, its radius and what a quick test needs. A point lies in a polygon if a ray from it
crosses the rings an odd number of times; orientation.py makes that exact.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit, types

from fieldfare.geometry.orientation import orientation
from fieldfare.geometry.prefetching import prefetch
from fieldfare.geometry.rows import AT_MOST, COVERS, NEARER, Floats, Places
from fieldfare.geometry.sphere import distance, is_on_sphere

_INSIDE, _BOUNDARY, _OUTSIDE = 1, 0, -1
_AHEAD = 8  # pairs: how far ahead of its use a region is fetched from memory
_LINE = 8  # floats of a cache line
_SMALL_ANGLE = 0.1  # radians: up to here the polynomial of `_haversine` is right to 1e-10
_MARGIN = 1e-9  # what differs by less from a circle's radius is computed by the formula that defines it
_TINY = 1e-30  # a haversine of circles smaller than an atom, whose squares are not exact any more
_RADIANS = math.pi / 180.0


@njit(cache=True, nogil=True)
def located(data: Floats, start: int, end: int, px: float, py: float) -> int:
    """1 where a point lies inside the rings of data[start:end], 0 on one of them, else -1."""
    inside = False
    x1, y1 = data[start], data[start + 1]
    for at in range(start + 2, end, 2):
        x2, y2 = data[at], data[at + 1]
        if (y1 > py) != (y2 > py):
            if x1 > px and x2 > px:
                inside = not inside
            elif (x1 >= px or x2 >= px) and not math.isnan(x1 + x2):  # NaN stands between two rings
                side = orientation(x1, y1, x2, y2, px, py)
                if side == 0:
                    return _BOUNDARY
                if (side > 0) == (y2 > y1):
                    inside = not inside
        elif y2 == py and (x2 == px or (y1 == py and (x1 > px) != (x2 > px))):
            return _BOUNDARY
        x1, y1 = x2, y2
    return _INSIDE if inside else _OUTSIDE


@njit(cache=True, nogil=True)
def _haversine(angle: float) -> float:
    """sin(angle / 2)², of a small angle."""
    square = angle * angle
    return square * (0.25 - square * (1.0 / 48.0 - square * (1.0 / 1440.0)))


@njit(cache=True, nogil=True)
def _is_near(circle: Floats, start: int, px: float, py: float) -> bool:
    """Whether a point lies in a circle: kind, longitude, latitude, metres, the latitude's cosine, the haversine."""
    if not is_on_sphere(px, py):
        return False
    across, along = (py - circle[start + 2]) * _RADIANS, (px - circle[start + 1]) * _RADIANS
    limit = circle[start + 5]
    if abs(across) < _SMALL_ANGLE and abs(along) < _SMALL_ANGLE and limit > _TINY:
        found = _haversine(across) + circle[start + 4] * math.cos(py * _RADIANS) * _haversine(along)
        if found < limit * (1.0 - _MARGIN):
            return True
        if found > limit * (1.0 + _MARGIN):
            return False
    metres = distance(px, py, circle[start + 1], circle[start + 2])
    limit = circle[start + 3]
    return bool(metres < limit or (circle[start] == AT_MOST and metres == limit))


@njit(cache=True, nogil=True)
def _holds(data: Floats, start: int, end: int, px: float, py: float) -> bool:
    kind = data[start]
    if kind >= NEARER:
        return _is_near(data, start, px, py)
    where = located(data, start + 1, end, px, py)
    return where == _INSIDE or (where == _BOUNDARY and kind == COVERS)


_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C", readonly=True)
_HOLD = types.void(_FLOATS, _PLACES, _PLACES, _FLOATS, _FLOATS, _PLACES, types.Array(types.boolean, 1, "C"))


@njit(_HOLD, cache=True, nogil=True)
def regions_hold(  # noqa: PLR0913, PLR0917  # a kernel takes arrays
    data: Floats,
    offsets: Places,
    regions: Places,
    xs: Floats,
    ys: Floats,
    points: Places,
    held: npt.NDArray[np.bool_],
) -> None:
    """For each pair i, whether point number `points[i]` lies in region number `regions[i]`."""
    count = len(regions)
    for pair in range(count):
        if pair + 2 * _AHEAD < count:
            prefetch(offsets, regions[pair + 2 * _AHEAD])  # type: ignore[call-arg]  # Numba gives the first
        if pair + _AHEAD < count:
            region = regions[pair + _AHEAD]
            for at in range(offsets[region], offsets[region + 1], _LINE):
                prefetch(data, at)  # type: ignore[call-arg]
        region, point = regions[pair], points[pair]
        held[pair] = _holds(data, offsets[region], offsets[region + 1], xs[point], ys[point])


@njit(types.boolean(_FLOATS, types.float64, types.float64), cache=True, nogil=True)
def region_holds(region: Floats, x: float, y: float) -> bool:
    """Whether a point lies in one region."""
    return _holds(region, 0, len(region), x, y)
