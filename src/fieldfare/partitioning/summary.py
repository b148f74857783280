"""What each part of a layout holds, in a few boxes: an event needs to visit only parts that may hold a match for it.

"Revisiting CBPS", section 4.2, bounds the hops of an event, but has it make all of them. Here each part is one
subscription of a small index, whose boxes take all that the part's boxes take, as brokers tell each other what they
want (few_boxes.py). So the worst case stays, and the average falls with what can be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from fieldfare.boxes import BoxTable
from fieldfare.matching.index import Index
from fieldfare.matching.promotion import with_requirements
from fieldfare.matching.rows import Event
from fieldfare.model import Condition
from fieldfare.partitioning.few_boxes import few_boxes
from fieldfare.partitioning.layout import Candidates, Layout
from fieldfare.partitioning.placement import Placement

BOXES_MAX = 256  # for a part


@dataclass(frozen=True, slots=True)
class Summary:
    """For each segment of a layout, a few boxes that contain all boxes of the segment."""

    index: Index  # the ids are the numbers of parts

    @staticmethod
    def of(layout: Layout, table: BoxTable, placement: Placement, boxes_max: int = BOXES_MAX) -> Summary:
        """The summary of a layout's segments. A segment without subscriptions takes no event."""
        if table.derived or table.members:
            table = with_requirements(table)
        plain = replace(table, tests={}, derived={}, members={})
        parts = range(layout.starts[-1])
        conditions = [
            Condition("", few_boxes(plain.take(placement.boxes_of(part)), boxes_max), disjoint=False) for part in parts
        ]
        return Summary(Index.of_compiled(list(parts), BoxTable.from_conditions(conditions, parts)))

    @staticmethod
    def load(folder: Path) -> Summary:
        """The summary that `save` left in a folder."""
        return Summary(Index.load(folder))

    def save(self, folder: Path) -> None:
        """Save it to a folder, which must not exist."""
        self.index.save(folder)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of events that it reads."""
        return self.index.attributes

    def narrowed(
        self, layout: Layout, candidates: Candidates, events: pa.Table | pa.RecordBatch | Sequence[Event]
    ) -> Candidates:
        """The same candidates without visits that find nothing.

        One visit is left in any case: who makes it answers for the event, and searches what all parts share.
        """
        rows = isinstance(events, pa.Table | pa.RecordBatch)
        found = self.index.match_table(events) if rows else self.index.match_rows(events)
        needed = np.zeros((len(candidates.first), layout.starts[-1]), np.bool_)
        lengths = np.diff(found.offsets.to_numpy())
        needed[np.repeat(np.arange(len(lengths)), lengths), found.flatten().to_numpy().astype(np.int64)] = True
        sizes = np.array([dimension.size for dimension in layout.dimensions], np.int64)
        _leave_one(candidates.first, candidates.count, np.array(layout.starts[1:], np.int64), sizes, needed)
        return replace(candidates, needed=needed)


@njit(cache=True, nogil=True)
def _leave_one(first, count, ends, sizes, needed):  # type: ignore[no-untyped-def]
    """Where no visit of a candidate is needed, have the first one made."""
    for event in range(len(first)):
        for dimension in range(first.shape[1]):
            is_any = False
            for step in range(count[event, dimension]):
                part = first[event, dimension] + step
                part = part if part < ends[dimension] else part - sizes[dimension]
                is_any = is_any or needed[event, part]
            if not is_any:
                needed[event, first[event, dimension]] = True


def hops(layout: Layout, candidates: Candidates, dimension: int = 0) -> npt.NDArray[np.int64]:
    """How many parts each event visits along a dimension."""
    if candidates.needed is None:
        return candidates.count[:, dimension].astype(np.int64)
    start, size = layout.starts[dimension], layout.dimensions[dimension].size
    steps = np.arange(int(candidates.count[:, dimension].max(initial=1)))
    parts = start + (candidates.first[:, dimension, None] - start + steps) % size
    visited = np.take_along_axis(candidates.needed, parts, axis=1) & (steps < candidates.count[:, dimension, None])
    return np.asarray(visited.sum(axis=1), np.int64)
