"""The kernels that turn values into slots: how many of an axis's cuts lie at or below each value.

Numbers go through a grid: a uniform division of the axis that says, for each cell, how many cuts lie before it.
What is left is to count among the few cuts of one cell, sixteen at a time. Texts are searched by their first
eight bytes as one integer, and by the rest only where those are equal.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.matching.batch import Texts
from fieldfare.matching.lanes import COUNTED, count_up_to

_CELLS_MAX = 1 << 24
_CUTS_OF_CELL = 8
_PREFIX_BYTES = 8


class Grid(NamedTuple):
    """Cell i holds the cuts from `before[i]` up to `before[i + 1]`."""

    before: npt.NDArray[np.int32]
    cuts: npt.NDArray[np.float64]  # padded with NaN, so that sixteen can be read anywhere
    origin: float
    cells_per_unit: float


def padded_cuts(*columns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The distinct values of some columns, ascending, padded as a grid has them; sorted where they will stay."""
    cuts = np.concatenate([*columns, np.full(COUNTED, np.nan)])
    cuts.sort()  # which puts NaN last
    count = len(cuts) - COUNTED
    kept = np.ones(len(cuts), np.bool_)
    np.not_equal(cuts[1:count], cuts[: max(0, count - 1)], out=kept[1 : max(1, count)])
    return cuts if kept.all() else cuts[kept]


def grid_of(padded: npt.NDArray[np.float64]) -> Grid:
    """A grid with about eight cuts a cell: sixteen are counted at once, so more cells would only take memory."""
    cuts = padded[:-COUNTED]
    first, last = np.searchsorted(cuts, -np.inf, side="right"), np.searchsorted(cuts, np.inf, side="left")
    finite = cuts[first:last]
    origin, span = 0.0, 0.0
    if len(finite):
        origin, span = float(finite[0]), float(finite[-1]) - float(finite[0])
    cells = min(_CELLS_MAX, max(1, len(finite) // _CUTS_OF_CELL))
    rate = cells / span if span > 0 else 0.0
    if not math.isfinite(rate):
        rate = 0.0  # the cuts lie too close for a grid: everything is in one cell
    before = np.zeros(cells + 1, np.int32)
    _count_cells(cuts, origin, rate, before)
    return Grid(before, padded, origin, rate)


@njit(cache=True, nogil=True, inline="always")
def _cell(value, origin, rate, cells):  # type: ignore[no-untyped-def]
    # Cuts and values share this arithmetic, so it need not be exact: only monotone.
    place = (value - origin) * rate
    return np.int64(min(place, cells - 1.0)) if place > 0.0 else np.int64(0)


@njit(cache=True, nogil=True)
def _count_cells(cuts, origin, rate, before):  # type: ignore[no-untyped-def]
    cells = len(before) - 1
    for i in range(len(cuts)):
        before[_cell(cuts[i], origin, rate, cells) + 1] += 1
    for i in range(cells):
        before[i + 1] += before[i]


def sorted_unique(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct values, ascending. Where most values are distinct, np.unique is slower: it hashes first."""
    ordered = np.sort(values)
    kept = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered[kept]


def number_slots(values: npt.NDArray[np.float64], grid: Grid, start: int) -> npt.NDArray[np.int32]:
    """The slot of each number: `start` more than the cuts at or below it; 1 for NaN."""
    out = np.empty(len(values), np.int32)
    _number_slots(np.ascontiguousarray(values), grid, start, out)
    return out


@njit(cache=True, nogil=True)
def _number_slots(values, grid, start, out):  # type: ignore[no-untyped-def]
    before, cuts, origin, rate = grid
    cells = len(before) - 1
    for i in range(len(values)):
        value = values[i]
        cell = _cell(value, origin, rate, cells)
        low, high = np.int64(before[cell]), np.int64(before[cell + 1])
        while high - low > COUNTED:
            middle = (low + high) >> 1
            if cuts[middle] <= value:
                low = middle + 1
            else:
                high = middle
        out[i] = start + low + count_up_to(cuts, low, value) if not np.isnan(value) else 1


class TextCuts(NamedTuple):
    """Sorted texts, with the first eight bytes of each as one integer."""

    prefixes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]


def text_cuts_of(texts: Texts) -> TextCuts:
    """What `text_slots` searches in; the texts are ascending."""
    prefixes = np.empty(len(texts), np.uint64)
    _fill_prefixes(texts.offsets, texts.data, prefixes)
    return TextCuts(prefixes, texts.offsets, texts.data)


@njit(cache=True, nogil=True, inline="always")
def _prefix(data, start, end):  # type: ignore[no-untyped-def]
    prefix = np.uint64(0)
    for k in range(_PREFIX_BYTES):
        byte = data[start + k] if start + k < end else np.uint8(0)
        prefix = (prefix << np.uint64(8)) | np.uint64(byte)
    return prefix


@njit(cache=True, nogil=True)
def _fill_prefixes(offsets, data, prefixes):  # type: ignore[no-untyped-def]
    for i in range(len(prefixes)):
        prefixes[i] = _prefix(data, offsets[i], offsets[i + 1])


def text_slots(texts: Texts, cuts: TextCuts, start: int) -> npt.NDArray[np.int32]:
    """The slot of each text: `start` more than the cuts at or below it."""
    out = np.empty(len(texts), np.int32)
    _text_slots(texts.offsets, texts.data, cuts, start, out)
    return out


@njit(cache=True, nogil=True)
def _text_slots(offsets, data, cuts, start, out):  # type: ignore[no-untyped-def]
    prefixes, cut_offsets, cut_data = cuts
    for i in range(len(out)):
        begin, end = offsets[i], offsets[i + 1]
        prefix = _prefix(data, begin, end)
        low, high = 0, len(prefixes)
        while low < high:
            middle = (low + high) >> 1
            if prefixes[middle] < prefix or (
                prefixes[middle] == prefix
                and _not_above(cut_data, cut_offsets[middle], cut_offsets[middle + 1], data, begin, end)
            ):
                low = middle + 1
            else:
                high = middle
        out[i] = start + low


@njit(cache=True, nogil=True)
def _not_above(left, left_start, left_end, right, right_start, right_end):  # type: ignore[no-untyped-def]
    left_length, right_length = left_end - left_start, right_end - right_start
    for k in range(min(left_length, right_length)):
        if left[left_start + k] != right[right_start + k]:
            return left[left_start + k] < right[right_start + k]
    return left_length <= right_length
