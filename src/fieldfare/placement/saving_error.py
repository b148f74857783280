"""How uncertain it is what a relocation would save: a session is a sample, and the next one will be another.

The paper takes what a session shows as it is. Where few of its publications were wanted far away, the better broker is
often better by chance only. A session's bits tell for each publication what it would have cost at either broker, so the
standard error of the average saving follows; it assumes that publications are independent of each other.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fieldfare.placement.trace_tree import TraceTree
from fieldfare.placement.tree_sums import wanted_above, wanted_below

PerPublication = npt.NDArray[np.float64]


def messages_error(tree: TraceTree, target: int) -> float:
    """Of the messages of an event that are saved with the publisher at a broker of the tree, not at its root."""
    below = wanted_below(tree)
    above = wanted_above(tree, below)
    saved = np.zeros(tree.published)
    at = target
    while at:  # only what crosses the links between them differs
        saved += _bits(below[at], tree.published)
        saved -= _bits(above[at], tree.published)
        at = tree.parents[at]
    return _standard_error(saved)


def seconds_error(tree: TraceTree, target: int, way_saved_seconds: float) -> float:
    """Of the delay, summed over an event's deliveries. `way_saved_seconds`: of the publisher's way to its broker.

    Which publications a broker delivered is known, how many deliveries each had is not: they count as alike.
    """
    farther = _seconds_from(tree, target)
    nearer = _seconds_from(tree, 0)
    saved = np.zeros(tree.published)
    for at, bits in enumerate(tree.delivered):
        if bits:
            deliveries = tree.deliveries[at] / bits.bit_count()
            saved += deliveries * (nearer[at] - farther[at] + way_saved_seconds) * _bits(bits, tree.published)
    return _standard_error(saved)


def _seconds_from(tree: TraceTree, root: int) -> list[float]:
    """From one broker to each."""
    seconds = [math.nan] * len(tree.brokers)
    seconds[root], at = 0.0, root
    while at:
        parent = tree.parents[at]
        seconds[parent] = seconds[at] + tree.up_seconds[at]
        at = parent
    for at in range(1, len(seconds)):
        if math.isnan(seconds[at]):
            seconds[at] = seconds[tree.parents[at]] + tree.down_seconds[at]
    return seconds


def _bits(vector: int, count: int) -> PerPublication:
    data = np.frombuffer(vector.to_bytes((count + 7) // 8, "little"), np.uint8)
    return np.unpackbits(data, count=count, bitorder="little").astype(np.float64)


def _standard_error(values: PerPublication) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
