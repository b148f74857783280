"""How many events a subscription still has to get from the log, counted when they are matched: not by reading it.

    first .. last: count | first .. last: count | ...        groups of matching events, in order

A subscriber that is away may miss millions of events, so positions are not kept one by one: events lie in groups, which
grow with their number. A group that is passed as a whole is forgotten, and what is left stays exact; where somebody
goes on in the middle of a group, all of the group still counts, and the number is an upper bound until the subscription
has caught up. Events that were in memory, or on their way, when a subscriber left are a group each: it may well
acknowledge the first ten of them later. Of a range that nobody has counted, the topic's table of times knows how many
events it has at most.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from fieldfare.messages import Position

_GROUP_EVENTS = 64  # a group has at least so many, if they come in order
_GROUPS = 32  # and at most this part of all events
_GROUPS_MAX = 1024  # beyond it, each two become one


class Group(NamedTuple):
    """Some events, from a position to a position."""

    first: Position
    last: Position
    events: int


class Uncounted(NamedTuple):
    """A range of positions in which nobody has counted yet, but for a while or for good."""

    after: Position
    upto: Position


class Unread:
    """The events that match a subscription, and that it has to read from the log."""

    __slots__ = ("_counts", "_firsts", "_has_open_group", "_lasts", "count", "is_whole", "uncounted")

    def __init__(self) -> None:
        self._firsts, self._lasts, self._counts = array("q"), array("q"), array("q")
        self.count = 0  # of all groups
        self.uncounted: Uncounted | None = None
        self.is_whole = True  # False: somebody went on in the middle of a group
        self._has_open_group = False  # new events belong to the last group

    @property
    def is_exact(self) -> bool:
        """Whether there are as many as were counted; else there may be fewer."""
        return self.is_whole and self.uncounted is None

    def __len__(self) -> int:
        return len(self._firsts)

    def __bool__(self) -> bool:
        return bool(self._firsts) or self.uncounted is not None

    @property
    def groups(self) -> list[Group]:
        """All of them, in order."""
        return [Group(*group) for group in zip(self._firsts, self._lasts, self._counts, strict=True)]

    @property
    def first(self) -> Position | None:
        """The position of the first event, or one a little before it; None: there is none."""
        starts = [self._firsts[0]] if self._firsts else []
        return min([*starts, self.uncounted.after + 1] if self.uncounted is not None else starts, default=None)

    # More of them

    def add(self, first: Position, last: Position, count: int) -> None:
        """Events were matched that lie after all others."""
        self.count += count
        if self._has_open_group and self._counts[-1] < max(_GROUP_EVENTS, self.count // _GROUPS):
            self._lasts[-1] = last
            self._counts[-1] += count
        else:
            self._append(first, last, count)
            self._has_open_group = True

    def add_each(self, positions: Iterable[Position]) -> None:
        """The same for events that may be acknowledged one by one."""
        for position in positions:
            self.count += 1
            self._append(position, position, 1)
            self._has_open_group = False

    def _append(self, first: Position, last: Position, count: int) -> None:
        for column, value in zip(self._columns(), (first, last, count), strict=True):
            column.append(value)
        if len(self._firsts) > _GROUPS_MAX:
            self._replace(_pairs(self.groups))

    def put_back(self, positions: Sequence[Position]) -> None:
        """Events that had been read, or never had to be, have to be read after all; they lie before all others."""
        self.count += len(positions)
        if positions:
            self._replace([*(Group(position, position, 1) for position in positions), *self.groups])

    def put_back_groups(self, earlier: Unread) -> None:
        """The same of events that are counted already."""
        self.count += earlier.count
        self.is_whole &= earlier.is_whole
        self._replace([*earlier.groups, *self.groups])

    def leave_uncounted(self, after: Position, upto: Position) -> None:
        """There may be more in a range of positions. What was counted in it is not known any more."""
        known = self.uncounted or Uncounted(after, upto)
        after, upto = min(after, known.after), max(upto, known.upto)
        within = [group for group in self.groups if group.last > after and group.first <= upto]
        if within:
            after, upto = min(after, within[0].first - 1), max(upto, within[-1].last)
            self.count -= sum(group.events for group in within)
            self._replace([group for group in self.groups if group not in within])
        self._has_open_group = False  # no group may lie around the range
        self.uncounted = Uncounted(after, upto)

    def insert(self, found: Unread) -> None:
        """Those that were not counted have been: these are they."""
        self.uncounted = None
        self.count += found.count
        self.is_whole &= found.is_whole
        self._replace(sorted([*self.groups, *found.groups]))
        self._has_open_group = False

    # Fewer of them

    def take(self, positions: Iterable[Position]) -> None:
        """Events have been read, in order."""
        passed = 0
        for position in positions:
            while passed < len(self) and self._lasts[passed] < position:
                passed += 1
            if passed < len(self) and self._firsts[passed] <= position and self._counts[passed]:
                self._counts[passed] -= 1
                self._firsts[passed] = position + 1
                self.count -= 1
        self._forget(passed + (passed < len(self) and not self._counts[passed]))

    def read_upto(self, position: Position) -> None:
        """All up to a position has been read; which events that were has been said by `take`."""
        self._pass(position)

    def drop_upto(self, position: Position) -> None:
        """All up to a position need not be read, nobody knows how many events that are."""
        if self._pass(position):
            self.is_whole = False

    def _pass(self, position: Position) -> bool:
        """Go on after a position. Whether a group lies on both sides of it."""
        self._forget(sum(last <= position for last in self._lasts))
        is_within = bool(self._firsts) and self._firsts[0] <= position
        if is_within:
            self._firsts[0] = position + 1
        if not self.count:
            self.is_whole = True
        if self.uncounted is not None and self.uncounted.after < position:
            left = Uncounted(position, self.uncounted.upto)
            self.uncounted = left if left.after < left.upto else None
        return is_within

    def _forget(self, groups: int) -> None:
        if groups:
            self.count -= sum(self._counts[:groups])
            for column in self._columns():
                del column[:groups]
            self._has_open_group &= bool(self._counts)

    def clear(self) -> None:
        """Nothing is left to be read."""
        self._forget(len(self))
        self.is_whole, self.uncounted = True, None

    # Counting

    def count_after(self, position: Position, most: Callable[[Position], int]) -> int:
        """Of those that were counted, those after a position. `most` events lie between it and another one."""
        if not self._firsts or self._firsts[0] > position:
            return self.count
        after = [group for group in self.groups if group.last > position]
        if after and after[0].first <= position:
            after[0] = after[0]._replace(events=min(after[0].events, most(after[0].last)))
        return sum(group.events for group in after)

    def count_upto(self, position: Position) -> int:
        """The same up to a position."""
        return sum(count for first, count in zip(self._firsts, self._counts, strict=True) if first <= position)

    def _columns(self) -> tuple[array[int], array[int], array[int]]:
        return self._firsts, self._lasts, self._counts

    def _replace(self, groups: Sequence[Group]) -> None:
        while len(groups) > _GROUPS_MAX:
            groups = _pairs(groups)
        for number, column in enumerate(self._columns()):
            column[:] = array("q", [group[number] for group in groups])


def _pairs(groups: Sequence[Group]) -> list[Group]:
    """Half as many groups."""
    merged = []
    for number in range(0, len(groups), 2):
        pair = groups[number : number + 2]
        merged.append(Group(pair[0].first, pair[-1].last, sum(group.events for group in pair)))
    return merged
