"""Single values, for the oracle: their types, how they are cast, compared with patterns, calculated and called with."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from fieldfare.matching import oracle_days as days
from fieldfare.matching import oracle_functions as functions
from fieldfare.matching import oracle_places
from fieldfare.model import Scalar


@dataclass(frozen=True, order=True)
class Time:
    """A point in time; a date is its midnight."""

    microseconds: int


Value = bool | int | float | str | Time | None | Any  # lists and dicts too
_NUMBERS = {"exp", "ln", "log", "log10", "log2", "try_add", "try_subtract", "try_multiply", "try_divide"}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INT64 = range(-(2**63), 2**63)


def section(value: Value) -> type | None:
    """What a value can be compared with; None: with nothing."""
    if value is None or isinstance(value, list | dict) or (isinstance(value, float) and math.isnan(value)):
        return None
    return float if type(value) is int else type(value)


def like(text: Value, pattern: Value, escape: str) -> bool | None:
    """Whether a text is like a pattern."""
    if not isinstance(text, str) or not isinstance(pattern, str):
        return None
    expression = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped not in ("%", "_", escape):
                return None
            expression += re.escape(escaped)
        else:
            expression += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return re.fullmatch(expression, text, re.DOTALL) is not None


def present(value: Value) -> Value:
    """A value in an expression: NaN counts as NULL there."""
    return None if isinstance(value, float) and math.isnan(value) else value


def text_of(value: Value) -> str | None:
    """A value as a text."""
    return None if present(value) is None else functions.text(value)


def time_of(value: Value) -> Time | None:
    """A value as a time, which a text may be."""
    return parsed_time(value) if isinstance(value, str) else value if isinstance(value, Time) else None


def cast(value: Value, kind: str) -> Value:
    """CAST(value AS kind), or None where it fails."""
    if value is None:
        return None
    match kind:
        case "string":
            return functions.text(value)
        case "boolean":
            return value if isinstance(value, bool) else functions.to_boolean(value)
        case "date" | "timestamp":
            if isinstance(value, int | float):
                exact = int(value * 1_000_000) if isinstance(value, int) or math.isfinite(value) else 2**63
                if isinstance(value, int):
                    exact = min(max(exact, -(2**63)), 2**63 - 1)
                return None if kind == "date" or isinstance(value, bool) or exact not in _INT64 else Time(exact)
            when = time_of(value)
            return when if when is None or kind == "timestamp" else Time(functions.truncated("DAY", when.microseconds))
        case "double":
            return functions.to_float(value)
        case _:
            return functions.to_integer(value, kind)


def called(name: str, arguments: list[Value]) -> Value:
    """The value of a call."""
    arguments = [present(argument) for argument in arguments]
    name = functions.SYNONYMS.get(name, name)
    match name:
        case "coalesce" | "ifnull" | "nvl":
            return next((argument for argument in arguments if argument is not None), None)
        case "if":
            return arguments[1] if arguments[0] is True else arguments[2]
        case "nullif":
            same = section(arguments[0]) is section(arguments[1]) and arguments[0] == arguments[1]
            return None if same else arguments[0]
        case "isnull" | "isnotnull":
            return (arguments[0] is None) is (name == "isnull")
        case "greatest" | "least":
            known = [argument for argument in arguments if argument is not None]
            if len({section(argument) for argument in known}) != 1:
                return None
            return max(known) if name == "greatest" else min(known)
        case "date" | "timestamp" | "int" | "bigint" | "double" | "string" | "boolean":
            return cast(arguments[0], name)
        case "nvl2":
            return arguments[2] if arguments[0] is None else arguments[1]
        case "equal_null":
            return _is_same(*arguments)
        case "to_date" | "to_timestamp":
            return cast(arguments[0], name.removeprefix("to_"))
    return _strict(name, arguments)


def _is_same(one: Value, other: Value) -> bool:
    """Whether values are equal, or both NULL."""
    return one is other or (one is not None and section(one) is section(other) and one == other)


def _strict(name: str, arguments: list[Any]) -> Value:
    """The value of a call that is NULL where an argument is."""
    if None in arguments:
        return None
    if name in days.DAY_FUNCTIONS | days.INSTANT_FUNCTIONS:
        return _of_days(name, arguments)
    if name == "date_format":
        at = time_of(arguments[0])
        return None if at is None else days.formatted(at.microseconds, arguments[1])
    if name == "make_date":
        return _as_value(days.made(*arguments))
    if name in days.FROM_NUMBERS:
        return Time(int(arguments[0] * days.FROM_NUMBERS[name]))
    if name in functions.TIME_FIELDS or name in {"date_trunc", "from_utc_timestamp", "to_utc_timestamp"}:
        when = time_of(arguments[1 if name == "date_trunc" else 0])
        return None if when is None else _of_time(name, when.microseconds, arguments)
    if name in {"abs", "ceil", "floor", "round", "div", "pmod", "power", "sqrt", "sign", "mod", *_NUMBERS}:
        if any(section(argument) is not float for argument in arguments):
            return None
        number: float | None = functions.of_numbers(name, *arguments)
        return number
    return _of_others(name, arguments)


def _of_days(name: str, arguments: list[Value]) -> Value:
    times = [time_of(argument) if not isinstance(argument, int) else argument for argument in arguments]
    when = times[0]
    if not isinstance(when, Time):
        return None
    if name in days.INSTANT_FUNCTIONS:
        return days.of_instant(name, when.microseconds)
    others = arguments[1:] if name == "trunc" else [getattr(other, "microseconds", other) for other in times[1:]]
    return None if None in others else _as_value(days.of_days(name, when.microseconds, others))


def _as_value(found: Any) -> Value:
    return value_of(found) if isinstance(found, datetime.date) else found


def _of_others(name: str, arguments: list[Value]) -> Value:
    """A call about places or texts."""
    found: Value
    if name.startswith("st_"):
        found = oracle_places.called(name, arguments)
    else:
        found = functions.of_texts(name, [functions.text(argument) for argument in arguments], arguments)
    return found


def _of_time(name: str, microseconds: int, arguments: list[Value]) -> Value:
    if name == "date_trunc":
        return Time(functions.truncated(str(arguments[0]), microseconds))
    if name == "from_utc_timestamp":
        return Time(functions.local(microseconds, str(arguments[1])))
    if name == "to_utc_timestamp":
        return Time(functions.utc_of(microseconds, str(arguments[1])))
    return functions.time_field(name, microseconds)


def number(text: str) -> int | float:
    """A literal."""
    if text.lstrip("-").isdigit() and int(text) in _INT64:
        return int(text)
    return float(text)


def arithmetic(operator: type[exp.Expr], a: Value, b: Value) -> int | float | None:
    """The result of + - * / or %, or None where there is none."""
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return None
    if section(a) is not float or section(b) is not float:
        return None
    if operator in (exp.Div, exp.Mod) and b == 0:
        return None
    if operator is exp.Div or isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
    if operator is exp.Mod:
        if isinstance(a, float):
            return math.fmod(a, b) if not math.isinf(a) else None
        return int(math.copysign(1, a)) * (abs(a) % abs(int(b)))
    result = a + b if operator is exp.Add else a - b if operator is exp.Sub else a * b if operator is exp.Mul else a / b
    return result if isinstance(result, float) or result in _INT64 else None


def value_of(value: Scalar) -> Value:
    """An event's value as the language sees it."""
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value() and int(value) in _INT64
        return int(value) if whole else float(value)
    if isinstance(value, list):
        return [present(value_of(member)) for member in value]
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return Time((zoned - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return value_of(datetime.datetime.combine(value, datetime.time()))
    return value


_CLOCK = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?\s*(\S*)"
_TIME = re.compile(rf"\s*(\d{{4}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[T ](?:{_CLOCK})?)?)?)?\s*")


def parsed_time(text: str) -> Time | None:
    """A quoted date or timestamp, year first; None where the text is neither."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (
        int(part or default) for part, default in zip(found.groups(), "011000", strict=False)
    )
    microsecond = int((found[7] or "0").ljust(6, "0")[:6])
    try:
        zone = datetime.datetime.strptime(found[8], "%z").tzinfo if found[8] else datetime.UTC
        moment = datetime.datetime(year, month, day, hour, minute, second, microsecond, zone)
    except ValueError:
        return None
    return Time((moment - _EPOCH) // datetime.timedelta(microseconds=1))
