"""A workload of conditions that use a few of many attributes: DMM section VI.

A condition is written twice from the same draws: as text for the index, as columns for peers and brute force.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fieldfare.bench.workload import MISSING, Bools, Size, WantedRanges, Workload, conditions_table, subscription_ids

ATTRIBUTES = 10
ASKED_MAX = 5
VALUE_MAX = 256


def sparse(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """DMM section VI: ranges on 1 to 5 of 10 integer attributes, events that have 1 to 10 of them."""
    asked = _some_attributes(size.subscriptions, ASKED_MAX, rng)
    present = _some_attributes(size.events, ATTRIBUTES, rng)
    ends = np.sort(rng.integers(1, VALUE_MAX + 1, (2, *asked.shape)), axis=0)
    drawn = rng.integers(1, VALUE_MAX + 1, present.shape)
    names = [f"a{number}" for number in range(ATTRIBUTES)]
    columns, values, events = {}, {}, {}
    for number, attribute in enumerate(names):
        ask, low, high = asked[:, number], ends[0, :, number], ends[1, :, number]
        columns[attribute] = WantedRanges(np.where(ask, low, MISSING), np.where(ask, high + 1.0, np.inf))
        values[attribute] = np.where(present[:, number], drawn[:, number], MISSING)
        events[attribute] = pa.array(drawn[:, number], mask=~present[:, number])
    texts: list[list[str]] = [[] for _ in range(size.subscriptions)]
    for row, number in np.argwhere(asked).tolist():
        texts[row].append(f"{names[number]} BETWEEN {ends[0, row, number]} AND {ends[1, row, number]}")
    ids = subscription_ids(size.subscriptions)
    conditions = conditions_table(ids, [" AND ".join(tests) for tests in texts])
    return Workload(name, ids, columns, values, pa.table(events), conditions)


def _some_attributes(rows: int, attributes_max: int, rng: np.random.Generator) -> Bools:
    """Per row a random choice of 1 to `attributes_max` of the attributes."""
    order = rng.random((rows, ATTRIBUTES)).argsort(axis=1)
    return order < rng.integers(1, attributes_max + 1, rows)[:, None]
