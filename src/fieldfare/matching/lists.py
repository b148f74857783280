"""Kernels around the lists of matches: an order of events that visits the tree in runs, and lists put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

_KEY_BITS = 12
_ATTRIBUTES_MAX = 4


def empty_values(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Room for values, from Arrow's pool, which hands out again what was freed: fresh pages cost more than matching."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(dtype).itemsize), dtype)


def locality_order(slots: npt.NDArray[np.int32], last_slots: list[int]) -> npt.NDArray[np.int64]:
    """An order in which events that lie close together follow each other, so that they find the tree in the cache."""
    attributes = np.argsort([-last for last in last_slots], kind="stable")[:_ATTRIBUTES_MAX]
    order = np.empty(len(slots), np.int64)
    scales = np.array([last_slots[attribute] + 1 for attribute in attributes], np.int64)
    _order_by_key(slots, attributes.astype(np.int64), scales, order)
    return order


@njit(cache=True, nogil=True)
def _order_by_key(slots, attributes, scales, order):  # type: ignore[no-untyped-def]
    """Counting sort by a z-order of the highest bits."""
    bits = _KEY_BITS // len(attributes)
    starts = np.zeros((1 << _KEY_BITS) + 1, np.int64)
    keys = np.empty(len(slots), np.int32)
    for event in range(len(slots)):
        key = 0
        for k in range(len(attributes)):
            cell = (np.int64(slots[event, attributes[k]]) << bits) // scales[k]
            for bit in range(bits):
                key |= ((cell >> bit) & 1) << (bit * len(attributes) + k)
        keys[event] = key
        starts[key + 1] += 1
    for key in range(1 << _KEY_BITS):
        starts[key + 1] += starts[key]
    for event in range(len(slots)):
        order[starts[keys[event]]] = event
        starts[keys[event]] += 1


@njit(cache=True, nogil=True)
def copy_lists(order, ends, values, start, places, out):  # type: ignore[no-untyped-def]
    """Copy the list of each event to where it belongs, its values counted from `start`; places[event] moves on."""
    for turn in range(len(order)):
        at = np.uint64(places[order[turn]])
        for k in range(np.uint64(ends[turn]), np.uint64(ends[turn + 1])):
            out[at] = values[k] + start
            at += np.uint64(1)
        places[order[turn]] = at


@njit(cache=True, nogil=True)
def copy_single(events, values, start, places, out):  # type: ignore[no-untyped-def]
    """Copy single matches to the lists of their events."""
    for k in range(len(events)):
        out[places[events[k]]] = values[k] + start
        places[events[k]] += 1
