"""Values inside lists, of an event that is a dict: as expressions know them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from fieldfare.errors import EventError
from fieldfare.language.kinds import NULL, Value
from fieldfare.model import INT64_MAX, INT64_MIN, Section

DEPTH_MAX = 32  # of lists and objects inside lists
TOO_LARGE = "an integer beyond 64 bits cannot be matched; give it as a float or as a string"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def instant_of(value: datetime.date) -> int:
    """A date or datetime in microseconds since 1970; without a zone it is UTC."""
    if not isinstance(value, datetime.datetime):
        return (value - _EPOCH.date()) // _MICROSECOND
    aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return (aware - _EPOCH) // _MICROSECOND


def decimal_number(value: Decimal, attribute: str) -> float | int:
    """A decimal as the integer or the nearest float that it is compared as."""
    if value.is_finite() and value == value.to_integral_value() and INT64_MIN <= value <= INT64_MAX:
        return int(value)
    if value.is_snan():
        raise EventError(attribute, "a signalling NaN cannot be matched")
    return float(value)


def value_of(value: Any, attribute: str, depth: int = 0) -> Value:
    """A value of an event, as expressions have it: texts are str, a list is a tuple of values, NaN is NULL."""
    kind = type(value)
    if kind is str:
        return Section.STRING, value if value.isascii() else _sound(value, attribute)
    if kind is bool:
        return Section.BOOLEAN, int(value)
    if kind is float:
        return NULL if math.isnan(value) else (Section.NUMBER, value)
    if kind is int:
        if not INT64_MIN <= value <= INT64_MAX:
            raise EventError(attribute, TOO_LARGE)
        return Section.NUMBER, value
    if value is None:
        return NULL
    return _rarer_value(value, attribute, depth)


def _sound(text: str, attribute: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EventError(attribute, "a string with a lone surrogate is not valid Unicode text") from error
    return text


def _rarer_value(value: Any, attribute: str, depth: int) -> Value:
    if isinstance(value, list | tuple):
        if depth >= DEPTH_MAX:
            raise EventError(attribute, f"lists are nested deeper than {DEPTH_MAX}")
        return Section.NAN, tuple([value_of(member, attribute, depth + 1) for member in value])
    if isinstance(value, Mapping):
        return Section.NAN, value
    if isinstance(value, datetime.date):
        return Section.TIME, instant_of(value)
    if isinstance(value, Decimal):
        return value_of(decimal_number(value, attribute), attribute)
    if isinstance(value, bool | int | float | str):
        base = next(base for base in (bool, int, float, str) if isinstance(value, base))
        return value_of(base(value), attribute)
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a scalar of NumPy
        return value_of(value.item(), attribute)
    raise EventError(attribute, f"a value of type {type(value).__name__} in a list cannot be matched")
