"""Whether the rings of polygons are sound: closed, with three corners or more, crossing neither themselves nor others.

Beyond that the holes of a polygon lie in its shell, and no ring of the same rank in another. What passes has a clear
inside: where a ray crosses its rings an odd number of times.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types

from fieldfare.geometry.orientation import orientation
from fieldfare.geometry.regions import located
from fieldfare.geometry.rows import Floats, Places

SOUND, OPEN, TOO_FEW, CROSSING, OUTSIDE, INSIDE = range(6)
FAULTS = {
    OPEN: "a ring must end where it began",
    TOO_FEW: "a ring needs three corners or more",
    CROSSING: "two sides of the polygon cross or overlap",
    OUTSIDE: "a hole must lie inside the polygon's outer ring",
    INSIDE: "a ring lies inside another that is no outer ring of its own",
}


@njit(cache=True, nogil=True)
def _compacted(data: Floats, start: int, end: int) -> int:
    """Remove corners that stand twice in a row, in place; returns the new end."""
    to = start
    for at in range(start, end, 2):
        if to == start or not (data[at] == data[to - 2] and data[at + 1] == data[to - 1]):
            data[to], data[to + 1] = data[at], data[at + 1]
            to += 2
    return to


@njit(cache=True, nogil=True)
def _are_apart(data: Floats, one: int, other: int) -> bool:
    """Whether the boxes around two sides, which begin at two places, do not meet."""
    for axis in range(2):
        a, b = data[one + axis], data[one + 2 + axis]
        c, d = data[other + axis], data[other + 2 + axis]
        if max(a, b) < min(c, d) or max(c, d) < min(a, b):
            return True
    return False


_APART, _TOUCHING, _CROSSING = range(3)


@njit(cache=True, nogil=True)
def _sides_meet(data: Floats, one: int, other: int) -> int:
    """How two sides meet: not at all, in one point that is an end of one of them, or they cross or overlap."""
    if _are_apart(data, one, other):
        return _APART
    ax, ay, bx, by = data[one], data[one + 1], data[one + 2], data[one + 3]
    cx, cy, dx, dy = data[other], data[other + 1], data[other + 2], data[other + 3]
    first, second = orientation(ax, ay, bx, by, cx, cy), orientation(ax, ay, bx, by, dx, dy)
    if first == 0 and second == 0:  # on one line, where their boxes meet
        if ax != bx:
            overlap = min(max(ax, bx), max(cx, dx)) > max(min(ax, bx), min(cx, dx))
        else:
            overlap = min(max(ay, by), max(cy, dy)) > max(min(ay, by), min(cy, dy))
        return _CROSSING if overlap else _TOUCHING
    third, fourth = orientation(cx, cy, dx, dy, ax, ay), orientation(cx, cy, dx, dy, bx, by)
    if first * second < 0 and third * fourth < 0:
        return _CROSSING
    return _TOUCHING if first * second <= 0 and third * fourth <= 0 else _APART


@njit(cache=True, nogil=True)
def _is_spike(data: Floats, one: int, other: int) -> bool:
    """Whether a side goes back along the side before it."""
    ax, ay, bx, by = data[one], data[one + 1], data[one + 2], data[one + 3]
    cx, cy = data[other + 2], data[other + 3]
    if orientation(ax, ay, bx, by, cx, cy) != 0:
        return False
    return bool((bx > ax) != (cx > bx)) if ax != bx else bool((by > ay) != (cy > by))


@njit(cache=True, nogil=True)
def _crosses_itself(data: Floats, start: int, end: int) -> bool:
    last = end - 4  # where the last side begins
    for one in range(start, last + 1, 2):
        for other in range(one + 2, last + 1, 2):
            if other == one + 2:
                if _is_spike(data, one, other):
                    return True
            elif one == start and other == last:
                if _is_spike(data, other, one):
                    return True
            elif _sides_meet(data, one, other) != _APART:
                return True
    return False


@njit(cache=True, nogil=True)
def _cross(data: Floats, start: int, end: int, other_start: int, other_end: int) -> bool:
    """Whether two rings cross; they may touch in single points."""
    for one in range(start, end - 3, 2):
        for other in range(other_start, other_end - 3, 2):
            if _sides_meet(data, one, other) == _CROSSING:
                return True
    return False


@njit(cache=True, nogil=True)
def _strays(data: Floats, start: int, end: int, other_start: int, other_end: int, where: int) -> bool:
    """Whether a corner of the first ring, or the middle of a side, lies inside (1) or outside (-1) the other ring."""
    for at in range(start, end - 3, 2):
        x, y = data[at], data[at + 1]
        middle_x, middle_y = x + (data[at + 2] - x) / 2.0, y + (data[at + 3] - y) / 2.0
        if located(data, other_start, other_end, x, y) == where:
            return True
        if located(data, other_start, other_end, middle_x, middle_y) == where:
            return True
    return False


@njit(cache=True, nogil=True)
def _misplaced(data: Floats, starts: Places, ends: Places, shells: Places) -> tuple[int, int]:
    """A ring that does not lie where it should: a hole outside its shell, or what is inside another of its rank."""
    for ring in range(len(starts)):
        start, shell = starts[ring], shells[ring]
        if shell != ring and _strays(data, starts[ring], ends[ring], starts[shell], ends[shell], -1):
            return OUTSIDE, ring
        for other in range(len(starts)):
            end = ends[other]
            if shell == ring:  # another polygon with its holes: an island may lie in a lake
                for hole in range(other, len(starts)):
                    end = ends[hole] if shells[hole] == other else end
            is_peer = shells[other] == shell if shell != ring else shells[other] == other
            if is_peer and other not in (ring, shell) and _strays(data, start, ends[ring], starts[other], end, 1):
                return INSIDE, ring
    return SOUND, 0


@njit(cache=True, nogil=True)
def _fault_of_rings(data: Floats, starts: Places, ends: Places, shells: Places) -> tuple[int, int]:
    """What is wrong, and with which ring: ring i is a hole of ring shells[i], or is that itself."""
    for ring in range(len(starts)):
        start, end = starts[ring], ends[ring]
        if data[start] != data[end - 2] or data[start + 1] != data[end - 1]:
            return OPEN, ring
        if end - start < 8:
            return TOO_FEW, ring
        if _crosses_itself(data, start, end):
            return CROSSING, ring
    for ring in range(len(starts)):
        for other in range(ring):
            if _cross(data, starts[ring], ends[ring], starts[other], ends[other]):
                return CROSSING, ring
    return _misplaced(data, starts, ends, shells)


_DATA = types.Array(types.float64, 1, "C")
_READ = types.Array(types.int64, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C")
_TABLE = types.Array(types.float64, 2, "C")
_MEASURE = types.void(_DATA, _READ, _NUMBERS, _NUMBERS, _NUMBERS, _TABLE)


@njit(_MEASURE, cache=True, nogil=True)
def measure_polygons(  # a kernel takes arrays
    data: Floats, offsets: Places, ends: Places, faults: Places, rings: Places, measures: Floats
) -> None:
    """Check polygons of one shell each, whose rings stand in data[offsets[i]:offsets[i + 1]], NaN NaN between them.

    Corners that stand twice in a row are removed, in place: the polygon then ends at ends[i]. faults[i] says what is
    wrong, and rings[i] with which ring. The measures are west, south, east, north and the outer ring's area.
    """
    for row in range(len(ends)):
        ends[row] = _compacted(data, offsets[row], offsets[row + 1])
        start, end = offsets[row], ends[row]
        if start == end:
            faults[row] = TOO_FEW
            continue
        count = 1
        for at in range(start, end, 2):
            count += math.isnan(data[at])
        ring_starts, ring_ends = np.empty(count, np.int64), np.empty(count, np.int64)
        shells = np.zeros(count, np.int64)
        ring, ring_starts[0] = 0, start
        for at in range(start, end, 2):
            if math.isnan(data[at]):
                ring_ends[ring] = at
                ring += 1
                ring_starts[ring] = at + 2
        ring_ends[ring] = end
        faults[row], rings[row] = _fault_of_rings(data, ring_starts, ring_ends, shells)
        measures[row, 0], measures[row, 1], measures[row, 4] = math.inf, math.inf, 0.0
        measures[row, 2], measures[row, 3] = -math.inf, -math.inf
        for number in range(count):
            area = 0.0
            first, final = ring_starts[number], ring_ends[number]
            for at in range(first, final, 2):
                measures[row, 0], measures[row, 2] = min(measures[row, 0], data[at]), max(measures[row, 2], data[at])
                y = data[at + 1]
                measures[row, 1], measures[row, 3] = min(measures[row, 1], y), max(measures[row, 3], y)
                if at + 2 < final:
                    area += (data[at] - data[first]) * (data[at + 3] - data[first + 1])
                    area -= (data[at + 2] - data[first]) * (y - data[first + 1])
            measures[row, 4] = max(measures[row, 4], abs(area) / 2.0)


_FAULT = types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]  # Numba has no types
    types.Array(types.float64, 1, "C", readonly=True), _READ, _READ, _READ
)


@njit(_FAULT, cache=True, nogil=True)
def fault_of_rings(data: Floats, starts: Places, ends: Places, shells: Places) -> tuple[int, int]:
    """What is wrong with the rings of some polygons, and with which ring; ring i is a hole in shells[i], or a shell."""
    return _fault_of_rings(data, starts, ends, shells)
