"""Conditions on what a list has: as conjunctions and alternatives of `array_contains(list, literal)` being true.

Each such test is an axis of its own, whose values are true, false and NULL; so AND, OR and NOT need to know nothing of
lists. Where it must be true, a box holds it as a `Member`, which the index looks up (see matching/postings.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from fieldfare.language.expressions import NULL_LITERAL, axis_of
from fieldfare.language.intervals import Intervals, compared
from fieldfare.model import AxisKey, Call, Derived, Expression, Interval, Literal, Member, Section, cut_below

_TRUE = compared("=", Section.BOOLEAN, 1)
IS_MEMBER = _TRUE[0]  # the interval on the axis of `array_contains`


def member_of(axis: Derived, interval: Interval) -> Member | None:
    """The member that an interval on an axis asks for; None where it is no such test."""
    return _member_on(axis) if interval == IS_MEMBER else None


@lru_cache(maxsize=65_536)
def _member_on(axis: Derived) -> Member | None:
    match axis.expression:
        case Call("array_contains", (lists, Literal(section, value))) if section is not Section.NULL:
            return Member(Derived.of(lists), cut_below(section, value.encode() if isinstance(value, str) else value))
    return None


def axis_of_member(member: Member) -> Derived:
    """The axis of the test whether a list has a member: the way back."""
    section, value = member.value
    literal = Literal(section, value.decode() if isinstance(value, bytes) else value)
    return Derived.of(Call("array_contains", (member.lists.expression, literal)))


def member_sets(expression: Expression) -> list[dict[AxisKey, Intervals]] | None:
    """Alternatives, each a conjunction of members, that a condition is; None where it is not."""
    match expression:
        case Call("arrays_overlap", (lists, Call("array", wanted))) if _are_literals(wanted):
            return [{_contains(lists, literal): _TRUE} for literal in wanted if literal != NULL_LITERAL]
        case Call("arrays_overlap", (Call("array", wanted), lists)) if _are_literals(wanted):
            return [{_contains(lists, literal): _TRUE} for literal in wanted if literal != NULL_LITERAL]
        case Call("=", (Call("size", (Call("array_except", (Call("array", wanted), lists)),)), zero)):
            if wanted and _are_literals(wanted) and NULL_LITERAL not in wanted and _is_zero(zero):
                return [{_contains(lists, literal): _TRUE for literal in wanted}]
    return None


def _contains(lists: Expression, literal: Expression) -> AxisKey:
    return axis_of(Call("array_contains", (lists, literal)))


def _are_literals(wanted: Sequence[Expression]) -> bool:
    return all(isinstance(part, Literal) for part in wanted)


def _is_zero(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.section is Section.NUMBER and expression.value == 0
