"""LIKE patterns, parsed: None is %, the empty string is _, anything else is a character that must be there."""

from __future__ import annotations

Pattern = tuple[str | None, ...]


class MalformedPatternError(ValueError):
    """The escape character of a pattern stands before something that needs no escape."""


def parse_pattern(text: str, escape: str) -> Pattern:
    """A pattern's parts, where the escape character takes the meaning of %, _ and itself away."""
    parts: list[str | None] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None or (literal not in ("%", "_", escape)):
                raise MalformedPatternError(f"the escape character {escape} stands before neither %, _ nor itself")
            parts.append(literal)
        elif character == "%":
            if not parts or parts[-1] is not None:
                parts.append(None)
        else:
            parts.append("" if character == "_" else character)
    return tuple(parts)


def split_prefix(pattern: Pattern) -> tuple[str, Pattern]:
    """The characters before the first wildcard, and the rest of the pattern."""
    length = next((at for at, part in enumerate(pattern) if not part), len(pattern))
    return "".join(part for part in pattern[:length] if part), pattern[length:]


def prefix_end(prefix: bytes) -> bytes:
    """The smallest bytes above all that start with a prefix; no byte of UTF-8 is 255, so the last one has room."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))
