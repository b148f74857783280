"""The index proper: a tree of boxes in rank space, sixty-four children to a node.

Boxes are sorted by recursive median cuts (a k-d order), so that neighbours in space are neighbours in memory. Then

    word   64 boxes           tested in one go: a comparison of 64 lanes for each attribute (see lanes.py)
    tile   64 words           the words' hulls are tested the same way
    node   64 tiles           and so are the tiles' hulls

What bounds the speed is the memory that these comparisons read. So in a tile they read *coarse* slots of 16 bits, and
tell intervals that surely meet from those that only share a coarse slot at an end; those few are compared exactly,
with the bits that coarse slots drop.
A test asks whether two intervals meet, so an event whose attribute is a range costs no more than a point does.

Boxes that constrain the same attributes form a *space* (as in DMM-AR) with tiles of its own; a tile knows only the
attributes that its boxes use, so a subscription on 2 attributes of 1,000 pays for 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.matching.kd import kd_order
from fieldfare.matching.lanes import LANES

PLAIN, DISTINCT, CHECKED = 0, 1, 2  # how a tile's matches are emitted
_NOWHERE_LOW, _NOWHERE_HIGH = np.iinfo(np.int32).max, -1  # bounds of a lane that holds nothing
_TINY_ATTRIBUTES_MAX = 16  # a space of less than a word is joined to its neighbour up to so many attributes
_JOINED_ATTRIBUTES_MAX = 4  # others up to so many, if that makes at most so many times the tests
_JOINED_GROWTH_MAX = 1.6

COARSE_ORIGIN = 32_766  # so that coarse slots, and one more on either side, fit 16 bits
COARSE_MIN, COARSE_MAX = -32_768, 32_767  # below and above every coarse slot
DOUBLED = -1  # the shift where a tile is so narrow that there are two coarse slots for every slot

Bounds = npt.NDArray[np.int32]
CoarseBounds = npt.NDArray[np.int16]


def _coarse_shifts(extents: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """How many low bits of its slots a tile must drop, on each attribute, for slots from 0 to `extent`."""
    shifts = [
        DOUBLED if extent < COARSE_ORIGIN else max(0, (extent + 5).bit_length() - 16) for extent in extents.tolist()
    ]
    return np.array(shifts, np.int32)


def _coarse_bounds(
    lows: Bounds, highs: Bounds, origins: npt.NDArray[np.int32], shifts: npt.NDArray[np.int32]
) -> tuple[CoarseBounds, CoarseBounds]:
    """Bounds as coarse slots; where slots are doubled, moved apart by one, so that an end is never in doubt."""
    doubled, exist = shifts == DOUBLED, lows <= highs

    def coarse(slots: Bounds) -> Bounds:
        moved = slots - origins
        return np.where(doubled, moved << 1, moved >> np.maximum(shifts, 0)) - COARSE_ORIGIN

    return (
        np.where(exist, coarse(lows) - doubled, COARSE_MAX).astype(np.int16),
        np.where(exist, coarse(highs) + doubled, COARSE_MIN).astype(np.int16),
    )


def _dropped(slots: Bounds, origins: npt.NDArray[np.int32], shifts: npt.NDArray[np.int32]) -> Bounds:
    """The low bits of slots that coarse slots do not have."""
    return (slots - origins) & ((1 << np.maximum(shifts, 0)) - 1)


def _fine(dropped: npt.NDArray[Any], shifts: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """Dropped bits in groups, in as few bytes as the widest attribute of their tile needs."""
    groups = dropped.reshape(-1, 2 * LANES)
    count = (max(0, int(shifts.max(initial=0))) + 7) // 8
    planes = np.empty((len(groups), count, 2 * LANES), np.uint8)
    for number in range(count):
        planes[:, number] = (groups >> (8 * number)) & 0xFF
    return planes.reshape(-1)


def exact_bounds(tree: Tree, tile: int, use: int) -> Bounds:
    """The bounds of a tile's boxes on one of its uses, in full slots: [word, low or high, box]."""
    words = int(tree.tile_words[tile + 1] - tree.tile_words[tile])
    first_use, uses = int(tree.tile_uses[tile]), int(tree.tile_uses[tile + 1] - tree.tile_uses[tile])
    start, size = int(tree.tile_starts[tile]), words * uses * 2 * LANES
    origin, shift = int(tree.tile_origins[use]), int(tree.tile_shifts[use])
    coarse = tree.coarse[start : start + size].reshape(words, uses, 2, LANES)[:, use - first_use].astype(np.int32)
    if shift == DOUBLED:
        apart = np.array([1, -1], np.int32)[:, None]
        return ((coarse + COARSE_ORIGIN + apart) >> 1) + origin
    slots = ((coarse + COARSE_ORIGIN) << shift) + origin
    fine = tree.fine[tree.tile_fine[tile] : tree.tile_fine[tile + 1]]
    planes = fine.reshape(words, uses, len(fine) // size, 2, LANES)[:, use - first_use]
    for number in range(planes.shape[1]):
        slots += planes[:, number].astype(np.int32) << (8 * number)
    return slots


def with_fine(arrays: dict[str, npt.NDArray[Any]], exact: Bounds) -> Tree:
    """The tree of arrays that have exact bounds in place of `fine`, as snapshots had them up to format 4."""
    uses, words, starts = arrays["tile_uses"], arrays["tile_words"], arrays["tile_starts"]
    found = []
    for tile in range(len(arrays["tile_modes"])):
        some = slice(int(uses[tile]), int(uses[tile + 1]))
        count, size = some.stop - some.start, int(words[tile + 1] - words[tile]) * (some.stop - some.start) * 2 * LANES
        slots = exact[starts[tile] : starts[tile] + size].reshape(-1, count, 2 * LANES).transpose(0, 2, 1)
        shifts = arrays["tile_shifts"][some]
        dropped = _dropped(slots, arrays["tile_origins"][some], shifts).transpose(0, 2, 1)
        found.append(_fine(dropped, shifts))
    fine = np.concatenate([*found, np.empty(0, np.uint8)])
    return Tree(**arrays, fine=fine, tile_fine=_starts([len(some) for some in found]))


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
    tile_bounds: CoarseBounds  # a group for each use: words
    tile_words: npt.NDArray[np.int64]  # tile i has the words tile_words[i]:tile_words[i + 1]
    tile_starts: npt.NDArray[np.int64]  # where the tile's part of `coarse` and `exact` starts
    tile_modes: npt.NDArray[np.int8]

    coarse: CoarseBounds  # for each word of a tile, a group for each use: boxes
    fine: npt.NDArray[np.uint8]  # what `coarse` drops of each bound, in no byte, one, or a plane of low and one of high
    tile_fine: npt.NDArray[
        np.int64
    ]  # tile i has the bytes fine[tile_fine[i]:tile_fine[i + 1]], in the order of `coarse`
    alive: npt.NDArray[np.uint64]  # for each word, a bit for each box that exists and was not removed


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
    for space in spaces:
        lows, highs = bounds.pop(0)  # so that they are freed as the tree grows
        order = kd_order(lows, highs)
        lows, highs = lows[order], highs[order]
        builder.add_space(_Space(space.boxes[order], space.attributes, space.mode), lows, highs)
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
    if signatures.min() == signatures.max():  # as boxes without SQL are; sorting them would take as long as the tree
        everything = np.arange(len(modes), dtype=np.int32)
        used = tuple(number for number, column in enumerate(columns) if len(column.boxes))
        return [_Space(everything, used, int(modes[0]))]
    distinct, first, group = np.unique(signatures, return_index=True, return_inverse=True)
    attributes: list[list[int]] = [[] for _ in distinct]
    for number, column in enumerate(columns):
        is_used = np.zeros(len(modes), np.bool_)
        is_used[column.boxes] = True
        for g in np.flatnonzero(is_used[first]).tolist():
            attributes[g].append(number)
    order = np.argsort(group, kind="stable").astype(np.int32)
    members = np.split(order, np.cumsum(np.bincount(group, minlength=len(distinct)))[:-1])
    found = sorted(
        (
            _Space(boxes, tuple(used), int(modes[at]))
            for boxes, used, at in zip(members, attributes, first, strict=True)
        ),
        key=lambda space: (space.mode, space.attributes),
    )
    return _joined(found)


def _joined(spaces: list[_Space]) -> list[_Space]:
    """Neighbours put together where that is cheaper: fewer, fuller words against more attributes to test in each."""
    joined: list[_Space] = []
    for space in spaces:
        if joined and joined[-1].mode == space.mode:
            last = joined[-1]
            attributes = tuple(sorted({*last.attributes, *space.attributes}))
            boxes = len(last.boxes) + len(space.boxes)
            uses = len(last.boxes) * len(last.attributes) + len(space.boxes) * len(space.attributes)
            tiny = min(len(last.boxes), len(space.boxes)) < LANES and len(attributes) <= _TINY_ATTRIBUTES_MAX
            cheap = len(attributes) <= _JOINED_ATTRIBUTES_MAX and boxes * len(attributes) <= _JOINED_GROWTH_MAX * uses
            if tiny or cheap or last.attributes == space.attributes:
                joined[-1] = _Space(np.sort(np.concatenate([last.boxes, space.boxes])), attributes, space.mode)
                continue
        joined.append(space)
    return joined


def _space_bounds(
    spaces: Sequence[_Space], columns: Sequence[Column], boxes: int
) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
    """For each space a matrix of lows and one of highs, a row for each box, a column for each attribute."""
    if len(spaces) == 1 and all(len(columns[attribute].boxes) == boxes for attribute in spaces[0].attributes):
        return [_whole_bounds([columns[attribute] for attribute in spaces[0].attributes], boxes)]
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


def _whole_bounds(columns: Sequence[Column], boxes: int) -> tuple[Bounds, Bounds]:
    """The same where all boxes constrain the same attributes."""
    lows, highs = np.empty((boxes, len(columns)), np.int32), np.empty((boxes, len(columns)), np.int32)
    for number, column in enumerate(columns):
        lows[column.boxes, number], highs[column.boxes, number] = column.low, column.high
    return lows, highs


class _Builder:
    """Collects the tiles of the spaces, then makes the nodes above them."""

    def __init__(self) -> None:
        self.attributes: list[tuple[int, ...]] = []  # of each tile
        self.lows: list[Bounds] = []  # the hull of each tile
        self.highs: list[Bounds] = []
        self.shifts: list[npt.NDArray[np.int32]] = []
        self.modes: list[int] = []
        self.words: list[int] = []
        self.boxes: list[npt.NDArray[np.int32]] = []  # of each space
        self.tile_bounds: list[CoarseBounds] = []
        self.coarse: list[CoarseBounds] = []
        self.fine: list[npt.NDArray[np.uint8]] = []  # of each tile

    def add_space(self, space: _Space, lows: Bounds, highs: Bounds) -> None:
        """The tiles of a space, whose boxes are in their final order."""
        word_lows, word_highs = _children(lows, _NOWHERE_LOW), _children(highs, _NOWHERE_HIGH)
        self.boxes.append(np.concatenate([space.boxes, np.full(-len(space.boxes) % LANES, -1, np.int32)]))
        for start in range(0, len(word_lows), LANES):
            words = slice(start, start + LANES)
            self._add_tile(space, word_lows[words], word_highs[words])

    def _add_tile(self, space: _Space, lows: Bounds, highs: Bounds) -> None:
        """A tile of bounds [word, box, attribute]."""
        hull_lows, hull_highs = lows.min(axis=1), highs.max(axis=1)
        origins = hull_lows.min(axis=0)
        shifts = _coarse_shifts(hull_highs.max(axis=0) - origins)
        self.coarse.append(_grouped(*_coarse_bounds(lows, highs, origins, shifts)))
        dropped = [_dropped(bounds, origins, shifts) for bounds in (lows, highs)]
        self.fine.append(_fine(_grouped(*dropped), shifts))
        hulls = _children(hull_lows, _NOWHERE_LOW), _children(hull_highs, _NOWHERE_HIGH)
        self.tile_bounds.append(_grouped(*_coarse_bounds(*hulls, origins, shifts)))
        self.attributes.append(space.attributes)
        self.lows.append(origins)
        self.highs.append(hull_highs.max(axis=0))
        self.shifts.append(shifts)
        self.modes.append(space.mode)
        self.words.append(len(lows))

    def tree(self, last_slots: list[int]) -> tuple[Tree, npt.NDArray[np.int32]]:
        """The tree, and the number of the box at each place."""
        boxes = np.concatenate([*self.boxes, np.full(LANES, -1, np.int32)])
        uses = [len(attributes) for attributes in self.attributes]
        node_uses, node_attributes, node_bounds = self._nodes(last_slots)
        tree = Tree(
            node_uses=node_uses,
            node_attributes=node_attributes,
            node_bounds=node_bounds,
            tile_uses=_starts(uses),
            tile_attributes=np.array([number for attributes in self.attributes for number in attributes], np.int32),
            tile_origins=np.concatenate([*self.lows, np.empty(0, np.int32)]),
            tile_shifts=np.concatenate([*self.shifts, np.empty(0, np.int32)]),
            tile_bounds=np.concatenate([*self.tile_bounds, np.empty(0, np.int16)]),
            tile_words=_starts(self.words),
            tile_starts=_starts([use * words * 2 * LANES for use, words in zip(uses, self.words, strict=True)]),
            tile_modes=np.array(self.modes, np.int8),
            coarse=np.concatenate([*self.coarse, np.empty(0, np.int16)]),
            fine=np.concatenate([*self.fine, np.empty(0, np.uint8)]),
            tile_fine=_starts([len(some) for some in self.fine]),
            alive=np.packbits(boxes[:-LANES] >= 0, bitorder="little").view(np.uint64),
        )
        return tree, boxes

    def _nodes(self, last_slots: list[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Bounds]:
        uses: list[int] = []
        attributes: list[int] = []
        bounds: list[Bounds] = []
        for start in range(0, len(self.words), LANES):
            tiles = range(start, min(start + LANES, len(self.words)))
            used = sorted({attribute for tile in tiles for attribute in self.attributes[tile]})
            # A tile that does not use an attribute takes all of it.
            lows = np.zeros((len(tiles), len(used)), np.int32)
            highs = np.tile(np.array([last_slots[attribute] for attribute in used], np.int32), (len(tiles), 1))
            for lane, tile in enumerate(tiles):
                at = np.searchsorted(used, self.attributes[tile])
                lows[lane, at], highs[lane, at] = self.lows[tile], self.highs[tile]
            uses.append(len(used))
            attributes.extend(used)
            bounds.append(_grouped(_children(lows, _NOWHERE_LOW), _children(highs, _NOWHERE_HIGH)))
        flat = np.concatenate([*bounds, np.empty(0, np.int32)])
        return _starts(uses), np.array(attributes, np.int32), flat


def _children(bounds: Bounds, nowhere: int) -> Bounds:
    """Rows of bounds as [parent, child, attribute], the last parent filled up with lanes that hold nothing."""
    missing = -len(bounds) % LANES
    filled = np.concatenate([bounds, np.full((missing, bounds.shape[1]), nowhere, np.int32)])
    return filled.reshape(len(filled) // LANES, LANES, bounds.shape[1])


def _grouped(lows: npt.NDArray[Any], highs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[parent, child, attribute] twice -> [parent, attribute, low or high, child], flat."""
    return np.stack([lows.transpose(0, 2, 1), highs.transpose(0, 2, 1)], axis=2).reshape(-1)


def _starts(lengths: list[int]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *lengths], dtype=np.int64)
