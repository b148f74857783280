"""On which side of a line a point lies, exactly: floats nearly always decide, else sums of floats without error.

The filter and the sums are those of Shewchuk's "Adaptive Precision Floating-Point Arithmetic". Exact for coordinates
that are 0 or between 1e-100 and 1e100 in magnitude; there products of their parts neither overflow nor vanish.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

_FILTER = 3.3306690738754716e-16  # (3 + 16 eps) * eps: the relative error of the difference of products below
_SPLITTER = 134217729.0  # 2**27 + 1: halves the bits of a float


@njit(cache=True, nogil=True)
def orientation(ax: float, ay: float, bx: float, by: float, px: float, py: float) -> int:
    """1 where p lies to the left of the line from a to b, -1 to its right, 0 on it."""
    left = (ax - px) * (by - py)
    right = (ay - py) * (bx - px)
    difference = left - right
    if left > 0.0:
        if right <= 0.0:
            return 1
        total = left + right
    elif left < 0.0:
        if right >= 0.0:
            return -1
        total = -left - right
    else:
        return (right < 0.0) - (right > 0.0)
    if abs(difference) >= _FILTER * total:
        return (difference > 0.0) - (difference < 0.0)
    return _exact_orientation(ax, ay, bx, by, px, py)


@njit(cache=True, nogil=True)
def _exact_orientation(ax: float, ay: float, bx: float, by: float, px: float, py: float) -> int:
    parts = np.zeros(12, np.float64)  # an expansion: each part is greater than the sum of all before it
    count = 0
    for one, other in ((ax, by), (-ax, py), (-px, by), (-ay, bx), (ay, px), (py, bx)):
        high, low = _two_product(one, other)
        count = _grown(parts, count, low)
        count = _grown(parts, count, high)
    for at in range(count - 1, -1, -1):
        if parts[at] != 0.0:
            return 1 if parts[at] > 0.0 else -1
    return 0


@njit(cache=True, nogil=True)
def _two_product(one: float, other: float) -> tuple[float, float]:
    """A product, and what rounding took from it."""
    product = one * other
    one_high = _SPLITTER * one - (_SPLITTER * one - one)
    other_high = _SPLITTER * other - (_SPLITTER * other - other)
    one_low, other_low = one - one_high, other - other_high
    error = product - one_high * other_high - one_low * other_high - one_high * other_low
    return product, one_low * other_low - error


@njit(cache=True, nogil=True)
def _grown(parts: npt.NDArray[np.float64], count: int, value: float) -> int:
    """Add a value to an expansion, exactly; returns how many parts it has then."""
    total = value
    for at in range(count):
        before, part = total, parts[at]
        total = before + part
        virtual = total - before
        parts[at] = (before - (total - virtual)) + (part - virtual)
    parts[count] = total
    return count + 1
