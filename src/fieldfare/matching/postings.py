"""Boxes that ask for members of lists, found by one of them: for each member the boxes of which it is the rarest.

A box stands in one *posting list*, that of the member that the fewest boxes ask for; what else it asks for is tested
when an event has that member. So `contains a AND contains b` costs an event without the rarer of both nothing. The
boxes of a posting list follow each other, so the list is a range of places; those that ask for nothing more come first
and are copied out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.geometry.prefetching import prefetch
from fieldfare.matching.tree import CHECKED, DISTINCT

_ONE = np.uint64(1)
_FETCHED = 64  # boxes of a posting list that are fetched ahead
_LINE_BYTES = 64  # what memory is read in


class Postings(NamedTuple):
    """Member slot s has the places starts[s]:starts[s + 1], of which those up to plain_ends[s] ask for nothing more.

    A place asks for the member seconds[place] beside its own, unless that is -1: a test that nearly all fail, and that
    reads little memory. Then for members[member_starts[place]:member_starts[place + 1]], and for intervals in that way.
    """

    starts: npt.NDArray[np.int64]
    plain_ends: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.int32]
    member_starts: npt.NDArray[np.int32]
    members: npt.NDArray[np.int32]
    interval_starts: npt.NDArray[np.int32]
    interval_axes: npt.NDArray[np.int32]
    interval_lows: npt.NDArray[np.int32]
    interval_highs: npt.NDArray[np.int32]
    modes: npt.NDArray[np.int8]
    alive: npt.NDArray[np.bool_]


class Found(NamedTuple):
    """Where matches are written: labels with the end of each event's list, and pairs that are still to be checked."""

    values: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    checked_events: npt.NDArray[np.int64]  # without any room where no box needs to be checked
    checked_places: npt.NDArray[np.int32]
    seen: npt.NDArray[np.int64]  # by owner, the last event that it was listed for


@njit(cache=True, nogil=True)
def match_members(postings, events, members, first, first_place, labels, owners, ways, found, checked):  # type: ignore[no-untyped-def]
    """Match the events from `first` on; return the event it came to, the pairs to be checked, and the room it needs.

    An event that might overflow an output is not begun, so that the caller can enlarge the output and go on. While an
    event is matched, the processor fetches what the next two will read: posting lists lie at random places.
    """
    distinct, all_alive = ways
    starts, plain_ends, seconds = postings.starts, postings.plain_ends, postings.seconds
    member_starts, asked = postings.member_starts, postings.members
    interval_starts, interval_axes = postings.interval_starts, postings.interval_axes
    interval_lows, interval_highs = postings.interval_lows, postings.interval_highs
    modes, alive = postings.modes, postings.alive
    low, high, attributes = events
    offsets, slots = members
    values, ends, checked_events, checked_places, seen = found
    has = np.zeros((len(starts) >> 6) + 1, np.uint64)
    distinct_slots = np.empty(len(starts), np.int32)
    written, checks = ends[first], len(checked_events) > 0
    for event in range(first, len(ends) - 1):
        row = event * attributes
        if event + 2 < len(ends):
            _fetch_lists(postings, members, event + 1, first_place, labels)
        if event + 3 < len(ends):
            for k in range(offsets[event + 2], offsets[event + 3]):
                if slots[k] >= 0:
                    prefetch(starts, np.int64(slots[k]))  # type: ignore[call-arg]  # Numba gives the first
                    prefetch(plain_ends, np.int64(slots[k]))
        count, bound = 0, 0
        for k in range(offsets[event], offsets[event + 1]):
            slot = slots[k]
            if slot >= 0 and not (has[slot >> 6] >> np.uint64(slot & 63)) & _ONE:
                has[slot >> 6] |= _ONE << np.uint64(slot & 63)
                distinct_slots[count] = slot
                count += 1
                bound += starts[slot + 1] - starts[slot]
        if written + bound > len(values) or (checks and checked + bound > len(checked_events)):
            return event, checked, bound
        for k in range(count):
            slot = distinct_slots[k]
            place, end = np.uint64(starts[slot]), np.uint64(starts[slot + 1])
            plain_end = place if distinct else np.uint64(plain_ends[slot])
            if all_alive:
                for copied in range(plain_end - place):
                    values[np.uint64(written) + copied] = labels[np.uint64(first_place) + place + copied]
                written += np.int64(plain_end - place)
                place = plain_end
            while place < plain_end:
                values[np.uint64(written)] = labels[np.uint64(first_place) + place]
                written += alive[place]
                place += _ONE
            while place < end:
                second = seconds[place]
                if second >= 0 and not (has[second >> 6] >> np.uint64(second & 63)) & _ONE:
                    place += _ONE
                    continue
                holds = alive[place]
                at, last = np.uint64(member_starts[place]), np.uint64(member_starts[place + _ONE])
                while holds and at < last:
                    other = np.uint64(asked[at])
                    holds = (has[other >> np.uint64(6)] >> (other & np.uint64(63))) & _ONE != 0
                    at += _ONE
                at, last = np.uint64(interval_starts[place]), np.uint64(interval_starts[place + _ONE])
                while holds and at < last:
                    axis = row + interval_axes[at]
                    holds = interval_lows[at] <= high[axis] and low[axis] <= interval_highs[at]
                    at += _ONE
                if holds:
                    box = np.uint64(first_place) + place
                    if modes[place] == CHECKED:
                        checked_events[checked] = event
                        checked_places[checked] = box
                        checked += 1
                    elif not distinct and modes[place] != DISTINCT:
                        values[written] = labels[box]
                        written += 1
                    elif seen[owners[box]] != event:
                        seen[owners[box]] = event
                        values[written] = labels[box]
                        written += 1
                place += _ONE
        for k in range(count):
            has[distinct_slots[k] >> 6] = 0
        ends[event + 1] = written
    return len(ends) - 1, checked, 0


