"""Leaves of a condition -> products: where one comparison, LIKE or IS NULL is true, or where it is false.

SQL's logic has three values, but only TRUE counts in the end. With every NOT pushed down to the leaves, a leaf only has
to say where it is true, and where it is false; what lies in neither, the NULLs, needs no set.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fieldfare.errors import ConditionError, ConditionSyntaxError, ConditionTypeError, UnsupportedConditionError
from fieldfare.language import tree
from fieldfare.language.intervals import Intervals, compared, complement, section_interval, spans
from fieldfare.language.literals import settled
from fieldfare.language.patterns import MalformedPatternError, parse_pattern, prefix_end, split_prefix
from fieldfare.language.times import parse_date, parse_timestamp
from fieldfare.model import (
    MISSING,
    PRESENT,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Like,
    Literal,
    Section,
    Test,
)

_OPERATORS: dict[str, Callable[..., bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NULL = Literal(Section.NULL, 0)
_ZERO = Literal(Section.NUMBER, 0)
_NOUNS = {
    Section.BOOLEAN: "a boolean",
    Section.NUMBER: "a number",
    Section.STRING: "a string",
    Section.TIME: "a date or timestamp",
}


@dataclass(frozen=True, slots=True)
class Product:
    """A conjunction before it is multiplied out: for each attribute the set it must be in, and the residual tests."""

    sets: Mapping[str, Intervals]
    tests: tuple[Test, ...] = ()


EVERYTHING = Product({})


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of one condition, with its literals and what is known of its attributes' types."""

    text: str
    literals: Sequence[Literal]
    types: Mapping[str, Section]

    def products(self, node: tree.Compare | tree.Match | tree.Missing | tree.Truth, *, truth: bool) -> list[Product]:
        """Where a leaf is true; or, if `truth` is not, where it is false."""
        match node:
            case tree.Compare():
                return self._compare(node, truth=truth)
            case tree.Match():
                return self._like(node, truth=truth)
            case tree.Missing(attribute):
                return _product(attribute.name, (MISSING if truth else PRESENT,))
            case tree.Truth(attribute):
                self._expect(attribute.name, (Section.BOOLEAN,), attribute.position)
                return _product(attribute.name, compared("=", Section.BOOLEAN, int(truth)))

    def _compare(self, node: tree.Compare, *, truth: bool) -> list[Product]:
        left, right, relation = self._resolved(node.left), self._resolved(node.right), node.operator
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, right, relation = right, left, tree.MIRRORS[relation]
        position = node.right.position if node.right.position is not None else node.left.position
        null_safe = relation == tree.NULL_SAFE_EQUAL
        if isinstance(left, Literal) and isinstance(right, Literal):
            value = self._constant(relation, left, right, position)
            return [EVERYTHING] if value is truth else []
        if right == _NULL:
            if not null_safe:
                return []
            if isinstance(left, Attribute):
                return _product(left.name, (MISSING if truth else PRESENT,))
        if isinstance(left, Attribute) and isinstance(right, Literal):
            if null_safe:
                equal = self.literal_intervals("=", left.name, right, position)
                return _product(left.name, equal if truth else complement(equal))
            relation = relation if truth else tree.INVERSES[relation]
            return _product(left.name, self.literal_intervals(relation, left.name, right, position))
        self._expect_comparable(left, right, position)
        if not null_safe:
            return [_residual(relation if truth else tree.INVERSES[relation], left, right)]
        if isinstance(left, Attribute) and isinstance(right, Attribute):
            return _null_safe_equal(left, right) if truth else _null_safe_unequal(left, right)
        reason = "<=> is for attributes and literals, not for arithmetic: use ="
        raise UnsupportedConditionError(reason, self.text, position)

    def literal_intervals(self, relation: str, attribute: str, literal: Literal, position: int | None) -> Intervals:
        """The values that stand in a relation to a literal: text that is also a time meets strings and times."""
        values: dict[Section, float | bytes] = {}
        if isinstance(literal.value, str):
            values[Section.STRING] = literal.value.encode()
            instant = parse_timestamp(literal.value)
            if instant is not None:
                values[Section.TIME] = instant
        else:
            values[literal.section] = literal.value
        self._expect(attribute, tuple(values), position)
        known = self.types.get(attribute)
        pieces = (compared(relation, section, value) for section, value in values.items() if known in (None, section))
        return tuple(interval for piece in pieces for interval in piece)

    def _like(self, node: tree.Match, *, truth: bool) -> list[Product]:
        name, position = node.attribute.name, node.pattern.position
        self._expect(name, (Section.STRING,), position)
        literal = self._resolved(node.pattern)
        if literal == _NULL:
            return []
        if not isinstance(literal, Literal) or not isinstance(literal.value, str):
            raise ConditionTypeError("a LIKE pattern is a string", self.text, position)
        escape = "\\" if node.escape is None else self.literals[node.escape.number].value
        if not isinstance(escape, str) or len(escape) != 1:
            place = position if node.escape is None else node.escape.position
            raise ConditionSyntaxError("ESCAPE needs a string of one character", self.text, place)
        try:
            pattern = parse_pattern(literal.value, escape)
        except MalformedPatternError as error:
            raise ConditionSyntaxError(str(error), self.text, position) from error
        start, rest = split_prefix(pattern)
        if not rest:
            return _product(name, compared("=" if truth else "!=", Section.STRING, start.encode()))
        if rest == (None,):
            return _product(name, prefix_intervals(start.encode(), truth=truth))
        intervals = prefix_intervals(start.encode(), truth=True) if truth else (section_interval(Section.STRING),)
        return [Product({name: intervals}, (Like(name, pattern, negated=not truth),))]

    def _resolved(self, operand: tree.Operand) -> Expression:
        """An operand with its literals filled in, and arithmetic between literals done."""
        match operand:
            case tree.Name(name):
                return Attribute(name)
            case tree.Word(literal):
                return literal
            case tree.Slot():
                return self._slot_literal(operand)
            case tree.Minus(inner):
                if isinstance(inner, tree.Slot) and inner.kind == "":
                    value = self.literals[inner.number].value
                    if not isinstance(value, str):
                        return Literal(Section.NUMBER, settled(-value))
                return self._arithmetic("-", _ZERO, self._resolved(inner), operand.position)
            case tree.Binary(symbol, left, right):
                return self._arithmetic(symbol, self._resolved(left), self._resolved(right), operand.position)

    def _slot_literal(self, slot: tree.Slot) -> Literal:
        literal = self.literals[slot.number]
        if not isinstance(literal.value, str):
            return Literal(Section.NUMBER, settled(literal.value))
        if slot.kind == "":
            return literal
        instant = (parse_date if slot.kind == "DATE" else parse_timestamp)(literal.value)
        if instant is None:
            raise ConditionTypeError(f"{literal.value!r} is not a {slot.kind.lower()}", self.text, slot.position)
        return Literal(Section.TIME, instant)

    def _arithmetic(self, symbol: str, left: Expression, right: Expression, position: int | None) -> Expression:
        for side in (left, right):
            if isinstance(side, Literal) and side.section not in (Section.NUMBER, Section.NULL):
                raise ConditionTypeError(f"arithmetic with {_NOUNS[side.section]}", self.text, position)
            if isinstance(side, Attribute):
                self._expect(side.name, (Section.NUMBER,), position)
        if _NULL in (left, right):
            return _NULL
        literals = (side.value for side in (left, right) if isinstance(side, Literal))
        numbers = [value for value in literals if not isinstance(value, str)]
        if len(numbers) < 2:
            return Arithmetic(symbol, left, right)
        value = calculated(symbol, *numbers)
        if value is None:
            return _NULL
        if math.isnan(value):
            raise ConditionTypeError("this arithmetic gives no number", self.text, position)
        return Literal(Section.NUMBER, value)

    def _constant(self, relation: str, left: Literal, right: Literal, position: int | None) -> bool | None:
        """What a comparison of two literals gives: None is NULL."""
        if _NULL in (left, right):
            return left == right if relation == tree.NULL_SAFE_EQUAL else None
        sides: list[float | str | None] = [left.value, right.value]
        sections = {left.section, right.section}
        if sections == {Section.STRING, Section.TIME}:
            sides = [parse_timestamp(side) if isinstance(side, str) else side for side in sides]
        if None in sides or (len(sections) == 2 and sections != {Section.STRING, Section.TIME}):
            raise self._incomparable(left.section, right.section, position)
        return _OPERATORS["=" if relation == tree.NULL_SAFE_EQUAL else relation](*sides)

    def _expect(self, attribute: str, sections: tuple[Section, ...], position: int | None) -> None:
        known = self.types.get(attribute)
        if known is not None and known not in sections:
            needed = " or ".join(_NOUNS[section] for section in sections)
            reason = f"{attribute} is {_NOUNS[known]}, and is used here as {needed}: they never compare"
            raise ConditionTypeError(reason, self.text, position)

    def _expect_comparable(self, left: Expression, right: Expression, position: int | None) -> None:
        sections = [self._section(side) for side in (left, right)]
        if sections[0] is not None and sections[1] is not None and sections[0] != sections[1]:
            raise self._incomparable(sections[0], sections[1], position)

    def _section(self, side: Expression) -> Section | None:
        """The section of an operand, where it is known."""
        if isinstance(side, Attribute):
            return self.types.get(side.name)
        return side.section if isinstance(side, Literal) else Section.NUMBER

    def _incomparable(self, left: Section, right: Section, position: int | None) -> ConditionError:
        return ConditionTypeError(f"{_NOUNS[left]} and {_NOUNS[right]} never compare", self.text, position)


