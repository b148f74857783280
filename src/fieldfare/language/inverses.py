"""Tests of an expression that are exactly an interval on a plainer axis: `left(code, 3) = 'abc'` on that of `code`.

A number or a boolean has a text too, and left(code, 3) looks at it; so a prefix is an interval of texts only if no
other value's text can begin like it. What ends with a text begins with it where it is read from its end.
"""

from __future__ import annotations

from fieldfare.language.expressions import axis_of
from fieldfare.language.intervals import Intervals, compared, spans
from fieldfare.language.patterns import prefix_end
from fieldfare.model import Attribute, AxisKey, Call, Expression, Literal, Section, cut_above, cut_below

_STARTS_OF_OTHERS = frozenset("0123456789+-tfI")  # of the texts of numbers, times, true, false and Infinity


def inverted(expression: Expression, *, truth: bool) -> tuple[AxisKey, Intervals] | None:
    """The axis and the intervals where a boolean expression is true, or false; None where it is no such test."""
    if not isinstance(expression, Call):
        return None
    match expression.function, expression.arguments:
        case "and", (Call(">=", (Call("ip", _) as address, Literal(_, low))), Call("<=", (_, Literal(_, high)))) if (
            truth
        ):
            first, last = (Section.STRING, str(low).encode()), (Section.STRING, str(high).encode())
            return axis_of(address), spans((cut_below(*first), cut_above(*last)))
        case "startswith", (text, Literal(Section.STRING, str(prefix))) if truth:
            return _prefix(text, prefix)
        case "endswith", (text, Literal(Section.STRING, str(end))) if truth and end:
            return axis_of(Call("reverse", (text,))), _prefixed(end[::-1])
        case "=", (Call("left", (text, Literal(Section.NUMBER, int(count)))), Literal(Section.STRING, str(start))):
            return _start(text, count, start)
        case "=", (
            Call("substring", (text, Literal(Section.NUMBER, 1), Literal(Section.NUMBER, int(count)))),
            Literal(Section.STRING, str(start)),
        ):
            return _start(text, count, start)
    return None


def _start(text: Expression, count: int, start: str) -> tuple[AxisKey, Intervals] | None:
    """Where the first `count` characters of a text are `start`."""
    if len(start) == count:
        return _prefix(text, start)
    if len(start) < count and _is_of_texts_only(text, start):
        return axis_of(text), compared("=", Section.STRING, start.encode())
    return None


def _prefix(text: Expression, prefix: str) -> tuple[AxisKey, Intervals] | None:
    return (axis_of(text), _prefixed(prefix)) if _is_of_texts_only(text, prefix) else None


def _is_of_texts_only(text: Expression, prefix: str) -> bool:
    """Whether only texts begin with a prefix, whatever else the expression may be."""
    is_text = isinstance(text, Call) and text.function in _GIVE_TEXT
    return (isinstance(text, Attribute) or is_text) and prefix != "" and (is_text or prefix[0] not in _STARTS_OF_OTHERS)


_GIVE_TEXT = {"lower", "upper", "trim", "ltrim", "rtrim", "replace", "concat", "reverse", "right"}


def _prefixed(prefix: str) -> Intervals:
    start = prefix.encode()
    return spans(((Section.STRING, start), (Section.STRING, prefix_end(start))))
