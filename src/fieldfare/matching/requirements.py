"""What the attributes of an expression must be, if it is to have a value: coverings and rare tests ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from fieldfare.language.functions import FUNCTIONS
from fieldfare.language.intervals import section_interval
from fieldfare.language.scalars import RELATIONS
from fieldfare.model import (
    MISSING,
    PRESENT,
    Arithmetic,
    Attribute,
    Box,
    Call,
    Derived,
    Expression,
    Interval,
    Section,
)

_NUMBERS = section_interval(Section.NUMBER)


def requirements(axis: Derived, interval: Interval) -> dict[str, Interval]:
    """For some attributes what they must be for an expression's value to lie in an interval."""
    return {} if interval.low == MISSING.low else dict(_requirements(axis))


def required_intervals(box: Box) -> Mapping[str, Interval]:
    """The intervals of a box, and what its expressions need of other attributes."""
    if not box.derived and not box.members:
        return box.intervals
    needed = dict(box.intervals)
    for member in box.members:
        for name, required in member_requirements(member.lists).items():
            needed.setdefault(name, required)
    for axis, interval in box.derived.items():
        for name, required in requirements(axis, interval).items():
            needed.setdefault(name, required)
    return needed


def member_requirements(lists: Derived) -> dict[str, Interval]:
    """For some attributes what they must be for a list to have any member."""
    match lists.expression:
        case Attribute(name):
            return {name: section_interval(Section.NAN)}
        case Call("words", (Attribute(name),)):
            return {name: PRESENT}
    return {}


@lru_cache(maxsize=65_536)
def _requirements(axis: Derived) -> tuple[tuple[str, Interval], ...]:
    found: dict[str, Interval] = {}
    _require(axis.expression, PRESENT, found)
    return tuple(found.items())


def _require(expression: Expression, interval: Interval, found: dict[str, Interval]) -> None:
    if isinstance(expression, Attribute):
        if found.get(expression.name, PRESENT) == PRESENT:
            found[expression.name] = interval
    elif isinstance(expression, Arithmetic):
        for side in (expression.left, expression.right):
            _require(side, _NUMBERS, found)
    elif isinstance(expression, Call):
        function = FUNCTIONS.get(expression.function)
        if function is not None:
            for number, part in enumerate(expression.arguments):
                section = function.parameter(number).section
                is_strict = section is Section.NUMBER or not function.converts
                _require(part, section_interval(section) if is_strict else PRESENT, found)
        elif expression.function in RELATIONS or expression.function in {"cast", "not"}:
            strict = expression.arguments[:1] if expression.function not in RELATIONS else expression.arguments[:2]
            for part in strict:
                _require(part, PRESENT, found)
