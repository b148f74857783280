"""A condition as a small typed tree, with its literals taken out.

A literal is a numbered slot, so that all conditions of one shape share one tree and differ only in the list of
literals. BETWEEN, IN and IS TRUE are spelled out as comparisons: SQL defines them that way, NULLs included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from fieldfare.model import Literal, Section

NULL_SAFE_EQUAL = "<=>"
INVERSES = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}  # NOT (a < b) is a >= b
MIRRORS = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<=", NULL_SAFE_EQUAL: NULL_SAFE_EQUAL}

_UNEQUAL_BOXES_MAX = 16  # of NOT (a <=> b)


@dataclass(frozen=True, slots=True)
class Name:
    """An attribute."""

    name: str
    position: int | None


@dataclass(frozen=True, slots=True)
class Slot:
    """A literal: the one with this number among the condition's literals, in the order of the text."""

    number: int
    position: int | None
    kind: str = ""  # DATE or TIMESTAMP, for a string with that word before it


@dataclass(frozen=True, slots=True)
class Minus:
    """The negative of an operand."""

    operand: Operand
    position: int | None


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`, the operator one of + - * / %."""

    operator: str
    left: Operand
    right: Operand
    position: int | None


@dataclass(frozen=True, slots=True)
class Word:
    """TRUE, FALSE or NULL as an operand."""

    literal: Literal
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function of operands, by the name that functions.py or scalars.py has for it."""

    function: str
    arguments: tuple[Operand, ...]
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A member of a list, in a condition about each of them."""

    name: str
    position: int | None


Operand = Name | Slot | Minus | Binary | Word | Call | Variable


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or, as None, NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is false."""

    part: Node


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right`, the operator one of = != < <= > >= <=>."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Match:
    """`operand LIKE pattern [ESCAPE escape]`, or ILIKE."""

    operand: Operand
    pattern: Operand
    escape: Slot | None
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """`operand IS NULL`."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Truth:
    """An operand that is itself a condition."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether a condition is on one of its sides: `(part) IS TRUE`. This is never unknown."""

    part: Node
    side: Side


