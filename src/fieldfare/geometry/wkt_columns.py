"""Many polygons in well-known text -> rows of floats, at once.

A kernel finds the numbers and checks that each text is one polygon; Arrow reads the numbers. What the kernel does not
take (several polygons, what is wrong) is left to wkt.py, one by one, which knows what to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, types

from fieldfare.geometry.covers import THIN
from fieldfare.geometry.rows import Floats, Places
from fieldfare.geometry.validity import SOUND, measure_polygons
from fieldfare.geometry.wkt import COORDINATE_MAX, CORNERS_MAX

_CHUNK_ROWS = 32_768  # so that a million texts need little memory beside themselves
_CLOSER = 1.001  # polygons that fill little more than THIN asks are left to be looked at singly

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Polygons:
    """Polygons as regions, with west, south, east and north of each; only where `taken` do they mean anything."""

    regions: list[bytes]
    bounds: Floats
    taken: npt.NDArray[np.bool_]


def read_many(texts: Sequence[str], kind: float) -> Polygons:
    """The regions of many texts, those that are one sound polygon, and not a thin one."""
    chunks = [_read_chunk(texts[at : at + _CHUNK_ROWS], kind) for at in range(0, len(texts), _CHUNK_ROWS)]
    regions = [region for chunk in chunks for region in chunk.regions]
    bounds, taken = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("bounds", "taken"))
    return Polygons(regions, bounds, taken)


def _read_chunk(texts: Sequence[str], kind: float) -> Polygons:
    encoded = [text.encode("utf-8", "replace") for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    source = np.frombuffer(b"".join(encoded), np.uint8)
    found = np.empty(2 * len(source) + 8, np.uint8)
    token_ends = np.zeros(len(source) + 8, np.int64)
    row_ends = np.zeros(len(texts) + 1, np.int64)
    taken = np.zeros(len(texts), np.bool_)
    find_numbers(source, offsets, found, token_ends, row_ends, taken)
    data = _floats(found, token_ends[: row_ends[-1] + 1])
    if data is None:
        return Polygons([b""] * len(texts), np.zeros((len(texts), 4)), np.zeros(len(texts), np.bool_))
    ends, faults, rings = (np.zeros(len(texts), np.int64) for _ in range(3))
    measures = np.zeros((len(texts), 5))
    measure_polygons(data, row_ends, ends, faults, rings, measures)
    bounds = measures[:, :4]
    with np.errstate(all="ignore"):
        taken &= (faults == SOUND) & (np.abs(bounds) <= COORDINATE_MAX).all(axis=1)
        box_areas = (bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1])
        taken &= measures[:, 4] * THIN > box_areas * _CLOSER
    return Polygons(_rows(data, row_ends[:-1], ends, kind), bounds, taken)


def _floats(found: Bytes, token_ends: Places) -> Floats | None:
    """The numbers that tokens are; None where Arrow does not read one of them."""
    buffers = [None, pa.py_buffer(token_ends), pa.py_buffer(found)]
    tokens = pa.Array.from_buffers(pa.large_string(), len(token_ends) - 1, buffers)
    try:
        numbers = pc.cast(tokens, pa.float64())
    except pa.ArrowInvalid:
        return None
    floats: Floats = numbers.to_numpy(zero_copy_only=False) + 0.0
    return floats


def _rows(data: Floats, starts: Places, ends: Places, kind: float) -> list[bytes]:
    """Each row's floats after its kind, as bytes."""
    lengths = ends - starts + 1
    row_starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    places = np.arange(total) - np.repeat(row_starts - starts + 1, lengths)
    places[row_starts] = 0
    joined: Floats = data[places] if len(data) else np.zeros(total)
    joined[row_starts] = kind
    whole = joined.tobytes()
    bounds = zip((8 * row_starts).tolist(), (8 * (row_starts + lengths)).tolist(), strict=True)
    return [whole[start:end] for start, end in bounds]


