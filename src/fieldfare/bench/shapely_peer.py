"""Shapely: an STRtree of boxes, and prepared polygons for what lies in them, all in its vectorised calls.

It knows no circles on a sphere: these are boxes in the same tree, and NumPy computes the distances.
"""

from __future__ import annotations

import time
from typing import cast

import numpy as np
import numpy.typing as npt
import shapely

from fieldfare.bench.geofences import KM_OF_DEGREE, Places, Regions
from fieldfare.bench.measuring import Lists
from fieldfare.bench.workload import Bools, Ids, Workload

NODE_CAPACITY = 10  # Shapely's own choice


class ShapelyEngine:
    """Regions in a tree, whose polygons are prepared."""

    name = "shapely"

    def __init__(self, workload: Workload, live: int) -> None:
        self._ids = workload.ids
        self._regions = cast("Regions", workload.regions).between(0, live)
        places = workload.values["place"]
        self._places = places
        self._points = shapely.points(places.real, places.imag)
        began = time.perf_counter()
        self._geometries = prepared(self._regions)
        self._tree = shapely.STRtree(self._geometries, NODE_CAPACITY)
        self.build_seconds = time.perf_counter() - began

    def match(self, start: int, stop: int) -> tuple[npt.NDArray[np.intp], Ids, int]:
        """The events and the ids of the pairs that match, by event."""
        events, numbers = self._tree.query(self._points[start:stop])
        places = self._places[start:stop][events]
        held = pairs_held(self._regions, self._geometries, places, numbers)
        return events[held], self._ids[numbers[held]], stop - start

    def lists(self, answer: tuple[npt.NDArray[np.intp], Ids, int]) -> Lists:
        """The answer, as lists of ids."""
        events, ids, count = answer
        return Lists(np.bincount(events, minlength=count).astype(np.int64), ids)

    def change(self, added: slice, removed: slice) -> None:
        """Its tree cannot change."""
        raise NotImplementedError(f"an STRtree cannot change: {added}, {removed}")


def prepared(regions: Regions) -> npt.NDArray[np.object_]:
    """The polygons, and for circles the boxes around them, prepared."""
    reach = regions.metres / 1000 / KM_OF_DEGREE * 1.001
    stretch = 1 / np.cos(np.minimum(np.radians(np.abs(regions.centres[:, 1]) + reach), np.pi / 2 - 0.01))
    around = np.column_stack([reach * stretch, reach])
    boxes = np.hstack([regions.centres - around, regions.centres + around])
    geometries: npt.NDArray[np.object_] = shapely.box(*boxes.T)
    polygons = np.flatnonzero(regions.metres == 0)
    counts = (regions.ends - regions.starts)[polygons]
    if len(polygons):
        corners = regions.corners[regions.starts[polygons[0]] : regions.ends[polygons[-1]]]
        rings = shapely.linearrings(corners, indices=np.repeat(np.arange(len(polygons)), counts))
        geometries[polygons] = shapely.polygons(rings)
    shapely.prepare(geometries)
    return geometries


def pairs_held(
    regions: Regions, geometries: npt.NDArray[np.object_], places: npt.NDArray[np.complex128], numbers: Places
) -> Bools:
    """Whether places lie in the regions of some numbers, pair by pair."""
    metres = regions.metres[numbers]
    is_circle = metres > 0
    held = np.zeros(len(numbers), np.bool_)
    held[is_circle] = regions.distances(places[is_circle], numbers[is_circle]) < metres[is_circle]
    x, y = places[~is_circle].real, places[~is_circle].imag
    held[~is_circle] = shapely.intersects_xy(geometries[numbers[~is_circle]], x, y)
    return held
