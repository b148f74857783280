"""The members that boxes ask for, numbered: a hash table from a list and a value to a *slot*.

A value is its bytes and its kind, so that texts, numbers, booleans and times are found in one way. Integers beyond
2**53 are a kind of their own, for as floats two of them can be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.boxes import Cuts, MemberColumn
from fieldfare.matching.batch import Piece, Texts, Values
from fieldfare.model import EXACT_INTEGER_MAX, Section

Slots = npt.NDArray[np.int32]
_LARGE = 7  # the kind of large integers; the others are sections
_KINDS = 8
_EMPTY = np.uint64(0)
_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)


class Vocabulary(NamedTuple):
    """Slot i is the value data[offsets[i]:offsets[i + 1]] of a kind, in the list and of the kind that kinds[i] says."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    kinds: npt.NDArray[np.int32]  # 8 times the number of the list, and the kind
    table: npt.NDArray[np.uint64]  # open addressing: half of the hash, and the slot plus one

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
    size = 1 << max(4, (2 * len(numbers)).bit_length())
    table = np.zeros(size, np.uint64)
    _fill(texts.offsets, texts.data, kinds, table)
    return Vocabulary(texts.offsets, texts.data, kinds, table), new_number[found]


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
def _hash(data, start, end, kind):  # type: ignore[no-untyped-def]
    state = _BASIS ^ np.uint64(kind)
    for k in range(start, end):
        state = (state ^ np.uint64(data[k])) * _PRIME
    state ^= state >> np.uint64(32)
    state *= np.uint64(0x9E3779B97F4A7C15)
    return state ^ (state >> np.uint64(29))


@njit(cache=True, nogil=True)
def _fill(offsets, data, kinds, table):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    for slot in range(len(kinds)):
        state = _hash(data, offsets[slot], offsets[slot + 1], kinds[slot])
        at = state & mask
        while table[at] != _EMPTY:
            at = (at + np.uint64(1)) & mask
        table[at] = (state & np.uint64(0xFFFFFFFF00000000)) | np.uint64(slot + 1)


@njit(cache=True, nogil=True)
def _look_up(offsets, data, kind, vocabulary, slots):  # type: ignore[no-untyped-def]
    own_offsets, own_data, kinds, table = vocabulary
    mask = np.uint64(len(table) - 1)
    upper, lower = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)
    for i in range(len(slots)):
        start, end = offsets[i], offsets[i + 1]
        state = _hash(data, start, end, kind)
        at = state & mask
        found = np.int64(-1)
        while table[at] != _EMPTY:
            if table[at] & upper == state & upper:
                slot = np.int64(table[at] & lower) - 1
                begin = own_offsets[slot]
                is_same = kinds[slot] == kind and own_offsets[slot + 1] - begin == end - start
                k = np.int64(0)
                while is_same and k < end - start:
                    is_same = own_data[begin + k] == data[start + k]
                    k += 1
                if is_same:
                    found = slot
                    break
            at = (at + np.uint64(1)) & mask
        slots[i] = found
