"""Rank space: an attribute's axis with its values replaced by slots.

The cuts that the boxes make on an axis divide it into slots; two values in one slot satisfy the same boxes. So a
box is a range of slots, an event's value is the number of cuts at or below it, and every type compares as an integer.
NULL is always slot 0 and NaN always slot 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, Cuts
from fieldfare.matching.batch import Texts, Values
from fieldfare.matching.lanes import COUNTED
from fieldfare.matching.slots import Grid, TextCuts, grid_of, number_slots, padded_cuts, text_cuts_of, text_slots
from fieldfare.model import EXACT_INTEGER_MAX, INT64_MAX, INT64_MIN, Section

Slots = npt.NDArray[np.int32]
NULL_SLOT = 0


@dataclass(frozen=True)
class Axis:
    """The cuts on one attribute, by section, each ascending and unique."""

    booleans: npt.NDArray[np.int64]
    grid: Grid  # of numbers: the smallest float at or above each cut
    integers: npt.NDArray[np.int64] | None  # the smallest integer at or above; None: what rounding `numbers` up gives
    strings: Texts
    times: npt.NDArray[np.int64]

    @staticmethod
    def of(column: AxisColumn) -> Axis:
        """The axis that a column of intervals makes."""
        if _has_only(Section.NUMBER, column.low, column.high):
            numbers, integers = _number_cuts(column.low.values, column.high.values)
            nothing = np.empty(0, np.int64)
            return Axis(nothing, grid_of(numbers), integers, Texts.of([]), nothing)
        sections = [cuts.sections for cuts in (column.low, column.high)]
        values = [cuts.values for cuts in (column.low, column.high)]
        booleans, strings, times = (
            sorted(set().union(*(v[s == section].tolist() for s, v in zip(sections, values, strict=True))))
            for section in (Section.BOOLEAN, Section.STRING, Section.TIME)
        )
        numbers, integers = _number_cuts(*(v[s == Section.NUMBER] for s, v in zip(sections, values, strict=True)))
        return Axis(
            np.array(booleans, np.int64), grid_of(numbers), integers, Texts.of(strings), np.array(times, np.int64)
        )

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """The cuts of numbers, as floats."""
        return self.grid.cuts[:-COUNTED]

    @cached_property
    def starts(self) -> list[int]:
        """For each section, how many cuts lie before it."""
        counts = [0, 1, len(self.booleans), len(self.numbers), len(self.strings), len(self.times), 1]
        return [0, *np.cumsum(counts[:-1]).tolist()][: len(counts)]

    @property
    def last_slot(self) -> int:
        """The highest slot of the axis."""
        return self.starts[Section.END]

    @cached_property
    def text_cuts(self) -> TextCuts:
        """Speeds up the search among `strings`."""
        return text_cuts_of(self.strings)

    @cached_property
    def exact_integers(self) -> npt.NDArray[np.int64]:
        """The smallest integer at or above each cut of a number, for integers that are no floats."""
        if self.integers is not None:
            return self.integers
        ceilings = np.ceil(self.numbers)
        reachable = ceilings[ceilings < 2.0**63]  # no 64-bit integer lies above the others
        return np.maximum(reachable, -(2.0**63)).astype(np.int64)

    def slots_of_cuts(self, cuts: Cuts) -> Slots:
        """For each cut how many of the axis's cuts lie at or below it."""
        if _has_only(Section.NUMBER, cuts) and cuts.values.dtype == np.float64:
            return number_slots(cuts.values, self.grid, self.starts[Section.NUMBER])
        slots = np.zeros(len(cuts.sections), np.int32)
        for section in np.unique(cuts.sections).tolist():
            chosen = cuts.sections == section
            values = cuts.values[chosen]
            slots[chosen] = self._counts_of_cuts(Section(section), values) + self.starts[section]
        return slots

    def _counts_of_cuts(self, section: Section, values: npt.NDArray[Any]) -> npt.NDArray[Any] | int:
        match section:
            case Section.NUMBER if values.dtype == np.float64:
                return number_slots(values, self.grid, 0)
            case Section.NUMBER:
                return _counts_of_exact(values, self)
            case Section.STRING:
                order = {self.strings[i]: i + 1 for i in range(len(self.strings))}
                return np.array([order[value] for value in values.tolist()], np.int32)
            case Section.BOOLEAN | Section.TIME:
                known = self.booleans if section is Section.BOOLEAN else self.times
                return np.searchsorted(known, values.astype(np.int64), side="right")
            case Section.END:
                return 1
            case Section.NULL | Section.NAN:
                return 0 if section is Section.NULL else 1
        raise AssertionError(section)

    def slots_of_values(self, section: Section, values: Values) -> Slots:
        """For each value of one section its slot."""
        start = self.starts[section]
        if section is Section.NAN:
            return np.full(len(values.numbers), start + 1, np.int32)
        if values.texts is not None:
            slots = text_slots(values.texts, self.text_cuts, start)
            return slots if values.codes is None else slots[values.codes]
        if section is Section.NUMBER:
            return self._slots_of_numbers(values.numbers, start)
        known = self.booleans if section is Section.BOOLEAN else self.times
        return (np.searchsorted(known, values.numbers, side="right") + start).astype(np.int32)

    def _slots_of_numbers(self, numbers: npt.NDArray[Any], start: int) -> Slots:
        if numbers.dtype == np.int64:
            if len(numbers) and (numbers.max() > EXACT_INTEGER_MAX or numbers.min() < -EXACT_INTEGER_MAX):
                return (np.searchsorted(self.exact_integers, numbers, side="right") + start).astype(np.int32)
            numbers = numbers.astype(np.float64)
        return number_slots(numbers, self.grid, start)

    def cuts_at(self, numbers: npt.NDArray[np.int64]) -> Cuts:
        """The cuts by number, from 0, the start of NULL, to `last_slot + 1`, the end. Undoes `slots_of_cuts`."""
        sections = (np.searchsorted(self.starts, numbers - 1, side="right") - 1).astype(np.uint8)
        sections[numbers == 0] = Section.NULL
        if bool((sections == Section.NUMBER).all()) and self.integers is None:
            return Cuts(sections, self.numbers[numbers - self.starts[Section.NUMBER] - 1])
        values = np.zeros(len(numbers), object)
        for section in np.unique(sections).tolist():
            chosen = np.flatnonzero(sections == section)
            at = (numbers[chosen] - self.starts[section] - 1).tolist()
            values[chosen] = self._cut_values(Section(section), at)
        return Cuts(sections, values)

    def _cut_values(self, section: Section, at: list[int]) -> list[Any]:
        match section:
            case Section.BOOLEAN:
                return [int(self.booleans[i]) for i in at]
            case Section.TIME:
                return [int(self.times[i]) for i in at]
            case Section.STRING:
                return [self.strings[i] for i in at]
            case Section.NUMBER:
                return [self._exact_number(i) for i in at]
        return [0] * len(at)

    def _exact_number(self, number: int) -> float | int:
        """A cut of a number as it was given: an integer beyond 2**53, or a float."""
        as_float, integers = float(self.numbers[number]), self.exact_integers
        as_integer = int(integers[number]) if number < len(integers) else 0
        return as_integer if abs(as_integer) > EXACT_INTEGER_MAX and as_integer <= as_float else as_float

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays: list[npt.NDArray[Any]] = [
            self.booleans,
            self.numbers,
            self.grid.before,
            *(() if self.integers is None else (self.integers,)),
            self.times,
            self.strings.offsets,
            self.strings.data,
        ]
        return sum(array.nbytes for array in arrays)