def prefix_intervals(prefix: bytes, *, truth: bool) -> Intervals:
    """The strings that start with a prefix; or, if `truth` is not, those that do not."""
    strings = section_interval(Section.STRING)
    if not prefix:
        return (strings,) if truth else ()
    low, high = (Section.STRING, prefix), (Section.STRING, prefix_end(prefix))
    return spans((low, high)) if truth else spans((strings.low, low), (high, strings.high))


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


def _product(attribute: str, intervals: Intervals) -> list[Product]:
    return [Product({attribute: intervals})] if intervals else []


def _attributes(side: Expression) -> set[str]:
    if isinstance(side, Attribute):
        return {side.name}
    return set() if isinstance(side, Literal) else _attributes(side.left) | _attributes(side.right)


def _residual(relation: str, left: Expression, right: Expression) -> Product:
    """A test that the index cannot do; what it can do is to require values that may pass."""
    names = sorted(_attributes(left) | _attributes(right))
    numbers = isinstance(left, Arithmetic) or isinstance(right, Arithmetic)
    needed = section_interval(Section.NUMBER) if numbers else PRESENT
    return Product(dict.fromkeys(names, (needed,)), (Comparison(relation, left, right),))


def _null_safe_equal(left: Attribute, right: Attribute) -> list[Product]:
    both_missing = Product({left.name: (MISSING,), right.name: (MISSING,)})
    return [_residual("=", left, right), both_missing]


def _null_safe_unequal(left: Attribute, right: Attribute) -> list[Product]:
    """Unequal in one section, or in two different sections; and NaN equals nothing."""
    if left == right:
        return _product(left.name, (section_interval(Section.NAN),))
    products = [_residual("!=", left, right), *_product(left.name, (section_interval(Section.NAN),))]
    for section in (Section.NULL, Section.BOOLEAN, Section.NUMBER, Section.STRING, Section.TIME):
        inside = section_interval(section)
        outside = (PRESENT,) if section is Section.NULL else complement((inside,))
        products.append(Product({left.name: (inside,), right.name: outside}))
    return products
