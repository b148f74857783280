"""The kernel that writes a tile: boxes in the tile's own ranks, sixty-four to a word, and the words' hulls."""

from __future__ import annotations

import numpy as np
from numba import njit

from fieldfare.matching.lanes import LANES

_NOWHERE_LOW, _NOWHERE_HIGH = np.int16(32767), np.int16(-1)  # bounds that meet nothing


@njit(cache=True, nogil=True)
def _rank(cuts, slot):  # type: ignore[no-untyped-def]
    """How many cuts lie at or below a slot."""
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) >> 1
        if cuts[middle] <= slot:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def pack_tile(lows, highs, cuts, use, bounds, hulls):  # type: ignore[no-untyped-def]
    """Fill bounds[word, use, low or high, lane] and hulls[use, low or high, word] for one attribute."""
    hulls[use, 0, :] = _NOWHERE_LOW
    hulls[use, 1, :] = _NOWHERE_HIGH
    bounds[:, use, 0, :] = _NOWHERE_LOW
    bounds[:, use, 1, :] = _NOWHERE_HIGH
    for box in range(len(lows)):
        word, lane = box // LANES, box % LANES
        low, high = np.int16(_rank(cuts, lows[box])), np.int16(_rank(cuts, highs[box]))
        bounds[word, use, 0, lane] = low
        bounds[word, use, 1, lane] = high
        hulls[use, 0, word] = min(hulls[use, 0, word], low)
        hulls[use, 1, word] = max(hulls[use, 1, word], high)
