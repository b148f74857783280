"""Columns of values of one type: exact arithmetic on them, and their order, as residual tests need them.

A value may be unknown (SQL's NULL): what has no answer, such as x / 0, NaN, or an integer beyond 64 bits, is unknown,
and no comparison with it holds. A value may also be a range; then arithmetic gives the range of possible results, and
a comparison holds where it can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numba import njit, types

from fieldfare.matching.batch import Texts, Values
from fieldfare.model import INT64_MAX, INT64_MIN, Section

Numbers = npt.NDArray[Any]  # int64 or float64; booleans and times are int64
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Strings:
    """Value i is the texts' string number `choice[i]`."""

    texts: Texts
    choice: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Operand:
    """Values of one section, as ranges from `low` to `high`; points have one column for both."""

    section: Section
    low: Numbers | Strings
    high: Numbers | Strings
    known: Mask

    @property
    def ranged(self) -> bool:
        """Whether the values are ranges rather than points."""
        return self.low is not self.high


def chosen(section: Section, low: Values, high: Values | None, choice: npt.NDArray[np.int64]) -> Operand:
    """The values that stand at the places `choice`."""
    low_column = _column(low, choice)
    high_column = low_column if high is None else _column(high, choice)
    known = np.ones(len(choice), np.bool_)
    if not isinstance(low_column, Strings) and not isinstance(high_column, Strings):
        known = ~(np.isnan(low_column) | np.isnan(high_column))
    return Operand(section, low_column, high_column, known)


def taken(operand: Operand, places: npt.NDArray[np.int64]) -> Operand:
    """Some of the values."""
    low = _taken(operand.low, places)
    high = low if not operand.ranged else _taken(operand.high, places)
    return Operand(operand.section, low, high, operand.known[places])


def _taken(column: Numbers | Strings, places: npt.NDArray[np.int64]) -> Numbers | Strings:
    return Strings(column.texts, column.choice[places]) if isinstance(column, Strings) else column[places]


def _column(values: Values, choice: npt.NDArray[np.int64]) -> Numbers | Strings:
    if values.texts is None:
        return values.numbers[choice]
    return Strings(values.texts, choice if values.codes is None else values.codes[choice].astype(np.int64))


# Arithmetic


def arithmetic(operator: str, left: Operand, right: Operand) -> Operand:
    """`left operator right`. Two integers give an integer, but for `/`; all else gives floats."""
    known = left.known & right.known
    columns = (left.low, left.high, right.low, right.high)
    numbers = [column for column in columns if not isinstance(column, Strings)]
    if left.section is not Section.NUMBER or right.section is not Section.NUMBER:
        nothing = np.zeros(len(known), np.int64)
        return Operand(Section.NULL, nothing, nothing, np.zeros(len(known), np.bool_))
    if operator == "/" or any(column.dtype != np.int64 for column in numbers):
        numbers = [column.astype(np.float64) for column in numbers]
    with np.errstate(all="ignore"):
        if left.ranged or right.ranged:
            return Operand(Section.NUMBER, *_range_results(operator, *numbers), known)
        results, answered = _results(operator, numbers[0], numbers[2])
    return Operand(Section.NUMBER, results, results, known & answered)


def _results(operator: str, left: Numbers, right: Numbers) -> tuple[Numbers, Mask]:
    """The results for points of one dtype, and which of them are answers at all."""
    integral = left.dtype == np.int64
    if operator == "+":
        results = left + right
        answered = (left ^ results) & (right ^ results) >= 0 if integral else ~np.isnan(results)
    elif operator == "-":
        results = left - right
        answered = (left ^ right) & (left ^ results) >= 0 if integral else ~np.isnan(results)
    elif operator == "*":
        results = left * right
        answered = _product_fits(left, right) if integral else ~np.isnan(results)
    else:
        results = left / right if operator == "/" else np.fmod(left, right)  # fmod: the sign is the dividend's
        answered = (right != 0) & ~np.isnan(results)
    return results, answered


def _product_fits(left: Numbers, right: Numbers) -> Mask:
    """Where a product of integers stays within 64 bits: judged by floats, and exactly where floats are too coarse."""
    estimate = np.abs(left.astype(np.float64) * right.astype(np.float64))
    fits = estimate < 2.0**63
    for doubtful in np.flatnonzero(np.abs(estimate - 2.0**63) < 2.0**20).tolist():
        fits[doubtful] = INT64_MIN <= int(left[doubtful]) * int(right[doubtful]) <= INT64_MAX
    return fits


