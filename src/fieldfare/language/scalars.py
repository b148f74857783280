"""The value of an expression for one event: SQL's three-valued logic on single values.

An expression is turned into nested Python functions once, and these are called for each event. What is computed in
columns (matching/evaluation.py) means the same; tests compare both with the oracle.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fieldfare.language.arithmetic import calculated
from fieldfare.language.functions import FUNCTIONS
from fieldfare.language.kinds import NULL, Value, argument, cast, result
from fieldfare.language.list_functions import LIST_FUNCTIONS, QUANTIFIERS
from fieldfare.model import (
    NOW,
    NOW_CALL,
    Arithmetic,
    Attribute,
    Cut,
    Derived,
    Expression,
    Literal,
    Section,
    Variable,
    section_start,
)

# The value of each attribute, which is no range: a cut; or, in the section of NaN, a list. Of each variable, in a tuple
# with its name, its value.
Points = Mapping[Any, tuple[Section, Any]]
Evaluator = Callable[[Points], Value]

TRUE: Value = (Section.BOOLEAN, 1)
FALSE: Value = (Section.BOOLEAN, 0)
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_VISITS = ("", "visits")  # no variable's key: how often a condition on members is evaluated, by the lists around it
_VISITS_MAX = 1_000_000
_ONCE: Value = (Section.NUMBER, 1)
_NULL, _NAN, _NUMBER, _STRING, _TIME = Section.NULL, Section.NAN, Section.NUMBER, Section.STRING, Section.TIME


def cut_of(axis: Derived, points: Points) -> Cut:
    """The place of an event on a derived axis."""
    section, content = _evaluator_of(axis)(points)
    if section is _NAN:
        return section_start(_NAN)
    return section, content.encode() if section is _STRING else content


def constant(expression: Expression) -> Value:
    """The value of an expression without attributes."""
    return evaluator(expression)({})


@functools.lru_cache(maxsize=65_536)
def _evaluator_of(axis: Derived) -> Evaluator:
    return evaluator(axis.expression)


def evaluator(expression: Expression) -> Evaluator:
    """A function from an event to the expression's value."""
    if isinstance(expression, Attribute):
        return _attribute(expression.name)
    if isinstance(expression, Literal):
        literal: Value = (expression.section, expression.value)
        return lambda _: literal
    if isinstance(expression, Variable):
        key = (expression.name,)
        return lambda points: points[key]
    if isinstance(expression, Arithmetic):
        return _arithmetic(expression.operator, evaluator(expression.left), evaluator(expression.right))
    if expression == NOW_CALL:
        return _attribute(NOW)
    parts = [evaluator(part) for part in expression.arguments]
    if expression.function in LIST_FUNCTIONS:
        return _list_function(LIST_FUNCTIONS[expression.function].call, parts)
    if expression.function in QUANTIFIERS:
        return _quantifier(*parts, is_all=expression.function == "forall")
    if expression.function == "isnull" and isinstance(expression.arguments[0], Attribute):
        name = expression.arguments[0].name
        return lambda points: TRUE if points[name][0] is _NULL else FALSE  # NaN is a value here, as in x IS NULL
    if expression.function in _FORMS:
        return _FORMS[expression.function](*parts)
    if expression.function in RELATIONS:
        return _comparison(RELATIONS[expression.function], *parts)
    return _function(expression.function, parts)


def _attribute(name: str) -> Evaluator:
    def evaluated(points: Points) -> Value:
        section, content = points[name]
        if section is _STRING:
            return _STRING, content.decode()  # texts are bytes in cuts
        return NULL if section is _NAN and content == 0 else (section, content)

    return evaluated


def _arithmetic(symbol: str, left: Evaluator, right: Evaluator) -> Evaluator:
    def evaluated(points: Points) -> Value:
        (section, one), (other_section, other) = left(points), right(points)
        if section is not _NUMBER or other_section is not _NUMBER:
            return NULL
        value = calculated(symbol, one, other)
        return NULL if value is None or math.isnan(value) else (_NUMBER, value)

    return evaluated


