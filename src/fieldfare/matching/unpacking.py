"""The way back: the boxes of a part, read off its tree, so that parts can be merged without keeping their sources."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, BoxTable
from fieldfare.matching.lanes import LANES
from fieldfare.matching.members import Members
from fieldfare.matching.part import Part
from fieldfare.matching.promotion import with_derived, with_intervals
from fieldfare.matching.tree import PLAIN, Tree, exact_bounds
from fieldfare.model import Derived, Interval, Test


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
    if part.members is not None:
        for attribute, slots in _slots_of_posted(part.members, alive).items():
            found.setdefault(attribute, []).append(slots)
    axes: dict[str, AxisColumn] = {}
    promoted: dict[Derived, AxisColumn] = {}
    for attribute, pieces in sorted(found.items()):
        axis = part.axes[attribute]
        at, low, high = (np.concatenate(column) for column in zip(*pieces, strict=True))
        constrained = (low > 0) | (high < axis.last_slot)
        order = np.flatnonzero(constrained)
        boxes = number_of[at[order]].astype(np.int32)
        column = AxisColumn(boxes, axis.cuts_at(low[order]), axis.cuts_at(high[order] + 1))
        if attribute < len(part.attributes):
            axes[part.attributes[attribute]] = column
        else:
            promoted[part.derived[attribute - len(part.attributes)]] = column
    words = np.diff(tree.tile_words)
    modes = np.repeat(tree.tile_modes, words * LANES)
    members = {}
    if part.members is not None:
        padding = np.full(part.members.first_place - len(modes), PLAIN, np.int8)
        modes = np.concatenate([modes, padding, part.members.postings.modes])
        members = part.members.columns_at(number_of, alive)
    tests = {int(number_of[place]): tests for place, tests in part.residuals.tests().items() if alive[place]}
    left, derived = _with_derived(promoted, tests)
    return BoxTable(part.owners[places], axes, modes[places] != PLAIN, left, derived, members)


def _with_derived(
    promoted: Mapping[Derived, AxisColumn], tests: Mapping[int, tuple[Test, ...]]
) -> tuple[dict[int, tuple[Test, ...]], dict[Derived, AxisColumn]]:
    """The tests that are no intervals on expressions, and all such intervals."""
    demoted: dict[Derived, dict[int, Interval]] = {}
    left: dict[int, tuple[Test, ...]] = {}
    for box, some in tests.items():
        intervals, others = with_derived(some)
        for axis, interval in intervals.items():
            demoted.setdefault(axis, {})[box] = interval
        if others:
            left[box] = others
    return left, with_intervals(promoted, demoted)


def _slots_of_posted(
    members: Members, alive: npt.NDArray[np.bool_]
) -> dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """By attribute, the places of the live boxes that are found by members, and their slots."""
    postings = members.postings
    places = np.repeat(np.arange(len(postings.modes)), np.diff(postings.interval_starts)) + members.first_place
    found = {}
    for attribute in np.unique(postings.interval_axes).tolist():
        at = np.flatnonzero((postings.interval_axes == attribute) & alive[places])
        lows, highs = postings.interval_lows[at].astype(np.int64), postings.interval_highs[at].astype(np.int64)
        found[attribute] = places[at], lows, highs
    return found


def _slots_of_use(
    tree: Tree, tile: int, use: int, alive: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The places of a tile's live boxes and their slots on one attribute."""
    words = int(tree.tile_words[tile + 1] - tree.tile_words[tile])
    slots = exact_bounds(tree, tile, use).astype(np.int64)
    first = int(tree.tile_words[tile]) * LANES
    places = first + np.flatnonzero(alive[first : first + words * LANES])
    return places, slots[:, 0].reshape(-1)[places - first], slots[:, 1].reshape(-1)[places - first]
