"""Narrow tiles: where attributes have few bounds, boxes as codes of one byte.

A box takes a slot exactly if its low is among the lows at or below the slot, and its high among the highs at or above
it. So where the boxes have at most 256 lows and 256 highs on an attribute, however many slots these make, a bound is
its number among them, an event's slot is two such numbers, and 64 comparisons are one of 64 bytes.

A word has groups only for the attributes that its own boxes use. Words that do not use an attribute of their tile have
a hull there that every event meets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldfare.matching.coarse import Bounds, CoarseBounds
from fieldfare.matching.lanes import LANES
from fieldfare.matching.spaces import Space
from fieldfare.matching.tree import Column

CODES_MAX = 256
_EVERY_LOW, _EVERY_HIGH = -1, CODES_MAX  # the hull of a word that does not use an attribute
_ATTRIBUTES_MAX = 16  # spaces are put into one tile up to so many
_USES_MAX = 256  # what a byte can number


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of one attribute, by slot: see Tree."""

    low: CoarseBounds
    high: CoarseBounds
    lowest: int  # a box that reaches beyond these has no codes
    highest: int

    @staticmethod
    def of(column: Column) -> Codes | None:
        """The codes of an attribute; None where it has too many bounds."""
        slots = column.last_slot + 1
        if not len(column.boxes) or slots > 4 * CODES_MAX:
            return None
        is_low, is_high = np.zeros(slots, np.bool_), np.zeros(slots, np.bool_)
        is_low[column.low] = is_high[column.high] = True
        for is_bound, end in ((is_low, 0), (is_high, column.last_slot)):
            if np.count_nonzero(is_bound) < CODES_MAX:
                is_bound[end] = True  # so that boxes that do not constrain the attribute may share a word with others
            if np.count_nonzero(is_bound) > CODES_MAX:
                return None
        low: CoarseBounds = (np.cumsum(is_low) - 1).astype(np.int16)
        high: CoarseBounds = (np.cumsum(is_high) - is_high).astype(np.int16)
        return Codes(low, high, int(is_low.argmax()), slots - 1 - int(is_high[::-1].argmax()))


@dataclass(frozen=True, slots=True)
class Block:
    """Some words of one space: as many as a tile has, or fewer."""

    space: Space
    lows: Bounds  # [word, box, attribute]
    highs: Bounds
    word_lows: Bounds  # [word, attribute]
    word_highs: Bounds
    lowest: npt.NDArray[np.int32]
    highest: npt.NDArray[np.int32]

    @staticmethod
    def of(space: Space, lows: Bounds, highs: Bounds) -> Block:
        """A block of words, with its hulls."""
        word_lows, word_highs = lows.min(axis=1), highs.max(axis=1)
        return Block(space, lows, highs, word_lows, word_highs, word_lows.min(axis=0), word_highs.max(axis=0))

    def has_codes(self, codes: Mapping[int, Codes]) -> bool:
        """Whether all its bounds have codes."""
        ends = zip(self.space.attributes, self.lowest.tolist(), self.highest.tolist(), strict=True)
        return len(self.space.attributes) <= _USES_MAX and all(
            attribute in codes and codes[attribute].lowest <= low and high <= codes[attribute].highest
            for attribute, low, high in ends
        )


@dataclass(frozen=True, slots=True)
class NarrowTile:
    """Blocks of several spaces that become one tile."""

    blocks: tuple[Block, ...] = ()
    attributes: tuple[int, ...] = ()

    @property
    def mode(self) -> int:
        """How its matches are emitted."""
        return self.blocks[0].space.mode

    @property
    def words(self) -> int:
        """How many words it has."""
        return sum(len(block.lows) for block in self.blocks)

    def with_block(self, block: Block) -> NarrowTile:
        """The tile with another block."""
        return NarrowTile((*self.blocks, block), tuple(sorted(set(self.attributes).union(block.space.attributes))))

    def has_room_for(self, block: Block) -> bool:
        """Whether another block may be put into it."""
        if not self.blocks:
            return True
        joined = self.with_block(block)
        return joined.words <= LANES and len(joined.attributes) <= _ATTRIBUTES_MAX and self.mode == block.space.mode

    def hull(self, last_slots: Sequence[int]) -> tuple[Bounds, Bounds]:
        """Where its boxes lie on each attribute: where some of its words do not use it, everywhere."""
        lows: list[int] = []
        highs: list[int] = []
        for attribute in self.attributes:
            ends = [_ends(block, attribute, last_slots[attribute]) for block in self.blocks]
            lows.append(min(low for low, _ in ends))
            highs.append(max(high for _, high in ends))
        return np.array(lows, np.int32), np.array(highs, np.int32)

    def word_hulls(self, codes: Mapping[int, Codes]) -> tuple[CoarseBounds, CoarseBounds]:
        """The hull of each word in codes: [word, attribute]."""
        lows = np.full((self.words, len(self.attributes)), _EVERY_LOW, np.int16)
        highs = np.full((self.words, len(self.attributes)), _EVERY_HIGH, np.int16)
        first = 0
        for block in self.blocks:
            words = slice(first, first + len(block.lows))
            for number, attribute in enumerate(block.space.attributes):
                at = self.attributes.index(attribute)
                lows[words, at] = codes[attribute].low[block.word_lows[:, number]]
                highs[words, at] = codes[attribute].high[block.word_highs[:, number]]
            first = words.stop
        return lows, highs

    def uses(self, block: Block) -> npt.NDArray[np.uint8]:
        """The numbers of a block's attributes in the tile."""
        return np.searchsorted(self.attributes, block.space.attributes).astype(np.uint8)


def coded(block: Block, codes: Mapping[int, Codes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The bounds of a block in codes."""
    exist = block.lows <= block.highs
    lows, highs = np.full(block.lows.shape, CODES_MAX - 1, np.uint8), np.zeros(block.highs.shape, np.uint8)
    for number, attribute in enumerate(block.space.attributes):
        some = exist[..., number]
        lows[some, number] = codes[attribute].low[block.lows[some, number]]
        highs[some, number] = codes[attribute].high[block.highs[some, number]]
    return lows, highs


def _ends(block: Block, attribute: int, last_slot: int) -> tuple[int, int]:
    if attribute not in block.space.attributes:
        return 0, last_slot
    number = block.space.attributes.index(attribute)
    return int(block.lowest[number]), int(block.highest[number])
