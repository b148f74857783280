"""SQL's LIKE over many (text, pattern) pairs, exactly, in time linear in the text whatever the pattern.

A pattern is cut at its %s into segments. The first must begin the text, the last must end it, and those between
are found from left to right, each at its first place (an earlier place never hurts). The search runs all its
partial matches at once, one bit for each byte of the segment (shift-and), so that 'aaaa…' cannot make it go back.
Texts are UTF-8 bytes; _ is one code point: a byte that begins one, and the bytes that continue it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from numba import njit, types

from fieldfare.matching.batch import Texts

ANY = 0xFF  # stands for _ in a segment: a byte that UTF-8 never uses


class Patterns(msgspec.Struct, frozen=True, eq=False):
    """Patterns in flat arrays.

    Pattern p has the segments segments[p]:segments[p + 1], segment s the bytes offsets[s]:offsets[s + 1] of `data`.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    segments: npt.NDArray[np.int64]

    @staticmethod
    def of(patterns: Sequence[tuple[str | None, ...]]) -> Patterns:
        """Patterns as residual tests hold them: None is %, the empty string is _, else a character."""
        data = bytearray()
        offsets, segments = [0], [0]
        for pattern in patterns:
            for item in pattern:
                if item is not None:
                    data += item.encode() or bytes([ANY])
                elif len(offsets) == segments[-1] + 1 or len(data) > offsets[-1]:  # %% is %: no empty segment between
                    offsets.append(len(data))
            offsets.append(len(data))
            segments.append(len(offsets) - 1)
        return Patterns(np.frombuffer(bytes(data), np.uint8), np.array(offsets, np.int64), np.array(segments, np.int64))

    def pattern(self, number: int) -> tuple[str | None, ...]:
        """Pattern `number`, as `of` took it, but for %% which is %."""
        items: list[str | None] = []
        for segment in range(self.segments[number], self.segments[number + 1]):
            data = self.data[self.offsets[segment] : self.offsets[segment + 1]].tobytes()
            first, *others = data.split(bytes([ANY]))
            items += [None, *first.decode()]
            for other in others:
                items += ["", *other.decode()]
        return tuple(items[1:])

    def match(
        self, patterns: npt.NDArray[np.int64], texts: Texts, choice: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Whether text number `choice[i]` is like pattern number `patterns[i]`, for every i."""
        segment_bytes_max = int(np.diff(self.offsets).max(initial=1))
        matched = np.empty(len(patterns), np.bool_)
        match_pairs(
            self.data, self.offsets, self.segments, patterns, texts.data, texts.offsets, choice,
            (segment_bytes_max + 63) // 64, matched,
        )  # fmt: skip
        return matched


@njit(cache=True, nogil=True)
def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 continues a code point that began before it."""
    return byte & 0xC0 == 0x80


@njit(cache=True, nogil=True)
def _after_prefix(
    segment: npt.NDArray[np.uint8], first: int, last: int, text: npt.NDArray[np.uint8], start: int, end: int
) -> int:
    """Where the segment, matched at `start`, ends in the text; -1 where it does not match."""
    for item in segment[first:last]:
        if start >= end:
            return -1
        if item == ANY:
            start += 1
            while start < end and _continues(text[start]):
                start += 1
        elif item == text[start]:
            start += 1
        else:
            return -1
    return start


@njit(cache=True, nogil=True)
def _before_suffix(
    segment: npt.NDArray[np.uint8], first: int, last: int, text: npt.NDArray[np.uint8], start: int, end: int
) -> int:
    """Where the segment, matched so that it stops at `end`, begins in the text; -1 where it does not match."""
    for item in segment[first:last][::-1]:
        if end <= start:
            return -1
        end -= 1
        if item == ANY:
            while end > start and _continues(text[end]):
                end -= 1
        elif item != text[end]:
            return -1
    return end


@njit(cache=True, nogil=True)
def _after_first(  # noqa: PLR0913, PLR0917  # a kernel takes arrays
    segment: npt.NDArray[np.uint8],
    first: int,
    last: int,
    text: npt.NDArray[np.uint8],
    start: int,
    end: int,
    masks: npt.NDArray[np.uint64],
    any_mask: npt.NDArray[np.uint64],
    state: npt.NDArray[np.uint64],
) -> int:
    """Where the segment's first occurrence in text[start:end] ends; -1 where there is none.

    Bit i of `state` says that the segment's first i + 1 bytes match up to here. `masks` comes and goes all zero.
    """
    one = np.uint64(1)
    words = (last - first + 63) // 64
    any_mask[:words] = 0
    state[:words] = 0
    for place in range(last - first):
        bit = one << np.uint64(place % 64)
        item = segment[first + place]
        if item == ANY:
            any_mask[place // 64] |= bit
        else:
            masks[item, place // 64] |= bit
    found = -1
    final = one << np.uint64((last - first - 1) % 64)
    for at in range(start, end):
        byte = text[at]
        continues = _continues(byte)
        carry = one  # a match may begin at every byte
        for word in range(words):
            before = state[word]
            after = (before << one) | carry
            carry = before >> np.uint64(63)
            if continues:  # a continuing byte belongs to the code point that an _ has begun
                state[word] = (after & masks[byte, word]) | (before & any_mask[word])
            else:
                state[word] = after & (masks[byte, word] | any_mask[word])
        if state[words - 1] & final:
            found = at + 1
            break
    for place in range(first, last):
        if segment[place] != ANY:
            masks[segment[place], (place - first) // 64] = 0
    return found


# One signature for writable and read-only (memory-mapped) arrays alike: compiled once, then loaded from the cache.
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C", readonly=True)
_MATCH_PAIRS = types.void(
    _BYTES, _PLACES, _PLACES, _PLACES, _BYTES, _PLACES, _PLACES, types.int64, types.Array(types.boolean, 1, "C")
)


@njit(_MATCH_PAIRS, cache=True, nogil=True)
def match_pairs(  # noqa: PLR0913, PLR0917  # a kernel takes arrays
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    segments: npt.NDArray[np.int64],
    patterns: npt.NDArray[np.int64],
    text: npt.NDArray[np.uint8],
    text_offsets: npt.NDArray[np.int64],
    choice: npt.NDArray[np.int64],
    words_max: int,
    matched: npt.NDArray[np.bool_],
) -> None:
    """For each pair, whether its text is like its pattern; `words_max` is the longest segment's length / 64."""
    masks = np.zeros((256, words_max), np.uint64)
    any_mask = np.zeros(words_max, np.uint64)
    state = np.zeros(words_max, np.uint64)
    for pair in range(len(patterns)):
        first, last = segments[patterns[pair]], segments[patterns[pair] + 1] - 1
        start, end = text_offsets[choice[pair]], text_offsets[choice[pair] + 1]
        start = _after_prefix(data, offsets[first], offsets[first + 1], text, start, end)
        if first == last or start < 0:  # without a %, the prefix must be all
            matched[pair] = start == end
            continue
        end = _before_suffix(data, offsets[last], offsets[last + 1], text, start, end)
        for segment in range(first + 1, last):
            if start < 0 or end < 0:
                break
            start = _after_first(data, offsets[segment], offsets[segment + 1], text, start, end, masks, any_mask, state)
        matched[pair] = start >= 0 and end >= 0
