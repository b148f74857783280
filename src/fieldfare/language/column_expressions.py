"""Arithmetic of many conditions of one shape, in columns: built once with marks for the literals, then filled in.

A mark is a number that stands for a literal. There are two sets of them, integers and floats: if an expression is the
same with both, but for the marks, then nothing in it depends on what the literals are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from fieldfare.language import tree
from fieldfare.language.column_products import UnfitShapeError
from fieldfare.language.literals import settled
from fieldfare.model import Arithmetic, Expression, Literal, Section

_FIRST_MARK = 715_827_883  # a number that conditions do not bring in by themselves
_FRACTIONS = (0, 0.5)  # of the integers and of the floats


@dataclass(frozen=True, slots=True)
class Marks:
    """The literals `slots` of a shape of `count` literals as marks."""

    slots: Sequence[int]
    count: int
    _found: set[int] = field(default_factory=set)

    def literals(self) -> list[list[Literal]]:
        """The literals of the shape, once with each set of marks."""
        sets = []
        for fraction in _FRACTIONS:
            literals = [Literal(Section.NULL, 0)] * self.count
            for slot in self.slots:
                literals[slot] = Literal(Section.NUMBER, _FIRST_MARK + 2 * slot + fraction)
            sets.append(literals)
        return sets

    def filled(
        self, one: Expression, other: Expression, values: Mapping[int, Sequence[float]], rows: int
    ) -> Sequence[Expression]:
        """The expression of each row, made of the parts built for either set of marks and of the literals' values."""
        match one, other:
            case Literal(), Literal() if one != other:
                return list(map(Literal, repeat(Section.NUMBER), self._values(one, other, values)))
            case Arithmetic(operator, left, right), Arithmetic(same, other_left, other_right) if operator == same:
                sides = self.filled(left, other_left, values, rows), self.filled(right, other_right, values, rows)
                return list(map(Arithmetic, repeat(operator), *sides))
        if one != other:
            raise UnfitShapeError
        return [one] * rows

    def check_all_found(self) -> None:
        """Raise an error where a literal was not found: what is built depends on it in some other way."""
        if self._found != set(self.slots):
            raise UnfitShapeError

    def _values(self, one: Literal, other: Literal, values: Mapping[int, Sequence[float]]) -> Sequence[float]:
        for slot in self.slots:
            mark = _FIRST_MARK + 2 * slot
            for sign in (1, -1):
                if (one.value, other.value) == (sign * mark, sign * (mark + _FRACTIONS[1])):
                    self._found.add(slot)
                    return values[slot] if sign > 0 else [settled(-value) for value in values[slot]]
        raise UnfitShapeError


def is_plain(operand: tree.Operand) -> bool:
    """Whether an operand is made of attributes, numbers and arithmetic."""
    match operand:
        case tree.Name() | tree.Slot(_, _, ""):
            return True
        case tree.Minus(inner):
            return is_plain(inner)
        case tree.Binary(_, left, right):
            return is_plain(left) and is_plain(right)
    return False
