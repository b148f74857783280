"""The way back: the boxes of a part, read off its tree, so that parts can be merged without keeping their sources."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, BoxTable
from fieldfare.matching.lanes import LANES
from fieldfare.matching.part import Part
from fieldfare.matching.tree import PLAIN, Tree


def boxes_of_part(part: Part) -> BoxTable:
    """The live boxes of a part. The exact inverse of building, but for the order of the boxes."""
    tree = part.tree
    alive = part.alive()
    places = np.flatnonzero(alive)
    number_of = np.cumsum(alive) - 1
    found: dict[int, list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]]] = {}
    for tile in range(len(tree.tile_modes)):
        for use in range(tree.tile_uses[tile], tree.tile_uses[tile + 1]):
            found.setdefault(int(tree.tile_attributes[use]), []).append(_slots_of_use(tree, tile, use, alive))
    axes = {}
    for attribute, pieces in sorted(found.items()):
        axis = part.axes[attribute]
        at, low, high = (np.concatenate(column) for column in zip(*pieces, strict=True))
        constrained = (low > 0) | (high < axis.last_slot)
        order = np.flatnonzero(constrained)
        boxes = number_of[at[order]].astype(np.int32)
        axes[part.attributes[attribute]] = AxisColumn(boxes, axis.cuts_at(low[order]), axis.cuts_at(high[order] + 1))
    words = np.diff(tree.tile_words)
    modes = np.repeat(tree.tile_modes, words * LANES)
    tests = {int(number_of[place]): tests for place, tests in part.residuals.tests().items() if alive[place]}
    return BoxTable(part.owners[places], axes, modes[places] != PLAIN, tests)


def _slots_of_use(
    tree: Tree, tile: int, use: int, alive: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The places of a tile's live boxes and their slots on one attribute."""
    words = int(tree.tile_words[tile + 1] - tree.tile_words[tile])
    uses = int(tree.tile_uses[tile + 1] - tree.tile_uses[tile])
    start = int(tree.tile_starts[tile])
    packed = tree.exact[start : start + words * uses * 2 * LANES].reshape(words, uses, 2, LANES)
    slots = packed[:, use - int(tree.tile_uses[tile])].astype(np.int64)
    first = int(tree.tile_words[tile]) * LANES
    places = first + np.flatnonzero(alive[first : first + words * LANES])
    return places, slots[:, 0].reshape(-1)[places - first], slots[:, 1].reshape(-1)[places - first]
