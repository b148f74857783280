"""The members that boxes ask for, numbered: a hash table from a list and a value to a *slot*.

A value is its bytes and its kind, so that texts, numbers, booleans and times are found in one way. Integers beyond
2**53 are a kind of their own, for as floats two of them can be one.

Events have most of their values in no vocabulary or in a place of memory that was not read lately. So a cell of the
table has a short value's bytes in itself, and cells are fetched ahead of their use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.boxes import Cuts, MemberColumn
from fieldfare.geometry.prefetching import prefetch
from fieldfare.matching.batch import Piece, Texts, Values
from fieldfare.model import EXACT_INTEGER_MAX, Section

Slots = npt.NDArray[np.int32]
Cells = npt.NDArray[np.uint64]
_LARGE = 7  # the kind of large integers; the others are sections
_KINDS = 8
_SHORT = 8  # bytes of a value that a cell has in itself
_LONG = 15  # stands for a longer value's length
_AHEAD = 64  # values whose cells are fetched together
_PRIME, _BASIS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xCBF29CE484222325)


class Vocabulary(NamedTuple):
    """Slot i is the value data[offsets[i]:offsets[i + 1]] of a kind, in the list and of the kind that kinds[i] says."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    kinds: npt.NDArray[np.int32]  # 8 times the number of the list, and the kind
    cells: Cells  # open addressing, two numbers each: see _cell

    def __len__(self) -> int:
        return len(self.kinds)


def vocabulary_of(columns: Sequence[MemberColumn]) -> tuple[Vocabulary, Slots]:
    """The vocabulary of what boxes ask of some lists, and the slot of each entry of the columns, in their order."""
    numbers: dict[tuple[int, bytes], int] = {}
    slots: list[int] = []
    for number, column in enumerate(columns):
        slots += [numbers.setdefault(key, len(numbers)) for key in _keys(number, column.values)]
    found = np.array(slots, np.int32)
    # What is asked for most comes first, for events have it most: so the memory that they read lies together.
    order = np.argsort(-np.bincount(found, minlength=len(numbers)), kind="stable")
    keys = list(numbers)
    texts = Texts.of([keys[number][1] for number in order.tolist()])
    kinds = np.fromiter((kind for kind, _ in keys), np.int32, len(keys))[order]
    new_number = np.empty(len(keys), np.int32)
    new_number[order] = np.arange(len(keys), dtype=np.int32)
    return Vocabulary(texts.offsets, texts.data, kinds, cells_of(texts.offsets, texts.data, kinds)), new_number[found]


def cells_of(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], kinds: npt.NDArray[np.int32]) -> Cells:
    """The table of a vocabulary, at most half full."""
    cells = np.zeros(2 << max(4, (2 * len(kinds)).bit_length()), np.uint64)
    _fill(offsets, data, kinds, cells)
    return cells


def _keys(number: int, values: Cuts) -> list[tuple[int, bytes]]:
    kind = number * _KINDS + Section.STRING
    if len(values.sections) and (values.sections == Section.STRING).all():
        return [(kind, value) for value in values.values.tolist()]
    return [
        _key(number, Section(section), value)
        for section, value in zip(values.sections.tolist(), values.values.tolist(), strict=True)
    ]


def _key(number: int, section: Section, value: float | bytes) -> tuple[int, bytes]:
    if isinstance(value, bytes):
        return number * _KINDS + section, value
    is_large = section is Section.NUMBER and abs(value) > EXACT_INTEGER_MAX and -(2.0**63) <= value < 2.0**63
    if section is Section.NUMBER and not is_large:
        return number * _KINDS + section, np.float64(value + 0.0).tobytes()
    return number * _KINDS + (_LARGE if is_large else section), np.int64(int(value)).tobytes()


def values_of(vocabulary: Vocabulary) -> list[tuple[int, Section, float | int | bytes]]:
    """For each slot the number of its list, and its value as a cut has it."""
    texts = Texts(vocabulary.offsets, vocabulary.data)
    found: list[tuple[int, Section, float | int | bytes]] = []
    for slot, kind in enumerate(vocabulary.kinds.tolist()):
        number, kind_of_value = divmod(kind, _KINDS)
        section = Section.NUMBER if kind_of_value == _LARGE else Section(kind_of_value)
        value: float | int | bytes = texts[slot]
        if section is Section.NUMBER and kind_of_value != _LARGE:
            value = float(np.frombuffer(texts[slot], np.float64)[0])
        elif section is not Section.STRING:
            value = int(np.frombuffer(texts[slot], np.int64)[0])
        found.append((number, section, value))
    return found


def slots_of_members(vocabulary: Vocabulary, number: int, pieces: Sequence[Piece], count: int) -> Slots:
    """The slot of each of the members of list `number`, which are a column; -1 where no box asks for it."""
    slots = np.full(count, -1, np.int32)
    for piece in pieces:
        if piece.section is Section.NAN or piece.high is not None:
            continue
        found = _looked_up(vocabulary, number, piece)
        if piece.rows is None:
            return found
        slots[piece.rows] = found
    return slots


