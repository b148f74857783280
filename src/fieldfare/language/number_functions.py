"""Functions of numbers, one value at a time. None and NaN are NULL, and so is an integer beyond 64 bits."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, localcontext

from fieldfare.model import INT64_MIN


def absolute(number: float) -> float:
    """Without its sign."""
    return abs(number)


def ceil(number: float) -> int | None:
    """The smallest integer that is not below."""
    return math.ceil(number) if math.isfinite(number) else None


def floor(number: float) -> int | None:
    """The largest integer that is not above."""
    return math.floor(number) if math.isfinite(number) else None


def rounded(number: float, places: int = 0) -> float | None:
    """Rounded to some decimal places, halves away from zero; a negative number of places counts tens."""
    if not math.isfinite(number):
        return number
    if abs(places) > 400:
        return number if places > 0 else 0
    with localcontext() as context:
        context.prec = 800
        exact = Decimal(number) if isinstance(number, int) else Decimal(repr(number))
        if -exact.as_tuple().exponent <= places:  # type: ignore[operator]  # a finite number has one
            return number
        result = exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return int(result) if isinstance(number, int) else float(result)


def div(left: float, right: float) -> int | None:
    """The whole part of a quotient of integers."""
    if isinstance(left, float) or isinstance(right, float) or right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def pmod(left: float, right: float) -> float | None:
    """The remainder, made positive by the divisor."""
    if right == 0 or math.isinf(left):
        return None
    remainder = _remainder(left, right)
    if remainder >= 0:
        return remainder
    total = remainder + right
    if isinstance(total, int) and total < INT64_MIN:
        total += 1 << 64  # as Java adds
    return None if math.isinf(total) else _remainder(total, right)


def _remainder(left: float, right: float) -> float:
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return math.fmod(left, right)


def power(base: float, exponent: float) -> float:
    """A power, as a float."""
    base, exponent = float(base), float(exponent)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def exp(number: float) -> float:
    """The power of e."""
    try:
        return math.exp(number)
    except OverflowError:
        return math.inf


def ln(number: float) -> float | None:
    """The natural logarithm; NULL of what is not positive."""
    return math.log(number) if number > 0 else None


def log(base: float, number: float | None = None) -> float | None:
    """The logarithm to a base; of one number the natural one."""
    if number is None:
        return ln(base)
    if base <= 0 or number <= 0:
        return None
    scale = math.log(base)
    if math.isinf(number) and math.isinf(scale):
        return None
    return math.log(number) / scale if scale else math.copysign(math.inf, math.log(number)) if number != 1 else None


def log10(number: float) -> float | None:
    """The logarithm to base 10; NULL of what is not positive."""
    return math.log10(number) if number > 0 else None


def log2(number: float) -> float | None:
    """The logarithm to base 2; NULL of what is not positive."""
    return math.log(number) / math.log(2) if number > 0 else None


def sqrt(number: float) -> float | None:
    """The square root; NULL of a negative number."""
    return math.sqrt(number) if number >= 0 else None


def sign(number: float) -> float:
    """-1, 0 or 1."""
    return float((number > 0) - (number < 0))
