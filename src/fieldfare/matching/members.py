"""The boxes of a part that ask for members of lists: which are found by a member, and what the lists of events have.

A box with a member is found by its rarest one (see postings.py), unless even that is asked for by very many boxes and
the box has intervals too: then the tree finds it, and its members are tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import Cuts, MemberColumn
from fieldfare.matching.batch import Batch
from fieldfare.matching.list_columns import ListColumn, lists_of
from fieldfare.matching.postings import Postings, have_members
from fieldfare.matching.slots import sorted_unique
from fieldfare.matching.tree import PLAIN, Column
from fieldfare.matching.vocabulary import Slots, Vocabulary, slots_of_members, values_of, vocabulary_of
from fieldfare.model import Derived

_LONG_LIST_BOXES = 256  # of a posting list: boxes beyond that have intervals are better found by these
_KINDS = 8

Places = npt.NDArray[np.int64]


class EventMembers(NamedTuple):
    """The slots that the lists of each event have, several times perhaps, and -1 for members no box asks for."""

    offsets: npt.NDArray[np.int64]
    slots: Slots


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """What boxes ask for: pairs of box and slot, by box, the rarest of a box first; and which boxes it finds."""

    lists: tuple[Derived, ...]
    vocabulary: Vocabulary
    boxes: npt.NDArray[np.int32]
    slots: Slots
    is_first: npt.NDArray[np.bool_]
    is_posted: npt.NDArray[np.bool_]  # by box

    @staticmethod
    def of(members: Mapping[Derived, MemberColumn], columns: Sequence[Column], box_count: int) -> MemberPlan:
        """The plan for some members, of boxes with some intervals."""
        lists = tuple(sorted(members))
        vocabulary, all_slots = vocabulary_of([members[axis] for axis in lists])
        all_boxes = np.concatenate([members[axis].boxes for axis in lists]).astype(np.int64)
        pairs = sorted_unique(all_boxes * len(vocabulary) + all_slots)
        boxes, slots = pairs // len(vocabulary), (pairs % len(vocabulary)).astype(np.int32)
        rarity = np.bincount(slots, minlength=len(vocabulary))
        order = np.lexsort((rarity[slots], boxes))
        boxes, slots = boxes[order], slots[order]
        is_first = np.ones(len(boxes), np.bool_)
        is_first[1:] = boxes[1:] != boxes[:-1]
        has_interval = np.zeros(box_count, np.bool_)
        for column in columns:
            has_interval[column.boxes] = True
        lengths = np.bincount(slots[is_first], minlength=len(vocabulary))
        is_posted = np.zeros(box_count, np.bool_)
        is_posted[boxes[is_first]] = lengths[slots[is_first]] <= _LONG_LIST_BOXES
        is_posted[boxes[is_first]] |= ~has_interval[boxes[is_first]]
        return MemberPlan(lists, vocabulary, boxes.astype(np.int32), slots, is_first, is_posted)

    def tested_boxes(self) -> npt.NDArray[np.int32]:
        """The boxes with members that the tree is to find."""
        return self.boxes[self.is_first & ~self.is_posted[self.boxes]]


@dataclass(frozen=True)
class Members:
    """The posted boxes of a part, whose places follow those of the tree; and the members that boxes in the tree need.

    The box at tree place tested_places[i] needs the slots tested[tested_starts[i]:tested_starts[i + 1]].
    """

    lists: tuple[Derived, ...]
    vocabulary: Vocabulary
    postings: Postings
    first_place: int
    tested_places: npt.NDArray[np.int32]
    tested_starts: npt.NDArray[np.int64]
    tested: Slots

    @staticmethod
    def of(
        plan: MemberPlan, columns: Sequence[Column], modes: npt.NDArray[np.int8], tree_boxes: npt.NDArray[np.int32]
    ) -> tuple[Members, npt.NDArray[np.int32]]:
        """Members by their places, given the box at each place of the tree; and the box at each place after these."""
        posted = np.flatnonzero(plan.is_first & plan.is_posted[plan.boxes])
        more = np.bincount(plan.boxes[~plan.is_first], minlength=len(modes)) > 0
        for column in columns:
            more[column.boxes] = True
        is_plain = (modes == PLAIN) & ~more
        order = posted[np.lexsort((~is_plain[plan.boxes[posted]], plan.slots[posted]))]
        boxes = plan.boxes[order]
        counts = np.bincount(plan.slots[order], minlength=len(plan.vocabulary))
        plain = np.bincount(plan.slots[order][is_plain[boxes]], minlength=len(plan.vocabulary))
        starts = _starts(counts)
        place_of = np.full(len(modes), -1, np.int64)
        place_of[boxes] = np.arange(len(boxes))
        is_second = np.zeros(len(plan.boxes), np.bool_)
        is_second[1:] = plan.is_first[:-1] & ~plan.is_first[1:]
        at = np.flatnonzero(is_second & plan.is_posted[plan.boxes])
        seconds = np.full(len(boxes), -1, np.int32)
        seconds[place_of[plan.boxes[at]]] = plan.slots[at]
        rest = np.flatnonzero(~plan.is_first & ~is_second)
        member_starts, members = _by_place(place_of[plan.boxes[rest]], plan.slots[rest], len(boxes))
        postings = Postings(
            starts,
            starts[:-1] + plain,
            seconds,
            member_starts,
            members,
            *_intervals(columns, place_of, len(boxes)),
            modes[boxes],
            np.ones(len(boxes), np.bool_),
        )
        tested_places, tested_starts, tested = _tested(plan, tree_boxes, len(modes))
        found = Members(plan.lists, plan.vocabulary, postings, len(tree_boxes), tested_places, tested_starts, tested)
        return found, boxes

    @cached_property
    def modes(self) -> frozenset[int]:
        """How matches of posted boxes are emitted."""
        return frozenset(np.unique(self.postings.modes).tolist())

    @cached_property
    def all_alive(self) -> bool:
        """Whether no posted box was removed, so that the labels of whole lists are copied."""
        return bool(self.postings.alive.all())

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays: list[npt.NDArray[Any]] = [self.tested_places, self.tested_starts, self.tested]
        arrays += [getattr(self.vocabulary, field) for field in Vocabulary._fields]
        arrays += [getattr(self.postings, field) for field in Postings._fields]
        return sum(array.nbytes for array in arrays)

    def without(self, gone: npt.NDArray[np.bool_]) -> Members:
        """The same without the boxes at some of the places after the tree's."""
        return replace(self, postings=self.postings._replace(alive=self.postings.alive & ~gone))

    def of_events(self, batch: Batch) -> EventMembers:
        """The slots that the lists of each event have."""
        parts = []
        for number, axis in enumerate(self.lists):
            found = lists_of(axis, batch)
            parts += [self._slots(number, column, batch.rows) for column in found.columns]
            if len(found.anything):
                every = np.flatnonzero(self.vocabulary.kinds // _KINDS == number).astype(np.int32)
                counts = np.zeros(batch.rows, np.int64)
                counts[found.anything] = len(every)
                parts.append(EventMembers(_starts(counts), np.tile(every, len(found.anything))))
        return _joined(parts, batch.rows)

    def _slots(self, number: int, column: ListColumn, rows: int) -> EventMembers:
        offsets = column.offsets
        slots = slots_of_members(self.vocabulary, number, column.pieces, int(offsets[-1]))
        if column.choice is not None:
            counts = np.diff(offsets)[column.choice]
            spread = _starts(counts)
            slots = slots[np.repeat(offsets[column.choice] - spread[:-1], counts) + np.arange(spread[-1])]
            offsets = spread
        if column.rows is not None:
            counts = np.zeros(rows, np.int64)
            counts[column.rows] = np.diff(offsets)
            offsets = _starts(counts)
        return EventMembers(offsets, slots)

    def hold(self, events: Places, places: npt.NDArray[np.int32], members: EventMembers) -> npt.NDArray[np.bool_]:
        """Whether events have the members that boxes at places of the tree need; the pairs stand by events."""
        held = np.ones(len(events), np.bool_)
        if not len(self.tested_places):
            return held
        at = np.minimum(np.searchsorted(self.tested_places, places), len(self.tested_places) - 1)
        tested = np.flatnonzero(self.tested_places[at] == places)
        answers = np.ones(len(tested), np.bool_)
        have_members(events[tested], at[tested], self.tested_starts, self.tested, *members, answers)
        held[tested] = answers
        return held

    # The way back

    def columns_at(self, number_of: Places, alive: npt.NDArray[np.bool_]) -> dict[Derived, MemberColumn]:
        """What the live boxes ask for, by the number that each place has."""
        counts = np.diff(self.postings.starts)
        own = np.repeat(np.arange(len(counts)), counts)
        more = np.repeat(np.arange(len(own)), np.diff(self.postings.member_starts))
        tested = np.repeat(self.tested_places, np.diff(self.tested_starts))
        with_second = np.flatnonzero(self.postings.seconds >= 0)
        posted = np.concatenate([np.arange(len(own)), with_second, more])
        places = np.concatenate([posted + self.first_place, tested])
        seconds = self.postings.seconds[with_second]
        slots = np.concatenate([own, seconds, self.postings.members, self.tested])
        kept = alive[places]
        places, slots = places[kept], slots[kept]
        values = values_of(self.vocabulary)
        numbers = self.vocabulary.kinds[slots] // _KINDS
        found = {}
        for number, axis in enumerate(self.lists):
            at = np.flatnonzero(numbers == number)
            if len(at):
                cuts = Cuts.of([values[slot][1:] for slot in slots[at].tolist()])
                found[axis] = MemberColumn(number_of[places[at]].astype(np.int32), cuts)
        return found


def _starts(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _by_place(places: Places, values: Slots, count: int) -> tuple[Slots, Slots]:
    """Values grouped by place; those at no place are left out."""
    order = np.argsort(places, kind="stable")
    order = order[np.searchsorted(places[order], 0) :]
    return _starts(np.bincount(places[order], minlength=count)).astype(np.int32), values[order]


def _intervals(columns: Sequence[Column], place_of: Places, count: int) -> tuple[Slots, Slots, Slots, Slots]:
    """The intervals of posted boxes, grouped by place."""
    nothing = np.empty(0, np.int32)
    places = np.concatenate([np.empty(0, np.int64), *(place_of[column.boxes] for column in columns)])
    axes = np.concatenate([nothing, *(np.full(len(one.boxes), at, np.int32) for at, one in enumerate(columns))])
    lows = np.concatenate([nothing, *(column.low for column in columns)])
    highs = np.concatenate([nothing, *(column.high for column in columns)])
    order = np.argsort(places, kind="stable")
    order = order[np.searchsorted(places[order], 0) :]
    starts = _starts(np.bincount(places[order], minlength=count)).astype(np.int32)
    return starts, axes[order], lows[order].astype(np.int32), highs[order].astype(np.int32)


def _tested(
    plan: MemberPlan, tree_boxes: npt.NDArray[np.int32], box_count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], Slots]:
    place_of = np.full(box_count, -1, np.int64)
    places = np.flatnonzero(tree_boxes >= 0)
    place_of[tree_boxes[places]] = places
    at = np.flatnonzero(~plan.is_posted[plan.boxes])
    order = at[np.argsort(place_of[plan.boxes[at]], kind="stable")]
    tested_places, counts = np.unique(place_of[plan.boxes[order]], return_counts=True)
    return tested_places.astype(np.int32), _starts(counts), plan.slots[order]


def _joined(parts: Sequence[EventMembers], rows: int) -> EventMembers:
    """The members of several lists of an event, one after the other."""
    if len(parts) == 1:
        return parts[0]
    counts = np.zeros(rows, np.int64)
    for part in parts:
        counts += np.diff(part.offsets)
    offsets = _starts(counts)
    slots = np.empty(int(offsets[-1]), np.int32)
    filled = offsets[:-1].copy()
    for part in parts:
        some = np.diff(part.offsets)
        slots[np.repeat(filled - part.offsets[:-1], some) + np.arange(len(part.slots))] = part.slots
        filled += some
    return EventMembers(offsets, slots)
