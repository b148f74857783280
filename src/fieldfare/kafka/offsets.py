"""Offsets of a topic: places of messages, some of which hold a transaction's end, or nothing any more."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Offsets: TypeAlias = dict[int, int]  # for each partition, the offset to go on with


class Bounds(NamedTuple):
    """What a partition has: from its first offset to its last stable one, which is not included."""

    low: int
    high: int
