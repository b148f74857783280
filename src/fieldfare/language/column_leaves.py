"""Leaves of many conditions of one shape -> products, in columns.

What is written most often (an attribute or an expression, and literals) is done for all rows at once. Other leaves are
made for each set of literals that occurs, and put into columns; that is slower, but not as slow as whole conditions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.errors import ConditionError
from fieldfare.language import tree
from fieldfare.language.column_expressions import Marks, is_plain
from fieldfare.language.column_products import AxisRows, ColumnProduct, Key, Sets, TestRows, UnfitShapeError, any_of
from fieldfare.language.cut_columns import CutColumn, Mask, MemberKey, Piece, subset_of
from fieldfare.language.expressions import Expressions, axis_of
from fieldfare.language.intervals import Intervals
from fieldfare.language.kinds import Kind
from fieldfare.language.leaves import Leaves, Product
from fieldfare.language.literals import MalformedLiteralError, read_literal, read_string
from fieldfare.language.members import member_of
from fieldfare.language.patterns import prefix_end
from fieldfare.language.place_columns import RegionRows, circle_operands, circle_rows, polygon_rows
from fieldfare.language.places import CIRCLE_TESTS, POLYGON_TESTS
from fieldfare.language.times import parse_date, parse_timestamp
from fieldfare.language.tree import Side
from fieldfare.model import (
    EXACT_INTEGER_MAX,
    AxisKey,
    Comparison,
    Cut,
    Derived,
    Literal,
    Section,
    Test,
    section_end,
    section_start,
)

_MAYBE_TIME = frozenset("0123456789+-").union(map(chr, range(0x21)), map(chr, range(0x7F, 0xA0)))
_PREFIX_PATTERN = re.compile(r"([^%_\\]+)%")
_PLAIN_PATTERN = re.compile(r"([^%_\\]*)")


def may_be_time(literal: str) -> bool:
    """Whether a literal, as it stands in a condition, can be a text that is also a time."""
    return literal[0] in "'\"" and (literal[1] in _MAYBE_TIME or literal[1] == "\\")


@dataclass(slots=True)
class ColumnLeaves:
    """The leaves of a shape, with the literals of many conditions that have it."""

    rows: int
    literals: Sequence[Sequence[str]]
    aside: Mask = field(init=False)  # the rows to be compiled singly
    _same_cuts: dict[Cut, CutColumn] = field(init=False, default_factory=dict)
    _axes: dict[tree.Operand, AxisRows] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.aside = np.zeros(self.rows, np.bool_)

    def products(self, leaf: tree.Leaf, side: Side) -> list[ColumnProduct]:
        """Where a leaf is on a side."""
        if side is Side.TRUE or side is Side.FALSE:
            try:
                return self._known(leaf, truth=side is Side.TRUE)
            except UnfitShapeError:
                pass
        return self._by_literals(leaf, side)

    def _known(self, leaf: tree.Leaf, *, truth: bool) -> list[ColumnProduct]:
        """Where a leaf of a known form is true; or, if `truth` is not, where it is false."""
        match leaf:
            case tree.Compare():
                return self._compare(leaf, truth=truth)
            case tree.Match(tree.Name(name), tree.Slot(number), None, False):
                return _on(name, self._like(number, truth=truth))
            case tree.Match(tree.Call() as call, tree.Slot(number), None, False):
                axis, kind = self._expression(call)
                if kind is Kind.TEXT:
                    return _on(axis, self._like(number, truth=truth))
            case tree.Truth(tree.Call() as call) if truth and tree.slots_in(call):
                return [self._true_call(call)]
        raise UnfitShapeError

    def _true_call(self, call: tree.Call) -> ColumnProduct:
        """Where a call is true that is a condition itself and has literals."""
        match call:
            case tree.Call("array_contains", (lists, tree.Slot(number, _, ""))):
                return self._members(lists, [number])
            case tree.Call("arrays_overlap", (lists, tree.Call("array", wanted))) if wanted:
                numbers = [slot.number for slot in wanted if isinstance(slot, tree.Slot)]
                if len(numbers) == len(wanted):
                    return any_of([[self._members(lists, [number])] for number in numbers], self.aside)[0]
            case tree.Call(function, (tree.Slot(number, _, ""), tree.Name(x), tree.Name(y))) if (
                function in POLYGON_TESTS and x != y and not self._is_number(number)
            ):
                return self._regions(polygon_rows(function, self._strings(number), x, y))
        raise UnfitShapeError

    def _compare(self, node: tree.Compare, *, truth: bool) -> list[ColumnProduct]:
        left, right, relation = node.left, node.right, node.operator
        wanted = subset_of(node) if truth else None
        if wanted is not None and set(self.literals[wanted.zero]) == {"0"}:
            return [self._members(wanted.lists, wanted.literals)]
        if isinstance(left, tree.Slot | tree.Word | tree.Minus):
            left, right, relation = right, left, tree.MIRRORS[relation]
        if relation == tree.NULL_SAFE_EQUAL:
            raise UnfitShapeError
        relation = relation if truth else tree.INVERSES[relation]
        match left, right:
            case tree.Name(name), tree.Slot(number, _, kind):
                return _on(name, self._literal(relation, number, kind))
            case tree.Name(name), tree.Minus(tree.Slot(number, _, "")) if self._is_number(number):
                return _on(name, self._numbers(relation, number, sign=-1.0))
            case ((tree.Call() | tree.Binary()), (tree.Slot() | tree.Minus(tree.Slot()))):
                return [self._compare_expression(left, right, relation)]
        return [self._compare_two(node, truth=truth)]

    def _compare_two(self, node: tree.Compare, *, truth: bool) -> ColumnProduct:
        """A comparison of attributes and arithmetic with others: a residual test."""
        slots = [*tree.slots_in(node.left), *tree.slots_in(node.right)]
        if not (is_plain(node.left) and is_plain(node.right)):
            raise UnfitShapeError
        values = {slot: self._values(slot) for slot in slots}
        marks = Marks(slots, len(self.literals))
        side = Side.TRUE if truth else Side.FALSE
        found = [Leaves.of("", literals, {}).products(node, side) for literals in marks.literals()]
        match found:
            case [[Product(sets, (Comparison() as test,))], [Product(same, (Comparison() as other,))]] if sets == same:
                left = marks.filled(test.left, other.left, values, self.rows)
                right = marks.filled(test.right, other.right, values, self.rows)
                marks.check_all_found()
                tests = list(map(Comparison, itertools.repeat(test.operator), left, right))
                return ColumnProduct(self._columns_of(sets), (TestRows(tests),))
        raise UnfitShapeError

    def _columns_of(self, sets: Mapping[AxisKey, Intervals]) -> Sets:
        """The same sets in every row."""
        return {
            key: [Piece(self._cut(interval.low), self._cut(interval.high)) for interval in intervals]
            for key, intervals in sets.items()
        }

    def _values(self, slot: int) -> list[float]:
        """The value of a number in each row, an int or a float; rows of large numbers are set aside."""
        if not self._is_number(slot):
            raise UnfitShapeError
        values: list[float] = [int(text) if text.isdigit() else float(text) for text in self.literals[slot]]
        large = [abs(value) >= EXACT_INTEGER_MAX for value in values]
        if any(large):
            self.aside |= large
        return values

    def _compare_expression(self, left: tree.Operand, right: tree.Operand, relation: str) -> ColumnProduct:
        """An expression of a known type and a literal of that type."""
        if isinstance(left, tree.Call) and left.function == "st_distancesphere" and relation in CIRCLE_TESTS:
            return self._circles(left, right, relation)
        axis, kind = self._axis(left)
        is_negative = isinstance(right, tree.Minus)
        slot = right.operand if isinstance(right, tree.Minus) else right
        if not isinstance(slot, tree.Slot) or slot.kind:
            raise UnfitShapeError
        if self._is_number(slot.number) and kind in {Kind.INTEGER, Kind.NUMBER}:
            return ColumnProduct({axis: self._numbers(relation, slot.number, -1.0 if is_negative else 1.0)})
        if not self._is_number(slot.number) and kind is Kind.TEXT and not is_negative:
            is_invertible = isinstance(left, tree.Call) and left.function in {"left", "substring"} and relation == "="
            if not is_invertible:
                return ColumnProduct({axis: self._plain_texts(relation, self._strings(slot.number))})
        raise UnfitShapeError

    def _circles(self, call: tree.Call, right: tree.Operand, relation: str) -> ColumnProduct:
        """Distances of a point from a place, below a number."""
        operands = circle_operands(call)
        if operands is None:
            raise UnfitShapeError
        point, (longitude, latitude) = operands
        centre, metres = (self._number_of(longitude), self._number_of(latitude)), self._number_of(right)
        return self._regions(circle_rows(relation, centre, metres, point))

    def _regions(self, found: RegionRows) -> ColumnProduct:
        self.aside |= found.aside
        ends = [np.where(self.aside, 0.0, found.bounds[:, side]) + 0.0 for side in range(4)]
        west, south, east, north = (CutColumn(Section.NUMBER, end) for end in (*ends[:2], *map(_after, ends[2:])))
        sets: Sets = {found.x: [Piece(west, east)], found.y: [Piece(south, north)]}
        return ColumnProduct(sets, (TestRows(found.tests()),))

    def _number_of(self, operand: tree.Operand) -> npt.NDArray[np.float64]:
        """The numbers that a literal is in each row, with its sign."""
        sign = -1.0 if isinstance(operand, tree.Minus) else 1.0
        slot = operand.operand if isinstance(operand, tree.Minus) else operand
        if not isinstance(slot, tree.Slot) or slot.kind or not self._is_number(slot.number):
            raise UnfitShapeError
        values = np.fromiter(map(float, self.literals[slot.number]), np.float64, self.rows) * sign + 0.0
        self.aside |= np.abs(values) >= EXACT_INTEGER_MAX
        return values

    def _axis(self, operand: tree.Operand) -> tuple[Derived | AxisRows, Kind | None]:
        """The axis of an expression; arithmetic with literals that differ has one in each row."""
        slots = tree.slots_in(operand)
        if not is_plain(operand) or all(len(set(self.literals[slot])) == 1 for slot in slots):
            return self._expression(operand)
        if operand not in self._axes:
            values = {slot: self._values(slot) for slot in slots}
            marks = Marks(slots, len(self.literals))
            one, other = (Expressions("", literals, {}).of(operand) for literals in marks.literals())
            expressions = marks.filled(one, other, values, self.rows)
            marks.check_all_found()
            axes = [axis_of(expression) for expression in expressions]
            self._axes[operand] = AxisRows([axis for axis in axes if isinstance(axis, Derived)])
        return self._axes[operand], Kind.NUMBER

    def _expression(self, operand: tree.Operand) -> tuple[Derived, Kind | None]:
        """The axis of an expression whose own literals are the same in every row."""
        literals = [Literal(Section.NULL, 0)] * len(self.literals)
        for number in tree.slots_in(operand):
            if len(set(self.literals[number])) > 1:
                raise UnfitShapeError
            try:
                literals[number] = read_literal(self.literals[number][0])
            except ValueError as error:
                raise UnfitShapeError from error
        expressions = Expressions("", literals, {})
        try:
            expression = expressions.of(operand)
        except ConditionError as error:
            raise UnfitShapeError from error
        axis = axis_of(expression)
        if isinstance(axis, str) or isinstance(expression, Literal):
            raise UnfitShapeError
        return axis, expressions.kind(expression)

    def _members(self, lists: tree.Operand, numbers: Sequence[int]) -> ColumnProduct:
        """That a list has the members that some literals are."""
        axis = self._axis_of_lists(lists)
        found: Sets = {}
        for number in numbers:
            is_number = self._is_number(number)
            pieces = self._numbers("=", number) if is_number else self._plain_texts("=", self._strings(number))
            found[MemberKey(axis, number)] = pieces
        return ColumnProduct(found)

    def _axis_of_lists(self, lists: tree.Operand) -> Derived:
        if tree.slots_in(lists):
            raise UnfitShapeError
        try:
            return Derived.of(Expressions("", (), {}).of(lists))
        except ConditionError as error:
            raise UnfitShapeError from error

    # Leaves of any form

    def _by_literals(self, leaf: tree.Leaf, side: Side) -> list[ColumnProduct]:
        """A leaf made once for each set of literals that occurs; rows that are not like the first are set aside."""
        slots = tree.slots_in_leaf(leaf)
        texts = list(zip(*(self.literals[slot] for slot in slots), strict=True)) if slots else [()] * self.rows
        numbers: dict[tuple[str, ...], int] = {}
        places = np.array([numbers.setdefault(some, len(numbers)) for some in texts], np.int64)
        made = [self._made(leaf, side, dict(zip(slots, some, strict=True))) for some in numbers]
        forms = [None if products is None else _form(products) for products in made]
        form = next((form for form in forms if form is not None), None)
        if form is None:
            raise UnfitShapeError
        fits = np.array([one == form for one in forms], np.bool_)
        self.aside |= ~fits[places]
        first = next(
            products for products, one in zip(made, forms, strict=True) if one == form and products is not None
        )
        chosen = [products if fit and products is not None else first for products, fit in zip(made, fits, strict=True)]
        return [_product_rows(some, places) for some in zip(*chosen, strict=True)]

    def _made(self, leaf: tree.Leaf, side: Side, texts: dict[int, str]) -> list[Product] | None:
        """A leaf with some literals; None where something is wrong with it, or needs a whole condition."""
        literals = [Literal(Section.NULL, 0)] * len(self.literals)
        try:
            for slot, text in texts.items():
                text.encode()
                literals[slot] = read_literal(text)
            return Leaves.of("", literals, {}).products(leaf, side)
        except (ConditionError, ValueError):
            return None

    def _is_number(self, number: int) -> bool:
        return self.literals[number][0][0] not in "'\""

    def _literal(self, relation: str, number: int, kind: str) -> list[Piece]:
        if self._is_number(number):
            return self._numbers(relation, number)
        if kind:
            parse = parse_date if kind == "DATE" else parse_timestamp
            return self._times(relation, [parse(text) for text in self._strings(number)])
        return self._texts(relation, self._strings(number))

    def _numbers(self, relation: str, number: int, sign: float = 1.0) -> list[Piece]:
        values = np.fromiter(map(float, self.literals[number]), np.float64, self.rows) * sign + 0.0
        self.aside |= np.abs(values) >= EXACT_INTEGER_MAX
        return self._related(relation, Section.NUMBER, values, np.nextafter(values, np.inf) + 0.0)

    def _texts(self, relation: str, strings: list[str]) -> list[Piece]:
        """Strings, which may be times: the rows that are not like the most are set aside."""
        instants = [parse_timestamp(text) if text and text[0] in _MAYBE_TIME else None for text in strings]
        pieces = self._plain_texts(relation, strings)
        timely = np.fromiter((instant is not None for instant in instants), np.bool_, self.rows)
        if np.count_nonzero(timely) * 2 > self.rows:
            return pieces + self._times(relation, instants)
        self.aside |= timely
        return pieces

    def _plain_texts(self, relation: str, strings: list[str]) -> list[Piece]:
        encoded = [text.encode() for text in strings]
        ends = [value + b"\x00" for value in encoded]
        return self._related(relation, Section.STRING, _objects(encoded), _objects(ends))

    def _times(self, relation: str, instants: list[int | None]) -> list[Piece]:
        self.aside |= np.fromiter((instant is None for instant in instants), np.bool_, self.rows)
        values = [0 if instant is None else instant for instant in instants]
        return self._related(relation, Section.TIME, _objects(values), _objects([value + 1 for value in values]))

    def _like(self, number: int, *, truth: bool) -> list[Piece]:
        """Patterns that all are a prefix, or all are plain text: the rows that are not like the first are set aside."""
        if self._is_number(number):
            raise UnfitShapeError
        patterns = self._strings(number)
        plain = _PLAIN_PATTERN.fullmatch(patterns[0]) is not None
        form = _PLAIN_PATTERN if plain else _PREFIX_PATTERN
        found = [form.fullmatch(pattern) for pattern in patterns]
        other = np.fromiter((match is None for match in found), np.bool_, self.rows)
        if other.all():
            raise UnfitShapeError
        self.aside |= other
        starts = [match[1].encode() if match else b"?" for match in found]
        ends = [start + b"\x00" for start in starts] if plain else [prefix_end(start) for start in starts]
        return self._related("=" if truth else "!=", Section.STRING, _objects(starts), _objects(ends))

    def _strings(self, number: int) -> list[str]:
        """The values of the strings; a row whose string is not valid is set aside."""
        texts = self.literals[number]
        together = "".join(texts)
        quotes = together.count("'") + together.count('"')
        if quotes == 2 * self.rows and together.isascii() and "\\" not in together:
            return [text[1:-1] for text in texts]
        return [self._string(row, text) for row, text in enumerate(texts)]

    def _string(self, row: int, text: str) -> str:
        try:
            value = read_string(text)
            value.encode()
        except (MalformedLiteralError, UnicodeEncodeError):
            self.aside[row] = True
            return ""
        return value

    def _related(
        self, relation: str, section: Section, below: npt.NDArray[Any], above: npt.NDArray[Any]
    ) -> list[Piece]:
        """The values of a section in a relation to those whose cuts are given."""
        low, high = CutColumn(section, below), CutColumn(section, above)
        start, end = self._cut(section_start(section)), self._cut(section_end(section))
        match relation:
            case "=":
                return [Piece(low, high)]
            case "!=":
                return [Piece(start, low), Piece(high, end)]
            case "<":
                return [Piece(start, low)]
            case "<=":
                return [Piece(start, high)]
            case ">":
                return [Piece(high, end)]
            case _:
                return [Piece(low, end)]

    def _cut(self, cut: Cut) -> CutColumn:
        """The same cut in every row."""
        if cut not in self._same_cuts:
            section, value = cut
            single = np.empty(1, np.float64 if section is Section.NUMBER else object)
            single[0] = value
            self._same_cuts[cut] = CutColumn(section, np.broadcast_to(single, self.rows))
        return self._same_cuts[cut]


def _on(key: Key, pieces: list[Piece]) -> list[ColumnProduct]:
    return [ColumnProduct({key: pieces})]


_Form = tuple[object, ...]


def _form(products: Sequence[Product]) -> _Form | None:
    """What products of one leaf with several literals must share; None where they cannot stand in columns."""
    forms = []
    for product in products:
        keys = tuple(key if isinstance(key, str) else Derived for key in product.sets)
        sections: list[Section | None] = []
        for key, intervals in product.sets.items():
            for interval in intervals:
                if not isinstance(key, str) and member_of(key, interval) is not None:
                    return None
                for section, value in (interval.low, interval.high):
                    if section is Section.NUMBER and not isinstance(value, float):
                        return None
                    sections.append(section)
            sections.append(None)
        forms.append((keys, tuple(sections), len(product.tests)))
    return tuple(forms)


def _product_rows(made: Sequence[Product], places: npt.NDArray[np.int64]) -> ColumnProduct:
    """Products of one form as columns: row i has product made[places[i]]."""
    sets: Sets = {}
    keys = [list(product.sets) for product in made]
    for at, key in enumerate(keys[0]):
        intervals = [product.sets[own[at]] for product, own in zip(made, keys, strict=True)]
        pieces = [
            Piece(
                _cut_rows([some[n].low for some in intervals], places),
                _cut_rows([some[n].high for some in intervals], places),
            )
            for n in range(len(intervals[0]))
        ]
        axes = [own[at] for own in keys]
        if isinstance(key, str) or all(axis == key for axis in axes):
            sets[key] = pieces
        else:
            sets[AxisRows([axis for place in places.tolist() if isinstance(axis := axes[place], Derived)])] = pieces
    tests = []
    for at in range(len(made[0].tests)):
        column: list[Test] = [made[place].tests[at] for place in places.tolist()]
        tests.append(TestRows(column))
    return ColumnProduct(sets, tuple(tests))


def _cut_rows(cuts: Sequence[Cut], places: npt.NDArray[np.int64]) -> CutColumn:
    section = cuts[0][0]
    values = np.empty(len(cuts), np.float64 if section is Section.NUMBER else object)
    values[:] = [value for _, value in cuts]
    return CutColumn(section, values[places])


def _after(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.nextafter(values, np.inf) + 0.0


def _objects(values: Sequence[object]) -> npt.NDArray[Any]:
    column = np.empty(len(values), object)
    column[:] = values
    return column
