"""Arithmetic on single numbers, as conditions do it."""

from __future__ import annotations

import math
import operator

from fieldfare.language.literals import settled


def calculated(symbol: str, left: float, right: float) -> float | None:
    """Arithmetic as conditions do it: None, which is NULL, for a division by zero and for integers beyond 64 bits."""
    if symbol == "/":
        return None if right == 0 else float(left) / float(right) + 0.0
    if symbol == "%":
        return None if right == 0 else _remainder(left, right)
    if not (isinstance(left, int) and isinstance(right, int)):
        left, right = float(left), float(right)
    value = {"+": operator.add, "-": operator.sub, "*": operator.mul}[symbol](left, right)
    if isinstance(value, int):
        return value if settled(value) is value else None
    return float(value) + 0.0


def _remainder(left: float, right: float) -> float:
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return math.nan if math.isinf(left) else math.fmod(left, right) + 0.0
