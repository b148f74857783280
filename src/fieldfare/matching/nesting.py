"""Nested objects as attributes: `{"place": {"city": "Köln"}}` has the attribute `place.city`.

An object of exactly `low` and `high` is a range. JSON events, from wherever they come, and dicts given to an index are
read by this one rule; Arrow's structs follow it too (see arrow.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fieldfare.errors import EventError
from fieldfare.model import Range

NESTING_MAX = 32
_PLAIN = frozenset({float, int, bool, str, type(None)})


def flat(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of an event that is a dict, lists as they are; the same object where all values are plain."""
    return event if _PLAIN.issuperset(map(type, event.values())) else flattened(event)


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that an object gives; an EventError where it nests too deep or names an attribute twice."""
    attributes: dict[str, Any] = {}
    pending: list[tuple[str, Mapping[str, Any], int]] = [("", values, 1)]
    while pending:
        prefix, inner, depth = pending.pop()
        if depth > NESTING_MAX:
            raise EventError(prefix.removesuffix("."), f"is nested deeper than {NESTING_MAX} objects")
        for name, value in inner.items():
            attribute = f"{prefix}{name}"
            is_range = isinstance(value, dict) and value.keys() == {"low", "high"}
            if isinstance(value, dict) and not is_range:
                pending.append((f"{attribute}.", value, depth + 1))
            elif attribute in attributes:
                raise EventError(attribute, "stands twice, once as a nested object")
            else:
                attributes[attribute] = _range(attribute, value) if is_range else value
    return attributes


def _range(attribute: str, ends: Mapping[str, Any]) -> Range:
    if any(isinstance(end, dict | list) for end in ends.values()):
        raise EventError(attribute, "is a range whose ends are not plain values")
    return Range(ends["low"], ends["high"])