def _range_results(
    operator: str, left_low: Numbers, left_high: Numbers, right_low: Numbers, right_high: Numbers
) -> tuple[Numbers, Numbers]:
    """The ranges of the results. They are monotone in each operand, so the corners bound them.

    Where a corner has no answer, where a divisor may be 0, and for %, the result may be anything.
    """
    corners = [_results(operator, left, right) for left in (left_low, left_high) for right in (right_low, right_high)]
    bounded = np.logical_and.reduce([answered for _, answered in corners])
    if operator == "/":
        bounded &= (right_low > 0) | (right_high < 0)
    elif operator == "%":
        bounded[:] = False
    least, most = (INT64_MIN, INT64_MAX) if left_low.dtype == np.int64 else (-np.inf, np.inf)
    results = np.stack([result for result, _ in corners])
    return np.where(bounded, results.min(axis=0), least), np.where(bounded, results.max(axis=0), most)


# Order


def compare(operator: str, left: Operand, right: Operand) -> Mask:
    """Where `left operator right` holds, or, for ranges, can hold. Values of different sections never compare."""
    if left.section is not right.section or left.section is Section.NULL:
        return np.zeros(len(left.known), np.bool_)
    nearest = _order(left.low, right.high)
    farthest = _order(left.high, right.low) if left.ranged or right.ranged else nearest
    if operator == "<":
        holds = nearest < 0
    elif operator == "<=":
        holds = nearest <= 0
    elif operator == ">":
        holds = farthest > 0
    elif operator == ">=":
        holds = farthest >= 0
    elif operator == "=":
        holds = (nearest <= 0) & (farthest >= 0)
    else:  # != fails only where both are the same single point
        holds = (nearest != 0) | (farthest != 0)
    return holds & left.known & right.known


def _order(left: Numbers | Strings, right: Numbers | Strings) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 where left is below, equal to or above right."""
    if isinstance(left, Strings) or isinstance(right, Strings):
        return _order_strings(cast("Strings", left), cast("Strings", right))
    if left.dtype == right.dtype:
        return _sign(left, right)
    if left.dtype == np.int64:
        return _order_mixed(left, right)
    return -_order_mixed(right, left)


def _order_strings(left: Strings, right: Strings) -> npt.NDArray[np.int8]:
    order = np.empty(len(left.choice), np.int8)
    order_texts(
        left.texts.data, left.texts.offsets, left.choice, right.texts.data, right.texts.offsets, right.choice, order
    )
    return order


def _sign(left: Numbers, right: Numbers) -> npt.NDArray[np.int8]:
    return (left > right).astype(np.int8) - (left < right).astype(np.int8)


def _order_mixed(integers: Numbers, floats: Numbers) -> npt.NDArray[np.int8]:
    """The exact order of integers and floats: rounding keeps it, so look again only where it makes them equal."""
    rounded = integers.astype(np.float64)
    order = _sign(rounded, floats)
    again = np.flatnonzero((rounded == floats) & (np.abs(rounded) >= 2.0**53))
    beyond = floats[again] >= 2.0**63  # no integer of 64 bits is there
    whole = np.where(beyond, 0.0, floats[again]).astype(np.int64)
    order[again] = np.where(beyond, -1, _sign(integers[again], whole))
    return order


# One signature for writable and read-only (memory-mapped) arrays alike: compiled once, then loaded from the cache.
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C", readonly=True)


@njit(
    types.void(_BYTES, _PLACES, _PLACES, _BYTES, _PLACES, _PLACES, types.Array(types.int8, 1, "C")),
    cache=True,
    nogil=True,
)
def order_texts(  # noqa: PLR0913, PLR0917  # a kernel takes arrays
    left: npt.NDArray[np.uint8],
    left_offsets: npt.NDArray[np.int64],
    left_choice: npt.NDArray[np.int64],
    right: npt.NDArray[np.uint8],
    right_offsets: npt.NDArray[np.int64],
    right_choice: npt.NDArray[np.int64],
    order: npt.NDArray[np.int8],
) -> None:
    """For each pair of texts -1, 0 or 1, by their bytes."""
    for pair in range(len(order)):
        left_at, left_end = left_offsets[left_choice[pair]], left_offsets[left_choice[pair] + 1]
        right_at, right_end = right_offsets[right_choice[pair]], right_offsets[right_choice[pair] + 1]
        while left_at < left_end and right_at < right_end and left[left_at] == right[right_at]:
            left_at += 1
            right_at += 1
        if left_at < left_end and right_at < right_end:
            order[pair] = 1 if left[left_at] > right[right_at] else -1
        else:
            order[pair] = (left_at < left_end) - (right_at < right_end)
