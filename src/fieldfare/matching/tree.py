"""The index proper: a tree of boxes in rank space, sixty-four children to a node.

Boxes are sorted by recursive median cuts (a k-d order), so that neighbours in space are neighbours in memory. Then

    word   64 boxes           tested in one go: a comparison of 64 lanes for each attribute (see lanes.py)
    tile   64 words           the words' hulls are tested the same way
    node   64 tiles           and so are the tiles' hulls

What bounds the speed is the memory that these comparisons read. So in a tile they read *coarse* slots of 16 bits, and
tell intervals that surely meet from those that only share a coarse slot at an end; those few are compared exactly,
with the bits that coarse slots drop. Where an attribute has few bounds, boxes and events have *codes* of one byte there
(see narrow.py), and nothing is in doubt.

A test asks whether two intervals meet, so an event whose attribute is a range costs no more than a point does.

Boxes that constrain the same attributes form a *space* (as in DMM-AR) with words of its own, which are tested only on
the attributes that their boxes use, so a subscription on 2 attributes of 1,000 pays for 2. A wide tile has the words of
one space; a narrow one, all of whose attributes have codes, those of many small spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.matching.coarse import Bounds, CoarseBounds, dropped_bits, fine_bytes, full_slots
from fieldfare.matching.lanes import LANES

PLAIN, DISTINCT, CHECKED = 0, 1, 2  # how a tile's matches are emitted
WIDE = -1  # in the place of where a narrow tile's words start


@dataclass(frozen=True, slots=True)
class Column:
    """The slots of one attribute, for the boxes that constrain it."""

    boxes: npt.NDArray[np.int32]
    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    last_slot: int


class Tree(NamedTuple):
    """The arrays of an index part, as the kernel reads them. A *use* is one attribute in one node or tile.

    Bounds come in groups of 128: the lows of 64 children, then their highs.
    """

    node_uses: npt.NDArray[np.int64]  # node i has the uses node_uses[i]:node_uses[i + 1]
    node_attributes: npt.NDArray[np.int32]  # of each use
    node_bounds: Bounds  # a group for each use: tiles

    tile_uses: npt.NDArray[np.int64]  # the same for tiles
    tile_attributes: npt.NDArray[np.int32]
    tile_origins: npt.NDArray[np.int32]  # coarse slots count from here,
    tile_shifts: npt.NDArray[np.int32]  # and hold 2**shift slots
    tile_bounds: CoarseBounds  # a group for each use: words, in coarse slots, or in codes where the tile is narrow
    tile_words: npt.NDArray[np.int64]  # tile i has the words tile_words[i]:tile_words[i + 1]
    tile_starts: npt.NDArray[np.int64]  # where the tile's part of `coarse` starts
    tile_modes: npt.NDArray[np.int8]

    coarse: CoarseBounds  # for each word of a tile, a group for each use: boxes
    fine: npt.NDArray[np.uint8]  # what `coarse` drops of each bound, in no byte, one, or a plane of low and one of high
    tile_fine: npt.NDArray[
        np.int64
    ]  # tile i has the bytes fine[tile_fine[i]:tile_fine[i + 1]], in the order of `coarse`
    alive: npt.NDArray[np.uint64]  # for each word, a bit for each box that exists and was not removed

    tile_narrow: npt.NDArray[np.int64]  # where a narrow tile's words start among all such words; WIDE: it is none
    narrow_words: npt.NDArray[np.int64]  # such a word i has the groups narrow_words[i]:narrow_words[i + 1]
    narrow_uses: npt.NDArray[np.uint8]  # of each group, the number of its use in the tile
    narrow: npt.NDArray[np.uint8]  # the groups, in codes
    code_starts: npt.NDArray[np.int64]  # attribute i has the codes code_starts[i]:code_starts[i + 1], by slot, or none
    low_codes: npt.NDArray[np.int16]  # the last of the lows that lie at or below the slot
    high_codes: npt.NDArray[np.int16]  # the first of the highs that lie at or above it


def exact_bounds(tree: Tree, tile: int, use: int) -> Bounds:
    """The bounds of a tile's boxes on one of its uses, in full slots: [word, low or high, box]."""
    words = int(tree.tile_words[tile + 1] - tree.tile_words[tile])
    first_use, uses = int(tree.tile_uses[tile]), int(tree.tile_uses[tile + 1] - tree.tile_uses[tile])
    if tree.tile_narrow[tile] != WIDE:
        return _decoded(tree, int(tree.tile_narrow[tile]), words, use - first_use, int(tree.tile_attributes[use]))
    start, size = int(tree.tile_starts[tile]), words * uses * 2 * LANES
    coarse = tree.coarse[start : start + size].reshape(words, uses, 2, LANES)[:, use - first_use]
    fine = tree.fine[tree.tile_fine[tile] : tree.tile_fine[tile + 1]]
    planes = fine.reshape(words, uses, len(fine) // size, 2, LANES)[:, use - first_use]
    return full_slots(coarse, planes, int(tree.tile_origins[use]), int(tree.tile_shifts[use]))


def _decoded(tree: Tree, first: int, words: int, use: int, attribute: int) -> Bounds:
    """The same in a narrow tile; words that do not use the attribute take all of it."""
    bounds = np.tile(np.array([[0], [np.iinfo(np.int32).max]], np.int32), (words, 1, LANES))
    starts = tree.narrow_words[first : first + words + 1]
    groups = np.flatnonzero(tree.narrow_uses[starts[0] : starts[-1]] == use) + starts[0]
    codes = tree.narrow.reshape(-1, 2, LANES)[groups]
    some = slice(int(tree.code_starts[attribute]), int(tree.code_starts[attribute + 1]))
    at = np.searchsorted(starts, groups, side="right") - 1
    bounds[at, 0] = np.searchsorted(tree.low_codes[some], codes[:, 0], side="left")
    bounds[at, 1] = np.searchsorted(tree.high_codes[some], codes[:, 1], side="right") - 1
    return bounds


def fine_of_exact(arrays: Mapping[str, npt.NDArray[Any]], exact: Bounds) -> dict[str, npt.NDArray[Any]]:
    """The arrays that are now in the place of exact bounds, which snapshots had up to format 4."""
    uses, words, starts = arrays["tile_uses"], arrays["tile_words"], arrays["tile_starts"]
    found = []
    for tile in range(len(arrays["tile_modes"])):
        some = slice(int(uses[tile]), int(uses[tile + 1]))
        count, size = some.stop - some.start, int(words[tile + 1] - words[tile]) * (some.stop - some.start) * 2 * LANES
        slots = exact[starts[tile] : starts[tile] + size].reshape(-1, count, 2 * LANES).transpose(0, 2, 1)
        shifts = arrays["tile_shifts"][some]
        dropped = dropped_bits(slots, arrays["tile_origins"][some], shifts).transpose(0, 2, 1)
        found.append(fine_bytes(dropped, shifts))
    fine = np.concatenate([*found, np.empty(0, np.uint8)])
    return {"fine": fine, "tile_fine": np.cumsum([0, *map(len, found)], dtype=np.int64)}


def without_codes(tiles: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays of codes where all tiles are wide, as in snapshots up to format 5."""
    return {
        "tile_narrow": np.full(tiles, WIDE, np.int64),
        "narrow_words": np.zeros(1, np.int64),
        "narrow_uses": np.empty(0, np.uint8),
        "narrow": np.empty(0, np.uint8),
        "code_starts": np.zeros(1, np.int64),
        "low_codes": np.empty(0, np.int16),
        "high_codes": np.empty(0, np.int16),
    }
