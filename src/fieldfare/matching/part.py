"""A part of an index: the boxes of some subscriptions, built once and never changed, and matching events to them.

Removing a subscription from a part only clears the bits of its boxes, in a copy of the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import BoxTable
from fieldfare.matching.axis import NULL_SLOT, Axis
from fieldfare.matching.batch import Batch
from fieldfare.matching.evaluation import computed
from fieldfare.matching.lanes import LANES
from fieldfare.matching.lists import empty_values, locality_order
from fieldfare.matching.member_search import FoundInPart, Labelled, search_members
from fieldfare.matching.members import MemberPlan, Members
from fieldfare.matching.promotion import placed
from fieldfare.matching.residual import Residuals
from fieldfare.matching.tree import CHECKED, DISTINCT, PLAIN, Column, Tree
from fieldfare.matching.tree_building import build_tree
from fieldfare.matching.tree_search import SPARE, Events, Found, match_events
from fieldfare.model import Derived

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
    members: Members | None = None  # the boxes that are found by members of lists, at places after those of the tree

    @staticmethod
    def build(table: BoxTable, owner_count: int) -> Part:
        """The part with the boxes of `table`, whose owners are numbered below `owner_count`."""
        plain, promoted, all_tests = placed(table)
        attributes, derived = tuple(sorted(plain)), tuple(promoted)
        given = [*(plain[attribute] for attribute in attributes), *promoted.values()]
        axes = tuple(map(Axis.of, given))
        columns = []
        for column, axis in zip(given, axes, strict=True):
            low, high = axis.slots_of_cuts(column.low), axis.slots_of_cuts(column.high)
            high -= 1
            columns.append(Column(column.boxes, low, high, axis.last_slot))
        members = None
        if table.members:
            plan = MemberPlan.of(table.members, columns, len(table))
            modes = _modes(table, [*all_tests, *plan.tested_boxes().tolist()], owner_count, plan.is_posted)
            tree, boxes = _tree_of_some(columns, modes, ~plan.is_posted)
            members, posted = Members.of(plan, columns, modes, boxes)
            boxes = np.concatenate([boxes, posted])
        else:
            tree, boxes = build_tree(columns, _modes(table, list(all_tests), owner_count))
        owners = np.where(boxes >= 0, table.owners[boxes] if len(table) else 0, 0).astype(np.int32)
        tested = np.flatnonzero(np.isin(boxes, list(all_tests))).tolist() if all_tests else []
        places = {int(boxes[place]): place for place in tested}
        residuals = Residuals.of({places[box]: tests for box, tests in all_tests.items()})
        several = bool(len(table)) and int(np.bincount(table.owners, minlength=1).max()) > 1
        return Part(attributes, axes, tree, owners, owner_count, several, residuals, derived, members)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        tree = sum(array.nbytes for array in self.tree)
        tree += 0 if self.members is None else self.members.nbytes
        return tree + self.owners.nbytes + self.residuals.nbytes + sum(axis.nbytes for axis in self.axes)

    @cached_property
    def _modes(self) -> frozenset[int]:
        return frozenset(self.tree.tile_modes.tolist())

    @cached_property
    def _has_several(self) -> npt.NDArray[np.bool_]:
        """Whether each owner has several boxes."""
        alive = self.alive()
        owners = self.owners[: len(alive)][alive]  # the places after them are padding
        several: npt.NDArray[np.bool_] = np.bincount(owners, minlength=self.owner_count) > 1
        return several

    def alive(self) -> npt.NDArray[np.bool_]:
        """Whether there is a box at each place that was not removed."""
        in_tree = np.unpackbits(self.tree.alive.view(np.uint8), bitorder="little").astype(np.bool_)
        if self.members is None:
            return in_tree
        padding = np.zeros(self.members.first_place - len(in_tree), np.bool_)
        return np.concatenate([in_tree, padding, self.members.postings.alive])

    def without(self, removed: npt.NDArray[np.bool_]) -> Part:
        """The same part without the boxes of some owners."""
        owners = self.owners[: LANES * len(self.tree.alive)]  # the places after them are padding
        gone = np.packbits(removed[owners], bitorder="little").view(np.uint64)
        members = self.members
        if members is not None:
            members = members.without(removed[self.owners[members.first_place :]])
        return replace(self, tree=self.tree._replace(alive=self.tree.alive & ~gone), members=members)

    def match(
        self, batch: Batch, labels: npt.NDArray[Any], value_type: npt.DTypeLike, expected: int
    ) -> tuple[Matches, ...]:
        """The labels of every owner that an event of the batch satisfies, once; `expected` guesses how many in all."""
        low, high = self._slots(batch)
        flat = low.reshape(-1)
        events = Events(flat, flat if low is high else high.reshape(-1), low.shape[1])
        labelled = Labelled(labels, self.owners, self.owner_count, value_type, expected)
        if self.members is not None:
            return self._match_with_members(batch, events, labelled)
        order, reordered = self._order(low, expected)
        found = self._match_tree(order, events, labelled)
        extra_events, extra_places = self._checked(found.checked_events, found.checked_places, batch)
        return (Matches(order, reordered, found.ends, found.values, extra_events, labels[extra_places]),)

    def _match_with_members(self, batch: Batch, events: Events, labelled: Labelled) -> tuple[Matches, ...]:
        """The same where some boxes are found by members: two lists for each event, where the tree has boxes too."""
        members, order, reordered = cast("Members", self.members), np.arange(batch.rows, dtype=np.int64), False
        of_events = members.of_events(batch)
        distinct = events.low is not events.high and self.several
        found = [search_members(members, events, of_events, labelled, distinct=distinct)]
        pairs = found[0].checked_events, found[0].checked_places
        if len(self.tree.tile_modes):
            found.append(self._match_tree(order, events, labelled))
            checked = found[1].checked_events, found[1].checked_places
            held = members.hold(*checked, of_events)
            pairs = np.concatenate([pairs[0], checked[0][held]]), np.concatenate([pairs[1], checked[1][held]])
        extra_events, extra_places = self._checked(*pairs, batch)
        extra_values = labelled.labels[extra_places]
        return tuple(
            Matches(order, reordered, one.ends, one.values, extra_events[:some], extra_values[:some])
            for one, some in zip(found, (len(extra_events), 0), strict=False)
        )

    def _order(self, low: npt.NDArray[np.int32], expected: int) -> tuple[npt.NDArray[np.int64], bool]:
        """The order to match events in, and whether it is not their own."""
        reordered = (
            len(low) >= _REORDERED_EVENTS_MIN
            and self.tree.coarse.nbytes + self.tree.narrow.nbytes > _CACHED_BYTES
            and expected < len(low) * _REORDERED_MATCHES_MAX
        )
        if reordered:
            return locality_order(low, [axis.last_slot for axis in self.axes]), True
        return np.arange(len(low), dtype=np.int64), False

    def _match_tree(self, order: npt.NDArray[np.int64], events: Events, labelled: Labelled) -> FoundInPart:
        """What the tree finds."""
        distinct = events.low is not events.high and self.several
        stamps = self.owner_count if distinct or DISTINCT in self._modes else 0
        checks, expected, rows = CHECKED in self._modes, labelled.expected, len(order)
        found = Found(
            values=empty_values(expected + SPARE + 1, labelled.value_type),
            ends=np.zeros(rows + 1, np.int64),
            checked_events=np.empty(expected * checks + SPARE + 1, np.int64),
            checked_places=np.empty(expected * checks + SPARE + 1, np.int32),
            seen=np.full(stamps, -1, np.int64),
        )
        turn, checked, stamp = 0, 0, 0
        while turn < rows:
            turn, checked = match_events(
                self.tree, events, order, turn, stamp, labelled.labels, self.owners, distinct, found, checked
            )
            stamp += rows
            if turn < rows:
                found = _enlarged(found, int(found.ends[turn]), checked)
        values = found.values[: found.ends[-1]]
        return FoundInPart(found.ends, values, found.checked_events[:checked], found.checked_places[:checked])

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


def _modes(
    table: BoxTable, tested_boxes: Sequence[int], owner_count: int, posted: npt.NDArray[np.bool_] | None = None
) -> npt.NDArray[np.int8]:
    """How the matches of each box are emitted: all boxes of an owner with residual tests are checked.

    So are those of an owner some of whose boxes the tree finds, and others are `posted`: neither knows of the other.
    """
    modes = np.where(table.overlapping, np.int8(DISTINCT), np.int8(PLAIN))
    tested = np.zeros(owner_count, np.bool_)
    if posted is not None:
        in_tree = np.zeros(owner_count, np.bool_)
        in_tree[table.owners[~posted]] = True
        tested[table.owners[posted]] = True
        tested &= in_tree
    tested[table.owners[np.array(tested_boxes, np.int64)]] = True
    if tested_boxes or posted is not None:
        modes[tested[table.owners]] = CHECKED
    return modes


def _tree_of_some(
    columns: Sequence[Column], modes: npt.NDArray[np.int8], chosen: npt.NDArray[np.bool_]
) -> tuple[Tree, npt.NDArray[np.int32]]:
    """The tree of some of the boxes, and the number of the box at each place."""
    numbers = np.flatnonzero(chosen)
    new_number = np.cumsum(chosen) - 1
    some = []
    for column in columns:
        kept = np.flatnonzero(chosen[column.boxes])
        boxes = new_number[column.boxes[kept]].astype(np.int32)
        some.append(Column(boxes, column.low[kept], column.high[kept], column.last_slot))
    tree, boxes = build_tree(some, modes[numbers])
    return tree, np.where(boxes >= 0, numbers[boxes] if len(numbers) else -1, -1).astype(np.int32)


def _enlarged(found: Found, written: int, checked: int) -> Found:
    """The same outputs, with twice the room."""
    values = empty_values(2 * len(found.values), found.values.dtype)
    events, places = (np.empty(2 * len(array), array.dtype) for array in (found.checked_events, found.checked_places))
    values[:written] = found.values[:written]
    events[:checked], places[:checked] = found.checked_events[:checked], found.checked_places[:checked]
    return found._replace(values=values, checked_events=events, checked_places=places)
