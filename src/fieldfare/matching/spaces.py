"""Spaces: boxes that constrain the same attributes (as in DMM-AR), and those that are cheaper to keep together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldfare.matching.coarse import Bounds
from fieldfare.matching.lanes import LANES
from fieldfare.matching.tree import Column

_TINY_ATTRIBUTES_MAX = 16  # a space of less than a word is joined to its neighbour up to so many attributes
_JOINED_ATTRIBUTES_MAX = 4  # others up to so many, if that makes at most so many times the tests
_JOINED_GROWTH_MAX = 1.6


@dataclass(frozen=True, slots=True)
class Space:
    """Boxes, by number, and the attributes that any of them constrains."""

    boxes: npt.NDArray[np.int32]
    attributes: tuple[int, ...]
    mode: int


def spaces_of(columns: Sequence[Column], modes: npt.NDArray[np.int8], coded: Collection[int]) -> list[Space]:
    """Boxes by the attributes they constrain; spaces of only a few boxes are joined with their neighbours.

    `coded` are the attributes with which a space may share a narrow tile, as it is.
    """
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
        return [Space(everything, used, int(modes[0]))]
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
        (Space(boxes, tuple(used), int(modes[at])) for boxes, used, at in zip(members, attributes, first, strict=True)),
        key=lambda space: (space.mode, space.attributes),
    )
    return _joined(found, coded)


def _joined(spaces: list[Space], coded: Collection[int]) -> list[Space]:
    """Neighbours put together where that is cheaper: fewer, fuller words against more attributes to test in each."""
    joined: list[Space] = []
    for space in spaces:
        if joined and joined[-1].mode == space.mode:
            last = joined[-1]
            attributes = tuple(sorted({*last.attributes, *space.attributes}))
            boxes = len(last.boxes) + len(space.boxes)
            uses = len(last.boxes) * len(last.attributes) + len(space.boxes) * len(space.attributes)
            tiny = min(len(last.boxes), len(space.boxes)) < LANES and len(attributes) <= _TINY_ATTRIBUTES_MAX
            cheap = not all(attribute in coded for attribute in attributes)
            cheap &= len(attributes) <= _JOINED_ATTRIBUTES_MAX and boxes * len(attributes) <= _JOINED_GROWTH_MAX * uses
            if tiny or cheap or last.attributes == space.attributes:
                joined[-1] = Space(np.sort(np.concatenate([last.boxes, space.boxes])), attributes, space.mode)
                continue
        joined.append(space)
    return joined


def space_bounds(spaces: Sequence[Space], columns: list[Column], boxes: int) -> list[Bounds]:
    """For each space a matrix with a row for each box: its lows on each attribute, then its highs.

    Takes the columns out of their list, so that they need not be in memory beside the matrices.
    """
    if len(spaces) == 1 and all(len(columns[attribute].boxes) == boxes for attribute in spaces[0].attributes):
        return [_whole_bounds(spaces[0].attributes, columns, boxes)]
    space_of = np.empty(boxes, np.int32)
    row_of = np.empty(boxes, np.int32)
    bounds = []
    for number, space in enumerate(spaces):
        space_of[space.boxes] = number
        row_of[space.boxes] = np.arange(len(space.boxes), dtype=np.int32)
        count = len(space.attributes)
        bounds.append(np.zeros((len(space.boxes), 2 * count), np.int32))
        bounds[-1][:, count:] = [columns[attribute].last_slot for attribute in space.attributes]
    for attribute, column in enumerate(columns):
        order = np.argsort(space_of[column.boxes], kind="stable")
        sorted_spaces = space_of[column.boxes][order]
        for chosen in np.split(order, np.flatnonzero(np.diff(sorted_spaces)) + 1):
            if not len(chosen):
                continue
            number = space_of[column.boxes[chosen[0]]]
            rows, at = row_of[column.boxes[chosen]], spaces[number].attributes.index(attribute)
            bounds[number][rows, at] = column.low[chosen]
            bounds[number][rows, at + len(spaces[number].attributes)] = column.high[chosen]
    columns.clear()
    return bounds


def _whole_bounds(attributes: Sequence[int], columns: list[Column], boxes: int) -> Bounds:
    """The same where all boxes constrain the same attributes."""
    bounds = np.empty((boxes, 2 * len(attributes)), np.int32)
    while columns:
        column = columns.pop()
        if len(columns) in attributes:
            at = attributes.index(len(columns))
            bounds[column.boxes, at], bounds[column.boxes, at + len(attributes)] = column.low, column.high
    return bounds
