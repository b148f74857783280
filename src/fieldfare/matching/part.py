"""A part of an index: the boxes of some subscriptions, built once and never changed, and matching events to them.

Removing a subscription from a part only clears the bits of its boxes, in a copy of the bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import BoxTable
from fieldfare.matching.axis import NULL_SLOT, Axis
from fieldfare.matching.batch import Batch
from fieldfare.matching.evaluation import computed
from fieldfare.matching.lanes import LANES
from fieldfare.matching.lists import empty_values, locality_order
from fieldfare.matching.promotion import placed
from fieldfare.matching.residual import Residuals
from fieldfare.matching.tree import CHECKED, DISTINCT, PLAIN, Column, Tree, build_tree
from fieldfare.matching.tree_search import SPARE, Events, Found, match_events
from fieldfare.model import Derived, Test

_CACHED_BYTES = 1 << 21  # a tree up to about this size stays in a core's cache whatever the order of the events
_REORDERED_EVENTS_MIN = 64  # fewer events rarely meet in the tree
_REORDERED_MATCHES_MAX = 100  # lists longer than this cost more to put back in order than the cache saves


@dataclass(frozen=True, slots=True)
class Matches:
    """What a part found: lists of labels in the order of `order`, and single matches beside them."""

    order: npt.NDArray[np.int64]
    reordered: bool  # `order` is not that of the events
    ends: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    extra_events: npt.NDArray[np.int64]
    extra_values: npt.NDArray[Any]


@dataclass(frozen=True)
class Part:
    """Boxes in rank space, with the subscriptions they belong to (`owners`, by number within the part)."""

    attributes: tuple[str, ...]
    axes: tuple[Axis, ...]  # of the attributes, and after them of `derived`
    tree: Tree
    owners: npt.NDArray[np.int32]  # the owner of the box at each place
    owner_count: int
    several: bool  # some subscription has several boxes
    residuals: Residuals  # by place
    derived: tuple[Derived, ...] = ()

    @staticmethod
    def build(table: BoxTable, owner_count: int) -> Part:
        """The part with the boxes of `table`, whose owners are numbered below `owner_count`."""
        plain, promoted, all_tests = placed(table)
        attributes, derived = tuple(sorted(plain)), tuple(promoted)
        given = [*(plain[attribute] for attribute in attributes), *promoted.values()]
        axes = tuple(map(Axis.of, given))
        columns = []
        for column, axis in zip(given, axes, strict=True):
            low, high = axis.slots_of_cuts(column.low), axis.slots_of_cuts(column.high) - 1
            columns.append(Column(column.boxes, low, high, axis.last_slot))
        tree, boxes = build_tree(columns, _modes(table, all_tests, owner_count))
        owners = np.where(boxes >= 0, table.owners[boxes] if len(table) else 0, 0).astype(np.int32)
        places = {int(boxes[place]): place for place in np.flatnonzero(np.isin(boxes, list(all_tests))).tolist()}
        residuals = Residuals.of({places[box]: tests for box, tests in all_tests.items()})
        several = bool(len(table)) and int(np.bincount(table.owners, minlength=1).max()) > 1
        return Part(attributes, axes, tree, owners, owner_count, several, residuals, derived)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        tree = sum(array.nbytes for array in self.tree)
        return tree + self.owners.nbytes + self.residuals.nbytes + sum(axis.nbytes for axis in self.axes)

    @cached_property
    def _modes(self) -> frozenset[int]:
        return frozenset(self.tree.tile_modes.tolist())

    @cached_property
    def _has_several(self) -> npt.NDArray[np.bool_]:
        """Whether each owner has several boxes."""
        owners = self.owners[: LANES * len(self.tree.alive)][self.alive()]
        several: npt.NDArray[np.bool_] = np.bincount(owners, minlength=self.owner_count) > 1
        return several

    def alive(self) -> npt.NDArray[np.bool_]:
        """Whether there is a box at each place that was not removed."""
        return np.unpackbits(self.tree.alive.view(np.uint8), bitorder="little").astype(np.bool_)

    def without(self, removed: npt.NDArray[np.bool_]) -> Part:
        """The same part without the boxes of some owners."""
        owners = self.owners[: LANES * len(self.tree.alive)]  # the places after them are padding
        gone = np.packbits(removed[owners], bitorder="little").view(np.uint64)
        return replace(self, tree=self.tree._replace(alive=self.tree.alive & ~gone))

    def match(self, batch: Batch, labels: npt.NDArray[Any], value_type: npt.DTypeLike, expected: int) -> Matches:
        """The labels of every owner that an event of the batch satisfies, once; `expected` guesses how many in all."""
        low, high = self._slots(batch)
        ranged = low is not high
        distinct = ranged and self.several
        order = np.arange(batch.rows, dtype=np.int64)
        reordered = (
            batch.rows >= _REORDERED_EVENTS_MIN
            and self.tree.coarse.nbytes > _CACHED_BYTES
            and expected < batch.rows * _REORDERED_MATCHES_MAX
        )
        if reordered:
            order = locality_order(low, [axis.last_slot for axis in self.axes])
        stamps = self.owner_count if distinct or DISTINCT in self._modes else 0
        checks = CHECKED in self._modes
        found = Found(
            values=empty_values(expected + SPARE + 1, value_type),
            ends=np.zeros(batch.rows + 1, np.int64),
            checked_events=np.empty(expected * checks + SPARE + 1, np.int64),
            checked_places=np.empty(expected * checks + SPARE + 1, np.int32),
            seen=np.full(stamps, -1, np.int64),
        )
        turn, checked, stamp = 0, 0, 0
        events = Events(low.reshape(-1), high.reshape(-1), low.shape[1])
        while turn < batch.rows:
            turn, checked = match_events(
                self.tree, events, order, turn, stamp, labels, self.owners, distinct, found, checked
            )
            stamp += batch.rows
            if turn < batch.rows:
                found = _enlarged(found, int(found.ends[turn]), checked)
        values = found.values[: found.ends[-1]]
        extra = self._checked(found.checked_events[:checked], found.checked_places[:checked], batch)
        return Matches(order, reordered, found.ends, values, extra[0], labels[extra[1]])

    def _slots(self, batch: Batch) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        low = np.full((batch.rows, len(self.axes)), NULL_SLOT, np.int32)
        pieces = [batch.columns.get(attribute, ()) for attribute in self.attributes]
        values = [computed(axis, batch) for axis in self.derived]
        pieces += [some.pieces for some in values]
        ranged = any(piece.high is not None for column in pieces for piece in column)
        ranged = ranged or any(len(some.anything) for some in values)
        high = low.copy() if ranged else low
        for number, (axis, column) in enumerate(zip(self.axes, pieces, strict=True)):
            for piece in column:
                rows = slice(None) if piece.rows is None else piece.rows
                low[rows, number] = axis.slots_of_values(piece.section, piece.low)
                if piece.high is not None:
                    high[rows, number] = axis.slots_of_values(piece.section, piece.high)
                elif ranged:
                    high[rows, number] = low[rows, number]
        for number, some in enumerate(values, len(self.attributes)):
            if len(some.anything):
                high[some.anything, number] = self.axes[number].last_slot
        return low, high

    def _checked(
        self, events: npt.NDArray[np.int64], places: npt.NDArray[np.int32], batch: Batch
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Those pairs of event and place whose residual tests hold, one for each owner."""
        if not len(events):
            return events, places
        holds = self.residuals.holds(events, places, batch)
        events, places = events[holds], places[holds]
        if self.several:
            owners = self.owners[places]
            doubtful = np.flatnonzero(self._has_several[owners])  # only these can have found an event twice
            _, first = np.unique(events[doubtful] * self.owner_count + owners[doubtful], return_index=True)
            kept = ~self._has_several[owners]
            kept[doubtful[first]] = True
            events, places = events[kept], places[kept]
        return events, places


def _modes(table: BoxTable, tests: Mapping[int, tuple[Test, ...]], owner_count: int) -> npt.NDArray[np.int8]:
    """How the matches of each box are emitted: all boxes of an owner with residual tests are checked."""
    modes = np.where(table.overlapping, np.int8(DISTINCT), np.int8(PLAIN))
    if tests:
        tested = np.zeros(owner_count, np.bool_)
        tested[table.owners[list(tests)]] = True
        modes[tested[table.owners]] = CHECKED
    return modes


def _enlarged(found: Found, written: int, checked: int) -> Found:
    """The same outputs, with twice the room."""
    values = empty_values(2 * len(found.values), found.values.dtype)
    events, places = (np.empty(2 * len(array), array.dtype) for array in (found.checked_events, found.checked_places))
    values[:written] = found.values[:written]
    events[:checked], places[:checked] = found.checked_events[:checked], found.checked_places[:checked]
    return found._replace(values=values, checked_events=events, checked_places=places)
