"""rtree, which is libspatialindex: an R-tree packed by its bulk loader, queried with batches of points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from rtree import index

from fieldfare.bench.measuring import Lists
from fieldfare.bench.workload import Floats, Ids, Ranges, Workload

NODE_CAPACITY = 32  # measured best among 10 to 200


class RtreeEngine:
    """Boxes in a tree. Its boxes are closed, so an upper bound becomes the float just below."""

    name = "rtree"

    def __init__(self, workload: Workload, live: int) -> None:
        self._ids = workload.ids
        low, high = _bounds(workload)
        self._boxes = np.hstack([low, high])
        self._points = np.column_stack([workload.values[attribute] for attribute in workload.columns])
        properties = index.Property(
            dimension=len(workload.columns), leaf_capacity=NODE_CAPACITY, index_capacity=NODE_CAPACITY, fill_factor=0.9
        )
        self._tree = index.Index((self._ids[:live], low[:live], high[:live]), properties=properties)

    def match(self, start: int, stop: int) -> tuple[Ids, npt.NDArray[np.uint64]]:
        """Ids, and how many belong to each event."""
        points = self._points[start:stop]
        pair: tuple[Ids, npt.NDArray[np.uint64]] = self._tree.intersection_v(points, points)  # type: ignore[no-untyped-call]
        return pair

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


def _bounds(workload: Workload) -> tuple[Floats, Floats]:
    lows, highs = [], []
    for column in workload.columns.values():
        if not isinstance(column, Ranges) or column.high is None:
            raise TypeError("an R-tree holds boxes only")
        lows.append(column.low)
        highs.append(np.nextafter(column.high, -np.inf))
    return np.column_stack(lows), np.column_stack(highs)
