"""Columns of cuts and intervals, one for each of many conditions of one shape; and the members that they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.language import tree
from fieldfare.model import Derived, Section

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CutColumn:
    """Cuts of many rows, all in one section."""

    section: Section
    values: npt.NDArray[Any]  # float64 for numbers, else object

    def greater(self, other: CutColumn) -> CutColumn:
        """The greater cut of each row."""
        if self.section != other.section:
            return max(self, other, key=lambda column: column.section)
        return CutColumn(self.section, np.maximum(self.values, other.values))

    def lesser(self, other: CutColumn) -> CutColumn:
        """The lesser cut of each row."""
        if self.section != other.section:
            return min(self, other, key=lambda column: column.section)
        return CutColumn(self.section, np.minimum(self.values, other.values))

    def is_below(self, other: CutColumn) -> Mask:
        """Where this cut is below another."""
        if self.section != other.section:
            return np.full(len(self.values), self.section < other.section)
        return np.asarray(np.less(self.values, other.values), np.bool_)


@dataclass(frozen=True, slots=True)
class Piece:
    """One interval in each row, which may be empty."""

    low: CutColumn
    high: CutColumn

    def intersection(self, other: Piece) -> Piece:
        """What is in both, in each row."""
        return Piece(self.low.greater(other.low), self.high.lesser(other.high))

    def contains(self, other: Piece) -> Mask:
        """Where another interval lies in this one."""
        return ~other.low.is_below(self.low) & ~self.high.is_below(other.high)

    def holds(self) -> Mask:
        """Where the interval is not empty."""
        return self.low.is_below(self.high)


@dataclass(frozen=True, slots=True)
class MemberKey:
    """A member that a list must have: the literal with a number. Two of one list never exclude each other."""

    lists: Derived
    literal: int


@dataclass(frozen=True, slots=True)
class Subset:
    """That a list has all the members that some literals are, if another literal is 0."""

    lists: tree.Operand
    literals: list[int]
    zero: int


def subset_of(node: tree.Compare) -> Subset | None:
    """`size(array_except(array(literals), list)) = literal`: the list has them all, if that literal is 0."""
    match node:
        case tree.Compare(
            "=",
            tree.Call("size", (tree.Call("array_except", (tree.Call("array", wanted), lists)),)),
            tree.Slot(zero, _, ""),
        ) if wanted:
            slots = [slot.number for slot in wanted if isinstance(slot, tree.Slot) and slot.kind == ""]
            return Subset(lists, slots, zero) if len(slots) == len(wanted) else None
    return None