def _has_only(section: Section, *columns: Cuts) -> bool:
    return all(len(cuts.sections) and bool((cuts.sections == section).all()) for cuts in columns)


def _number_cuts(*columns: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64] | None]:
    """The cuts as floats, padded, and as integers where some are no floats."""
    if all(column.dtype == np.float64 for column in columns):
        return padded_cuts(*columns), None
    exact = sorted({value for column in columns for value in column.tolist()})
    floats = [_float_at_or_above(value) for value in exact]
    padded = np.array([*floats, *[math.nan] * COUNTED], np.float64)
    if all(type(value) is float for value in exact):
        return padded, None
    return padded, np.array([_integer_at_or_above(value) for value in exact if value <= INT64_MAX], np.int64)


def _float_at_or_above(value: float) -> float:
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def _integer_at_or_above(value: float) -> int:
    return INT64_MIN if value < INT64_MIN else math.ceil(value)


def _counts_of_exact(values: npt.NDArray[Any], axis: Axis) -> npt.NDArray[Any]:
    """Counts for cuts with large integers among them: floats and integers each against a column of their own."""
    floats = np.fromiter((type(value) is float for value in values), np.bool_, len(values))
    counts = np.zeros(len(values), np.int64)
    counts[floats] = np.searchsorted(axis.numbers, values[floats].astype(np.float64), side="right")
    counts[~floats] = np.searchsorted(axis.exact_integers, values[~floats].astype(np.int64), side="right")
    return counts
