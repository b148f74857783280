"""Subscription ids: all strings or all 64-bit integers, unique, in the order they were given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fieldfare.errors import DuplicateIdError, InvalidIdError
from fieldfare.model import INT64_MAX, INT64_MIN, SubscriptionId

_ADVICE = "subscription ids are strings or 64-bit integers, all of one type"


def ids_of(values: Iterable[object]) -> pa.Array:
    """Ids as an Arrow array of int64 or large_string; their soundness is checked."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        values = pa.array(values)
    array = values if isinstance(values, pa.Array) else _array_of(list(values))
    if array.null_count:
        raise InvalidIdError(f"the id in row {array.is_null().index(True).as_py() + 1} is null; {_ADVICE}")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_integer(array.type):
        try:
            array = array.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidIdError(f"an id is beyond 64 bits; {_ADVICE}") from error
    elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    elif pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    else:
        raise InvalidIdError(f"ids of type {array.type} cannot be used; {_ADVICE}")
    if not _are_unique(array):
        counts = pc.value_counts(array)
        repeated = pc.index(pc.greater(counts.field("counts"), 1), True).as_py()
        raise DuplicateIdError(counts.field("values")[repeated].as_py())
    return array


def _are_unique(array: pa.Array) -> bool:
    if pa.types.is_integer(array.type):
        ordered = np.sort(array.to_numpy())
        return not bool((ordered[1:] == ordered[:-1]).any())
    return bool(pc.count_distinct(array).as_py() == len(array))


def _array_of(values: Sequence[object]) -> pa.Array:
    for value in values:
        if value is None or isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise InvalidIdError(f"{value!r} cannot be an id; {_ADVICE}")
        if not isinstance(value, str) and not INT64_MIN <= value <= INT64_MAX:
            raise InvalidIdError(f"the id {value!r} is beyond 64 bits; {_ADVICE}")
        if isinstance(value, str) is not isinstance(values[0], str):
            raise InvalidIdError(f"{values[0]!r} and {value!r} are ids of two types; {_ADVICE}")
    try:
        return pa.array(values, pa.large_string() if values and isinstance(values[0], str) else pa.int64())
    except UnicodeEncodeError as error:
        raise InvalidIdError("an id holds a lone surrogate, which is not valid Unicode text") from error


class IdLookup:
    """Finds the positions of ids. Made when first asked, because most indexes are never updated."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        keys = self._keys(self.ids)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    @staticmethod
    def _keys(ids: pa.Array) -> npt.NDArray[np.int64]:
        if pa.types.is_integer(ids.type):
            return np.asarray(ids)
        return np.fromiter((hash(value) for value in ids.to_pylist()), np.int64, len(ids))

    def position(self, subscription_id: SubscriptionId) -> int | None:
        """Where an id stands, or None."""
        keys, order = self._sorted
        key = subscription_id if isinstance(subscription_id, int) else hash(subscription_id)
        at = int(np.searchsorted(keys, key))
        while at < len(keys) and keys[at] == key:
            if self.ids[int(order[at])].as_py() == subscription_id:
                return int(order[at])
            at += 1
        return None
