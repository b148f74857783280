"""The speed that no engine can pass: writing lists of the same lengths without looking for what belongs in them."""

from __future__ import annotations

import time

import numba
import numpy as np
import numpy.typing as npt

from fieldfare.bench.measuring import BATCH_EVENTS_MAX, BATCH_PAIRS_MAX, Counts
from fieldfare.bench.workload import Ids

SECONDS = 0.3


@numba.njit(cache=True)
def _write(starts: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], source: Ids, out: Ids) -> None:
    for event in range(len(starts)):
        shift = starts[event] - offsets[event]
        for place in range(offsets[event], offsets[event + 1]):
            out[place] = source[shift + place]


def writing_limit_pairs_per_second(ids: Ids, counts: Counts, rng: np.random.Generator) -> float:
    """Copy a stretch of the ids for each event into one new array, as a list array needs it; the median of repeats."""
    lengths = counts[:BATCH_EVENTS_MAX]
    lengths = lengths[: max(1, int(np.searchsorted(np.cumsum(lengths), BATCH_PAIRS_MAX)))]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    starts = (rng.random(len(lengths)) * (len(ids) - lengths + 1)).astype(np.int64)
    durations: list[float] = []
    _write(starts, offsets, ids, np.empty(offsets[-1], np.int64))  # loads the kernel
    deadline = time.perf_counter() + SECONDS
    while not durations or time.perf_counter() < deadline:
        began = time.perf_counter()
        _write(starts, offsets, ids, np.empty(offsets[-1], np.int64))
        durations.append(time.perf_counter() - began)
    return float(offsets[-1] / np.median(durations))