@dataclass(frozen=True, slots=True)
class Case:
    """The condition that belongs to the first of some conditions that holds, or else the default."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node


Leaf = Compare | Match | Missing | Truth
Node = Constant | And | Or | Not | Asked | Case | Leaf


class Side(Enum):
    """What may be asked of a condition, whose logic has three values: true, false and unknown."""

    TRUE = 0
    FALSE = 1
    NOT_TRUE = 2
    NOT_FALSE = 3

    @property
    def under_not(self) -> Side:
        """What to ask of a condition, in place of asking this of its NOT."""
        return Side(self.value ^ 1)

    @property
    def opposite(self) -> Side:
        """What holds where this does not."""
        return Side(self.value ^ 2)

    def __init__(self, number: int) -> None:
        # Whether an AND is on this side if all of its parts are; an OR then needs one. Else it is the reverse.
        self.needs_all = number in {0, 3}

    def holds(self, *, value: bool | None) -> bool:
        """Whether a constant is on this side."""
        return (value is (self.value % 2 == 0)) is (self.value < 2)


def inner_side(asked: Asked, outer: Side) -> Side:
    """The side of its part to ask for, where `asked` is to be on an outer side."""
    return asked.side if outer.needs_all else asked.side.opposite


EXPANDED_MAX = 64


def weight(node: Node) -> int:
    """How many leaves and operands a condition has, once every CASE in it is spelled out.

    Nested, they would double again and again: what is heavier than EXPANDED_MAX is better computed as an operand.
    """
    match node:
        case Not(part) | Asked(part):
            return weight(part)
        case And(parts) | Or(parts):
            return sum(map(weight, parts))
        case Case(branches, default):
            turns = range(len(branches) + 1, 1, -1)
            conditions = sum(turn * weight(condition) for turn, (condition, _) in zip(turns, branches, strict=True))
            return conditions + sum(weight(value) for _, value in branches) + weight(default)
        case Compare(_, left, right):
            return _operand_weight(left) + _operand_weight(right)
        case Match(operand, pattern):
            return _operand_weight(operand) + _operand_weight(pattern)
        case Missing(operand) | Truth(operand):
            return _operand_weight(operand)
    return 1


def _operand_weight(operand: Operand) -> int:
    match operand:
        case Call(_, arguments):
            return 1 + sum(map(_operand_weight, arguments))
        case Binary(_, left, right):
            return 1 + _operand_weight(left) + _operand_weight(right)
        case Minus(inner):
            return 1 + _operand_weight(inner)
    return 1


def spelled_out(case: Case, side: Side) -> Node:
    """A condition that is true where a case is on a side, and else false."""
    passed: list[Node] = []
    alternatives: list[Node] = []
    for condition, value in case.branches:
        alternatives.append(And((*passed, Asked(condition, Side.TRUE), Asked(value, side))))
        passed.append(Asked(condition, Side.NOT_TRUE))
    return Or((*alternatives, And((*passed, Asked(case.default, side)))))


def operand_of(node: Node) -> Operand:
    """A condition as an operand, whose value is true, false or NULL."""
    match node:
        case Constant(value):
            return _NULL if value is None else _TRUE if value else _FALSE
        case And(parts) | Or(parts):
            return Call("and" if isinstance(node, And) else "or", tuple(map(operand_of, parts)))
        case Not(part):
            return Call("not", (operand_of(part),))
        case Asked(part, side):
            inner = operand_of(part if side in {Side.TRUE, Side.NOT_TRUE} else Not(part))
            certain = Call("coalesce", (inner, _FALSE))
            return certain if side in {Side.TRUE, Side.FALSE} else Call("not", (certain,))
        case Case(branches, default):
            flat = [operand_of(part) for branch in branches for part in branch]
            return Call("case", (*flat, operand_of(default)))
        case _:
            return _operand_of_leaf(node)


def _operand_of_leaf(leaf: Leaf) -> Operand:
    match leaf:
        case Compare(operator, left, right) if operator == NULL_SAFE_EQUAL:
            both = Call("and", (Call("isnull", (left,)), Call("isnull", (right,))))
            return Call("coalesce", (Call("=", (left, right), right.position), both))
        case Compare(operator, left, right):
            return Call(operator, (left, right), right.position)
        case Match(operand, pattern, escape, ignores_case):
            sides = tuple(Call("lower", (side,)) if ignores_case else side for side in (operand, pattern))
            return Call("like", (*sides, escape or _BACKSLASH), pattern.position)
        case Missing(operand):
            return Call("isnull", (operand,))
        case Truth(operand):
            return operand


_NULL = Word(Literal(Section.NULL, 0))
_TRUE, _FALSE = Word(Literal(Section.BOOLEAN, 1)), Word(Literal(Section.BOOLEAN, 0))
_BACKSLASH = Word(Literal(Section.STRING, "\\"))


def slots_in(operand: Operand) -> list[int]:
    """The numbers of the literals in an operand."""
    match operand:
        case Slot(number):
            return [number]
        case Minus(inner):
            return slots_in(inner)
        case Binary(_, left, right):
            return slots_in(left) + slots_in(right)
        case Call(_, arguments):
            return [number for argument in arguments for number in slots_in(argument)]
    return []


def slots_in_leaf(leaf: Leaf) -> list[int]:
    """The numbers of the literals in a leaf, each once."""
    match leaf:
        case Compare(_, left, right):
            found = slots_in(left) + slots_in(right)
        case Match(operand, pattern, escape):
            found = slots_in(operand) + slots_in(pattern) + ([] if escape is None else slots_in(escape))
        case Missing(operand) | Truth(operand):
            found = slots_in(operand)
    return list(dict.fromkeys(found))


def boxes_at_most(node: Node, side: Side = Side.TRUE) -> int:
    """How many boxes a condition can have at most, if none of its texts is also a time; each that is may double it."""
    match node:
        case Not(part):
            return boxes_at_most(part, side.under_not)
        case Asked(part):
            return boxes_at_most(part, inner_side(node, side))
        case Case():
            return boxes_at_most(spelled_out(node, side))
        case And(parts) | Or(parts):
            counts = [boxes_at_most(part, side) for part in parts]
            return math.prod(counts) if isinstance(node, And) is side.needs_all else sum(counts)
    return _leaf_boxes_at_most(node, side)


def _leaf_boxes_at_most(leaf: Constant | Leaf, side: Side) -> int:
    extra = 3 if side in {Side.NOT_TRUE, Side.NOT_FALSE} else 0  # NULL, and the sections below and above
    match leaf:
        case Compare(operator) if operator == NULL_SAFE_EQUAL:
            return 2 if side in {Side.TRUE, Side.NOT_FALSE} else _UNEQUAL_BOXES_MAX
        case Compare(operator):
            is_inverse = side in {Side.FALSE, Side.NOT_TRUE}
            return extra + (2 if (INVERSES[operator] if is_inverse else operator) == "!=" else 1)
        case Match():
            return extra + (1 if side is Side.TRUE else 2)
    return 1 + extra
