"""Functions of texts, one value at a time. Characters are code points, as in Spark; the first has number 1."""

from __future__ import annotations

import functools
import re
from itertools import zip_longest

from fieldfare.language.long_patterns import is_like, longest_segment
from fieldfare.language.patterns import MalformedPatternError, Pattern, parse_pattern

_SEGMENT_MAX = 64  # characters between two % of a pattern that a regular expression answers

PADDED_MAX = 1_000_000  # characters that a function makes of few: longer texts are NULL
JOINED_MAX = 16_000_000  # characters that it makes of several texts
_COUNT_MAX = 2**31 - 1  # of characters, in Spark


def trim(text: str, characters: str = " ") -> str:
    """Without the spaces, or other characters, at both ends: spaces only, no tabs."""
    return text.strip(characters)


def ltrim(text: str, characters: str = " ") -> str:
    """Without the spaces, or other characters, at its start."""
    return text.lstrip(characters)


def rtrim(text: str, characters: str = " ") -> str:
    """Without the spaces, or other characters, at its end."""
    return text.rstrip(characters)


def left(text: str, count: int) -> str:
    """The first characters."""
    return text[: max(count, 0)]


def right(text: str, count: int) -> str:
    """The last characters."""
    return text[-count:] if count > 0 else ""


def substring(text: str, start: int, count: int | None = None) -> str:
    """Some characters from a place on, which counts from the end if it is negative."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = first + (_COUNT_MAX if count is None else count)
    return text[max(first, 0) : max(end, 0)]


def concat(*texts: str) -> str | None:
    """The texts one after the other."""
    return "".join(texts) if sum(map(len, texts)) <= JOINED_MAX else None


def replace(text: str, search: str, replacement: str = "") -> str | None:
    """Every occurrence replaced; an empty text occurs nowhere."""
    if not search:
        return text
    growth = text.count(search) * (len(replacement) - len(search)) if len(replacement) > len(search) else 0
    return text.replace(search, replacement) if len(text) + growth <= JOINED_MAX else None


def reverse(text: str) -> str:
    """The characters from the last to the first."""
    return text[::-1]


def locate(search: str, text: str, start: int = 1) -> int:
    """The place where a text first occurs, at or after a place; 0 where it does not."""
    if start <= 0:
        return 0
    return text.find(search, start - 1) + 1 if search else 1


def instr(text: str, search: str) -> int:
    """The place where a text first occurs; 0 where it does not."""
    return text.find(search) + 1


def like(text: str, pattern: str, escape: str) -> bool | None:
    """Whether a text is like a pattern; None for a pattern that is malformed."""
    compiled = compiled_pattern(pattern, escape)
    if compiled is None:
        return None
    return compiled.fullmatch(text) is not None if isinstance(compiled, re.Pattern) else is_like(text, compiled)


@functools.lru_cache(maxsize=4_096)
def compiled_pattern(pattern: str, escape: str) -> re.Pattern[str] | Pattern | None:
    """The pattern as a regular expression that does not go back: between two % the first place always suffices.

    It would compare a long segment at every place of the text, so a pattern with one stays as it is.
    """
    try:
        parts = parse_pattern(pattern, escape)
    except MalformedPatternError:
        return None
    if None in parts and longest_segment(parts) > _SEGMENT_MAX:
        return parts
    pieces: list[list[str]] = [[]]
    for part in parts:
        if part is None:
            pieces.append([])
        else:
            pieces[-1].append(re.escape(part) if part else ".")
    first, *others = map("".join, pieces)
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    skipped = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{skipped}.*{last}", re.DOTALL)


def lpad(text: str, size: int, pad: str = " ") -> str | None:
    """Cut or filled at its start to a number of characters."""
    return _padding(text, size, pad) + text[: max(size, 0)] if size <= PADDED_MAX else None


def rpad(text: str, size: int, pad: str = " ") -> str | None:
    """Cut or filled at its end to a number of characters."""
    return text[: max(size, 0)] + _padding(text, size, pad) if size <= PADDED_MAX else None


def _padding(text: str, size: int, pad: str) -> str:
    missing = max(size - len(text), 0)
    return (pad * (missing // len(pad) + 1))[:missing] if pad else ""


def repeat(text: str, count: int) -> str | None:
    """The text so many times."""
    return text * count if len(text) * count <= PADDED_MAX else None


def initcap(text: str) -> str:
    """The first letter of each word in upper case and all others in lower case; spaces stand between words."""
    return " ".join(word[:1].title() + word[1:] for word in text.lower().split(" "))


def substring_index(text: str, separator: str, count: int) -> str:
    """What stands before a separator's so many-th place, or behind it, counted from the end."""
    if not separator or not count:
        return ""
    parts = text.split(separator)
    return separator.join(parts[:count] if count > 0 else parts[count:])


def split_part(text: str, separator: str, number: int) -> str | None:
    """A part between separators, by its number; negative from the end."""
    parts = text.split(separator) if separator else [text]
    if not number:
        return None
    return parts[number - 1 if number > 0 else number] if abs(number) <= len(parts) else ""


def translate(text: str, characters: str, others: str) -> str:
    """Each character replaced by that of the same place, or left out where there is none."""
    table = {ord(one): other for one, other in reversed(list(zip_longest(characters, others[: len(characters)])))}
    return text.translate(table)


def ascii_code(text: str) -> int:
    """The number of the first character; 0 where there is none."""
    return ord(text[0]) if text else 0


def octet_length(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text.encode())
