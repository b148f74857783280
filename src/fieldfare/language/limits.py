"""How large a condition may be: what is over a limit is refused before the work of compiling it explodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one condition."""

    characters_max: int = 65_536
    depth_max: int = 32  # nested parentheses, NOTs and signs; the terms of one chain of arithmetic
    boxes_max: int = 1_024  # the alternatives that are left when AND, OR, IN and != are multiplied out
    steps_max: int = 250_000  # interval operations on the way there
