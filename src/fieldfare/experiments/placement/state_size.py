"""How much memory the machines of placement hold, by adding up their objects."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

_LEAVES = (int, float, str, bytes, bool, type(None))
_PACKAGE = "fieldfare.placement"


def state_bytes(machine: object) -> int:
    """Of a machine of POP or GRAPE, with all that it refers to, except functions: these lead out of it."""
    seen: set[int] = set()
    waiting, total = [machine], 0
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            total += sys.getsizeof(each)
            waiting.extend(_parts(each))
    return total


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, _LEAVES):
        return
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    elif type(value).__module__.startswith(_PACKAGE):
        names = getattr(value, "__struct_fields__", None) or getattr(value, "__slots__", None)
        if names is None:
            yield vars(value)
        else:
            yield from (getattr(value, name) for name in names)
