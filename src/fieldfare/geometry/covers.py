"""Boxes that together hold a polygon, closer than one box around it where the polygon is long and thin.

The longer side of the box is cut into equal slabs; each has the extent of the polygon's sides in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fieldfare.geometry.rows import Floats

THIN = 8.0  # a polygon that fills less than this part of its box is looked at more closely
_SLABS_MAX = 16
_WIDER = 1e-12  # relative to the box: what rounding may take from an extent


@dataclass(frozen=True, slots=True)
class Slabs:
    """The extents of a polygon on one axis (0 is x) between cuts on the other: extents[i] from cuts[i] to cuts[i + 1].

    A slab includes its lower cut; the last one includes both.
    """

    along: int
    cuts: tuple[float, ...]
    extents: tuple[tuple[float, float], ...]


def bounds_of(data: Floats) -> tuple[float, float, float, float]:
    """West, south, east and north end of some rings."""
    xs, ys = data[::2], data[1::2]
    return float(np.nanmin(xs)), float(np.nanmin(ys)), float(np.nanmax(xs)), float(np.nanmax(ys))


def slabs_of(data: Floats) -> Slabs:
    """One slab around some rings, or several if they are thin and these hold much less."""
    west, south, east, north = bounds_of(data)
    along = 0 if east - west >= north - south else 1
    low, high = (west, east) if along == 0 else (south, north)
    extent = (south, north) if along == 0 else (west, east)
    single = Slabs(along, (low, high), (extent,))
    box_area, area = (east - west) * (north - south), _area(data)
    if not area < box_area / THIN or not math.isfinite(box_area):
        return single
    count = _SLABS_MAX if area * _SLABS_MAX < box_area else math.ceil(box_area / area)
    cuts = np.linspace(low, high, count + 1)
    if not (np.diff(cuts) > 0).all():
        return single
    slack = _WIDER * (abs(extent[0]) + abs(extent[1]) + extent[1] - extent[0])
    found = _extents(data[along::2], data[1 - along :: 2], cuts, slack)
    held = sum((top - bottom) * (high - low) / count for bottom, top in found if top >= bottom)
    return Slabs(along, tuple(cuts.tolist()), tuple(found)) if held * 2.0 < box_area else single


def _area(data: Floats) -> float:
    """The area of the outer rings, about; holes count as if they were filled."""
    x, y = data[::2] - data[0], data[1::2] - data[1]
    twice: Floats = x[:-1] * y[1:] - x[1:] * y[:-1]
    ring = np.cumsum(np.isnan(x))[:-1]
    sums = np.bincount(ring, weights=np.nan_to_num(twice))
    return float(np.abs(sums).max()) / 2.0


def _extents(along: Floats, across: Floats, cuts: Floats, slack: float) -> list[tuple[float, float]]:
    """The lowest and the highest point of the sides between each two cuts; (inf, -inf) where there is none."""
    x1, x2, y1, y2 = along[:-1], along[1:], across[:-1], across[1:]
    sound = ~np.isnan(x1 + x2)
    x1, x2, y1, y2 = x1[sound], x2[sound], y1[sound], y2[sound]
    left, right = np.minimum(x1, x2), np.maximum(x1, x2)
    lengths = np.where(x2 == x1, 1.0, x2 - x1)
    found = []
    for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        meets = (left <= high) & (right >= low)
        if not meets.any():
            found.append((math.inf, -math.inf))
            continue
        ends = []
        for at in (low, high):
            share = np.where(x2 == x1, 0.0, np.clip((at - x1) / lengths, 0.0, 1.0))
            ends.append((y1 + share * (y2 - y1))[meets])
        upright = (x1 == x2)[meets]
        values = np.concatenate([*ends, y1[meets][upright], y2[meets][upright]])
        found.append((float(values.min()) - slack, float(values.max()) + slack))
    return found
