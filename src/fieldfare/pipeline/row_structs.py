"""Rows as structs of msgspec, which it reads from JSON and writes as JSON several times as fast as dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


def row_struct(names: Sequence[str], types: Sequence[Any] | None = None) -> type[msgspec.Struct] | None:
    """A struct whose fields are columns, in their order; with types, each may be missing, and is None then.

    None if msgspec cannot have fields of these names.
    """
    fields: list[Any] = [f"column_{place}" for place in range(len(names))]
    renamed = dict(zip(fields, names, strict=True))
    if len(set(names)) < len(names):
        return None
    if types is not None:
        fields = [(field, kind, None) for field, kind in zip(fields, types, strict=True)]
    try:
        return msgspec.defstruct("Row", fields, rename=renamed, gc=False)
    except ValueError:
        return None
