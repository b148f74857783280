"""The schema that some JSON objects have. Where a column has values of several kinds, it is that of most of them.

So one bad line among the first does not stop a pipeline: it is quarantined later, as it would be anywhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fieldfare.errors import InputError

_INTEGERS = range(-(2**63), 2**63)


def schema_of_objects(objects: Sequence[Mapping[str, Any]]) -> pa.Schema:
    """The schema of the objects; an InputError names the column that has none."""
    names = dict.fromkeys(name for values in objects for name in values)
    return pa.schema([(name, _type_of(name, [values.get(name) for values in objects])) for name in names])


def _type_of(name: str, values: Sequence[Any]) -> pa.DataType:
    """The type of a column, of which at least two thirds of the values are of one kind."""
    try:
        return pa.array(values).type
    except (pa.ArrowException, OverflowError) as error:
        kinds = [_kind(value) for value in values if value is not None]
        kind, count = Counter(kinds).most_common(1)[0]
        if count == len(kinds) or 3 * count < 2 * len(kinds):
            raise InputError(f"column {name!r}: {error}") from error
        return _type_of(name, [value for value in values if _kind(value) == kind])


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) and value not in _INTEGERS:
        return "large"
    return "number" if isinstance(value, int | float) else type(value).__name__
