"""Many conditions of one shape -> boxes, in columns: the shape's tree is evaluated once, on columns of literals.

This knows only conjunctions of sets, one set for each attribute, which is what most subscriptions are. A row whose
literals would give another structure than its neighbours' (a string that is also a time, a number beyond 2**53, values
of an IN that touch) is set aside, to be compiled singly.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, BoxTable, Cuts, MemberColumn
from fieldfare.errors import ConditionError
from fieldfare.language import tree
from fieldfare.language.cut_columns import CutColumn, Mask, MemberKey, Piece, subset_of
from fieldfare.language.expressions import Expressions, axis_of
from fieldfare.language.kinds import Kind
from fieldfare.language.leaves import Leaves
from fieldfare.language.literals import MalformedLiteralError, read_literal, read_string
from fieldfare.language.patterns import prefix_end
from fieldfare.language.place_columns import RegionRows, circle_operands, circle_rows, polygon_rows
from fieldfare.language.places import CIRCLE_TESTS, POLYGON_TESTS
from fieldfare.language.times import parse_date, parse_timestamp
from fieldfare.language.tree import Side
from fieldfare.model import (
    EXACT_INTEGER_MAX,
    AxisKey,
    Cut,
    Derived,
    InRegion,
    Interval,
    Literal,
    Section,
    Test,
    section_end,
    section_start,
)

_COMBINATIONS_MAX = 64
_UNION_PIECES_MAX = 16
_MAYBE_TIME = frozenset("0123456789+-").union(map(chr, range(0x21)), map(chr, range(0x7F, 0xA0)))
_PREFIX_PATTERN = re.compile(r"([^%_\\]+)%")
_PLAIN_PATTERN = re.compile(r"([^%_\\]*)")


class UnfitShapeError(ValueError):
    """A shape is not a conjunction of sets, or has too many boxes: compile its conditions singly."""


Sets = dict[AxisKey | MemberKey, list[Piece]]


def fill(
    node: tree.Node, literals: Sequence[Sequence[str]], owners: npt.NDArray[np.int32], boxes_max: int
) -> tuple[BoxTable, Mask]:
    """The boxes of conditions that share a tree, given their literals in columns; and which rows to compile singly."""
    columns = _Columns(len(owners), literals)
    sets = columns.sets(node, truth=True)
    if math.prod(len(pieces) for pieces in sets.values()) > min(_COMBINATIONS_MAX, boxes_max):
        raise UnfitShapeError
    held = [[(piece, piece.holds()) for piece in pieces] for pieces in sets.values()]
    is_overlapping = any(isinstance(axis, MemberKey) and len(pieces) > 1 for axis, pieces in sets.items())
    tables = []
    for choice in itertools.product(*held):
        rows = np.flatnonzero(np.logical_and.reduce([~columns.aside, *(mask for _, mask in choice)]))
        boxes = np.arange(len(rows), dtype=np.int32)
        axes: dict[str, AxisColumn] = {}
        derived: dict[Derived, AxisColumn] = {}
        members: dict[Derived, list[Cuts]] = {}
        for axis, (piece, _) in zip(sets, choice, strict=True):
            if isinstance(axis, MemberKey):
                members.setdefault(axis.lists, []).append(_cuts(piece.low, rows))
                continue
            column = AxisColumn(boxes, _cuts(piece.low, rows), _cuts(piece.high, rows))
            if isinstance(axis, str):
                axes[axis] = column
            else:
                derived[axis] = column
        asked = {
            lists: MemberColumn(np.tile(boxes, len(values)), Cuts.concatenated(values))
            for lists, values in members.items()
        }
        tests = columns.tests_of(rows)
        tables.append(BoxTable(owners[rows], axes, np.full(len(rows), is_overlapping), tests, derived, asked))
    return BoxTable.concatenated(tables), columns.aside


def may_be_time(literal: str) -> bool:
    """Whether a literal, as it stands in a condition, can be a text that is also a time."""
    return literal[0] in "'\"" and (literal[1] in _MAYBE_TIME or literal[1] == "\\")


def _cuts(column: CutColumn, rows: npt.NDArray[np.int64]) -> Cuts:
    return Cuts(np.full(len(rows), column.section, np.uint8), column.values[rows])


@dataclass(slots=True)
class _Columns:
    rows: int
    literals: Sequence[Sequence[str]]
    aside: Mask = field(init=False)  # the rows to be compiled singly
    same_cuts: dict[Cut, CutColumn] = field(init=False, default_factory=dict)
    tests: list[list[InRegion]] = field(init=False, default_factory=list)  # residual tests, one for each row

    def __post_init__(self) -> None:
        self.aside = np.zeros(self.rows, np.bool_)

    def sets(self, node: tree.Node, *, truth: bool) -> Sets:
        """For each attribute, where a node is true; or, if `truth` is not, where it is false."""
        match node:
            case tree.Not(part):
                return self.sets(part, truth=not truth)
            case tree.And(parts) | tree.Or(parts):
                tests_before = len(self.tests)
                alternatives = [self.sets(part, truth=truth) for part in parts]
                if isinstance(node, tree.And) is truth:
                    return _all(alternatives)
                if len(self.tests) > tests_before:
                    raise UnfitShapeError
                return self._any(alternatives)
            case tree.Compare():
                return self._compare(node, truth=truth)
            case tree.Match(tree.Name(name), tree.Slot(number), None, False):
                return {name: self._like(number, truth=truth)}
            case tree.Match(tree.Call() as call, tree.Slot(number), None, False):
                axis, kind = self._expression(call)
                if kind is not Kind.TEXT:
                    raise UnfitShapeError
                return {axis: self._like(number, truth=truth)}
            case tree.Truth(tree.Call() as call) if truth and tree.slots_in(call):
                return self._true_call(call)
            case tree.Missing() | tree.Truth():
                return self._same(node, truth=truth)
        raise UnfitShapeError

    def _true_call(self, call: tree.Call) -> Sets:
        """Where a call is true that is a condition itself and has literals."""
        match call:
            case tree.Call("array_contains", (lists, tree.Slot(number, _, ""))):
                return self._members(lists, [number])
            case tree.Call("arrays_overlap", (lists, tree.Call("array", wanted))) if wanted:
                numbers = [slot.number for slot in wanted if isinstance(slot, tree.Slot)]
                if len(numbers) == len(wanted):
                    return _any_member([self._members(lists, [number]) for number in numbers])
            case tree.Call(function, (tree.Slot(number, _, ""), tree.Name(x), tree.Name(y))) if (
                function in POLYGON_TESTS and x != y and not self._is_number(number)
            ):
                return self._regions(polygon_rows(function, self._strings(number), x, y))
        raise UnfitShapeError

    def _compare(self, node: tree.Compare, *, truth: bool) -> Sets:
        left, right, relation = node.left, node.right, node.operator
        wanted = subset_of(node) if truth else None
        if wanted is not None and set(self.literals[wanted.zero]) == {"0"}:
            return self._members(wanted.lists, wanted.literals)
        if isinstance(left, tree.Slot | tree.Word | tree.Minus):
            left, right, relation = right, left, tree.MIRRORS[relation]
        if relation == tree.NULL_SAFE_EQUAL:
            raise UnfitShapeError
        if isinstance(left, tree.Call | tree.Binary):
            return self._compare_expression(left, right, relation if truth else tree.INVERSES[relation])
        if not isinstance(left, tree.Name):
            raise UnfitShapeError
        if isinstance(right, tree.Word):
            return self._same(node, truth=truth)
        relation = relation if truth else tree.INVERSES[relation]
        match right:
            case tree.Slot(number, _, kind):
                return {left.name: self._literal(relation, number, kind)}
            case tree.Minus(tree.Slot(number, _, "")) if self._is_number(number):
                return {left.name: self._numbers(relation, number, sign=-1.0)}
        raise UnfitShapeError

    def _compare_expression(self, left: tree.Operand, right: tree.Operand, relation: str) -> Sets:
        """An expression of a known type and a literal of that type."""
        if isinstance(left, tree.Call) and left.function == "st_distancesphere" and relation in CIRCLE_TESTS:
            return self._circles(left, right, relation)
        axis, kind = self._expression(left)
        is_negative = isinstance(right, tree.Minus)
        slot = right.operand if isinstance(right, tree.Minus) else right
        if not isinstance(slot, tree.Slot) or slot.kind:
            raise UnfitShapeError
        if self._is_number(slot.number) and kind in {Kind.INTEGER, Kind.NUMBER}:
            return {axis: self._numbers(relation, slot.number, -1.0 if is_negative else 1.0)}
        if not self._is_number(slot.number) and kind is Kind.TEXT and not is_negative:
            is_invertible = isinstance(left, tree.Call) and left.function in {"left", "substring"} and relation == "="
            if not is_invertible:
                return {axis: self._plain_texts(relation, self._strings(slot.number))}
        raise UnfitShapeError

    def _circles(self, call: tree.Call, right: tree.Operand, relation: str) -> Sets:
        """Distances of a point from a place, below a number."""
        operands = circle_operands(call)
        if operands is None:
            raise UnfitShapeError
        point, (longitude, latitude) = operands
        centre, metres = (self._number_of(longitude), self._number_of(latitude)), self._number_of(right)
        return self._regions(circle_rows(relation, centre, metres, point))

    def _regions(self, found: RegionRows) -> Sets:
        self.aside |= found.aside
        self.tests.append(found.tests())
        ends = [np.where(self.aside, 0.0, found.bounds[:, side]) + 0.0 for side in range(4)]
        west, south, east, north = (CutColumn(Section.NUMBER, end) for end in (*ends[:2], *map(_after, ends[2:])))
        return {found.x: [Piece(west, east)], found.y: [Piece(south, north)]}

    def tests_of(self, rows: npt.NDArray[np.int64]) -> dict[int, tuple[Test, ...]]:
        """The residual tests of some rows, by their places among these."""
        if not self.tests:
            return {}
        chosen = zip(*([column[row] for row in rows.tolist()] for column in self.tests), strict=True)
        return {place: tuple(dict.fromkeys(tests)) for place, tests in enumerate(chosen)}

    def _number_of(self, operand: tree.Operand) -> npt.NDArray[np.float64]:
        """The numbers that a literal is in each row, with its sign."""
        sign = -1.0 if isinstance(operand, tree.Minus) else 1.0
        slot = operand.operand if isinstance(operand, tree.Minus) else operand
        if not isinstance(slot, tree.Slot) or slot.kind or not self._is_number(slot.number):
            raise UnfitShapeError
        values = np.fromiter(map(float, self.literals[slot.number]), np.float64, self.rows) * sign + 0.0
        self.aside |= np.abs(values) >= EXACT_INTEGER_MAX
        return values

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

    def _members(self, lists: tree.Operand, numbers: Sequence[int]) -> Sets:
        """That a list has the members that some literals are."""
        axis = self._axis_of_lists(lists)
        found: Sets = {}
        for number in numbers:
            is_number = self._is_number(number)
            pieces = self._numbers("=", number) if is_number else self._plain_texts("=", self._strings(number))
            found[MemberKey(axis, number)] = pieces
        return found

    def _axis_of_lists(self, lists: tree.Operand) -> Derived:
        if tree.slots_in(lists):
            raise UnfitShapeError
        try:
            return Derived.of(Expressions("", (), {}).of(lists))
        except ConditionError as error:
            raise UnfitShapeError from error

    def _same(self, node: tree.Compare | tree.Missing | tree.Truth, *, truth: bool) -> Sets:
        """A leaf without literals: the same intervals in every row."""
        operands = (node.left, node.right) if isinstance(node, tree.Compare) else (node.operand,)
        if any(map(tree.slots_in, operands)):
            raise UnfitShapeError
        try:
            products = Leaves.of("", (), {}).products(node, Side.TRUE if truth else Side.FALSE)
        except ConditionError as error:
            raise UnfitShapeError from error
        if len(products) != 1:
            raise UnfitShapeError
        sets = products[0].sets
        if products[0].tests or any(not isinstance(axis, str) for axis in sets):
            raise UnfitShapeError
        return {str(axis): [self._piece(interval) for interval in intervals] for axis, intervals in sets.items()}

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

    def _piece(self, interval: Interval) -> Piece:
        return Piece(self._cut(interval.low), self._cut(interval.high))

    def _cut(self, cut: Cut) -> CutColumn:
        """The same cut in every row."""
        if cut not in self.same_cuts:
            section, value = cut
            single = np.empty(1, np.float64 if section is Section.NUMBER else object)
            single[0] = value
            self.same_cuts[cut] = CutColumn(section, np.broadcast_to(single, self.rows))
        return self.same_cuts[cut]

    def _any(self, alternatives: list[Sets]) -> Sets:
        """The union on one attribute; rows in which two pieces touch are set aside, for they become one."""
        names = {name for sets in alternatives for name in sets}
        if any(isinstance(name, MemberKey) for name in names):
            return _any_member(alternatives)
        if len(names) != 1 or any(len(sets) != 1 for sets in alternatives):
            raise UnfitShapeError
        name = names.pop()
        pieces = [piece for sets in alternatives for piece in sets[name]]
        if len(pieces) > _UNION_PIECES_MAX:
            raise UnfitShapeError
        for one, other in itertools.combinations(pieces, 2):
            self.aside |= ~(one.high.is_below(other.low) | other.high.is_below(one.low))
        return {name: pieces}


def _any_member(alternatives: list[Sets]) -> Sets:
    """Alternative members of one list: they stay as they are, and their boxes may share events."""
    keys = [key for sets in alternatives for key in sets if isinstance(key, MemberKey)]
    if len({key.lists for key in keys}) != 1 or len(keys) < len(alternatives) or any(map(_has_several, alternatives)):
        raise UnfitShapeError
    return {keys[0]: [piece for sets in alternatives for pieces in sets.values() for piece in pieces]}


def _has_several(sets: Sets) -> bool:
    return len(sets) != 1


def _all(alternatives: list[Sets]) -> Sets:
    result: Sets = {}
    for sets in alternatives:
        for name, pieces in sets.items():
            if name in result:
                result[name] = [one.intersection(other) for one in result[name] for other in pieces]
            else:
                result[name] = pieces
            if len(result[name]) > _COMBINATIONS_MAX:
                raise UnfitShapeError
    return result


def _after(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.nextafter(values, np.inf) + 0.0


def _objects(values: Sequence[object]) -> npt.NDArray[Any]:
    column = np.empty(len(values), object)
    column[:] = values
    return column
