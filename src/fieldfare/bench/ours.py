"""Fieldfare's own index as an engine of the benchmark, used only through its public names."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from fieldfare.bench.measuring import Lists
from fieldfare.bench.workload import WantedRanges, Workload
from fieldfare.language import compile_many
from fieldfare.matching.index import Index

COMPILED_CONDITIONS = 200_000  # enough to know the speed


class OurEngine:
    """An index of a workload's first subscriptions. It is given the events as a user has them: an Arrow table."""

    name = "fieldfare"

    def __init__(self, workload: Workload, live: int) -> None:
        self._ids = workload.ids
        self._events = workload.events
        self._arriving = {position: _condition(workload, position) for position in range(live, len(workload))}
        began = time.perf_counter()
        self.index = _index(workload.between(0, live))
        self.build_seconds = time.perf_counter() - began

    def match(self, start: int, stop: int) -> pa.ListArray:
        """A list of ids for each event."""
        return self.index.match_table(self._events.slice(start, stop - start))

    def lists(self, answer: pa.ListArray) -> Lists:
        """The answer, as lists of ids."""
        counts = answer.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        return Lists(counts, answer.flatten().to_numpy(zero_copy_only=False))

    def change(self, added: slice, removed: slice) -> None:
        """The index with the new subscriptions, given as SQL, and without the old ones."""
        conditions = [self._arriving[position] for position in range(added.start, added.stop)]
        add = dict(zip(self._ids[added].tolist(), conditions, strict=True))
        self.index = self.index.updated(add=add, remove=self._ids[removed].tolist())


def conditions_per_second(workload: Workload) -> float | None:
    """How fast the workload's conditions compile to boxes; None where it has none."""
    if workload.conditions is None:
        return None
    conditions = workload.conditions["condition"].slice(0, COMPILED_CONDITIONS).to_pylist()
    began = time.perf_counter()
    compile_many(conditions)
    return len(conditions) / (time.perf_counter() - began)


def _index(workload: Workload) -> Index:
    if workload.conditions is not None:
        return Index(workload.conditions)
    bounds = {
        name: (column.low, column.high) for name, column in workload.columns.items() if isinstance(column, WantedRanges)
    }
    return Index.from_boxes(workload.ids, bounds)


def _condition(workload: Workload, position: int) -> str:
    """A box as SQL."""
    tests = [
        f"{name} >= {column.low[position]} AND {name} < {column.high[position]}"
        for name, column in workload.columns.items()
        if isinstance(column, WantedRanges) and column.high is not None
    ]
    return " AND ".join(tests)
