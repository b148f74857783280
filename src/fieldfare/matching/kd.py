"""The k-d order of boxes: halve at the median of the bound along which the boxes lie furthest apart, and again.

How far apart is counted in widths of the boxes themselves. So an attribute that conditions compare with `=` is halved
before one that they compare with `<`, and boxes of one width are halved along the attribute where they are spread most.

Compared with a z-order curve on the same boxes it needs about half the words per event, because no word straddles a
jump of the curve, and halves are multiples of a power of two words, so that tiles and nodes are whole subtrees too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.matching.lanes import LANES

_SAMPLED = 4_096  # rows, at least, by which an attribute is chosen
_PIVOT_SAMPLED, _PIVOT_ROWS_MIN = 127, 10_000


def kd_sort(bounds: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Sort boxes, rows with first all lows and then all highs, so that neighbours in space are neighbours.

    Returns where each row stood before.
    """
    order = np.arange(len(bounds), dtype=np.int32)
    if len(bounds) > LANES and bounds.shape[1]:
        _sort(bounds, order)
    return order


@njit(cache=True, nogil=True)
def _sort(bounds, order):  # type: ignore[no-untyped-def]
    """Sort the rows of `bounds` into k-d order, and `order` with them."""
    stack = [(0, len(bounds))]
    while stack:
        start, end = stack.pop()
        words = (end - start + LANES - 1) // LANES
        if words <= 1:
            continue
        half = 1
        while half * 2 < words:
            half *= 2
        middle = start + half * LANES
        _select(bounds, order, start, end, middle, _widest_spread(bounds, start, end))
        stack.append((start, middle))
        stack.append((middle, end))


@njit(cache=True, nogil=True)
def _widest_spread(bounds, start, end):  # type: ignore[no-untyped-def]
    """The bound (column) whose values lie furthest apart, in mean widths of the boxes along that attribute.

    Of many boxes it looks at some: an extreme that it misses belongs to a few boxes only.
    """
    attributes = bounds.shape[1] // 2
    chosen, widest = 0, -1.0
    for attribute in range(attributes):
        lowest = highest_low = bounds[start, attribute]
        lowest_high = highest = bounds[start, attribute + attributes]
        widths, rows = 0.0, 0
        for row in range(start, end, max(1, (end - start) // _SAMPLED)):
            rows += 1
            low, high = bounds[row, attribute], bounds[row, attribute + attributes]
            lowest, highest_low = min(lowest, low), max(highest_low, low)
            lowest_high, highest = min(lowest_high, high), max(highest, high)
            widths += high - low + 1
        width = widths / rows
        if (highest_low - lowest) / width > widest:
            chosen, widest = attribute, (highest_low - lowest) / width
        if (highest - lowest_high) / width > widest:
            chosen, widest = attribute + attributes, (highest - lowest_high) / width
    return chosen


@njit(cache=True, nogil=True)
def _pivot(bounds, low, high, middle, column):  # type: ignore[no-untyped-def]
    """About the value that belongs at `middle`: that of a sample at the same share of it."""
    if high - low < _PIVOT_ROWS_MIN:
        return bounds[(low + high) >> 1, column]
    step = (high - low) // _PIVOT_SAMPLED
    sample = np.empty(_PIVOT_SAMPLED, np.int32)
    for k in range(_PIVOT_SAMPLED):
        sample[k] = bounds[low + k * step, column]
    sample.sort()
    return sample[(middle - low) * _PIVOT_SAMPLED // (high - low + 1)]


@njit(cache=True, nogil=True)
def _select(bounds, order, start, end, middle, column):  # type: ignore[no-untyped-def]
    """Move rows so that those before `middle` are not above those from `middle` on (Hoare's quickselect)."""
    low, high = start, end - 1
    while low < high:
        pivot = _pivot(bounds, low, high, middle, column)
        left, right = low, high
        while left <= right:
            while bounds[left, column] < pivot:
                left += 1
            while bounds[right, column] > pivot:
                right -= 1
            if left <= right:
                for k in range(bounds.shape[1]):
                    bounds[left, k], bounds[right, k] = bounds[right, k], bounds[left, k]
                order[left], order[right] = order[right], order[left]
                left += 1
                right -= 1
        if middle <= right:
            high = right
        elif middle >= left:
            low = left
        else:
            return
