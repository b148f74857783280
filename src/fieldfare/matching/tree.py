"""The index proper: a tree of boxes in rank space, sixty-four children to a node.

Boxes are sorted by recursive median cuts (a k-d order), so that neighbours in space are neighbours in memory. Then

    word   64 boxes           tested in one go: a comparison of 64 lanes per attribute (see lanes.py)
    tile   64 words           the words' hulls are tested the same way
    node   64 tiles           and so are the tiles' hulls

A tile has at most 8,192 cuts on an attribute, so inside a tile slots are ranked once more and fit 16 bits: the
comparisons read a fourth of the memory that floats would need, and they are exact, so nothing is verified afterwards.

Boxes that constrain the same attributes form a *space* (as in DMM-AR) with tiles of its own; a tile knows only the
attributes that its boxes use, so a subscription on 2 attributes of 1,000 pays for 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.matching.kd import kd_order
from fieldfare.matching.lanes import COUNTED, LANES
from fieldfare.matching.packing import pack_tile
from fieldfare.matching.slots import sorted_unique

PLAIN, DISTINCT, CHECKED = 0, 1, 2  # how a tile's matches are emitted
TILE_BOXES = LANES * LANES
SLOT_MAX = np.iinfo(np.int32).max
_SPACE_BOXES_MIN = LANES
_SPACE_ATTRIBUTES_MAX = 16


class Tree(NamedTuple):
    """The arrays of an index part, as the kernels read them. A *use* is one attribute in one tile."""

    node_uses: npt.NDArray[np.int64]  # node i tests uses node_uses[i]:node_uses[i + 1] of the next two
    node_attributes: npt.NDArray[np.int32]
    node_bounds: npt.NDArray[np.int32]  # 64 lows, then 64 highs, for each use

    tile_uses: npt.NDArray[np.int64]
    tile_words: npt.NDArray[np.int64]  # the first word of each tile
    tile_bounds: npt.NDArray[np.int64]  # where the tile's part of `bounds` starts
    tile_modes: npt.NDArray[np.int8]

    use_attributes: npt.NDArray[np.int32]
    use_origins: npt.NDArray[np.int32]  # the lowest cut
    use_shifts: npt.NDArray[np.int32]  # a cell holds 2**shift slots
    use_cells: npt.NDArray[np.int64]  # where the use's cells start
    use_cuts: npt.NDArray[np.int64]  # where the use's cuts start
    cells: npt.NDArray[np.int16]  # per use: 0, then for each cell how many cuts lie before it, then all of them twice
    cuts: npt.NDArray[np.int32]  # per use: its cuts in slots, then sixteen that are above everything

    hulls: npt.NDArray[np.int16]  # per use: 64 lows of words, then 64 highs
    bounds: npt.NDArray[np.int16]  # per tile, word and attribute: 64 lows of boxes, then 64 highs

    alive: npt.NDArray[np.uint64]  # a bit for each box that exists and was not removed


@dataclass(frozen=True, slots=True)
class Column:
    """The slots of one attribute, for the boxes that constrain it."""

    boxes: npt.NDArray[np.int32]
    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    last_slot: int


@dataclass(frozen=True, slots=True)
class _Space:
    boxes: npt.NDArray[np.int32]
    attributes: tuple[int, ...]
    mode: int


def build_tree(columns: Sequence[Column], modes: npt.NDArray[np.int8]) -> tuple[Tree, npt.NDArray[np.int32]]:
    """The tree over `len(modes)` boxes, and the number of the box at each place (-1: none).

    A box without an entry in a column does not constrain that attribute. The places go on for one word past the end,
    so that kernels may read there.
    """
    spaces = _spaces(columns, modes)
    bounds = _space_bounds(spaces, columns, len(modes))
    builder = _Builder()
    for space, (lows, highs) in zip(spaces, bounds, strict=True):
        order = kd_order(lows, highs)
        builder.add_space(space.attributes, space.mode, space.boxes[order], lows[order], highs[order])
    return builder.tree([column.last_slot for column in columns])


def _spaces(columns: Sequence[Column], modes: npt.NDArray[np.int8]) -> list[_Space]:
    """Boxes by the attributes they constrain; spaces of only a few boxes are joined with their neighbours."""
    if not len(modes):
        return []
    signatures = np.zeros(len(modes), np.uint64)
    secrets = np.random.default_rng(0).integers(1, 2**63, len(columns) + 3, dtype=np.uint64)
    signatures ^= secrets[len(columns) + modes.astype(np.int64)]
    for secret, column in zip(secrets, columns, strict=False):
        signatures[column.boxes] ^= secret
    distinct, first, group = np.unique(signatures, return_index=True, return_inverse=True)
    attributes: list[list[int]] = [[] for _ in distinct]
    for number, column in enumerate(columns):
        for g in np.unique(group[column.boxes]).tolist():
            attributes[g].append(number)
    order = np.argsort(group, kind="stable").astype(np.int32)
    members = np.split(order, np.cumsum(np.bincount(group, minlength=len(distinct)))[:-1])
    found = sorted(
        (_Space(boxes, tuple(used), int(modes[at])) for boxes, used, at in zip(members, attributes, first, strict=True)),
        key=lambda space: (space.mode, space.attributes),
    )
    return _joined(found)


def _joined(spaces: list[_Space]) -> list[_Space]:
    joined: list[_Space] = []
    for space in spaces:
        last = joined[-1] if joined else None
        if last and last.mode == space.mode and min(len(last.boxes), len(space.boxes)) < _SPACE_BOXES_MIN:
            union = tuple(sorted({*last.attributes, *space.attributes}))
            if len(union) <= max(_SPACE_ATTRIBUTES_MAX, len(last.attributes), len(space.attributes)):
                boxes = np.sort(np.concatenate([last.boxes, space.boxes]))
                joined[-1] = _Space(boxes, union, space.mode)
                continue
        joined.append(space)
    return joined


def _space_bounds(
    spaces: Sequence[_Space], columns: Sequence[Column], boxes: int
) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
    """For each space a matrix of lows and one of highs, a row for each box, a column for each attribute."""
    space_of = np.empty(boxes, np.int32)
    row_of = np.empty(boxes, np.int32)
    lows, highs = [], []
    for number, space in enumerate(spaces):
        space_of[space.boxes] = number
        row_of[space.boxes] = np.arange(len(space.boxes), dtype=np.int32)
        shape = (len(space.boxes), len(space.attributes))
        lows.append(np.zeros(shape, np.int32))
        highs.append(np.empty(shape, np.int32))
        highs[-1][:] = [columns[attribute].last_slot for attribute in space.attributes]
    for attribute, column in enumerate(columns):
        order = np.argsort(space_of[column.boxes], kind="stable")
        sorted_spaces = space_of[column.boxes][order]
        for chosen in np.split(order, np.flatnonzero(np.diff(sorted_spaces)) + 1):
            if not len(chosen):
                continue
            number = space_of[column.boxes[chosen[0]]]
            rows, at = row_of[column.boxes[chosen]], spaces[number].attributes.index(attribute)
            lows[number][rows, at] = column.low[chosen]
            highs[number][rows, at] = column.high[chosen]
    return list(zip(lows, highs, strict=True))


class _Builder:
    """Collects tiles, then makes the nodes above them."""

    def __init__(self) -> None:
        self.tile_attributes: list[tuple[int, ...]] = []
        self.tile_lows: list[npt.NDArray[np.int32]] = []
        self.tile_highs: list[npt.NDArray[np.int32]] = []
        self.modes: list[int] = []
        self.words: list[int] = []
        self.boxes: list[npt.NDArray[np.int32]] = []
        self.origins: list[int] = []
        self.shifts: list[int] = []
        self.cells: list[npt.NDArray[np.int16]] = []
        self.cuts: list[npt.NDArray[np.int32]] = []
        self.hulls: list[npt.NDArray[np.int16]] = []
        self.bounds: list[npt.NDArray[np.int16]] = []

    def add_space(
        self,
        attributes: tuple[int, ...],
        mode: int,
        boxes: npt.NDArray[np.int32],
        lows: npt.NDArray[np.int32],
        highs: npt.NDArray[np.int32],
    ) -> None:
        for start in range(0, len(boxes), TILE_BOXES):
            part = slice(start, start + TILE_BOXES)
            self._add_tile(attributes, mode, boxes[part], lows[part], highs[part])

    def _add_tile(
        self,
        attributes: tuple[int, ...],
        mode: int,
        boxes: npt.NDArray[np.int32],
        lows: npt.NDArray[np.int32],
        highs: npt.NDArray[np.int32],
    ) -> None:
        words = -(-len(boxes) // LANES)
        bounds = np.empty((words, len(attributes), 2, LANES), np.int16)
        hulls = np.empty((len(attributes), 2, LANES), np.int16)
        for use in range(len(attributes)):
            cuts = sorted_unique(np.concatenate([lows[:, use], highs[:, use] + 1]))
            shift = max(0, int(cuts[-1] - cuts[0]).bit_length() - max(1, len(cuts) // 2).bit_length())
            before = np.searchsorted((cuts - cuts[0]) >> shift, np.arange(((cuts[-1] - cuts[0]) >> shift) + 1))
            self.cells.append(np.concatenate([[0], before, [len(cuts)] * 2]).astype(np.int16))
            self.cuts.append(np.concatenate([cuts, np.full(COUNTED, SLOT_MAX)]).astype(np.int32))
            self.origins.append(int(cuts[0]))
            self.shifts.append(shift)
            pack_tile(lows[:, use], highs[:, use], cuts, use, bounds, hulls)
        self.tile_attributes.append(attributes)
        self.tile_lows.append(lows.min(axis=0))
        self.tile_highs.append(highs.max(axis=0))
        self.modes.append(mode)
        self.words.append(words)
        self.boxes.append(np.concatenate([boxes, np.full(words * LANES - len(boxes), -1, np.int32)]))
        self.hulls.append(hulls.ravel())
        self.bounds.append(bounds.ravel())

    def tree(self, last_slots: list[int]) -> tuple[Tree, npt.NDArray[np.int32]]:
        boxes = np.concatenate([*self.boxes, np.full(LANES, -1, np.int32)])
        alive = np.packbits(boxes[:-LANES] >= 0, bitorder="little").view(np.uint64)
        node_uses, node_attributes, node_bounds = self._nodes(last_slots)
        tree = Tree(
            node_uses=node_uses,
            node_attributes=node_attributes,
            node_bounds=node_bounds,
            tile_uses=_starts([len(attributes) for attributes in self.tile_attributes]),
            tile_words=_starts(self.words),
            tile_bounds=_starts([len(bounds) for bounds in self.bounds]),
            tile_modes=np.array(self.modes, np.int8),
            use_attributes=np.array([a for attributes in self.tile_attributes for a in attributes], np.int32),
            use_origins=np.array(self.origins, np.int32),
            use_shifts=np.array(self.shifts, np.int32),
            use_cells=_starts([len(cells) for cells in self.cells]),
            use_cuts=_starts([len(cuts) for cuts in self.cuts]),
            cells=np.concatenate([*self.cells, np.empty(0, np.int16)]),
            cuts=np.concatenate([*self.cuts, np.empty(0, np.int32)]),
            hulls=np.concatenate([*self.hulls, np.empty(0, np.int16)]),
            bounds=np.concatenate([*self.bounds, np.empty(0, np.int16)]),
            alive=alive,
        )
        return tree, boxes

    def _nodes(
        self, last_slots: list[int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        uses: list[int] = []
        attributes: list[int] = []
        bounds: list[npt.NDArray[np.int32]] = []
        for start in range(0, len(self.words), LANES):
            tiles = range(start, min(start + LANES, len(self.words)))
            used = sorted({attribute for tile in tiles for attribute in self.tile_attributes[tile]})
            packed = np.empty((len(used), 2, LANES), np.int32)
            packed[:, 0], packed[:, 1] = SLOT_MAX, -1  # a lane without a tile meets nothing
            packed[:, 0, : len(tiles)] = 0  # a tile that does not use an attribute takes everything
            packed[:, 1, : len(tiles)] = np.array([last_slots[attribute] for attribute in used], np.int32)[:, None]
            for lane, tile in enumerate(tiles):
                at = np.searchsorted(used, self.tile_attributes[tile])
                packed[at, 0, lane], packed[at, 1, lane] = self.tile_lows[tile], self.tile_highs[tile]
            uses.append(len(used))
            attributes.extend(used)
            bounds.append(packed.ravel())
        flat = np.concatenate([*bounds, np.empty(0, np.int32)])
        return _starts(uses), np.array(attributes, np.int32), flat


def _starts(lengths: list[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)
