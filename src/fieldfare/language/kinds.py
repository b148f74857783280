"""What is known of an expression's type before there is an event, and conversions between types as Spark makes them.

Attributes have no type: an event's value has one. So a kind is known of literals and of what functions give, and the
conversions here look at each value.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from enum import Enum
from typing import Any

from fieldfare.language.times import parse_date, parse_timestamp, timestamp_text
from fieldfare.model import INT64_MAX, INT64_MIN, Section

Value = tuple[Section, Any]  # as a cut, but texts are str; NULL is (Section.NULL, 0); a list is (Section.NAN, a tuple)
NULL: Value = (Section.NULL, 0)
_BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))  # what Spark trims: spaces and control characters
_BLANKS_OF_FLOATS = _BLANKS[:-1]  # here Java does
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)
_INFINITY = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE | re.ASCII)
_TRUE_WORDS, _FALSE_WORDS = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_DAY = 86_400_000_000


class Kind(Enum):
    """A type, as far as it matters here."""

    BOOLEAN = "a boolean"
    INTEGER = "a whole number"
    NUMBER = "a number"
    TEXT = "a string"
    DATE = "a date"
    TIME = "a date or timestamp"
    LIST = "a list"

    @property
    def section(self) -> Section:
        """Where values of this kind lie on an axis."""
        return _SECTIONS[self]


_SECTIONS = {
    Kind.BOOLEAN: Section.BOOLEAN,
    Kind.INTEGER: Section.NUMBER,
    Kind.NUMBER: Section.NUMBER,
    Kind.TEXT: Section.STRING,
    Kind.DATE: Section.TIME,
    Kind.TIME: Section.TIME,
    Kind.LIST: Section.NAN,
}
CAST_TYPES = {  # what CAST can make, and the kind that it gives
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.INTEGER,
    "smallint": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "float": Kind.NUMBER,
    "double": Kind.NUMBER,
    "string": Kind.TEXT,
    "date": Kind.DATE,
    "timestamp": Kind.TIME,
}
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


_READ_FROM_TEXT = {Kind.TIME: parse_timestamp, Kind.DATE: parse_date}


def argument(kind: Kind, value: Value) -> Any:
    """A value as an argument of a kind, None where it is NULL or cannot be one."""
    section, content = value
    if section is Section.NULL or section is Section.NAN:
        return None
    if kind is Kind.TEXT:
        return content if section is Section.STRING else text_of(section, content)
    if section is Section.STRING and kind in _READ_FROM_TEXT:
        return _READ_FROM_TEXT[kind](content)
    if section is not kind.section or (kind is Kind.INTEGER and not isinstance(content, int)):
        return None
    return content


def result(kind: Kind, content: Any) -> Value:
    """What a function gave, as a value: None and NaN are NULL."""
    if content is None:
        return NULL
    section = _SECTIONS[kind]
    if section is Section.NUMBER:
        if isinstance(content, float):
            return NULL if math.isnan(content) else (section, content + 0.0)
        return (section, content) if INT64_MIN <= content <= INT64_MAX else NULL
    return section, int(content) if section is Section.BOOLEAN else content


def text_of(section: Section, content: Any) -> str:
    """A value as Spark's cast to a string writes it."""
    if section is Section.BOOLEAN:
        return "true" if content else "false"
    if section is Section.TIME:
        return timestamp_text(content)
    return _number_text(content) if section is Section.NUMBER else str(content)


def _number_text(number: float) -> str:
    """As Java writes numbers: 1.0, 1.0E10, 1.5E-7."""
    if isinstance(number, int):
        return str(number)
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = format(Decimal(repr(number)), "f")
        return text if "." in text else f"{text}.0"
    if len(repr(number).partition("e")[0].lstrip("-")) == 1:  # Java takes the nearest of two digits
        number_text = format(number, ".1e")
        if float(number_text) == number:
            return f"{number_text.partition('e')[0]}E{int(number_text.partition('e')[2])}"
    sign, digits, _ = Decimal(repr(number)).as_tuple()
    exponent = Decimal(repr(number)).adjusted()
    figures = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{exponent}"


def cast(value: Value, target: str) -> Value:
    """CAST(value AS target), a type of `CAST_TYPES`; NULL where the cast fails."""
    section, content = value
    if section is Section.NULL or section is Section.NAN:
        return NULL
    kind = CAST_TYPES[target]
    if kind is Kind.TEXT:
        return Section.STRING, text_of(section, content)
    if kind is Kind.BOOLEAN:
        return _to_boolean(section, content)
    if kind in (Kind.DATE, Kind.TIME):
        return _to_time(section, content, is_date=kind is Kind.DATE)
    return _to_integer(section, content, target) if kind is Kind.INTEGER else _to_float(section, content, target)


def _to_boolean(section: Section, content: Any) -> Value:
    if section is Section.STRING:
        word = content.strip(_BLANKS).lower()
        return (Section.BOOLEAN, int(word in _TRUE_WORDS)) if word in _TRUE_WORDS | _FALSE_WORDS else NULL
    if section is Section.NUMBER:
        return Section.BOOLEAN, int(content != 0)
    return (section, content) if section is Section.BOOLEAN else NULL


def _to_time(section: Section, content: Any, *, is_date: bool) -> Value:
    if section is Section.STRING:
        instant = parse_date(content) if is_date else parse_timestamp(content)
        return NULL if instant is None else (Section.TIME, instant)
    if section is Section.TIME:
        instant = content // _DAY * _DAY if is_date else content
        return (section, instant) if instant >= INT64_MIN else NULL
    if section is Section.NUMBER and not is_date and math.isfinite(content):
        if isinstance(content, int):
            return Section.TIME, min(max(content * 1_000_000, INT64_MIN), INT64_MAX)
        product = content * 1_000_000
        return (Section.TIME, int(product)) if -(2.0**63) <= product < 2.0**63 else NULL
    return NULL


def _to_integer(section: Section, content: Any, target: str) -> Value:
    if section is Section.STRING:
        found = content.strip(_BLANKS)
        number = int(found) if _INTEGER.fullmatch(found) and len(found) <= 64 else None
    elif section is Section.TIME:
        number = content // 1_000_000
    else:
        number = math.trunc(content) if math.isfinite(content) else None
        number = INT64_MAX if content == 2.0**63 and target == "bigint" else number  # INT64_MAX as a float
    limit = 1 << (_INTEGER_BITS[target] - 1)
    return NULL if number is None or not -limit <= number < limit else (Section.NUMBER, number)


def _to_float(section: Section, content: Any, target: str) -> Value:
    if section is Section.STRING:
        found = content.strip(_BLANKS_OF_FLOATS)
        infinity = _INFINITY.fullmatch(found)
        if infinity:
            content = -math.inf if infinity[1] == "-" else math.inf
        elif _FLOAT.fullmatch(found):
            content = float(found.rstrip("dDfF"))
        else:
            return NULL
    elif section is Section.TIME:
        content /= 1_000_000
    return Section.NUMBER, (_single(float(content)) if target == "float" else float(content)) + 0.0


def _single(number: float) -> float:
    try:
        single: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return single
