"""Building a tree: spaces in k-d order, their words in tiles, and the nodes above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.matching.coarse import Bounds, CoarseBounds, coarse_bounds, coarse_shifts, dropped_bits, fine_bytes
from fieldfare.matching.kd import kd_sort
from fieldfare.matching.lanes import LANES
from fieldfare.matching.narrow import Block, Codes, NarrowTile, coded
from fieldfare.matching.spaces import Space, space_bounds, spaces_of
from fieldfare.matching.tree import WIDE, Column, Tree

_NOWHERE_LOW, _NOWHERE_HIGH = np.iinfo(np.int32).max, -1  # bounds of a lane that holds nothing
_NOWHERE_CODE = np.iinfo(np.int16).max


def build_tree(columns: list[Column], modes: npt.NDArray[np.int8]) -> tuple[Tree, npt.NDArray[np.int32]]:
    """The tree over `len(modes)` boxes, and the number of the box at each place (-1: none).

    A box without an entry in a column does not constrain that attribute. The places go on for one word past the end,
    so that kernels may read there. Takes the columns out of their list.
    """
    found = ((number, Codes.of(column)) for number, column in enumerate(columns))
    codes = {number: some for number, some in found if some is not None}
    spaces = spaces_of(columns, modes, codes)
    builder = _Builder([column.last_slot for column in columns], codes)
    bounds = space_bounds(spaces, columns, len(modes))
    for space in spaces:
        builder.add_space(space, bounds.pop(0))  # so that they are freed as the tree grows
    return builder.tree()


class _Builder:
    """Collects the tiles of the spaces, then makes the nodes above them."""

    def __init__(self, last_slots: Sequence[int], codes: Mapping[int, Codes]) -> None:
        self.last_slots = last_slots
        self.codes = codes
        self.attributes: list[tuple[int, ...]] = []  # of each tile
        self.lows: list[Bounds] = []  # the hull of each tile
        self.highs: list[Bounds] = []
        self.origins: list[npt.NDArray[np.int32]] = []
        self.shifts: list[npt.NDArray[np.int32]] = []
        self.modes: list[int] = []
        self.words: list[int] = []
        self.boxes: list[npt.NDArray[np.int32]] = []  # of each space
        self.tile_bounds: list[CoarseBounds] = []
        self.coarse: list[CoarseBounds] = []
        self.fine: list[npt.NDArray[np.uint8]] = []  # of each tile
        self.narrow: list[npt.NDArray[np.uint8]] = []  # of each block
        self.narrow_uses: list[npt.NDArray[np.uint8]] = []
        self.narrow_groups: list[int] = []  # of each word of narrow tiles
        self.tile_narrow: list[int] = []
        self.open = NarrowTile()  # the one that the next words may be put into

    def add_space(self, space: Space, bounds: Bounds) -> None:
        """The tiles of a space."""
        boxes = space.boxes[kd_sort(bounds)]
        lows, highs = np.split(bounds, 2, axis=1)
        self.boxes.append(np.concatenate([boxes, np.full(-len(boxes) % LANES, -1, np.int32)]))
        for start in range(0, len(bounds), LANES * LANES):
            some = slice(start, start + LANES * LANES)
            block = Block.of(space, _children(lows[some], _NOWHERE_LOW), _children(highs[some], _NOWHERE_HIGH))
            if not block.has_codes(self.codes):
                self._close()
                self._add_wide(block)
                continue
            if not self.open.has_room_for(block):
                self._close()
            self.open = self.open.with_block(block)

    def _add_wide(self, block: Block) -> None:
        origins, shifts = block.lowest, coarse_shifts(block.highest - block.lowest)
        self.coarse.append(_grouped(*coarse_bounds(block.lows, block.highs, origins, shifts)))
        dropped = [dropped_bits(bounds, origins, shifts) for bounds in (block.lows, block.highs)]
        self.fine.append(fine_bytes(_grouped(*dropped), shifts))
        hulls = _children(block.word_lows, _NOWHERE_LOW), _children(block.word_highs, _NOWHERE_HIGH)
        self.tile_bounds.append(_grouped(*coarse_bounds(*hulls, origins, shifts)))
        self.origins.append(origins)
        self.shifts.append(shifts)
        self.tile_narrow.append(WIDE)
        self._add_tile(block.space.attributes, block.space.mode, (block.lowest, block.highest), len(block.lows))

    def _close(self) -> None:
        """The open narrow tile, if there is one, is complete."""
        tile, self.open = self.open, NarrowTile()
        if not tile.blocks:
            return
        self.tile_narrow.append(len(self.narrow_groups))
        for block in tile.blocks:
            uses = tile.uses(block)
            self.narrow.append(_grouped(*coded(block, self.codes)))
            self.narrow_uses.append(np.tile(uses, len(block.lows)))
            self.narrow_groups.extend([len(uses)] * len(block.lows))
        lows, highs = tile.word_hulls(self.codes)
        self.tile_bounds.append(_grouped(_children(lows, _NOWHERE_CODE), _children(highs, _NOWHERE_HIGH)))
        self.origins.append(np.zeros(len(tile.attributes), np.int32))
        self.shifts.append(np.zeros(len(tile.attributes), np.int32))
        self.coarse.append(np.empty(0, np.int16))
        self.fine.append(np.empty(0, np.uint8))
        self._add_tile(tile.attributes, tile.mode, tile.hull(self.last_slots), tile.words)

    def _add_tile(self, attributes: tuple[int, ...], mode: int, hull: tuple[Bounds, Bounds], words: int) -> None:
        self.attributes.append(attributes)
        self.modes.append(mode)
        self.lows.append(hull[0])
        self.highs.append(hull[1])
        self.words.append(words)

    def tree(self) -> tuple[Tree, npt.NDArray[np.int32]]:
        """The tree, and the number of the box at each place."""
        self._close()
        boxes = np.concatenate([*self.boxes, np.full(LANES, -1, np.int32)])
        uses = [len(attributes) for attributes in self.attributes]
        node_uses, node_attributes, node_bounds = self._nodes()
        nothing = Codes(np.empty(0, np.int16), np.empty(0, np.int16), 0, 0)
        codes = [self.codes.get(attribute, nothing) for attribute in range(len(self.last_slots))]
        tree = Tree(
            node_uses=node_uses,
            node_attributes=node_attributes,
            node_bounds=node_bounds,
            tile_uses=_starts(uses),
            tile_attributes=np.array([number for attributes in self.attributes for number in attributes], np.int32),
            tile_origins=np.concatenate([*self.origins, np.empty(0, np.int32)]),
            tile_shifts=np.concatenate([*self.shifts, np.empty(0, np.int32)]),
            tile_bounds=np.concatenate([*self.tile_bounds, np.empty(0, np.int16)]),
            tile_words=_starts(self.words),
            tile_starts=_starts([len(some) for some in self.coarse]),
            tile_modes=np.array(self.modes, np.int8),
            coarse=np.concatenate([*self.coarse, np.empty(0, np.int16)]),
            fine=np.concatenate([*self.fine, np.empty(0, np.uint8)]),
            tile_fine=_starts([len(some) for some in self.fine]),
            alive=np.packbits(boxes[:-LANES] >= 0, bitorder="little").view(np.uint64),
            tile_narrow=np.array(self.tile_narrow, np.int64),
            narrow_words=_starts(self.narrow_groups),
            narrow_uses=np.concatenate([*self.narrow_uses, np.empty(0, np.uint8)]),
            narrow=np.concatenate([*self.narrow, np.empty(0, np.uint8)]),
            code_starts=_starts([len(some.low) for some in codes]),
            low_codes=np.concatenate([*(some.low for some in codes), np.empty(0, np.int16)]),
            high_codes=np.concatenate([*(some.high for some in codes), np.empty(0, np.int16)]),
        )
        return tree, boxes

    def _nodes(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Bounds]:
        uses: list[int] = []
        attributes: list[int] = []
        bounds: list[Bounds] = []
        for start in range(0, len(self.words), LANES):
            tiles = range(start, min(start + LANES, len(self.words)))
            used = sorted({attribute for tile in tiles for attribute in self.attributes[tile]})
            # A tile that does not use an attribute takes all of it.
            lows = np.zeros((len(tiles), len(used)), np.int32)
            highs = np.tile(np.array([self.last_slots[attribute] for attribute in used], np.int32), (len(tiles), 1))
            for lane, tile in enumerate(tiles):
                at = np.searchsorted(used, self.attributes[tile])
                lows[lane, at], highs[lane, at] = self.lows[tile], self.highs[tile]
            uses.append(len(used))
            attributes.extend(used)
            bounds.append(_grouped(_children(lows, _NOWHERE_LOW), _children(highs, _NOWHERE_HIGH)))
        flat = np.concatenate([*bounds, np.empty(0, np.int32)])
        return _starts(uses), np.array(attributes, np.int32), flat


def _children(bounds: npt.NDArray[Any], nowhere: int) -> npt.NDArray[Any]:
    """Rows of bounds as [parent, child, attribute], the last parent filled up with lanes that hold nothing."""
    missing = -len(bounds) % LANES
    filled = np.concatenate([bounds, np.full((missing, bounds.shape[1]), nowhere, bounds.dtype)])
    return filled.reshape(len(filled) // LANES, LANES, bounds.shape[1])


def _grouped(lows: npt.NDArray[Any], highs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[parent, child, attribute] twice -> [parent, attribute, low or high, child], flat."""
    return np.stack([lows.transpose(0, 2, 1), highs.transpose(0, 2, 1)], axis=2).reshape(-1)


def _starts(lengths: list[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)