def _function(name: str, parts: Sequence[Evaluator]) -> Evaluator:
    function = FUNCTIONS[name]
    kinds = [function.parameter(number) for number in range(len(parts))]
    pairs = list(zip(kinds, parts, strict=True))
    call, kind, converts = function.call, function.result, function.converts

    def evaluated(points: Points) -> Value:
        arguments = []
        for parameter, part in pairs:
            value = part(points)
            content = argument(parameter, value)
            if content is None or not (converts or value[0] is parameter.section):
                return NULL
            arguments.append(content)
        return result(kind, call(*arguments))

    return evaluated


def _comparison(relation: Callable[[Any, Any], bool], left: Evaluator, *readings: Evaluator) -> Evaluator:
    """A comparison; a text that is also a time has a second reading, for where the left side is a time."""

    def evaluated(points: Points) -> Value:
        section, one = left(points)
        for reading in readings:
            other_section, other = reading(points)
            if section is other_section and section is not _NULL and section is not _NAN:
                return TRUE if relation(one, other) else FALSE
        return NULL

    return evaluated


def _list_function(call: Callable[..., Value], parts: Sequence[Evaluator]) -> Evaluator:
    if len(parts) == 1:
        part = parts[0]
        return lambda points: call(part(points))
    return lambda points: call(*[part(points) for part in parts])


def _quantifier(lists: Evaluator, variable: Evaluator, condition: Evaluator, *, is_all: bool) -> Evaluator:
    """Whether a condition holds for some member of a list, or for all."""
    key = (variable({})[1],)
    deciding, otherwise = (FALSE, TRUE) if is_all else (TRUE, FALSE)

    def evaluated(points: Points) -> Value:
        members = lists(points)[1]
        outer = points.get(_VISITS, _ONCE)[1]
        if not isinstance(members, tuple) or (outer > 1 and outer * len(members) > _VISITS_MAX):
            return NULL
        found, scope = otherwise, dict(points)
        scope[_VISITS] = (_NUMBER, outer * max(len(members), 1))
        for member in members:
            scope[key] = member
            value = condition(scope)
            if value == deciding:
                return deciding
            if value != otherwise:
                found = NULL
        return found

    return evaluated


# Forms, whose arguments are not all evaluated, or may be NULL


def _and(*parts: Evaluator) -> Evaluator:
    def evaluated(points: Points) -> Value:
        found = TRUE
        for part in parts:
            value = part(points)
            if value == FALSE:
                return FALSE
            if value != TRUE:
                found = NULL
        return found

    return evaluated


def _or(*parts: Evaluator) -> Evaluator:
    def evaluated(points: Points) -> Value:
        found = FALSE
        for part in parts:
            value = part(points)
            if value == TRUE:
                return TRUE
            if value != FALSE:
                found = NULL
        return found

    return evaluated


def _not(part: Evaluator) -> Evaluator:
    def evaluated(points: Points) -> Value:
        value = part(points)
        return FALSE if value == TRUE else TRUE if value == FALSE else NULL

    return evaluated


def _is_null(part: Evaluator) -> Evaluator:
    return lambda points: TRUE if part(points)[0] is _NULL else FALSE


def _case(*parts: Evaluator) -> Evaluator:
    """Conditions and values by turns, and the value where no condition holds."""
    *whens, default = parts
    branches = list(zip(whens[::2], whens[1::2], strict=True))

    def evaluated(points: Points) -> Value:
        for condition, value in branches:
            if condition(points) == TRUE:
                return value(points)
        return default(points)

    return evaluated


def _coalesce(*parts: Evaluator) -> Evaluator:
    def evaluated(points: Points) -> Value:
        for part in parts:
            value = part(points)
            if value[0] is not _NULL:
                return value
        return NULL

    return evaluated


def _extreme(choose: Callable[..., Any], *parts: Evaluator) -> Evaluator:
    """The greatest or the least of the values that are not NULL, which must be of one section."""

    def evaluated(points: Points) -> Value:
        values = [value for part in parts if (value := part(points))[0] is not _NULL]
        if len({section for section, _ in values}) != 1 or values[0][0] is _NAN:
            return NULL
        return values[0][0], choose(content for _, content in values)

    return evaluated


def _cast(part: Evaluator, target: Evaluator) -> Evaluator:
    kind = target({})[1]
    return lambda points: cast(part(points), kind)


_FORMS: dict[str, Callable[..., Evaluator]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "isnull": _is_null,
    "case": _case,
    "coalesce": _coalesce,
    "greatest": functools.partial(_extreme, max),
    "least": functools.partial(_extreme, min),
    "cast": _cast,
}
