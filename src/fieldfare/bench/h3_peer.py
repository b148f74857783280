"""H3 by hand: a dict from each hexagonal cell to the regions that reach into it, and an exact test for an event's cell.

A region is covered by the cells that touch the circle around it. Its polygons are tested by Shapely, its circles by
NumPy, as in the engine of Shapely's tree.
"""

from __future__ import annotations

import time
from typing import cast

import h3
import numpy as np
import numpy.typing as npt
from h3.api import basic_int, numpy_int

from fieldfare.bench.geofences import Regions, metres_between
from fieldfare.bench.measuring import Lists, Unchanging
from fieldfare.bench.shapely_peer import pairs_held, prepared
from fieldfare.bench.workload import Floats, Ids, Workload

_EDGE_SHARE = 0.45  # of the mean radius of regions: their cells have at least so long edges, the fastest that was found
_EDGE_MAX, _SPACING_MIN = 1.3, 1.1  # the longest edge and the least way from a ring to the next, in mean edges
_CHUNK_REGIONS = 100_000
_RESOLUTION_MAX = 9


class H3Engine(Unchanging):
    """Regions by the cells of one resolution."""

    name = "h3"

    def __init__(self, workload: Workload, live: int) -> None:
        self._ids = workload.ids
        self._regions = cast("Regions", workload.regions).between(0, live)
        self._places = workload.values["place"]
        self._events = list(zip(self._places.imag.tolist(), self._places.real.tolist(), strict=True))
        began = time.perf_counter()
        self._geometries = prepared(self._regions)
        centres, metres = _circles_around(self._regions)
        self._resolution = _resolution(float(metres.mean()) / 1000)
        chunks = [
            _cover(centres[start : start + _CHUNK_REGIONS], metres[start : start + _CHUNK_REGIONS], self._resolution)
            for start in range(0, live, _CHUNK_REGIONS)
        ]
        cells = np.concatenate([one for one, _ in chunks])
        numbers = np.concatenate([some + chunk * _CHUNK_REGIONS for chunk, (_, some) in enumerate(chunks)])
        order = np.argsort(cells, kind="stable")
        self._numbers = numbers[order]
        known, starts = np.unique(cells[order], return_index=True)
        self._starts = np.concatenate([starts, [len(order), len(order)]])  # the last cell has no regions
        self._cells = dict(zip(known.tolist(), range(len(known)), strict=True))
        self.build_seconds = time.perf_counter() - began

    def match(self, start: int, stop: int) -> tuple[npt.NDArray[np.intp], Ids, int]:
        """The events and the ids of the pairs that match, by event."""
        none, known, resolution, cell_of = len(self._cells), self._cells, self._resolution, basic_int.latlng_to_cell
        events = self._events[start:stop]
        rows = np.array([known.get(cell_of(*event, resolution), none) for event in events], np.int64)
        counts = self._starts[rows + 1] - self._starts[rows]
        owners = np.repeat(np.arange(len(rows)), counts)
        before = np.cumsum(counts) - counts
        numbers = self._numbers[np.arange(len(owners)) + np.repeat(self._starts[rows] - before, counts)]
        held = pairs_held(self._regions, self._geometries, self._places[start:stop][owners], numbers)
        return owners[held], self._ids[numbers[held]], stop - start

    def lists(self, answer: tuple[npt.NDArray[np.intp], Ids, int]) -> Lists:
        """The answer, as lists of ids."""
        events, ids, count = answer
        return Lists(np.bincount(events, minlength=count).astype(np.int64), ids)


def _circles_around(regions: Regions) -> tuple[Floats, Floats]:
    """A centre and a radius in metres for each region."""
    centres, metres = regions.centres.copy(), regions.metres.copy()
    west, south, east, north = regions.bounds.T
    polygons = np.flatnonzero(metres == 0)
    centres[polygons] = np.column_stack([west + east, south + north])[polygons] / 2
    counts = (regions.ends - regions.starts)[polygons]
    if len(polygons):
        corners = regions.corners[regions.starts[polygons[0]] : regions.ends[polygons[-1]]]
        reach = metres_between(corners, centres[np.repeat(polygons, counts)])
        metres[polygons] = np.maximum.reduceat(reach, np.cumsum(counts) - counts)
    return centres, metres * 1.001


def _resolution(radius_km: float) -> int:
    """The finest whose cells are not much smaller than regions."""
    edges = [h3.average_hexagon_edge_length(resolution, "km") for resolution in range(_RESOLUTION_MAX + 1)]
    return max([0, *(resolution for resolution, edge in enumerate(edges) if edge >= _EDGE_SHARE * radius_km)])


def _cover(centres: Floats, metres: Floats, resolution: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Pairs of a cell and the number of a circle that may reach into it."""
    edge = 1000 * h3.average_hexagon_edge_length(resolution, "km")
    rings = np.ceil((metres + 2 * _EDGE_MAX * edge) / (_SPACING_MIN * edge)).astype(np.int64)
    around = [
        numpy_int.grid_disk(numpy_int.latlng_to_cell(latitude, longitude, resolution), ring)
        for (longitude, latitude), ring in zip(centres.tolist(), rings.tolist(), strict=True)
    ]
    numbers = np.repeat(np.arange(len(around)), [len(cells) for cells in around])
    cells = np.concatenate(around)
    distinct, which = np.unique(cells, return_inverse=True)
    places = np.array([numpy_int.cell_to_latlng(cell)[::-1] for cell in distinct.tolist()])
    near = metres_between(places[which], centres[numbers]) <= metres[numbers] + _EDGE_MAX * edge
    return cells[near], numbers[near]
