"""A condition as a small typed tree, with its literals taken out.

A literal is a numbered slot, so that all conditions of one shape share one tree and differ only in the list of
literals. BETWEEN, IN and IS TRUE are spelled out as comparisons: SQL defines them that way, NULLs included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fieldfare.model import Literal

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


Operand = Name | Slot | Minus | Binary | Word


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
    """`attribute LIKE pattern [ESCAPE escape]`."""

    attribute: Name
    pattern: Slot | Word
    escape: Slot | None


@dataclass(frozen=True, slots=True)
class Missing:
    """`attribute IS NULL`."""

    attribute: Name


@dataclass(frozen=True, slots=True)
class Truth:
    """An attribute that is itself a condition."""

    attribute: Name


Node = Constant | And | Or | Not | Compare | Match | Missing | Truth


def boxes_at_most(node: Node, *, truth: bool = True) -> int:
    """How many boxes a condition can have at most, if none of its texts is also a time; each that is may double it."""
    match node:
        case Not(part):
            return boxes_at_most(part, truth=not truth)
        case And(parts) | Or(parts):
            counts = [boxes_at_most(part, truth=truth) for part in parts]
            return math.prod(counts) if isinstance(node, And) is truth else sum(counts)
        case Compare(operator):
            if operator == NULL_SAFE_EQUAL:
                return 2 if truth else _UNEQUAL_BOXES_MAX
            return 2 if (operator if truth else INVERSES[operator]) == "!=" else 1
        case Match():
            return 1 if truth else 2
    return 1