def _looked_up(vocabulary: Vocabulary, number: int, piece: Piece) -> Slots:
    values, kind = piece.low, number * _KINDS + piece.section
    if values.texts is not None:
        found = _found(vocabulary, values.texts, kind)
        return found if values.codes is None else found[values.codes]
    if piece.section is not Section.NUMBER:
        return _found(vocabulary, _as_texts(values.numbers), kind)
    return _numbers_found(vocabulary, values, number)


def _numbers_found(vocabulary: Vocabulary, values: Values, number: int) -> Slots:
    numbers = values.numbers
    large = (numbers > EXACT_INTEGER_MAX) | (numbers < -EXACT_INTEGER_MAX)  # as a float, 2**53 + 1 is 2**53
    if numbers.dtype != np.int64:
        large &= (numbers >= -(2.0**63)) & (numbers < 2.0**63)
    slots = _found(vocabulary, _as_texts(numbers.astype(np.float64) + 0.0), number * _KINDS + Section.NUMBER)
    if large.any():
        slots[large] = _found(vocabulary, _as_texts(numbers[large].astype(np.int64)), number * _KINDS + _LARGE)
    return slots


def _as_texts(numbers: npt.NDArray[Any]) -> Texts:
    return Texts(np.arange(0, 8 * len(numbers) + 1, 8), np.ascontiguousarray(numbers).view(np.uint8))


def _found(vocabulary: Vocabulary, texts: Texts, kind: int) -> Slots:
    slots = np.empty(len(texts), np.int32)
    _look_up(texts.offsets, texts.data, kind, vocabulary, slots)
    return slots


@njit(cache=True, nogil=True, inline="always")
def _cell(data, start, end, kind):  # type: ignore[no-untyped-def]
    """The content of a value's cell, the upper half of the number after it, and a hash that says where it may stand.

    The content is the value itself if it is short, or else a hash. The upper half has the kind and the length, the
    lower half, which is not made here, the slot plus one; so an empty cell is 0.
    """
    length = end - start
    content = np.uint64(0)
    if length <= _SHORT:
        for k in range(length):
            content |= np.uint64(data[start + k]) << np.uint64(8 * k)
        upper = np.uint64(kind) << np.uint64(4) | np.uint64(length)
    else:
        content = _BASIS
        for k in range(start, end):
            content = (content ^ np.uint64(data[k])) * _PRIME
            content ^= content >> np.uint64(32)
        upper = np.uint64(kind) << np.uint64(4) | np.uint64(_LONG)
    state = (content ^ (upper << np.uint64(20))) * _PRIME
    state ^= state >> np.uint64(32)
    state *= _PRIME
    return content, upper, state ^ (state >> np.uint64(29))


@njit(cache=True, nogil=True)
def _fill(offsets, data, kinds, cells):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(cells) // 2 - 1)
    for slot in range(len(kinds)):
        content, upper, state = _cell(data, offsets[slot], offsets[slot + 1], kinds[slot])
        at = state & mask
        while cells[np.uint64(2) * at + np.uint64(1)]:
            at = (at + np.uint64(1)) & mask
        cells[np.uint64(2) * at] = content
        cells[np.uint64(2) * at + np.uint64(1)] = upper << np.uint64(32) | np.uint64(slot + 1)


@njit(cache=True, nogil=True)
def _look_up(offsets, data, kind, vocabulary, slots):  # type: ignore[no-untyped-def]
    own_offsets, own_data, _, cells = vocabulary
    one, two, half = np.uint64(1), np.uint64(2), np.uint64(32)
    mask = np.uint64(len(cells) // 2 - 1)
    contents, uppers, places = np.empty(_AHEAD, np.uint64), np.empty(_AHEAD, np.uint64), np.empty(_AHEAD, np.uint64)
    for first in range(0, len(slots), _AHEAD):
        count = min(_AHEAD, len(slots) - first)
        for k in range(count):
            contents[k], uppers[k], state = _cell(data, offsets[first + k], offsets[first + k + 1], kind)
            places[k] = state & mask
            prefetch(cells, np.int64(two * places[k]))  # type: ignore[call-arg]  # Numba gives the first
        for k in range(count):
            at, found = places[k], np.int64(-1)
            rest = cells[two * at + one]
            while rest:
                if rest >> half == uppers[k] and cells[two * at] == contents[k]:
                    slot = np.int64(rest & np.uint64(0xFFFFFFFF)) - 1
                    start, end = offsets[first + k], offsets[first + k + 1]
                    if end - start <= _SHORT or _is_same(
                        own_data, own_offsets[slot], own_offsets[slot + 1], data, start, end
                    ):
                        found = slot
                        break
                at = (at + one) & mask
                rest = cells[two * at + one]
            slots[first + k] = found


@njit(cache=True, nogil=True)
def _is_same(one, one_start, one_end, other, start, end):  # type: ignore[no-untyped-def]
    length = end - start
    if one_end - one_start != length:
        return False
    k = 0
    while k < length and one[one_start + k] == other[start + k]:
        k += 1
    return k == length
