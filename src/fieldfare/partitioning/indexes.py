"""The index of a part; and all of them in one process, which is what a cluster of matchers does without the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.boxes import BoxTable
from fieldfare.matching.index import Index
from fieldfare.matching.rows import Event
from fieldfare.model import SubscriptionId
from fieldfare.partitioning.layout import Layout


def part_index(ids: pa.Array, table: BoxTable, boxes: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], Index]:
    """The index of some boxes, and the positions among `ids` of the subscriptions that it holds."""
    chosen = table.take(boxes)
    held, owners = np.unique(chosen.owners, return_inverse=True)
    return held, Index.of_compiled(ids.take(pa.array(held)), replace(chosen, owners=owners.astype(np.int32)))


class PartIndexes:
    """The index of each part of a layout, built when it is first visited, over subscriptions `ids`."""

    def __init__(self, layout: Layout, ids: pa.Array, table: BoxTable) -> None:
        self.layout = layout
        self.placement = layout.place(table)
        self._ids, self._table = ids, table
        self._indexes: dict[int, Index] = {}

    def index(self, part: int) -> Index:
        """What a part holds."""
        if part not in self._indexes:
            _, self._indexes[part] = part_index(self._ids, self._table, self.placement.boxes_of(part))
        return self._indexes[part]

    def visit(self, part: int, events: Sequence[Event]) -> list[list[SubscriptionId]]:
        """For each event what one visit finds: in the part, and in its dimension's shared part."""
        shared = self.layout.shared_part_of(part)
        searched = [self.index(number) for number in (part, shared) if number is not None]
        found = [index.match_rows(events).to_pylist() for index in searched]
        return [[found_id for ids in lists for found_id in ids] for lists in zip(*found, strict=True)]

    def match(self, parts: Iterable[int], event: Event) -> set[SubscriptionId]:
        """What visits to several parts find together."""
        return {found for part in parts for found in self.visit(part, [event])[0]}