@njit(cache=True, nogil=True)
def _after_blanks(source: Bytes, at: int, end: int) -> int:
    while at < end and (source[at] == 32 or 9 <= source[at] <= 13):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _after_digits(source: Bytes, at: int, end: int) -> int:
    while at < end and 48 <= source[at] <= 57:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _after_number(source: Bytes, at: int, end: int) -> int:
    """Where a number that begins here ends; -1 where none does."""
    if at < end and source[at] in (43, 45):
        at += 1
    start = at
    at = _after_digits(source, at, end)
    digits = at - start
    if at < end and source[at] == 46:
        at = _after_digits(source, at + 1, end)
        digits = at - start - 1
    if digits == 0:
        return -1
    if at < end and source[at] in (69, 101):
        at += 1
        if at < end and source[at] in (43, 45):
            at += 1
        start = at
        at = _after_digits(source, at, end)
        if at == start:
            return -1
    return at if at < end and (source[at] in (32, 40, 41, 44) or 9 <= source[at] <= 13) else -1


@njit(cache=True, nogil=True)
def _after_word(source: Bytes, at: int, end: int) -> int:
    """Where the word POLYGON ends, and the opening parenthesis after it; -1 where they do not stand here."""
    at = _after_blanks(source, at, end)
    for letter in (80, 79, 76, 89, 71, 79, 78):
        if at >= end or source[at] & 0xDF != letter:
            return -1
        at += 1
    at = _after_blanks(source, at, end)
    return at + 1 if at < end and source[at] == 40 else -1


@njit(cache=True, nogil=True)
def _corner(source: Bytes, at: int, end: int, found: Bytes, token_ends: Places, token: int) -> int:
    """Copy two numbers; returns where they end, or -1 where they do not stand here."""
    for number in range(token, token + 2):
        at = _after_blanks(source, at, end)
        stop = _after_number(source, at, end)
        if stop < 0:
            return -1
        at += source[at] == 43
        written = token_ends[number]
        for place in range(at, stop):
            found[written] = source[place]
            written += 1
        token_ends[number + 1] = written
        at = stop
    return at


_EXPECT_RING, _EXPECT_CORNER, _EXPECT_COMMA, _EXPECT_NEXT_RING = range(4)


@njit(cache=True, nogil=True)
def _numbers_of_row(source: Bytes, at: int, end: int, found: Bytes, token_ends: Places, token: int) -> int:
    """The count of numbers after those of one text; -1 where it is no polygon."""
    first = token
    state = _EXPECT_RING
    at = _after_word(source, at, end)
    while at >= 0:
        at = _after_blanks(source, at, end)
        if at >= end:
            return -1
        symbol = source[at]
        if state == _EXPECT_CORNER:
            at = _corner(source, at, end, found, token_ends, token)
            token += 2
            if at < 0 or token - first > 2 * CORNERS_MAX:
                return -1
            state = _EXPECT_COMMA
            continue
        at += 1
        if (state == _EXPECT_RING and symbol == 40) or (state == _EXPECT_COMMA and symbol == 44):
            state = _EXPECT_CORNER
        elif state == _EXPECT_COMMA and symbol == 41:
            state = _EXPECT_NEXT_RING
        elif state == _EXPECT_NEXT_RING and symbol == 44:
            for _ in range(2):
                written = token_ends[token]
                found[written], found[written + 1], found[written + 2] = 110, 97, 110
                token += 1
                token_ends[token] = written + 3
            state = _EXPECT_RING
        elif state == _EXPECT_NEXT_RING and symbol == 41:
            return token if _after_blanks(source, at, end) == end else -1
        else:
            return -1
    return -1


_SOURCE = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_FIND = types.void(
    _SOURCE, _NUMBERS, types.Array(types.uint8, 1, "C"), types.Array(types.int64, 1, "C"),
    types.Array(types.int64, 1, "C"), types.Array(types.boolean, 1, "C"),
)  # fmt: skip


@njit(_FIND, cache=True, nogil=True)
def find_numbers(  # a kernel takes arrays
    source: Bytes,
    offsets: Places,
    found: Bytes,
    token_ends: Places,
    row_ends: Places,
    taken: npt.NDArray[np.bool_],
) -> None:
    """Copy the numbers of each text that is a polygon, one after the other, and nan nan between two rings.

    Number t ends at token_ends[t + 1], and row r has the numbers row_ends[r]:row_ends[r + 1].
    """
    token = 0
    for row in range(len(taken)):
        before = token
        token = _numbers_of_row(source, offsets[row], offsets[row + 1], found, token_ends, token)
        taken[row] = token >= 0
        token = max(token, before) if taken[row] else before
        row_ends[row + 1] = token
