"""LIKE with a pattern whose segments are long, as an event may bring it: no segment is tried at place after place.

A segment is what stands between two %. One without _ is found by `str.find`, whose time is linear. One with _ is found
by shift-and: bit i of a number says that the segment's first i + 1 bytes match up to here, so that a byte of the text
costs a few operations on numbers as long as the segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.language.patterns import Pattern

Segment = Sequence[str]  # characters, and the empty string for _
_ANY = b"\xff"  # stands for _: a byte that UTF-8 never uses


def is_like(text: str, pattern: Pattern) -> bool:
    """Whether a text is like a pattern that has a %."""
    first, *middle, last = _segments(pattern)
    start, end = len(first), len(text) - len(last)
    if start > end or not _fits(text[:start], first) or not _fits(text[end:], last):
        return False
    for segment in middle:
        start = _end_of_first(text, segment, start, end)
        if start < 0:
            return False
    return True


def longest_segment(pattern: Pattern) -> int:
    """The length of the longest segment, ends and all."""
    return max(map(len, _segments(pattern)))


def _segments(pattern: Pattern) -> list[list[str]]:
    segments: list[list[str]] = [[]]
    for part in pattern:
        if part is None:
            segments.append([])
        else:
            segments[-1].append(part)
    return segments


def _fits(text: str, segment: Segment) -> bool:
    return all(part in ("", character) for part, character in zip(segment, text, strict=True))


def _end_of_first(text: str, segment: Segment, start: int, end: int) -> int:
    """Where the first occurrence of a segment in text[start:end] ends; -1 where it does not occur."""
    if "" not in segment:
        place = text.find("".join(segment), start, end)
        return place if place < 0 else place + len(segment)
    data = b"".join([_bytes_of(part) or _ANY for part in segment])
    masks = {byte: _places(byte, data) for byte in set(data)}
    anywhere, final = masks[_ANY[0]], 1 << len(data) - 1
    state = 0
    for at in range(start, end):
        for number, byte in enumerate(_bytes_of(text[at])):
            mask, after = masks.get(byte, 0), state << 1 | 1
            # A further byte of a character belongs to the _ that its first byte began.
            state = after & mask | state & anywhere if number else after & (mask | anywhere)
        if state & final:
            return at + 1
    return -1


def _bytes_of(characters: str) -> bytes:
    return characters.encode("utf-8", "surrogatepass")


def _places(byte: int, data: bytes) -> int:
    """A number whose bit i says that byte i of the data is this one."""
    digits = bytearray(b"0" * 256)
    digits[byte] = ord("1")
    return int(data[::-1].translate(digits), 2)
