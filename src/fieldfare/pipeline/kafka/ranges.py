"""Ranges of offsets: what a batch reads of each partition. Pure arithmetic; offsets are those of messages not yet read.

A range ends at the last stable offset of its moment, or before it where a batch is full. Offsets are places and not
messages: some hold a transaction's end, or an aborted message, or one that compaction has removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fieldfare.kafka.offsets import Bounds, Offsets


class Range(msgspec.Struct, frozen=True):
    """The offsets from `first` up to, but without, `end` of a partition."""

    partition: int
    first: int
    end: int
    lost: int  # offsets before `first` that should have been read, and that retention removed
    behind: int  # offsets from `end` on that were readable when the range was planned


def planned(start: Offsets, bounds: Mapping[int, Bounds], offsets_max: int) -> Offsets:
    """Where a batch ends that begins at `start` and has at most about `offsets_max` offsets.

    A full batch takes as much of every partition, or all where one has less: so no partition has to wait for others.
    A partition that is new begins at its first offset.
    """
    begins = {partition: max(start.get(partition, 0), bound.low) for partition, bound in bounds.items()}
    waiting = {partition: max(0, bound.high - begins[partition]) for partition, bound in bounds.items()}
    share = _share(waiting.values(), max(offsets_max, len(waiting)))
    ends = {partition: begins[partition] + min(waiting[partition], share) for partition in bounds}
    return dict(sorted((start | ends).items()))


def _share(waiting: Iterable[int], total: int) -> int:
    """The most that each may take, so that all together take at most `total`."""
    left = sorted(waiting)
    if sum(left) <= total:
        return max(left, default=0)
    while left[0] <= total // len(left):
        total -= left.pop(0)
    return total // len(left)


def ranges(start: Offsets, end: Offsets, bounds: Mapping[int, Bounds]) -> list[Range]:
    """The ranges from `start` to `end`; what retention has removed since is told in them."""
    found = []
    for partition, stop in end.items():
        begin = start.get(partition, 0)
        low, high = bounds.get(partition, Bounds(begin, stop))
        first = min(max(begin, low), stop)
        if stop > begin:
            found.append(Range(partition, first, stop, first - begin, max(0, high - stop)))
    return found


def divided(parts: Iterable[Range], tasks: int) -> list[list[Range]]:
    """The ranges divided among `tasks` groups of equal numbers of offsets, in order."""
    waiting = list(parts)
    total = sum(part.end - part.first for part in waiting)
    groups: list[list[Range]] = [[] for _ in range(tasks)]
    place = 0
    for part in waiting:
        first, lost = part.first, part.lost
        while first < part.end or lost:
            group = min(place * tasks // total, tasks - 1) if total else 0
            stop = min(part.end, first + -(-(group + 1) * total // tasks) - place)
            groups[group].append(msgspec.structs.replace(part, first=first, end=stop, lost=lost))
            place, first, lost = place + stop - first, stop, 0
    return groups
