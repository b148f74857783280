"""rtree, which is libspatialindex: an R-tree packed by its bulk loader, queried with batches of points.

Which size of nodes is fastest depends on the boxes, so several are tried on the workload itself.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
from rtree import index

from fieldfare.bench.measuring import Lists
from fieldfare.bench.workload import Floats, Ids, WantedRanges, Workload

NODE_CAPACITIES = (10, 16, 32)
TIMED_EVENTS = 512


class RtreeEngine:
    """Boxes in a tree. Its boxes are closed, so an upper bound becomes the float just below."""

    name = "rtree"

    def __init__(self, workload: Workload, live: int) -> None:
        self._ids = workload.ids
        low, high = _bounds(workload)
        self._boxes = np.hstack([low, high])
        self._points = np.column_stack([workload.values[attribute] for attribute in workload.columns])
        fastest = np.inf
        for capacity in NODE_CAPACITIES:
            began = time.perf_counter()
            tree = _tree(self._ids[:live], low[:live], high[:live], capacity)
            build_seconds = time.perf_counter() - began
            seconds = _seconds(tree, self._points[:TIMED_EVENTS])
            if seconds < fastest:
                fastest, self._tree, self.build_seconds = seconds, tree, build_seconds

    def match(self, start: int, stop: int) -> tuple[Ids, npt.NDArray[np.uint64]]:
        """Ids, and how many belong to each event."""
        points = self._points[start:stop]
        return _intersections(self._tree, points)

    def lists(self, answer: tuple[Ids, npt.NDArray[np.uint64]]) -> Lists:
        """The answer, as lists of ids."""
        ids, counts = answer
        return Lists(counts.astype(np.int64), ids)

    def change(self, added: slice, removed: slice) -> None:
        """Delete and insert one by one: the library has no other way."""
        for number in range(removed.start, removed.stop):
            self._tree.delete(int(self._ids[number]), self._boxes[number])
        for number in range(added.start, added.stop):
            self._tree.insert(int(self._ids[number]), self._boxes[number])


def _tree(ids: Ids, low: Floats, high: Floats, capacity: int) -> index.Index:
    properties = index.Property(
        dimension=low.shape[1], leaf_capacity=capacity, index_capacity=capacity, fill_factor=0.9
    )
    return index.Index((ids, low, high), properties=properties)


def _intersections(tree: index.Index, points: Floats) -> tuple[Ids, npt.NDArray[np.uint64]]:
    pair: tuple[Ids, npt.NDArray[np.uint64]] = tree.intersection_v(points, points)  # type: ignore[no-untyped-call]
    return pair


def _seconds(tree: index.Index, points: Floats) -> float:
    """The time to match some events: the better of two, against disturbances."""
    durations = []
    for _ in range(2):
        began = time.perf_counter()
        _intersections(tree, points)
        durations.append(time.perf_counter() - began)
    return min(durations)


def _bounds(workload: Workload) -> tuple[Floats, Floats]:
    lows, highs = [], []
    for column in workload.columns.values():
        if not isinstance(column, WantedRanges) or column.high is None:
            raise TypeError("an R-tree holds boxes only")
        lows.append(column.low)
        highs.append(np.nextafter(column.high, -np.inf))
    return np.column_stack(lows), np.column_stack(highs)
