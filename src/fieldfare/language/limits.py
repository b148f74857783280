"""How large a condition may be.

Too long or too deep a condition is refused before it costs anything. One with too many alternatives is not: its boxes
are made wider, and what they let through is tested.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one condition."""

    characters_max: int = 65_536
    depth_max: int = 32  # nested parentheses, NOTs and signs; the terms of one chain of arithmetic
    boxes_max: int = 1_024  # how many boxes AND, OR, IN and != are multiplied out to; the rest becomes a residual test
    steps_max: int = 250_000  # interval operations on the way there; beyond, the whole condition is a residual test

    def __post_init__(self) -> None:
        if self.boxes_max < 1:
            raise ValueError("a condition needs at least one box: boxes_max is 1 or more")
