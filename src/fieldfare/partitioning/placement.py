"""Where boxes are held: the pairs of box and part, made subscription by subscription in one compiled walk.

Whether a subscription is wide, and whether it needs spare copies, is decided for all of its boxes together, so that
none is found both in a part and in the shared part beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.boxes import BoxTable

NOBODY = -1
_MATCHER_MAX = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Copies:
    """How many parts hold a subscription."""

    mean: float
    most: int
    replicas: float  # how many copies matchers hold of a subscription, on average: R of "Revisiting CBPS"
    shared: int  # subscriptions that are wide on some dimension
    spared: int  # subscriptions that got spare copies, because one matcher alone would have held them


@dataclass(frozen=True)
class Placement:
    """Which boxes each part holds: those of part i lie from `starts[i]` up to `starts[i + 1]`, by owner."""

    boxes: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    subscriptions: npt.NDArray[np.int64]  # how many subscriptions each part holds
    copies: Copies

    @cached_property
    def parts(self) -> npt.NDArray[np.int32]:
        """The part of each entry of `boxes`."""
        return np.repeat(np.arange(len(self.subscriptions), dtype=np.int32), np.diff(self.starts))

    def boxes_of(self, part: int) -> npt.NDArray[np.int32]:
        """The boxes that a part holds."""
        return self.boxes[self.starts[part] : self.starts[part + 1]]


class Grouped(NamedTuple):
    """The boxes of a table by owner: those of group i are order[starts[i]:starts[i + 1]]."""

    order: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int32]

    @staticmethod
    def of(table: BoxTable) -> Grouped:
        """The boxes of a table, grouped."""
        order = np.argsort(table.owners, kind="stable").astype(np.int32)
        owners = table.owners[order]
        new = np.ones(len(owners), np.bool_)
        np.not_equal(owners[1:], owners[:-1], out=new[1:])
        heads = np.flatnonzero(new)
        return Grouped(order, np.append(heads, len(owners)), owners[heads])


class Ranges(NamedTuple):
    """For each dimension (row) and box (column) its first and its last segment."""

    first: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]


class Rules(NamedTuple):
    """A layout in arrays: for each dimension, then for each part, then for each matcher."""

    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    shared: npt.NDArray[np.int64]  # the dimension's shared part, or NOBODY
    alone: npt.NDArray[np.int64]  # who serves the part, or NOBODY where several do
    spares: npt.NDArray[np.int64]  # parts for the spare copies of what the matcher alone would hold, or NOBODY
    servers: npt.NDArray[np.int64]  # how many matchers serve the part

    @property
    def part_count(self) -> int:
        """How many parts there are."""
        return len(self.servers)


def wide_owners(
    grouped: Grouped, first: npt.NDArray[np.int32], last: npt.NDArray[np.int32], cells: int, most: float
) -> npt.NDArray[np.bool_]:
    """For each group whether its boxes together span more than `most` of so many cells, and more than one."""
    wide = np.zeros(len(grouped.owners), np.bool_)
    if cells > 1:
        _mark_wide(grouped, first, last, np.full(cells, NOBODY, np.int64), max(1.0, most), wide)
    return wide


@njit(cache=True, nogil=True)
def _mark_wide(grouped, first, last, seen, most, wide):  # type: ignore[no-untyped-def]
    order, starts, _ = grouped
    for group in range(len(wide)):
        spanned = 0
        if starts[group + 1] - starts[group] == 1:
            box = order[starts[group]]
            spanned = last[box] - first[box] + 1
        else:
            for place in range(starts[group], starts[group + 1]):
                box = order[place]
                for cell in range(first[box], last[box] + 1):
                    if seen[cell] != group:
                        seen[cell] = group
                        spanned += 1
        wide[group] = spanned > most


class Tally(NamedTuple):
    """What a walk leaves behind."""

    places: npt.NDArray[np.int64]  # for each part where its next box goes
    boxes: npt.NDArray[np.int32]  # the boxes by part; empty: they are only counted
    subscriptions: npt.NDArray[np.int64]  # for each part
    copies: npt.NDArray[np.int32]  # for each group

    @staticmethod
    def of(places: npt.NDArray[np.int64], boxes: int, groups: int) -> Tally:
        """A tally of so many boxes in all, from these places on."""
        return Tally(places, np.empty(boxes, np.int32), np.zeros_like(places), np.zeros(groups, np.int32))


def placed(
    grouped: Grouped, ranges: Ranges, wide: npt.NDArray[np.bool_], shifts: npt.NDArray[np.int32], rules: Rules
) -> Placement:
    """The parts of every box.

    For each dimension and group, `wide` says whether the shared part holds it, and `shifts` by how many segments it is
    stored further on.
    """
    groups = len(grouped.owners)
    counted = Tally.of(np.zeros(rules.part_count, np.int64), 0, groups)
    spared = _walk(grouped, ranges, wide, shifts, rules, counted)
    starts = np.concatenate([[0], np.cumsum(counted.places)])
    written = Tally.of(starts[:-1].copy(), int(starts[-1]), groups)
    _walk(grouped, ranges, wide, shifts, rules, written)  # goes the same way, and writes where the first has counted
    mean, most = (float(counted.copies.mean()), int(counted.copies.max())) if groups else (0.0, 0)
    replicas = float(counted.subscriptions @ rules.servers) / groups if groups else 0.0
    copies = Copies(mean, most, replicas, int(wide.any(axis=0).sum()), spared)
    return Placement(written.boxes, starts, counted.subscriptions, copies)


@njit(cache=True, nogil=True)
def _walk(grouped, ranges, wide, shifts, rules, tally):  # type: ignore[no-untyped-def]
    held_by = np.full(len(rules.servers), NOBODY, np.int64)  # the group that was last put into the part
    spared = 0
    for group in range(len(grouped.owners)):
        members = grouped.order[grouped.starts[group] : grouped.starts[group + 1]]
        lowest, highest, shared = _MATCHER_MAX, np.int64(NOBODY), False
        for dimension in range(len(rules.starts)):
            if wide[dimension, group]:
                _put_all(members, rules.shared[dimension], group, tally)
                shared = True
                continue
            size, shift = rules.sizes[dimension], shifts[dimension, group]
            start, end = rules.starts[dimension], rules.starts[dimension] + size
            for box in members:
                for segment in range(ranges.first[dimension, box], ranges.last[dimension, box] + 1):
                    part = start + shift + segment
                    part -= size if part >= end else 0
                    _put(box, part, tally)
                    if held_by[part] != group:
                        held_by[part] = group
                        tally.subscriptions[part] += 1
                        tally.copies[group] += 1
                        lowest, highest = min(lowest, rules.alone[part]), max(highest, rules.alone[part])
        if lowest == highest != NOBODY and not shared:  # a shared part is at hand for every matcher
            single = tally.copies[group]
            for part in rules.spares[lowest]:
                if part != NOBODY:
                    _put_all(members, part, group, tally)
            spared += tally.copies[group] > single
    return spared


@njit(cache=True, nogil=True)
def _put(box, part, tally):  # type: ignore[no-untyped-def]
    if len(tally.boxes):
        tally.boxes[tally.places[part]] = box
    tally.places[part] += 1


@njit(cache=True, nogil=True)
def _put_all(members, part, group, tally):  # type: ignore[no-untyped-def]
    for box in members:
        _put(box, part, tally)
    tally.subscriptions[part] += 1
    tally.copies[group] += 1
