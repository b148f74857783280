"""Arithmetic on the ring: ids and keys are integers of 128 bits, read as 32 digits of 4 bits.

The ring closes: the greatest id lies beside 0. Of two nodes that are as far from a key the one with the smaller id is
taken to be closer, so that every key has one closest node.
"""

from __future__ import annotations

import hashlib

from fieldfare.pastry.ports import Key, NodeId

ID_BITS = 128
ID_BYTES = 16
DIGIT_BITS = 4  # Pastry's b
DIGITS = ID_BITS // DIGIT_BITS
DIGIT_VALUES = 1 << DIGIT_BITS
RING = 1 << ID_BITS
MASK = RING - 1
_HALF = RING >> 1
_TOP_DIGIT_SHIFT = ID_BITS - DIGIT_BITS


def key_of(data: bytes) -> Key:
    """A key for anything that has a name: the same everywhere."""
    return int.from_bytes(hashlib.sha256(data).digest()[:ID_BYTES], "big")


def distance(one: NodeId, other: NodeId) -> int:
    """How far two ids lie from each other, the shorter way around."""
    clockwise = (one - other) & MASK
    return clockwise if clockwise <= _HALF else RING - clockwise


def is_closer(one: NodeId, other: NodeId, key: Key) -> bool:
    """Whether one id is closer to a key than another."""
    return (distance(one, key), one) < (distance(other, key), other)


def shared_digits(one: NodeId, other: NodeId) -> int:
    """How many digits two ids have in common from the left."""
    return (ID_BITS - (one ^ other).bit_length()) // DIGIT_BITS


def digit(node: NodeId, row: int) -> int:
    """The digit of an id at a place, counted from the left."""
    return (node >> (_TOP_DIGIT_SHIFT - DIGIT_BITS * row)) & (DIGIT_VALUES - 1)
