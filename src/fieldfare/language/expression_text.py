"""Expressions and values as a person would write them in SQL: what the compiler spelled out is put back."""

from __future__ import annotations

from collections.abc import Callable

from fieldfare.language.network_functions import block_text
from fieldfare.language.times import format_timestamp
from fieldfare.model import EXACT_INTEGER_MAX, Arithmetic, Attribute, Call, Cut, Expression, Literal, Section, Variable

_PHRASES = {"and", "or", "not", "isnull", "like", "rlike", "add_microseconds", "add_months"}
_PHRASES |= {"bit_and", "bit_or", "bit_xor", "bit_not"}
_READ_AS_TIMES = {"time_of", "date_of"}  # a comparison with a computed time reads its other side so by itself
_UNITS = {
    "add_months": (("YEAR", 12), ("MONTH", 1)),
    "add_microseconds": (
        ("DAY", 86_400_000_000),
        ("HOUR", 3_600_000_000),
        ("MINUTE", 60_000_000),
        ("SECOND", 1_000_000),
        ("MILLISECOND", 1_000),
        ("MICROSECOND", 1),
    ),
}
_PLACE_TESTS = {"st_covers": "ST_Covers", "st_contains": "ST_Contains"}


def value_text(cut: Cut) -> str:
    """A value as a literal."""
    section, value = cut
    if isinstance(value, bytes):
        return quoted(value.decode("utf-8", "backslashreplace"))
    if section is Section.BOOLEAN:
        return "true" if value else "false"
    if section is Section.TIME:
        text = format_timestamp(int(value))
        return f"{'TIMESTAMP' if ' ' in text else 'DATE'} '{text}'"
    return _number_text(value)


def _number_text(value: float) -> str:
    if abs(value) <= EXACT_INTEGER_MAX and value == int(value):
        return str(int(value))
    return str(value)


def quoted(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def expression_text(expression: Expression) -> str:
    """An expression in SQL."""
    if isinstance(expression, Attribute | Variable):
        return expression.name
    if isinstance(expression, Literal):
        if isinstance(expression.value, str):
            return quoted(expression.value)
        return "NULL" if expression.section is Section.NULL else value_text((expression.section, expression.value))
    if isinstance(expression, Arithmetic):
        left, right = (operand_text(side) for side in (expression.left, expression.right))
        return f"{left} {expression.operator} {right}"
    return _call_text(expression)


def _call_text(call: Call) -> str:
    write = _WRITERS.get(call.function)
    if write is not None:
        return write(call)
    if not call.function[0].isalpha():
        left, right = map(operand_text, call.arguments)
        return f"{left} {call.function} {right}"
    return f"{call.function}({', '.join(map(expression_text, call.arguments))})"


def _joined(call: Call) -> str:
    block = _block_in(call)
    return block or f" {call.function.upper()} ".join(map(operand_text, call.arguments))


def _block_in(call: Call) -> str | None:
    """What `ip_in` became, written so again."""
    match call:
        case Call("and", (Call(">=", (Call("ip", (address,)), low)), Call("<=", (Call("ip", (other,)), high)))):
            if address == other and isinstance(low, Literal) and isinstance(high, Literal):
                block = block_text(str(low.value), str(high.value))
                return None if block is None else f"ip_in({expression_text(address)}, {quoted(block)})"
    return None


def _like(call: Call) -> str:
    text, pattern, *escape = map(operand_text, call.arguments)
    return f"{text} LIKE {pattern}" + "".join(f" ESCAPE {one}" for one in escape if one != quoted("\\"))


def _shifted(call: Call) -> str:
    """What is added or subtracted as an INTERVAL, in the largest unit that needs no fraction."""
    value, amount = call.arguments
    if not isinstance(amount, Literal) or isinstance(amount.value, str):
        raise TypeError("an INTERVAL has a literal amount")
    count = int(amount.value)
    unit, size = next((unit, size) for unit, size in _UNITS[call.function] if count % size == 0)
    return f"{operand_text(value)} {'-' if count < 0 else '+'} INTERVAL {abs(count) // size} {unit}"


def _cast(call: Call) -> str:
    return f"cast({expression_text(call.arguments[0])} AS {_word(call.arguments[1])})"


def _case(call: Call) -> str:
    parts = list(map(operand_text, call.arguments))
    whens = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(parts[:-1:2], parts[1::2], strict=True))
    return f"CASE {whens} ELSE {parts[-1]} END"


def _quantified(call: Call) -> str:
    lists, variable, condition = call.arguments
    return f"{call.function}({operand_text(lists)}, {_word(variable)} -> {expression_text(condition)})"


def _region(call: Call) -> str:
    region, x, y = map(expression_text, call.arguments)
    return f"{_PLACE_TESTS[call.function]}(ST_GeomFromText({region}), ST_Point({x}, {y}))"


def _distance(call: Call) -> str:
    x1, y1, x2, y2 = map(expression_text, call.arguments)
    return f"ST_DistanceSphere(ST_Point({x1}, {y1}), ST_Point({x2}, {y2}))"


def _trimmed(call: Call) -> str:
    return f"{call.function}({', '.join(map(expression_text, call.arguments[::-1]))})"  # the characters stand first


def _word(part: Expression) -> str:
    return str(part.value) if isinstance(part, Literal) else expression_text(part)


def _template(template: str) -> Callable[[Call], str]:
    return lambda call: template.format(*map(operand_text, call.arguments))


def operand_text(side: Expression) -> str:
    """An expression inside another, in parentheses where it needs them."""
    while isinstance(side, Call) and side.function in _READ_AS_TIMES:
        side = side.arguments[0]
    is_phrase = (
        isinstance(side, Call) and not _block_in(side) and (side.function in _PHRASES or not side.function[0].isalpha())
    )
    return f"({expression_text(side)})" if is_phrase or isinstance(side, Arithmetic) else expression_text(side)


_WRITERS: dict[str, Callable[[Call], str]] = {
    "and": _joined,
    "or": _joined,
    "not": _template("NOT {}"),
    "isnull": _template("{} IS NULL"),
    "like": _like,
    "rlike": _template("{} RLIKE {}"),
    "cast": _cast,
    "case": _case,
    "element": _template("{}[{}]"),
    "field": lambda call: f"{operand_text(call.arguments[0])}.{_word(call.arguments[1])}",
    "exists": _quantified,
    "forall": _quantified,
    "add_microseconds": _shifted,
    "add_months": _shifted,
    "time_of": _template("{}"),
    "date_of": _template("{}"),
    "date_text": lambda call: f"cast({expression_text(call.arguments[0])} AS string)",
    "trim": _trimmed,
    "ltrim": _trimmed,
    "rtrim": _trimmed,
    "bit_and": _template("{} & {}"),
    "bit_or": _template("{} | {}"),
    "bit_xor": _template("{} ^ {}"),
    "bit_not": _template("~{}"),
    "mirrored": lambda call: f"reverse({expression_text(call.arguments[0])})",
    "ip": lambda call: f"ip_in({expression_text(call.arguments[0])}, …)",
    "st_covers": _region,
    "st_contains": _region,
    "st_distancesphere": _distance,
}