@njit(cache=True, nogil=True, inline="always")
def _fetch_lists(postings, members, event, first_place, labels):  # type: ignore[no-untyped-def]
    """Begin to load the posting lists of an event, or of each its first part: the processor guesses the rest."""
    starts, plain_ends, seconds = postings.starts, postings.plain_ends, postings.seconds
    offsets, slots = members
    for k in range(offsets[event], offsets[event + 1]):
        if slots[k] >= 0:
            start, plain_end, end = starts[slots[k]], plain_ends[slots[k]], starts[slots[k] + 1]
            for place in range(start, min(plain_end, start + _FETCHED), _LINE_BYTES // labels.itemsize):
                prefetch(labels, first_place + place)  # type: ignore[call-arg]
            for place in range(plain_end, min(end, plain_end + _FETCHED), _LINE_BYTES // seconds.itemsize):
                prefetch(seconds, place)  # type: ignore[call-arg]


@njit(cache=True, nogil=True)
def have_members(events, numbers, starts, asked, offsets, slots, held):  # type: ignore[no-untyped-def]
    """For pairs of an event and a number of a group of members, whether the event has the whole group."""
    highest = 0
    for k in range(len(slots)):
        highest = max(highest, slots[k])
    for k in range(len(asked)):
        highest = max(highest, asked[k])
    has = np.zeros((highest >> 6) + 1, np.uint64)
    current = -1
    for pair in range(len(events)):
        if events[pair] != current:
            if current >= 0:
                for k in range(offsets[current], offsets[current + 1]):
                    if slots[k] >= 0:
                        has[slots[k] >> 6] = 0
            current = events[pair]
            for k in range(offsets[current], offsets[current + 1]):
                if slots[k] >= 0:
                    has[slots[k] >> 6] |= _ONE << np.uint64(slots[k] & 63)
        for k in range(starts[numbers[pair]], starts[numbers[pair] + 1]):
            held[pair] &= (has[asked[k] >> 6] >> np.uint64(asked[k] & 63)) & _ONE != 0
