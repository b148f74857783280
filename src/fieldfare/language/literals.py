"""Literals as Spark reads them: numbers with their suffixes, strings with their escapes."""

from __future__ import annotations

import math
import re
import struct

from fieldfare.model import INT64_MAX, INT64_MIN, Literal, Section

_NUMBER = re.compile(r"([0-9]+)([LSY])?|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:E[+-]?[0-9]+)?)(D|F|BD)?", re.IGNORECASE)
_ESCAPES = {
    quote: re.compile(quote * 2 + r"|\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
    for quote in "'\""
}
_ESCAPED_CHARACTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SURROGATE = re.compile("[\ud800-\udfff]")


class MalformedLiteralError(ValueError):
    """A literal is not well formed; its condition's error says so."""


class LiteralRangeError(ValueError):
    """A number is too large for a 64-bit float."""


def read_literal(text: str) -> Literal:
    """The literal that stands in the text: a number, or a quoted string, which is taken as it is behind an r."""
    if text[0] in "rR":
        return Literal(Section.STRING, text[2:-1])
    if text[0] in "'\"":
        return Literal(Section.STRING, read_string(text))
    return Literal(Section.NUMBER, _read_number(text))


def settled(number: float) -> float:
    """A number as values hold it: an int within 64 bits, else a float, and zero without a sign."""
    if isinstance(number, int) and INT64_MIN <= number <= INT64_MAX:
        return number
    return float(number) + 0.0


def read_string(text: str) -> str:
    """The value of a quoted string."""
    quote, body = text[0], text[1:-1]
    if "\\" not in body:
        return body.replace(quote * 2, quote)
    value = _ESCAPES[quote].sub(_unescaped, body)
    if _SURROGATE.search(value) is None:
        return value
    try:  # two escapes may make one character together
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise MalformedLiteralError("an escape in the string is not valid Unicode") from None


def _unescaped(found: re.Match[str]) -> str:
    small, large, octal, character = found.groups()
    code = small or large
    if code:
        if int(code, 16) > 0x10FFFF:
            raise MalformedLiteralError("an escape in the string is not valid Unicode")
        return chr(int(code, 16))
    if octal:
        return chr(int(octal, 8))
    if character:
        return _ESCAPED_CHARACTERS.get(character, character)
    return found.group()[0]


def _read_number(text: str) -> float:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise MalformedLiteralError(f"{text} is not a number")
    integer, _, decimal, suffix = found.groups()
    if integer and len(integer.lstrip("0")) <= 19:
        return int(integer)
    value = float(integer or decimal)
    if suffix and suffix.upper() == "F":
        value = _single(value)
    if math.isinf(value):
        raise LiteralRangeError("number out of range: it is beyond a 64-bit float")
    return value


def _single(value: float) -> float:
    """The nearest 32-bit float."""
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.inf
    return single
