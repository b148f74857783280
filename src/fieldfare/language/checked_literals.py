"""Literals with a grammar of their own inside a call: polygons, places and patterns, checked with their place."""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.errors import ConditionSyntaxError, ConditionTypeError, UnsupportedConditionError
from fieldfare.language import tree
from fieldfare.language.java_patterns import JavaPatternError
from fieldfare.language.places import POLYGON_TESTS
from fieldfare.language.regular_expressions import MISSING, finder
from fieldfare.model import Expression, Literal


def check_literals(condition: str, call: tree.Call, arguments: Sequence[Expression]) -> None:
    """Raise an error, with its place in the condition, where a literal of a call is not sound."""
    if call.function in POLYGON_TESTS:
        _check_polygon(condition, arguments[0], call.arguments[0].position)
    elif call.function == "st_distancesphere":
        _check_places(condition, arguments, [operand.position for operand in call.arguments])
    elif call.function == "rlike":
        _check_pattern(condition, arguments[1], call.arguments[1].position)


def _check_polygon(condition: str, polygon: Expression, position: int | None) -> None:
    from fieldfare.geometry.wkt import WktError, read_polygons  # kernels are loaded when a place is asked for

    text = str(polygon.value) if isinstance(polygon, Literal) else ""
    try:
        read_polygons(text)
    except WktError as error:
        raise ConditionSyntaxError(
            error.reason, condition, _inside(condition, text, error.position, position)
        ) from error


def _check_places(condition: str, arguments: Sequence[Expression], positions: Sequence[int | None]) -> None:
    """Check the literal places of a distance."""
    for number, argument in enumerate(arguments):
        noun, most = (("longitude", 180), ("latitude", 90))[number % 2]
        if isinstance(argument, Literal) and not abs(float(argument.value)) <= most:
            reason = f"a {noun} lies between -{most} and {most}, and a point is ST_Point(longitude, latitude)"
            raise ConditionTypeError(reason, condition, positions[number])


def _check_pattern(condition: str, pattern: Expression, position: int | None) -> None:
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise ConditionTypeError("the pattern of RLIKE is a string in quotes", condition, position)
    try:
        finder(pattern.value)
    except ModuleNotFoundError as error:
        raise UnsupportedConditionError(MISSING, condition, position) from error
    except JavaPatternError as error:
        place = _inside(condition, pattern.value, error.position, position)
        raise UnsupportedConditionError(error.reason, condition, place) from error


def _inside(condition: str, literal: str, offset: int, start: int | None) -> int | None:
    """The place of a character of a quoted literal; of the literal itself, if that is not written plainly."""
    is_plain = start is not None and condition[start + 1 : start + 1 + len(literal)] == literal
    return start + 1 + offset if start is not None and is_plain else start
