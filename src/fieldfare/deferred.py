"""Public names of a package that are imported when they are first used.

A process that needs one name of a package does not pay for the others: Numba and the SQL parser take a second to load,
and Spark starts many Python processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def deferred_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for `package`; `homes` says which of its modules each name is in; one of others in full."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = getattr(import_module(home if home.startswith("fieldfare.") else f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
